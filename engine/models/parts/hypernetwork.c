#include "engine/models/parts/hypernetwork.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(...) graft_name_make(__VA_ARGS__)

static graft_name layer_name(const graft_hypernetwork_arch *a, int32_t width, int part,
                             int32_t number)
{
    return NAME("%d.%d.linear%s%d", width, part, a->old_names ? "" : ".", number);
}

/* ------------------------------------------------------------------ detection */

/* Words as PyTorch's classes are called, in small letters, and those that the web UI has of its
 * own: its swish is the hard one. */
static const struct act_name {
    const char *name;
    graft_hyper_act act;
} act_names[] = {
    {"linear", GRAFT_HYPER_LINEAR},    {"identity", GRAFT_HYPER_LINEAR},
    {"relu", GRAFT_HYPER_RELU},        {"leakyrelu", GRAFT_HYPER_LEAKY},
    {"tanh", GRAFT_HYPER_TANH},        {"sigmoid", GRAFT_HYPER_SIGMOID},
    {"swish", GRAFT_HYPER_HARD_SWISH}, {"hardswish", GRAFT_HYPER_HARD_SWISH},
    {"silu", GRAFT_HYPER_SILU},        {"gelu", GRAFT_HYPER_GELU},
};

static graft_status read_act(const graft_safetensors *f, const char *name, int32_t *act,
                             graft_err *e)
{
    for (size_t i = 0; i < sizeof act_names / sizeof *act_names; i++)
        if (strcmp(act_names[i].name, name) == 0) {
            *act = (int32_t)act_names[i].act;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a hypernetwork with the activation \"%.40s\"; those that are there are "
                      "linear, relu, leakyrelu, tanh, sigmoid, swish, silu and gelu",
                      graft_safetensors_path(f), name);
}

static bool is_yes(const char *text)
{
    return text &&
           (strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "1") == 0);
}

/* A whole number that fits, from *at on, which moves behind it; -1: there is none. */
static int32_t number_at(const char **at)
{
    int32_t n = 0;
    if (**at < '0' || **at > '9') return -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (n > 100000) return -1;
        n = 10 * n + (**at - '0');
    }
    return n;
}

static bool skip(const char **at, const char *word)
{
    if (strncmp(*at, word, strlen(word)) != 0) return false;
    *at += strlen(word);
    return true;
}

/* WIDTH.PART.linear.NUMBER.weight, or WIDTH.PART.linearNUMBER.weight (*old). */
static bool read_name(const char *name, int32_t *width, int *part, int32_t *number, bool *old)
{
    const char *at = name;
    if ((*width = number_at(&at)) < 1 || !skip(&at, ".")) return false;
    const int32_t which = number_at(&at);
    if (which < 0 || which >= GRAFT_HYPER_PARTS || !skip(&at, ".linear")) return false;
    *part = (int)which;
    *old = !skip(&at, ".");
    return (*number = number_at(&at)) >= 0 && strcmp(at, ".weight") == 0;
}

static graft_status wrong(const graft_safetensors *f, const char *name, const char *how,
                          graft_err *e)
{
    return graft_fail(e, GRAFT_E_FORMAT, "%s: a hypernetwork whose layer %s %s",
                      graft_safetensors_path(f), name, how);
}

static struct graft_hyper_pair *pair_of(graft_hypernetwork_arch *a, int32_t width)
{
    for (int32_t i = 0; i < a->n_widths; i++)
        if (a->pair[i].width == width) return &a->pair[i];
    if (a->n_widths == GRAFT_HYPER_WIDTHS) return NULL;
    a->pair[a->n_widths].width = width;
    return &a->pair[a->n_widths++];
}

