/* graft-bench-serve-load: asks a server for one path at an even pace, beside idle WebSocket
 * clients.
 *
 *   graft-bench-serve-load PORT [--path /object_info] [--as npm|browser|plain] [--rate 1000]
 *                          [--connections 64] [--idle 200] [--tick-ms 10]
 *
 * "npm" sends what Node's fetch sends, which is gzip welcome; "browser" also says which answer it
 * has already; "plain" takes no compression. A connection asks again once its answer is complete.
 * Prints "ready" when all is connected and the first answers are checked, runs until SIGTERM,
 * then prints one line of JSON.
 *
 * It shares processors with what is measured, so it is kept cheap: one wake-up a tick, and bodies
 * are dropped by the kernel, not copied. What it costs nevertheless is part of its report.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 256, MAX_IDLE = 10000, ANSWER = 8 << 20 };

typedef struct load {
    int port, connections, idle;
    double rate, tick;
    const char *path, *as;
    char request[2048];
    size_t request_size, answer_size; /* answer_size: with headers */
    int link[MAX_CONNECTIONS];
    size_t left[MAX_CONNECTIONS]; /* bytes that are still to come; 0: may ask */
    int client[MAX_IDLE];
    long asked, got, late; /* late: a request was due and every connection was waiting */
} load;

static volatile sig_atomic_t stop;
static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "graft-bench-serve-load: %s%s%s\n", what, errno ? ": " : "",
            errno ? strerror(errno) : "");
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int dial(const load *l)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
    const int one = 1, room = 1 << 20; /* an answer fits: it need not come in pieces, a tick each */
    const struct timeval patience = {10, 0};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a)) die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

