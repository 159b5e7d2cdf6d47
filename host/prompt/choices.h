/* What ComfyUI's editor does to prompts before it sends them: C's comments are left out, and
 * {red|blue} becomes one of its parts. Choices may hold choices; \{, \} and \| are the characters
 * themselves. */
#ifndef GRAFT_HOST_PROMPT_CHOICES_H
#define GRAFT_HOST_PROMPT_CHOICES_H
#include "base/json.h"
#include "base/str.h"
#include "plugin/loader.h"

/* In every text of an API prompt that asks for it (GRAFT_INPUT_DYNAMIC_PROMPTS). What is chosen
 * follows from the node and from all seeds of the prompt: the same seeds, the same words. */
graft_status graft_choices_make(cJSON *prompt, const graft_registry *r, graft_err *e);
/* The same for one text, which is appended; *state is what the numbers are drawn from. */
void graft_choices_text(graft_str *out, const char *text, uint64_t *state);
#endif
