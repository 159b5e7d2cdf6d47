/* Serves the connections that have something, without asking about all others. The library's own
 * poll() costs 0.2 us for each idle client beside a job that keeps the caches, and it would ask
 * twice for every answer: what came, and whether more could be sent. */
#include <sys/epoll.h>
#include <unistd.h>

#include "host/serve/transport_inside.h"

void graft_ready__init(graft_transport *t, bool tls)
{
    /* What TLS has decrypted already is known to the library alone. */
    t->ready = tls ? -1 : epoll_create1(EPOLL_CLOEXEC);
}

void graft_ready__finish(graft_transport *t)
{
    if (t->ready >= 0) close(t->ready);
}

/* One that cannot be added is served by the library's rounds. A closed one leaves by itself. */
void graft_ready__add(graft_transport *t, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (t->ready >= 0) epoll_ctl(t->ready, EPOLL_CTL_ADD, fd, &e);
}

void graft_ready__writable(graft_transport *t, struct lws *wsi)
{
    if (t->n_writable == GRAFT_CONN_WRITABLE || lws_partial_buffered(wsi))
        t->hurry = true;
    else
        t->writable[t->n_writable++] = lws_get_socket_fd(wsi);
}

void graft_ready__flush(graft_transport *t)
{
    for (size_t i = 0; i < t->n_writable; i++) {
        struct lws_pollfd p = {t->writable[i], LWS_POLLOUT, LWS_POLLOUT};
        lws_service_fd(t->context, &p);
    }
    t->n_writable = 0;
}

void graft_ready__serve(graft_transport *t)
{
    struct epoll_event e[GRAFT_CONN_WRITABLE];
    int n = epoll_wait(t->ready, e, GRAFT_CONN_WRITABLE, 0);
    for (int i = 0; i < n; i++) {
        struct lws_pollfd p = {e[i].data.fd, LWS_POLLIN, 0};
        p.revents = (short)(e[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)); /* poll()'s numbers */
        lws_service_fd(t->context, &p);
    }
}