/* What lies between the name of a header and the end of its line, or "". */
static void header_of(const char *head, const char *name, char *out, size_t size)
{
    const char *at = strcasestr(head, name);
    out[0] = 0;
    if (!at) return;
    at += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static void write_request(load *l, const char *etag)
{
    static const char fetch[] = "accept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\n"
                                "user-agent: node\r\naccept-encoding: gzip, deflate\r\n";
    const char *more = strcmp(l->as, "plain") == 0 ? "accept: */*\r\n" : fetch;
    int n =
        snprintf(l->request, sizeof l->request,
                 "GET %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nconnection: keep-alive\r\n%s%s%s%s"
                 "\r\n",
                 l->path, l->port, more, *etag ? "if-none-match: " : "", etag, *etag ? "\r\n" : "");
    if (n < 0 || n >= (int)sizeof l->request) die("the path is too long");
    l->request_size = (size_t)n;
}

/* Asks once on `fd`, reads the answer and returns its size; the tag goes to `etag`. */
static size_t ask_once(const load *l, int fd, int wanted, char *etag, size_t etag_size)
{
    char *buffer = malloc(ANSWER), length[32], line[16];
    size_t n = 0, whole = 0;
    if (!buffer) die("out of memory");
    if (send(fd, l->request, l->request_size, MSG_NOSIGNAL) < 0) die("cannot ask");
    while (!whole || n < whole) {
        ssize_t got = recv(fd, buffer + n, ANSWER - 1 - n, 0);
        if (got <= 0) die("no answer");
        n += (size_t)got;
        buffer[n] = 0;
        char *end = strstr(buffer, "\r\n\r\n");
        if (whole || !end) continue;
        *end = 0;
        header_of(buffer, "\r\ncontent-length: ", length, sizeof length);
        header_of(buffer, "\r\netag: ", etag, etag_size);
        *end = '\r';
        whole = (size_t)(end + 4 - buffer) + strtoul(length, NULL, 10);
    }
    errno = 0;
    snprintf(line, sizeof line, "HTTP/1.1 %d", wanted);
    if (strncmp(buffer, line, strlen(line)) != 0) die("the status is not the expected one");
    free(buffer);
    return whole;
}

static void connect_idle(load *l)
{
    char text[512];
    for (int i = 0; i < l->idle; i++) {
        l->client[i] = dial(l);
        int n = snprintf(text, sizeof text,
                         "GET /ws?clientId=idle%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: "
                         "websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: MTIzNDU2Nzg5MGFiY2RlZg==\r\n\r\n",
                         i, l->port);
        if (send(l->client[i], text, (size_t)n, MSG_NOSIGNAL) < 0) die("cannot ask");
        ssize_t got = recv(l->client[i], text, sizeof text, 0);
        errno = 0;
        if (got < 12 || memcmp(text, "HTTP/1.1 101", 12) != 0) die("no WebSocket");
    }
}

static void connect_all(load *l)
{
    char etag[128];
    write_request(l, "");
    for (int i = 0; i < l->connections; i++) {
        l->link[i] = dial(l);
        l->answer_size = ask_once(l, l->link[i], 200, etag, sizeof etag);
    }
    if (strcmp(l->as, "browser") == 0) {
        write_request(l, etag);
        l->answer_size = ask_once(l, l->link[0], 304, etag, sizeof etag);
    }
    connect_idle(l);
}

/* Whatever came is dropped where it lies. False: nothing is there. */
static bool drop(int fd, size_t most, size_t *got)
{
    ssize_t n = recv(fd, NULL, most, MSG_TRUNC | MSG_DONTWAIT);
    errno = n == 0 ? ECONNRESET : errno;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) die("a connection was lost");
    *got = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void tick(load *l, double elapsed)
{
    long due = (long)(elapsed * l->rate) - l->asked;
    for (int i = 0; i < l->connections; i++) {
        size_t n;
        while (l->left[i] && drop(l->link[i], l->left[i], &n)) {
            l->left[i] -= n;
            l->got += !l->left[i];
        }
        if (due <= 0 || l->left[i]) continue;
        ssize_t sent = send(l->link[i], l->request, l->request_size, MSG_NOSIGNAL);
        if (sent != (ssize_t)l->request_size) die("cannot ask");
        l->left[i] = l->answer_size;
        l->asked++;
        due--;
    }
    l->late += due > 0;
}

static void run(load *l)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const double began = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double heard = began;
    while (!stop) {
        at.tv_nsec += (long)(l->tick * 1e9);
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        double t = now(CLOCK_MONOTONIC);
        tick(l, t - began);
        if (t - heard < 2) continue;
        heard = t;
        for (int i = 0; i < l->idle; i++) {
            size_t n;
            while (drop(l->client[i], 1 << 16, &n)) {
            }
        }
    }
    double seconds = now(CLOCK_MONOTONIC) - began;
    getrusage(RUSAGE_SELF, &after);
    printf("{\"seconds\": %.3f, \"rate\": %.1f, \"bytes\": %zu, \"share\": %.4f, \"late\": %ld, "
           "\"switches\": %ld}\n",
           seconds, (double)l->got / seconds, l->answer_size,
           (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / seconds, l->late,
           after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw);
}

static void parse(load *l, int argc, char **argv)
{
    if (argc < 2 || argc % 2) die("PORT, then options with a value each");
    l->port = atoi(argv[1]);
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--path") == 0)
            l->path = value;
        else if (strcmp(name, "--as") == 0)
            l->as = value;
        else if (strcmp(name, "--rate") == 0)
            l->rate = atof(value);
        else if (strcmp(name, "--connections") == 0)
            l->connections = atoi(value);
        else if (strcmp(name, "--idle") == 0)
            l->idle = atoi(value);
        else if (strcmp(name, "--tick-ms") == 0)
            l->tick = atof(value) / 1000;
        else
            die("an option that is not known");
    }
    bool known =
        strcmp(l->as, "npm") == 0 || strcmp(l->as, "browser") == 0 || strcmp(l->as, "plain") == 0;
    if (!known || l->connections < 1 || l->connections > MAX_CONNECTIONS || l->idle < 0 ||
        l->idle > MAX_IDLE || !(l->rate > 0) || !(l->tick > 0 && l->tick < 1))
        die("a value that does not fit its option");
}

int main(int argc, char **argv)
{
    static load l = {.path = "/object_info", .as = "npm", .rate = 1000, .tick = 0.01};
    struct rlimit files = {MAX_IDLE + 1024, MAX_IDLE + 1024};
    const struct sigaction act = {.sa_handler = on_signal};
    l.connections = 64;
    l.idle = 200;
    parse(&l, argc, argv);
    setrlimit(RLIMIT_NOFILE, &files);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    connect_all(&l);
    puts("ready");
    fflush(stdout);
    run(&l);
    return 0;
}
