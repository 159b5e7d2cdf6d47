/* Any bytes as a workflow file, in either format, with the test nodes as what is installed: it is
 * refused, or it becomes a prompt that is valid or has faults with a text. Behind a first byte of
 * zero stand three strings, ended by zeros, that set an input of the prompt first. */
#include "host/prompt/workflow.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/session/session.h"
#include "host/prompt/validate.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

static graft_session *session(void)
{
    static graft_session s;
    static int state;
    if (!state) {
        const graft_log log = {NULL, NULL};
        graft_err e = GRAFT_ERR_INIT;
        const graft_options o = {.models = (char *)"/nonexistent/models",
                                 .input = (char *)"/nonexistent/input",
                                 .output = (char *)"/nonexistent/output",
                                 .temp = (char *)"/nonexistent/temp",
                                 .plugins = (char *)HOST_TEST_PLUGINS};
        state = graft_session_init(&s, &o, &log, &e) == GRAFT_OK && s.plugins == 1 ? 1 : -1;
    }
    require(state == 1);
    return &s;
}

static void validate(graft_session *s, cJSON *prompt)
{
    graft_validation v = {0};
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_validate(s->registry, &s->services.host, prompt, NULL, 0, &v, &e);
    require(st == GRAFT_OK || e.text[0]);
    if (st == GRAFT_OK) {
        graft_str text = GRAFT_STR_INIT;
        require(v.prompt || v.error);
        graft_validation_text(&v, "fuzz", NULL, &text);
        require(!v.error || text.len);
        graft_str_finish(&text);
    }
    graft_validation_finish(&v);
}

/* The next zero-terminated string of the input, or NULL. */
static const char *take(const char **p, const char *end)
{
    const char *zero = memchr(*p, 0, (size_t)(end - *p)), *start = *p;
    if (!zero) return NULL;
    *p = zero + 1;
    return start;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_session *s = session();
    const char *p = (const char *)data, *end = p + size, *set[3] = {NULL, NULL, NULL};
    graft_workflow w;
    graft_err e = GRAFT_ERR_INIT;
    if (size > 0 && *p == 0) {
        p++;
        for (int i = 0; i < 3; i++)
            if (!(set[i] = take(&p, end))) return 0;
    }
    if (graft_workflow_parse(p, (size_t)(end - p), "fuzz", s->registry, &w, &e)) {
        require(e.text[0] != 0);
        return 0;
    }
    if (set[2]) graft_workflow_set(w.prompt, s->registry, set[0], set[1], set[2], &e);
    cJSON *prompt = w.prompt;
    w.prompt = NULL;
    validate(s, prompt);
    graft_workflow_finish(&w);
    return 0;
}
