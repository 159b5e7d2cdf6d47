/* Regular expressions in JavaScript's syntax (ECMA-262, 22.2.1, without flags), as files of
 * ComfyUI's editor have them: whether a text has a match. By PCRE2, which differs in that \s, \d
 * and \w know ASCII alone, that a character is a code point and not a half of one, and that a
 * range from \w is an error. Any thread. */
#ifndef GRAFT_HOST_PROMPT_PATTERN_H
#define GRAFT_HOST_PROMPT_PATTERN_H
#include <stdbool.h>

#include "base/error.h"

typedef struct graft_pattern graft_pattern;

/* GRAFT_E_FORMAT for what is no expression, GRAFT_E_LIMIT for one that is too large. Texts are
 * UTF-8. */
graft_status graft_pattern_create(const char *text, graft_pattern **out, graft_err *e);
void graft_pattern_destroy(graft_pattern *p); /* takes NULL */

/* Whether there is a match anywhere in the text. GRAFT_E_LIMIT where looking would take too long;
 * GRAFT_E_FORMAT for a text that is no UTF-8. */
graft_status graft_pattern_find(const graft_pattern *p, const char *text, bool *found,
                                graft_err *e);
#endif
