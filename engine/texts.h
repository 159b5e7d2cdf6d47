/* Texts, UTF-8: the part of engine.h, whose rules hold here, that changes them as Python's str
 * does, by characters of Unicode. A byte that is no UTF-8 counts as one character and stays as it
 * is. Results are freed with graft_text_free(). */
#ifndef GRAFT_TEXTS_H
#define GRAFT_TEXTS_H
#include "engine/engine.h"

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
/* In lower case; bytes that are no UTF-8 become U+FFFD. */
graft_status graft_text_lower(const char *text, char **out, graft_err *e);
#endif
