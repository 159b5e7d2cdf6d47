/* Texts, UTF-8: the part of engine.h, whose rules hold here, that changes them as Python's str
 * does, by characters of Unicode. A byte that is no UTF-8 counts as one character and stays as it
 * is. Results are freed with graft_text_free(). */
#ifndef GRAFT_TEXTS_H
#define GRAFT_TEXTS_H
#include "engine/types.h"

/* How many characters it has. */
int64_t graft_text_length(const char *text);
/* text[start:end]: characters start … end - 1; a negative number counts from the end, and what is
 * beyond either end is left out. */
graft_status graft_text_part(const char *text, int64_t start, int64_t end, char **out,
                             graft_err *e);
/* Without white space at its beginning or its end. */
graft_status graft_text_trim(const char *text, bool begin, bool end, char **out, graft_err *e);
/* `with` wherever `find` was, from the left. An empty `find` is before every character and at the
 * end. */
graft_status graft_text_replace(const char *text, const char *find, const char *with, char **out,
                                graft_err *e);
/* What Python's float() reads; GRAFT_E_ARG for what is no finite number. */
graft_status graft_text_number(const char *text, double *out, graft_err *e);
typedef enum graft_text_case {
    GRAFT_TEXT_LOWER,
    GRAFT_TEXT_UPPER,
    GRAFT_TEXT_CAPITALIZE, /* the first letter large, the others small */
    GRAFT_TEXT_TITLE       /* of each word */
} graft_text_case;
/* In another case; bytes that are no UTF-8 become U+FFFD. */
graft_status graft_text_in_case(const char *text, graft_text_case to, char **out, graft_err *e);

/* Regular expressions in the syntax of Python's re, by PCRE2: of that syntax all but \N{name} and
 * the flags a, L and u; what PCRE2 knows beside it (recursion) works, too. Searches that would take
 * too long, and results that would be too large, are GRAFT_E_LIMIT; texts that are no UTF-8
 * GRAFT_E_FORMAT. One thread at a time. */
typedef struct graft_regex graft_regex;
typedef struct graft_regex_options {
    bool any_case;  /* large and small letters are the same */
    bool multiline; /* ^ and $ stand for the ends of lines */
    bool dotall;    /* . stands for line ends, too */
} graft_regex_options;
/* GRAFT_E_FORMAT says what is wrong with the pattern. */
graft_status graft_regex_create(const char *pattern, graft_regex_options options, graft_regex **out,
                                graft_err *e);
void graft_regex_destroy(graft_regex *r); /* takes NULL */
/* How many groups in parentheses it has. */
int64_t graft_regex_groups(const graft_regex *r);
/* re.search(): whether there is a match anywhere. */
graft_status graft_regex_search(graft_regex *r, const char *text, bool *found, graft_err *e);
/* What a group of the first match, or of all, one a line, stands for; 0 is the whole match. Empty
 * without a match or such a group. */
graft_status graft_regex_extract(graft_regex *r, const char *text, int64_t group, bool all,
                                 char **out, graft_err *e);
/* re.sub(): the first `count` matches (0: all) replaced; \1, \g<1> and \g<name> in `with` are
 * groups. GRAFT_E_FORMAT also for a `with` that means nothing. */
graft_status graft_regex_replace(graft_regex *r, const char *text, const char *with, int64_t count,
                                 char **out, graft_err *e);
#endif
