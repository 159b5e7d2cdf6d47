/* What a fault's extra_info says beyond the protocol, for users who mistyped something:
 *   suggestions  names that may have been meant
 *   available    where no name is near and files are chosen from: some of those there are
 *   count        how many there are
 *   first_part   for the name of a later part of a model: that of the first, by which it is chosen;
 *                suggestions has it if it is there
 *   given        for a missing input: the name in the prompt that may have been meant for it
 * Only the first faults of a prompt have any, since a prompt may have many faults and a folder many
 * files. One thread at a time; all return false when out of memory. */
#ifndef GRAFT_HOST_PROMPT_HINT_H
#define GRAFT_HOST_PROMPT_HINT_H
#include "host/prompt/check.h"

bool graft_hint_class(graft_check *c, cJSON *extra, const char *class_type);
bool graft_hint_choice(graft_check *c, cJSON *extra, const graft_offer *offer, const cJSON *value);
/* `folder` as in graft_lookup, "" for none. */
bool graft_hint_file(graft_check *c, cJSON *extra, const char *folder, const cJSON *value);
bool graft_hint_missing(graft_check *c, cJSON *extra, size_t node, const char *input);

/* Warns of names in a checked prompt that are no inputs and near to one that was not given: the
 * protocol passes over them, and the node would run with its own value. */
void graft_hint_strays(const graft_prompt *p, const graft_log *log);
#endif
