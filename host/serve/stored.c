#include "host/serve/stored.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int graft_stored_open(const char *path, struct stat *info)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, info) || !S_ISREG(info->st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Digits at *at, as a size; SIZE_MAX for more than one holds. False: there are none. */
static bool take_number(const char **at, size_t *out)
{
    size_t n = strspn(*at, "0123456789"), value = 0;
    for (size_t i = 0; i < n; i++) {
        size_t digit = (size_t)((*at)[i] - '0');
        value = value > (SIZE_MAX - digit) / 10 ? SIZE_MAX : 10 * value + digit;
    }
    *at += n;
    *out = value;
    return n > 0;
}

static bool ends(const char *at)
{
    return at[strspn(at, " \t")] == 0;
}

graft_stored_range graft_stored_parse(const char *range, size_t size, size_t *first, size_t *count)
{
    size_t from, to = SIZE_MAX;
    if (!range || strncasecmp(range, "bytes=", 6) != 0) return GRAFT_STORED_ALL;
    range += 6;
    bool begins = take_number(&range, &from);
    if (*range++ != '-') return GRAFT_STORED_ALL;
    bool stops = take_number(&range, &to);
    if (!(begins || stops) || !ends(range) || (begins && stops && to < from))
        return GRAFT_STORED_ALL;
    if (!begins) { /* the last bytes */
        if (!to || !size) return GRAFT_STORED_OUTSIDE;
        *count = to < size ? to : size;
        *first = size - *count;
        return GRAFT_STORED_PART;
    }
    if (from >= size) return GRAFT_STORED_OUTSIDE;
    *first = from;
    *count = (stops && to < size ? to + 1 : size) - from;
    return GRAFT_STORED_PART;
}

static void make_tag(const struct stat *info, const char *form, char *out, size_t n)
{
    snprintf(out, n, "\"%llx-%llx-%llx%09lx%s\"", (unsigned long long)info->st_size,
             (unsigned long long)info->st_ino, (unsigned long long)info->st_mtim.tv_sec,
             (unsigned long)info->st_mtim.tv_nsec, form);
}

bool graft_stored_known(graft_http_response *r, const graft_http_request *q,
                        const struct stat *info, const char *form)
{
    char tag[128];
    make_tag(info, form, tag, sizeof tag);
    graft_http_header(r, "etag:", tag);
    if (!q->if_none_match || (!strstr(q->if_none_match, tag) && strcmp(q->if_none_match, "*") != 0))
        return false;
    r->status = 304;
    return true;
}

/* The part that is asked for, of the version that the client has some of. */
static graft_stored_range asked(const graft_http_request *q, const struct stat *info, size_t *first,
                                size_t *count)
{
    char tag[128];
    if (q->head || q->method != GRAFT_HTTP_GET) return GRAFT_STORED_ALL;
    make_tag(info, "", tag, sizeof tag);
    if (q->if_range && strcmp(q->if_range, tag) != 0) return GRAFT_STORED_ALL;
    return graft_stored_parse(q->range, (size_t)info->st_size, first, count);
}

void graft_stored_answer(graft_http_response *r, const graft_http_request *q, int fd,
                         const struct stat *info, const char *type)
{
    size_t first = 0, count = (size_t)info->st_size;
    char text[96];
    graft_http_empty(r, 200);
    if (graft_stored_known(r, q, info, "")) {
        close(fd);
        return;
    }
    graft_http_header(r, "accept-ranges:", "bytes");
    graft_stored_range range = asked(q, info, &first, &count);
    if (range == GRAFT_STORED_PART && lseek(fd, (off_t)first, SEEK_SET) < 0) {
        range = GRAFT_STORED_ALL;
        first = 0, count = (size_t)info->st_size;
    }
    if (range == GRAFT_STORED_OUTSIDE) {
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)info->st_size);
        graft_http_header(r, "content-range:", text);
        r->status = 416;
        close(fd);
        return;
    }
    if (range == GRAFT_STORED_PART) {
        snprintf(text, sizeof text, "bytes %zu-%zu/%llu", first, first + count - 1,
                 (unsigned long long)info->st_size);
        graft_http_header(r, "content-range:", text);
        r->status = 206;
    }
    r->fd = fd;
    r->size = count;
    r->type = type;
}
