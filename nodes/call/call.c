#include "nodes/call/call.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nodes/call/booster.h"
#include "nodes/call/list.h"
#include "nodes/call/part.h"
#include "nodes/call/value.h"

void graft_call_phase(graft_call *c, const char *name)
{
    c->task.phase(c->task.ctx, name);
}

void graft_call_blame(graft_call *c, int input)
{
    c->blamed = input;
}

void graft_call_blame_file(graft_call *c, int first, char *const *paths, int n)
{
    int blamed = first;
    for (int i = n - 1; i >= 0; i--) {
        size_t length = strlen(paths[i]);
        char next = strncmp(c->err.text, paths[i], length) ? 0 : c->err.text[length];
        if (next == ':' || next == ' ') blamed = first + i;
    }
    graft_call_blame(c, blamed);
}

graft_status graft_call_fail(graft_call *c, int input, graft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->err.text, sizeof c->err.text, fmt, args);
    va_end(args);
    c->err.code = code;
    c->blamed = input;
    return code;
}

static bool is_listed(const char *name, const char *list)
{
    size_t n = strlen(name);
    for (;;) {
        size_t len = strcspn(list, ",");
        if (len == n && memcmp(list, name, n) == 0) return true;
        if (!list[len]) return false;
        list += len + 1;
    }
}

/* The one of the types of an input of several ("INT,FLOAT") that this is. */
static const char *type_of(const graft_arg *a, const char *types)
{
    static const char *const literal[] = {"", "INT", "FLOAT", "BOOLEAN", "STRING", "STRING"};
    bool value = a->kind == GRAFT_OBJECT;
    const char *type = value ? a->u.v->ops->type : a->kind < GRAFT_OBJECT ? literal[a->kind] : "";
    return is_listed(type, types) ? type : NULL;
}

/* The host has validated already; a host that did not gets an error and not a crash. */
static graft_status check_arg(graft_call *c, int i)
{
    const graft_input *want = c->inputs[i];
    const graft_arg *a = &c->in[i];
    const char *type = want->type;
    if (a->kind == GRAFT_NONE) {
        if (want->flags & (GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_LAZY) || want->when) return GRAFT_OK;
        return graft_call_fail(c, i, GRAFT_E_ARG, "%s is missing", want->name);
    }
    bool null = false;
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) null = !a->u.s;
    if (a->kind == GRAFT_OBJECT) null = !a->u.v || !a->u.v->ops;
    bool any = strcmp(want->type, "*") == 0; /* as it is */
    if (any && !null) return GRAFT_OK;
    bool several = strchr(type, ',');
    if (several && !null) type = type_of(a, type);
    if ((a->kind != want->kind && !several) || null || !type)
        return graft_call_fail(c, i, GRAFT_E_ARG, "%s is not of type %s", want->name, want->type);
    if (a->kind != GRAFT_OBJECT) return GRAFT_OK;
    graft_value_kind kind = graft_value_kind_of(type);
    assert(kind < GRAFT_VALUE_KINDS);
    c->blamed = i;
    graft_status st = want->flags & GRAFT_INPUT_LIST
                          ? graft_list_adopt(a->u.v, kind, &c->value[i], &c->err)
                          : graft_value_adopt(a->u.v, kind, &c->value[i], &c->err);
    if (st == GRAFT_OK) c->blamed = -1;
    return st;
}

static void report(graft_call *c, graft_status st)
{
    const char *input = c->blamed >= 0 ? c->inputs[c->blamed]->name : NULL;
    const char *text = c->err.text[0] ? c->err.text : graft_status_text(st);
    c->self->job->fail(c->job, st, input, text);
}

graft_status graft_call_run(void *self, graft_job *job, const graft_input *const *inputs,
                            const graft_arg *in, graft_arg *out, graft_call_fn *run)
{
    graft_call c = {.self = self, .job = job, .inputs = inputs, .in = in, .blamed = -1};
    c.where = (graft_task_job){.self = self, .job = job};
    graft_task_init(&c.task, &c.where);
    graft_status st = GRAFT_OK;
    for (int i = 0; inputs[i] && st == GRAFT_OK; i++) {
        assert(i < GRAFT_CALL_MAX_INPUTS);
        st = check_arg(&c, i);
    }
    if (st == GRAFT_OK) st = run(&c);
    for (int i = 0; i < GRAFT_CALL_MAX_OUTPUTS; i++) {
        graft_arg *o = &c.out[i];
        if (o->kind == GRAFT_NONE) continue;
        if (st == GRAFT_OK)
            out[i] = *o;
        else if (o->kind == GRAFT_OBJECT)
            o->u.v->ops->release(o->u.v);
    }
    for (int i = 0; i < GRAFT_CALL_MAX_INPUTS; i++)
        if (c.value[i]) c.value[i]->ops->release(c.value[i]);
    graft_task_finish(&c.where);
    if (st != GRAFT_OK) report(&c, st);
    return st;
}

