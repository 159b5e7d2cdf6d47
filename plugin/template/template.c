/* A complete plugin with one node: TemplateRepeatText writes a text several times. */
#include "plugin/graft_plugin.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT, COUNT };
static const graft_input text_input = {
    .size = sizeof(graft_input),
    .name = "text",
    .type = "STRING",
    .tooltip = "What to repeat.",
    .kind = GRAFT_STRING,
    .initial.s = "graft ",
};
static const graft_input count_input = {
    .size = sizeof(graft_input),
    .name = "count",
    .type = "INT",
    .tooltip = "How many times.",
    .kind = GRAFT_INT,
    .initial.i = 2,
    .min = 0,
    .max = 1000,
};
static const graft_output text_output = {
    .size = sizeof(graft_output),
    .name = "text",
    .type = "STRING",
    .tooltip = "The repeated text.",
};
static const graft_input *const inputs[] = {[TEXT] = &text_input, [COUNT] = &count_input, NULL};
static const graft_output *const outputs[] = {&text_output, NULL};

/* What an instance keeps: the last result, because an output string must live until the next call.
 */
typedef struct repeat {
    const graft_job_api *job;
    char *result;
} repeat;

static graft_status create(const graft_host *h, void **self)
{
    repeat *r = calloc(1, sizeof *r);
    if (!r) return GRAFT_E_NOMEM;
    r->job = h->query(h, GRAFT_JOB_ID); /* NULL on a host without it */
    *self = r;
    return GRAFT_OK;
}

static void destroy(void *self)
{
    repeat *r = self;
    if (!r) return;
    free(r->result);
    free(r);
}

static graft_status fail(repeat *r, graft_job *j, graft_status why, const char *input,
                         const char *text)
{
    if (r->job) r->job->fail(j, why, input, text);
    return why;
}

static graft_status execute(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    repeat *r = self;
    const char *text = in[TEXT].u.s;
    size_t n = strlen(text), count = (size_t)in[COUNT].u.i;
    if (n > 1000000) return fail(r, j, GRAFT_E_LIMIT, "text", "the text is too long to repeat");
    char *result = malloc(n * count + 1);
    if (!result) return fail(r, j, GRAFT_E_NOMEM, NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (r->job && r->job->cancelled(j)) {
            free(result);
            return fail(r, j, GRAFT_E_CANCEL, NULL, "cancelled");
        }
        memcpy(result + i * n, text, n);
    }
    result[n * count] = 0;
    free(r->result);
    r->result = result;
    out[0].kind = GRAFT_STRING;
    out[0].u.s = result;
    return GRAFT_OK;
}

static const graft_node repeat_node = {
    .size = sizeof(graft_node),
    .id = "TemplateRepeatText",
    .title = "Repeat Text",
    .category = "template",
    .description = "Writes a text several times, one after the other.",
    .inputs = inputs,
    .outputs = outputs,
    .create = create,
    .destroy = destroy,
    .execute = execute,
};

static graft_status init(const graft_host *h, const char *dir)
{
    (void)h;   /* valid until the matching deinit() */
    (void)dir; /* the folder of this file, for data that is installed beside it */
    return GRAFT_OK;
}

static void deinit(void) {}

static const graft_node *node(uint32_t i)
{
    return i == 0 ? &repeat_node : NULL;
}

const graft_plugin graft_plugin_entry = {
    .abi_major = GRAFT_ABI_MAJOR,
    .abi_minor = GRAFT_ABI_MINOR,
    .id = "template",
    .version = "1.0.0",
    .init = init,
    .deinit = deinit,
    .node = node,
};