static int by_number(const void *a, const void *b)
{
    const graft_hyper_layer *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_width(const void *a, const void *b)
{
    const struct graft_hyper_pair *x = a, *y = b;
    return (x->width > y->width) - (x->width < y->width);
}

static graft_status add_layer(const graft_safetensors *f, const graft_st_tensor *t,
                              graft_hypernetwork_arch *a, graft_err *e)
{
    int32_t width, number;
    int part;
    bool old;
    if (!read_name(t->name, &width, &part, &number, &old)) return GRAFT_OK;
    a->old_names = old;
    struct graft_hyper_pair *p = pair_of(a, width);
    if (!p || p->n[part] == GRAFT_HYPER_LAYERS) return wrong(f, t->name, "is one too many", e);
    if (t->rank < 1 || t->rank > 2 || t->shape[0] < 1 || t->shape[0] > 1 << 20)
        return wrong(f, t->name, "has no shape of a layer", e);
    char bias[64];
    snprintf(bias, sizeof bias, "%.*sbias", (int)(strlen(t->name) - strlen("weight")), t->name);
    p->layer[part][p->n[part]++] =
        (graft_hyper_layer){number, (int32_t)t->shape[0], t->rank == 1,
                            t->rank == 1 || graft_safetensors_find(f, bias) != NULL};
    return GRAFT_OK;
}

/* Whether layers follow from each other; *gaps: something without weights stands between them. */
static graft_status check_part(const graft_safetensors *f, const graft_hypernetwork_arch *a,
                               const struct graft_hyper_pair *p, int part, bool *gaps, graft_err *e)
{
    int32_t width = p->width, linear = 0;
    for (int32_t i = 0; i < p->n[part]; i++) {
        const graft_hyper_layer *l = &p->layer[part][i];
        const graft_name name = layer_name(a, p->width, part, l->number);
        char full[280];
        snprintf(full, sizeof full, "%s.weight", name.text);
        const graft_st_tensor *t = graft_safetensors_find(f, full);
        if (!t || (l->norm ? l->width != width : t->shape[1] != width))
            return wrong(f, name.text, "does not fit the one before it", e);
        *gaps = *gaps || (i && l->number != p->layer[part][i - 1].number + 1);
        linear += !l->norm;
        width = l->width;
    }
    if (linear && width == p->width) return GRAFT_OK;
    return graft_fail(
        e, GRAFT_E_FORMAT, "%s: a hypernetwork for width %d whose %s do not come back to it",
        graft_safetensors_path(f), p->width, part == GRAFT_HYPER_KEYS ? "keys" : "values");
}

graft_status graft_hypernetwork_detect(const graft_safetensors *f, graft_hypernetwork_arch *out,
                                       graft_err *e)
{
    const char *act = graft_safetensors_metadata(f, "activation_func");
    graft_hypernetwork_arch *a = out;
    graft_status st = GRAFT_OK;
    bool gaps = false;
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++)
        st = add_layer(f, graft_safetensors_at(f, i), a, e);
    if (st) return st;
    if (!a->n_widths)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: no hypernetwork in it (no tensor is called as 768.0.linear.0.weight)",
            graft_safetensors_path(f));
    qsort(a->pair, (size_t)a->n_widths, sizeof *a->pair, by_width);
    for (int32_t i = 0; i < a->n_widths; i++)
        for (int part = 0; part < GRAFT_HYPER_PARTS && !st; part++) {
            struct graft_hyper_pair *p = &a->pair[i];
            qsort(p->layer[part], (size_t)p->n[part], sizeof **p->layer, by_number);
            st = check_part(f, a, p, part, &gaps, e);
        }
    if (st) return st;
    if (!act && gaps)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: a hypernetwork with an activation that its metadata do not tell "
                          "(activation_func); graft convert makes them of the .pt file",
                          graft_safetensors_path(f));
    a->act_at_end = is_yes(graft_safetensors_metadata(f, "activate_output"));
    return act ? read_act(f, act, &a->act, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ graphs */

static graft_vid activated(const graft_build *b, graft_vid x, graft_hyper_act act)
{
    graft_vid y, z;
    switch (act) {
    case GRAFT_HYPER_LINEAR:
        return x;
    case GRAFT_HYPER_RELU:
        return graft_build_act(b, x, GRAFT_ACT_RELU);
    case GRAFT_HYPER_LEAKY: /* 0.01 x + 0.99 max(x, 0) */
        y = graft_build_act(b, graft_build_scale(b, x, 0.99f, 0), GRAFT_ACT_RELU);
        return graft_build_add(b, graft_build_scale(b, x, 0.01f, 0), y);
    case GRAFT_HYPER_TANH:
        return graft_build_act(b, x, GRAFT_ACT_TANH);
    case GRAFT_HYPER_SIGMOID: /* (1 + tanh(x / 2)) / 2 */
        y = graft_build_act(b, graft_build_scale(b, x, 0.5f, 0), GRAFT_ACT_TANH);
        return graft_build_scale(b, y, 0.5f, 0.5f);
    case GRAFT_HYPER_HARD_SWISH: /* max(x + 3, 0) - max(x - 3, 0) is between 0 and 6 */
        y = graft_build_act(b, graft_build_scale(b, x, 1.0f, 3.0f), GRAFT_ACT_RELU);
        z = graft_build_act(b, graft_build_scale(b, x, 1.0f, -3.0f), GRAFT_ACT_RELU);
        y = graft_build_add(b, graft_build_scale(b, y, 1.0f / 6, 0),
                            graft_build_scale(b, z, -1.0f / 6, 0));
        return graft_build_mul(b, x, y);
    case GRAFT_HYPER_SILU:
        return graft_build_act(b, x, GRAFT_ACT_SILU);
    case GRAFT_HYPER_GELU:
        return graft_build_act(b, x, GRAFT_ACT_GELU);
    }
    return x;
}

static graft_vid layers(const graft_build *b, const graft_hypernetwork_arch *a, const char *called,
                        const struct graft_hyper_pair *p, int part, graft_vid x)
{
    int32_t last = p->n[part];
    while (last > 0 && p->layer[part][last - 1].norm) last--;
    for (int32_t i = 0; i < p->n[part]; i++) {
        const graft_hyper_layer *l = &p->layer[part][i];
        const graft_name name = NAME("%s%s", called, layer_name(a, p->width, part, l->number).text);
        if (l->norm) {
            x = graft_build_layer_norm(b, name, x);
            continue;
        }
        x = graft_build_linear(b, name, x, l->width, l->bias);
        if (i + 1 < last || a->act_at_end) x = activated(b, x, (graft_hyper_act)a->act);
    }
    return x;
}

static graft_vid changed(const graft_build *b, const graft_hypernetwork_arch *a, const char *called,
                         int part, graft_vid x, graft_vid strength)
{
    for (int32_t i = 0; i < a->n_widths; i++) {
        if (x < 0 || graft_build_dim(b, x, 2) != a->pair[i].width) continue;
        graft_vid h = layers(b, a, called, &a->pair[i], part, x);
        graft_vid s = graft_graph_reshape(b->g, strength, 3, (const int64_t[]){1, 1, 1});
        return graft_build_add(b, x, graft_build_mul(b, h, s));
    }
    return x;
}

graft_vid graft_hypernetwork_build(const graft_build *b, const graft_hypernetwork_arch *a, int part,
                                   graft_vid x, graft_vid strength)
{
    return changed(b, a, GRAFT_HYPER_CALLED, part, x, strength);
}

graft_status graft_hypernetwork_build_all(const graft_hypernetwork_arch *a, graft_graph **out,
                                          graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "hypernetwork graph");
    const graft_build b = {g, GRAFT_F32};
    const graft_vid strength = graft_graph_input(g, GRAFT_F32, 1, (const int64_t[]){1});
    for (int32_t i = 0; i < a->n_widths; i++) {
        const graft_vid x =
            graft_graph_input(g, GRAFT_F32, 3, (const int64_t[]){1, 1, a->pair[i].width});
        for (int part = 0; part < GRAFT_HYPER_PARTS; part++)
            graft_graph_output(g, changed(&b, a, "", part, x, strength));
    }
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