static graft_status out_object(graft_call *c, int slot, graft_value_kind kind, void *object)
{
    graft_value *v;
    assert(slot < GRAFT_CALL_MAX_OUTPUTS && c->out[slot].kind == GRAFT_NONE);
    graft_status st = graft_value_wrap(kind, object, &v, &c->err);
    if (st != GRAFT_OK) return st;
    c->out[slot] = (graft_arg){.kind = GRAFT_OBJECT, .u.v = v};
    return GRAFT_OK;
}

graft_status graft_call_out_model(graft_call *c, int slot, graft_model *m)
{
    return out_object(c, slot, GRAFT_VALUE_MODEL, m);
}

graft_status graft_call_out_clip(graft_call *c, int slot, graft_clip *v)
{
    return out_object(c, slot, GRAFT_VALUE_CLIP, v);
}

graft_status graft_call_out_vae(graft_call *c, int slot, graft_vae *v)
{
    return out_object(c, slot, GRAFT_VALUE_VAE, v);
}

graft_status graft_call_out_cond(graft_call *c, int slot, graft_cond *v)
{
    return out_object(c, slot, GRAFT_VALUE_CONDITIONING, v);
}

graft_status graft_call_out_controlnet(graft_call *c, int slot, graft_controlnet *v)
{
    return out_object(c, slot, GRAFT_VALUE_CONTROL_NET, v);
}

graft_status graft_call_out_model_patch(graft_call *c, int slot, graft_controlnet *v)
{
    return out_object(c, slot, GRAFT_VALUE_MODEL_PATCH, v);
}

graft_status graft_call_out_upscaler(graft_call *c, int slot, graft_upscaler *v)
{
    return out_object(c, slot, GRAFT_VALUE_UPSCALE_MODEL, v);
}

graft_status graft_call_out_vision(graft_call *c, int slot, graft_vision *v)
{
    return out_object(c, slot, GRAFT_VALUE_CLIP_VISION, v);
}

graft_status graft_call_out_vision_output(graft_call *c, int slot, graft_vision_output *v)
{
    return out_object(c, slot, GRAFT_VALUE_CLIP_VISION_OUTPUT, v);
}

graft_status graft_call_out_ip_adapter(graft_call *c, int slot, graft_ip_adapter *v)
{
    return out_object(c, slot, GRAFT_VALUE_IP_ADAPTER, v);
}

graft_status graft_call_out_gligen(graft_call *c, int slot, graft_gligen *v)
{
    return out_object(c, slot, GRAFT_VALUE_GLIGEN, v);
}

graft_status graft_call_out_style(graft_call *c, int slot, graft_style *v)
{
    return out_object(c, slot, GRAFT_VALUE_STYLE_MODEL, v);
}

graft_status graft_call_out_latent(graft_call *c, int slot, graft_latent *v)
{
    return out_object(c, slot, GRAFT_VALUE_LATENT, v);
}

graft_status graft_call_out_operation(graft_call *c, int slot, const graft_latent_operation *v)
{
    graft_latent_operation *copy = graft_malloc(sizeof *copy);
    if (!copy) return graft_fail_nomem(&c->err, "a node's result");
    *copy = *v;
    return out_object(c, slot, GRAFT_VALUE_LATENT_OPERATION, copy);
}

graft_status graft_call_out_image(graft_call *c, int slot, graft_image *v)
{
    return out_object(c, slot, GRAFT_VALUE_IMAGE, v);
}

graft_status graft_call_out_mask(graft_call *c, int slot, graft_image *v)
{
    return out_object(c, slot, GRAFT_VALUE_MASK, v);
}

graft_status graft_call_out_sigmas(graft_call *c, int slot, graft_sigmas *v)
{
    return out_object(c, slot, GRAFT_VALUE_SIGMAS, v);
}

graft_status graft_call_out_hooks(graft_call *c, int slot, graft_hooks *v)
{
    return out_object(c, slot, GRAFT_VALUE_HOOKS, v);
}

