/* Literal input values: from JSON, or from text, to the form that execute() gets. Any thread. */
#ifndef GRAFT_HOST_PROMPT_LITERAL_H
#define GRAFT_HOST_PROMPT_LITERAL_H
#include "base/json.h"
#include "host/schema/offers.h"

typedef struct graft_literal {
    graft_arg value; /* kind GRAFT_NONE: not set */
    char *text;      /* what value.u.s points to, when it is text */
} graft_literal;
void graft_literal_finish(graft_literal *l);

/* Why a value does not fit, with the type and message names that clients know. */
typedef struct graft_literal_fault {
    const char *type; /* NULL: it fits */
    char message[160];
    char *details;   /* graft_literal_fault_finish() */
    char *exception; /* NULL unless type is invalid_input_type */
    bool no_config;  /* the input's description is too long to repeat */
} graft_literal_fault;
void graft_literal_fault_finish(graft_literal_fault *f);

/* Converts as ComfyUI does (64.7 and "64" are INT 64, anything is a STRING, …), then checks range
 * and `choices`, which a COMBO must have unless it is left a text; back-slashes may stand for
 * slashes there. `left`: the node's own check takes the input, so range and choices are left to it,
 * and a socket takes whatever was written. *out is set where the conversion worked, also when the
 * range is wrong. The status is for our own failures; the user's are in *fault. */
graft_status graft_literal_read(const graft_offer *choices, const graft_input *in,
                                const cJSON *item, bool left, graft_literal *out,
                                graft_literal_fault *fault, graft_err *e);
/* The value as JSON; NULL when out of memory. */
cJSON *graft_literal_json(const graft_input *in, const graft_arg *value);
/* The input's initial value: NONE for sockets. */
graft_status graft_literal_initial(const graft_input *in, graft_literal *out, graft_err *e);
/* JSON for text from a command line: digits for INT and FLOAT, true/false/yes/no/on/off/1/0 for
 * BOOLEAN, the text itself otherwise. NULL when out of memory. */
cJSON *graft_literal_from_text(const graft_input *in, const char *text);
/* Both ends of an INT input's range, which are values that it may have. */
void graft_literal_int_range(const graft_input *in, long double *min, long double *max);
#endif
