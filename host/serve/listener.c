#include "host/serve/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FILES   65536
#define BACKLOG     1024
#define TURNED_AWAY 64 /* at most, before others have their turn */

/* Raises the limit of open files as far as it may be, and says how many connections may have. */
static int file_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return MAX_FILES;
    rlim_t most = r.rlim_max == RLIM_INFINITY || r.rlim_max > MAX_FILES ? MAX_FILES : r.rlim_max;
    r.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &r);
    int all = (int)most, reserve = GRAFT_LISTENER_RESERVE;
    return all - (reserve < all / 2 ? reserve : all / 2);
}

static int open_at(const struct addrinfo *a)
{
    const int yes = 1, no = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    /* "::" takes IPv4, too. */
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.any, &n)) return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.six.sin6_port : a.four.sin_port);
}

graft_status graft_listener_open(graft_listener *l, const char *address, int port, graft_err *e)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *a = NULL;
    char service[16];
    *l = (graft_listener){-1, port, file_limit(), -1};
    snprintf(service, sizeof service, "%d", port);
    const char *host = strcmp(address, "localhost") == 0 ? "127.0.0.1" : address;
    if (getaddrinfo(host, service, &hints, &a))
        return graft_fail(e, GRAFT_E_ARG, "cannot listen at %s: not an address of this machine",
                          address);
    l->fd = open_at(a);
    int why = errno;
    freeaddrinfo(a);
    if (l->fd < 0)
        return graft_fail(
            e, GRAFT_E_IO, "cannot listen at %s:%d: %s%s", address, port, strerror(why),
            why == EADDRINUSE ? "; --port takes another number, or 0 for any that is free" : "");
    l->port = port_of(l->fd);
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return GRAFT_OK;
}

void graft_listener_close(graft_listener *l)
{
    if (l->fd >= 0) close(l->fd);
    if (l->spare >= 0) close(l->spare);
    l->fd = l->spare = -1;
}

/* Takes the first that waits just to close it: else it would be reported again and again. */
static void turn_away(graft_listener *l)
{
    if (l->spare >= 0) close(l->spare);
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int graft_listener_accept(graft_listener *l)
{
    const int yes = 1;
    for (int i = 0; i < TURNED_AWAY; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) turn_away(l);
            return -1;
        }
        if (fd < l->limit) { /* the system gives the lowest that is free */
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            return fd;
        }
        close(fd);
    }
    return -1;
}