graft_status graft_call_out_keyframes(graft_call *c, int slot, graft_keyframes *v)
{
    return out_object(c, slot, GRAFT_VALUE_HOOK_KEYFRAMES, v);
}

graft_status graft_call_out_range(graft_call *c, int slot, double start, double end)
{
    graft_steps_range *range = graft_malloc(sizeof *range);
    if (!range) return graft_fail_nomem(&c->err, "a node's result");
    *range = (graft_steps_range){start, end};
    return out_object(c, slot, GRAFT_VALUE_TIMESTEPS_RANGE, range);
}

graft_status graft_call_out_two_conds(graft_call *c, graft_cond *a, graft_cond *b)
{
    graft_status st = graft_call_out_cond(c, 0, a);
    if (st == GRAFT_OK) return graft_call_out_cond(c, 1, b);
    graft_cond_release(b);
    return st;
}

graft_status graft_call_out_picture(graft_call *c, graft_image *image, graft_image *mask)
{
    graft_status st = graft_call_out_image(c, 0, image);
    if (st == GRAFT_OK) return graft_call_out_mask(c, 1, mask);
    graft_image_release(mask);
    return st;
}

graft_status graft_call_out_two_sigmas(graft_call *c, graft_sigmas *a, graft_sigmas *b)
{
    graft_status st = graft_call_out_sigmas(c, 0, a);
    if (st == GRAFT_OK) return graft_call_out_sigmas(c, 1, b);
    graft_sigmas_release(b);
    return st;
}

graft_status graft_call_out_part(graft_call *c, int slot, const char *type,
                                 const graft_sampling *known)
{
    graft_part *part = NULL;
    graft_status st = graft_part_create(known, &part, &c->err);
    return st != GRAFT_OK ? st : out_object(c, slot, graft_value_kind_of(type), part);
}

graft_status graft_call_out_booster(graft_call *c, int slot, const char *type, graft_booster *b)
{
    return out_object(c, slot, graft_value_kind_of(type), b);
}

graft_status graft_call_out_list(graft_call *c, int slot, graft_value *v)
{
    assert(slot < GRAFT_CALL_MAX_OUTPUTS && c->out[slot].kind == GRAFT_NONE);
    c->out[slot] = (graft_arg){.kind = GRAFT_OBJECT, .u.v = v};
    return GRAFT_OK;
}

graft_status graft_call_out_i64(graft_call *c, int slot, int64_t v)
{
    c->out[slot] = (graft_arg){.kind = GRAFT_INT, .u.i = v};
    return GRAFT_OK;
}

graft_status graft_call_out_f64(graft_call *c, int slot, double v)
{
    c->out[slot] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = v};
    return GRAFT_OK;
}

graft_status graft_call_out_bool(graft_call *c, int slot, bool v)
{
    c->out[slot] = (graft_arg){.kind = GRAFT_BOOL, .u.i = v};
    return GRAFT_OK;
}

graft_status graft_call_out_text(graft_call *c, int slot, const char *text)
{
    char *copy = graft_strdup(text);
    if (!copy) return graft_fail_nomem(&c->err, "a text result");
    graft_free(c->self->text);
    c->self->text = copy;
    c->out[slot] = (graft_arg){.kind = GRAFT_STRING, .u.s = copy};
    return GRAFT_OK;
}

graft_status graft_call_out_same(graft_call *c, int slot, int input)
{
    const graft_arg *a = &c->in[input];
    if (a->kind == GRAFT_NONE)
        return graft_call_fail(c, input, GRAFT_E_ARG, "%s is missing", c->inputs[input]->name);
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE)
        return graft_call_out_text(c, slot, a->u.s);
    c->out[slot] = *a;
    if (a->kind == GRAFT_OBJECT) a->u.v->ops->retain(a->u.v);
    return GRAFT_OK;
}

graft_status graft_call_sample(graft_call *c, const graft_sampling *sampling,
                               const graft_latent *latent)
{
    graft_latent *out = NULL, *denoised = NULL;
    graft_call_phase(c, "sample");
    graft_status st = graft_sample_custom(sampling, latent, &c->task, &out, &denoised, &c->err);
    if (st != GRAFT_OK) return st;
    st = graft_call_out_latent(c, 0, out);
    if (st != GRAFT_OK) {
        graft_latent_release(denoised);
        return st;
    }
    return graft_call_out_latent(c, 1, denoised);
}
