/* A growing text buffer. A failed append is remembered, so that callers check once at the end.
 * One thread at a time per buffer. */
#ifndef GRAFT_BASE_STR_H
#define GRAFT_BASE_STR_H
#include <stdbool.h>
#include <stddef.h>

typedef struct graft_str {
    char *data; /* terminated when not NULL */
    size_t len, cap;
    bool failed; /* an append ran out of memory; the text is incomplete */
} graft_str;

#define GRAFT_STR_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0, false                                                                          \
    }

void graft_str_finish(graft_str *s); /* frees; leaves an empty, usable buffer */
void graft_str_append(graft_str *s, const char *text, size_t n);
void graft_str_puts(graft_str *s, const char *text);
/* Numbers have a point whatever the process's locale: texts are files and JSON. */
void graft_str_printf(graft_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shortest of 15 to 17 digits that give the same double back. */
void graft_str_double(graft_str *s, double v);
/* Appends `text` as a JSON string with its quotes. Characters beyond ASCII pass as they are, and
 * U+FFFD stands for each byte that is no part of any: a text that was cut, a file's name. */
void graft_str_json(graft_str *s, const char *text);
/* Hands the text over (graft_free); NULL if an append failed. The buffer is empty after. */
char *graft_str_take(graft_str *s);

/* strtod() by the rules of the C locale, whichever the process has. */
double graft_str_to_double(const char *text, char **end);
/* Length of the UTF-8 sequence at `at` (Unicode 15, table 3-7), which is before `end`; 0: none. */
size_t graft_str_utf8(const char *at, const char *end);
/* Whether all n bytes are UTF-8. */
bool graft_str_is_utf8(const void *text, size_t n);
bool graft_str_starts(const char *s, const char *prefix);
bool graft_str_ends(const char *s, const char *suffix);
#endif
