/* Placeholders in file names that an editor fills in before it sends a prompt. */
#ifndef GRAFT_HOST_PROMPT_FILE_NAME_H
#define GRAFT_HOST_PROMPT_FILE_NAME_H
#include <time.h>

#include "base/str.h"
#include "host/prompt/litegraph.h"

/* In every "filename_prefix" of the prompt that was made from `g`: %date:FORMAT% (yyyy yy MM M dd d
 * hh h mm m ss s) and %NODE.INPUT%, where NODE is the name for search and replace, the title (its
 * own or its class's) or the class of a node. What is unknown stays as it is. */
graft_status graft_file_name_fill(cJSON *prompt, const graft_litegraph *g, graft_err *e);
/* Appends a date in the first n bytes of such a FORMAT. */
void graft_file_name_date(graft_str *out, const char *format, size_t n, const struct tm *t);
#endif
