#include "nodes/call/args.h"

#include <assert.h>
#include <string.h>

#include "nodes/call/files.h"
#include "nodes/call/part.h"
#include "nodes/call/value.h"

static graft_payload payload(const graft_call *c, int i, graft_kind kind)
{
    assert(c->inputs[i]->kind == kind);
    (void)kind;
    return c->in[i].kind == GRAFT_NONE ? c->inputs[i]->initial : c->in[i].u;
}

int64_t graft_arg_i64(const graft_call *c, int i)
{
    return payload(c, i, GRAFT_INT).i;
}

uint64_t graft_arg_u64(const graft_call *c, int i)
{
    return (uint64_t)payload(c, i, GRAFT_INT).i;
}

double graft_arg_f64(const graft_call *c, int i)
{
    return payload(c, i, GRAFT_FLOAT).f;
}

bool graft_arg_bool(const graft_call *c, int i)
{
    return payload(c, i, GRAFT_BOOL).i != 0;
}

const char *graft_arg_text(const graft_call *c, int i)
{
    const char *s = payload(c, i, c->inputs[i]->kind).s;
    if (s) return s;
    const char *const *choices = c->inputs[i]->choices; /* the first choice is the initial one */
    return choices ? choices[0] : "";
}

bool graft_arg_is(const graft_call *c, int i, const char *choice)
{
    return strcmp(graft_arg_text(c, i), choice) == 0;
}

graft_latent_axis graft_arg_axis(const graft_call *c, int i)
{
    return graft_arg_is(c, i, "t")   ? GRAFT_LATENT_LAYERS
           : graft_arg_is(c, i, "y") ? GRAFT_LATENT_ROWS
                                     : GRAFT_LATENT_COLUMNS;
}

static void *object(const graft_call *c, int i, graft_value_kind kind)
{
    return c->value[i] ? graft_value_object(c->value[i], kind) : NULL;
}

graft_model *graft_arg_model(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_MODEL);
}

graft_clip *graft_arg_clip(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_CLIP);
}

graft_vae *graft_arg_vae(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_VAE);
}

graft_cond *graft_arg_cond(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_CONDITIONING);
}

graft_controlnet *graft_arg_controlnet(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_CONTROL_NET);
}

graft_controlnet *graft_arg_model_patch(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_MODEL_PATCH);
}

graft_upscaler *graft_arg_upscaler(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_UPSCALE_MODEL);
}

graft_vision *graft_arg_vision(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_CLIP_VISION);
}

graft_vision_output *graft_arg_vision_output(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_CLIP_VISION_OUTPUT);
}

graft_style *graft_arg_style(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_STYLE_MODEL);
}

graft_ip_adapter *graft_arg_ip_adapter(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_IP_ADAPTER);
}

graft_gligen *graft_arg_gligen(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_GLIGEN);
}

graft_latent *graft_arg_latent(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_LATENT);
}

const graft_latent_operation *graft_arg_operation(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_LATENT_OPERATION);
}

graft_image *graft_arg_image(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_IMAGE);
}

graft_image *graft_arg_mask(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_MASK);
}

graft_sigmas *graft_arg_sigmas(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_SIGMAS);
}

const graft_floats *graft_arg_floats(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_FLOATS);
}

graft_hooks *graft_arg_hooks(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_HOOKS);
}

graft_keyframes *graft_arg_keyframes(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_HOOK_KEYFRAMES);
}

const graft_steps_range *graft_arg_range(const graft_call *c, int i)
{
    return object(c, i, GRAFT_VALUE_TIMESTEPS_RANGE);
}

const graft_sampling *graft_arg_part(const graft_call *c, int i)
{
    return graft_part_known(object(c, i, graft_value_kind_of(c->inputs[i]->type)));
}

graft_booster *graft_arg_booster(const graft_call *c, int i)
{
    return object(c, i, graft_value_kind_of(c->inputs[i]->type));
}

const graft_value *graft_arg_list(const graft_call *c, int i)
{
    assert((c->inputs[i]->flags & GRAFT_INPUT_LIST) && c->value[i]);
    return c->value[i];
}

graft_status graft_arg_file(graft_call *c, int i, const char *folder, char **path)
{
    const char *name = c->in[i].u.s;
    graft_call_blame(c, i);
    return graft_files_resolve(c->self->host, folder, name, path, &c->err);
}

void graft_arg_warn_pixels(graft_call *c, int input, int64_t place)
{
    const long long given = graft_arg_i64(c, input), scale = place, whole = given / scale * scale;
    if (given != whole)
        graft_log_printf(&c->task.log, GRAFT_LOG_WARN,
                         "%s %lld is taken as %lld, a multiple of %lld", c->inputs[input]->name,
                         given, whole, scale);
}
