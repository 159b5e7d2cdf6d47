/* Answers that take long: a thread of their own gives them, one after the other, and the thread
 * that owns the sockets goes on with all others. Request and answer belong to that thread
 * meanwhile. */
#include <poll.h>

#include "base/alloc.h"
#include "host/serve/transport_inside.h"

static void later_free(graft_later *j)
{
    graft_http_request_finish(&j->q);
    graft_http_response_finish(&j->r);
    graft_free(j);
}

/* The next one to answer; NULL when the server ends. */
static graft_later *next_of(graft_later_line *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->first && !l->stop) pthread_cond_wait(&l->changed, &l->lock);
    graft_later *j = l->stop ? NULL : l->first;
    if (j) {
        l->first = j->next;
        if (!l->first) l->last = &l->first;
    }
    pthread_mutex_unlock(&l->lock);
    return j;
}

/* Whether nobody waits for it any more. A closed half of a connection is taken for a closed one:
 * pages that are scrolled ask for many pictures, and go on. A socket of the same number that has
 * come since is of no harm: then the one who asked is gone. */
static bool is_left(const graft_later *j)
{
    struct pollfd p = {.fd = j->fd, .events = POLLRDHUP};
    return j->q.method == GRAFT_HTTP_GET && poll(&p, 1, 0) > 0;
}

static void *answer_all(void *transport)
{
    graft_transport *t = transport;
    graft_later_line *l = &t->later;
    graft_later *j;
    while ((j = next_of(l))) {
        if (is_left(j)) {
            graft_http_empty(&j->r, 503);
            j->r.close = true;
        } else {
            graft_serve_answer(t->serve, &j->q, &j->r);
        }
        pthread_mutex_lock(&l->lock);
        j->next = l->done;
        l->done = j;
        pthread_mutex_unlock(&l->lock);
        atomic_store(&t->woken, true);
        lws_cancel_service(t->context);
    }
    return NULL;
}

void graft_later__init(graft_transport *t)
{
    graft_later_line *l = &t->later;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->first = l->done = NULL;
    l->last = &l->first;
    l->stop = false;
    l->runs = pthread_create(&l->thread, NULL, answer_all, t) == 0;
}

void graft_later__stop(graft_transport *t)
{
    graft_later_line *l = &t->later;
    if (!l->runs) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->runs = false;
}

void graft_later__finish(graft_transport *t)
{
    graft_later_line *l = &t->later;
    graft_later *const list[] = {l->first, l->done};
    for (int i = 0; i < 2; i++)
        for (graft_later *j = list[i], *next; j; j = next) {
            next = j->next;
            later_free(j);
        }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

bool graft_later__begin(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    graft_later_line *l = &t->later;
    graft_later *j = l->runs ? graft_calloc(1, sizeof *j) : NULL;
    if (!j) return false;
    /* The library would pass what follows a body to us again and again. Of those without one it
     * keeps what follows, and must look whether they are still there. */
    if (c->q.method != GRAFT_HTTP_GET) lws_rx_flow_control(wsi, 0);
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
    j->conn = c;
    j->fd = lws_get_socket_fd(wsi);
    j->q = c->q;
    j->r = c->r;
    memset(&c->q, 0, sizeof c->q);
    graft_http_response_init(&c->r);
    c->later = j;
    pthread_mutex_lock(&l->lock);
    *l->last = j;
    l->last = &j->next;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return true;
}

void graft_later__leave(graft_conn *c)
{
    graft_later *j = c->later;
    j->conn = NULL;
    j->held = c->cap;
    c->cap = 0;
    c->later = NULL;
}

void graft_later__deliver(graft_transport *t)
{
    graft_later_line *l = &t->later;
    pthread_mutex_lock(&l->lock);
    graft_later *j = l->done, *next;
    l->done = NULL;
    pthread_mutex_unlock(&l->lock);
    for (; j; j = next) {
        graft_conn *c = j->conn;
        next = j->next;
        t->bodies -= (int64_t)j->held;
        if (c) {
            c->q = j->q;
            c->r = j->r;
            c->later = NULL;
            c->due = true;
            memset(&j->q, 0, sizeof j->q);
            graft_http_response_init(&j->r);
            t->hurry = true;
            lws_rx_flow_control(c->sending, 1); /* without it nothing could be sent, either */
            lws_callback_on_writable(c->sending);
        }
        later_free(j);
    }
}
