/* The rules are those of ComfyUI's editor, as observed. */
#include "host/prompt/widgets.h"

#include <string.h>

#include "host/schema/schema.h"

bool graft_widgets_has_control(const graft_input *in)
{
    if (in->flags & GRAFT_INPUT_SEED) return true;
    return strcmp(in->type, "INT") == 0 &&
           (strcmp(in->name, "seed") == 0 || strcmp(in->name, "noise_seed") == 0);
}

bool graft_widgets_is_control(const cJSON *value)
{
    static const char *const word[] = {"fixed", "increment", "decrement", "randomize"};
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof word / sizeof *word; i++)
        if (strcmp(value->valuestring, word[i]) == 0) return true;
    return false;
}

static bool counts(const graft_widgets *w, const graft_input *in)
{
    const graft_input *decider = graft_schema_decider(w->node, in);
    bool known = decider && decider == w->decider && cJSON_IsString(w->choice);
    return !decider || graft_schema_counts(in, decider, known ? w->choice->valuestring : NULL);
}

/* Widget number k of those that count, in the order in which an editor shows them, required inputs
 * first; NULL behind the last. */
static const graft_input *widget_at(const graft_widgets *w, size_t k)
{
    const graft_node *node = w->node;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < graft_schema_inputs(node); i++) {
            const graft_input *in = node->inputs[i];
            bool optional = in->flags & GRAFT_INPUT_OPTIONAL;
            if (optional != (pass == 1) || !graft_schema_widget(in) || !counts(w, in)) continue;
            if (!k--) return in;
        }
    return NULL;
}

/* Those that were not read yet. */
static size_t count_widgets(const graft_widgets *w)
{
    size_t n = w->k;
    while (widget_at(w, n)) n++;
    return n - w->k;
}

static size_t count_values(const cJSON *value)
{
    size_t n = 0;
    for (; value; value = value->next) n++;
    return n;
}

static void skip(graft_widgets *s)
{
    s->at = s->at->next;
    s->n--;
    s->place++;
}

/* Whether `next`, which may be NULL, could have this text for its value. Which files there are is
 * not known here, but none is called like a control. */
static bool could_take(const graft_input *next, const cJSON *text)
{
    if (cJSON_IsBool(text)) return next && strcmp(next->type, "BOOLEAN") == 0;
    if (!next || !graft_schema_combo(next)) return next && strcmp(next->type, "STRING") == 0;
    if (!next->choices) return !graft_widgets_is_control(text);
    for (const char *const *c = next->choices; *c; c++)
        if (strcmp(*c, text->valuestring) == 0) return true;
    return false;
}

/* A text (or, in old files, whether a seed is to be drawn anew) that is no value: there are more
 * entries than widgets, or the next widget could not have it. A node may have more widgets today
 * than it had when the file was written. */
static bool is_extra(const graft_widgets *s, const graft_input *next)
{
    return s->n > s->widgets || !could_take(next, s->at);
}

static void skip_extras(graft_widgets *s, const graft_input *in, const graft_input *next)
{
    bool control = s->at && (graft_widgets_is_control(s->at) || cJSON_IsBool(s->at));
    if (control && graft_widgets_has_control(in) && is_extra(s, next)) {
        skip(s);
        bool filter = s->at && graft_schema_combo(in) && cJSON_IsString(s->at);
        if (filter && is_extra(s, next)) skip(s);
    }
    /* Its button, which some editors put behind all widgets. */
    bool upload = s->at && (in->flags & GRAFT_INPUT_IMAGE_UPLOAD) && cJSON_IsString(s->at) &&
                  strcmp(s->at->valuestring, "image") == 0;
    if (upload && is_extra(s, next)) skip(s);
}

void graft_widgets_init(graft_widgets *w, const graft_node *node, const cJSON *values)
{
    *w = (graft_widgets){.node = node, .at = cJSON_IsArray(values) ? values->child : NULL};
    w->widgets = count_widgets(w);
    w->n = count_values(w->at);
}

const graft_input *graft_widgets_next(graft_widgets *w, const cJSON **value)
{
    const graft_input *in = widget_at(w, w->k);
    if (!in) return NULL;
    *value = w->at;
    if (w->at) skip(w);
    w->k++;
    if (graft_schema_decides(w->node, in)) {
        w->decider = in;
        w->choice = *value;
    }
    w->widgets = count_widgets(w);
    skip_extras(w, in, widget_at(w, w->k));
    return in;
}
