#include "nodes/call/value.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "nodes/call/booster.h"
#include "nodes/call/part.h"

/* Compared by address, so that even another build of the same version is a stranger to us. */
static const char private_id[] = "graft.nodes/" GRAFT_VERSION;

typedef struct object {
    graft_value value; /* first: a graft_value * is an object * */
    atomic_size_t refs;
    graft_value_kind kind;
    void *inner;
    graft_tensor tensor; /* LATENT, IMAGE, MASK and SIGMAS */
} object;

#define RELEASE(type)                                                                              \
    static void release_##type(void *inner)                                                        \
    {                                                                                              \
        graft_##type##_release(inner);                                                             \
    }
RELEASE(model)
RELEASE(clip)
RELEASE(vae)
RELEASE(cond)
RELEASE(controlnet)
RELEASE(upscaler)
RELEASE(vision)
RELEASE(vision_output)
RELEASE(style)
RELEASE(ip_adapter)
RELEASE(gligen)
RELEASE(latent)
RELEASE(image)
RELEASE(sigmas)
RELEASE(hooks)
RELEASE(keyframes)
RELEASE(part)
RELEASE(booster)
#undef RELEASE

static void release_plain(void *inner)
{
    graft_free(inner);
}

static void (*const release_inner[GRAFT_VALUE_KINDS])(void *) = {
    [GRAFT_VALUE_MODEL] = release_model,
    [GRAFT_VALUE_CLIP] = release_clip,
    [GRAFT_VALUE_VAE] = release_vae,
    [GRAFT_VALUE_CONDITIONING] = release_cond,
    [GRAFT_VALUE_CONTROL_NET] = release_controlnet,
    [GRAFT_VALUE_MODEL_PATCH] = release_controlnet,
    [GRAFT_VALUE_UPSCALE_MODEL] = release_upscaler,
    [GRAFT_VALUE_CLIP_VISION] = release_vision,
    [GRAFT_VALUE_CLIP_VISION_OUTPUT] = release_vision_output,
    [GRAFT_VALUE_STYLE_MODEL] = release_style,
    [GRAFT_VALUE_IP_ADAPTER] = release_ip_adapter,
    [GRAFT_VALUE_GLIGEN] = release_gligen,
    [GRAFT_VALUE_LATENT] = release_latent,
    [GRAFT_VALUE_LATENT_OPERATION] = release_plain,
    [GRAFT_VALUE_IMAGE] = release_image,
    [GRAFT_VALUE_MASK] = release_image,
    [GRAFT_VALUE_SIGMAS] = release_sigmas,
    [GRAFT_VALUE_FLOATS] = release_plain,
    [GRAFT_VALUE_HOOKS] = release_hooks,
    [GRAFT_VALUE_HOOK_KEYFRAMES] = release_keyframes,
    [GRAFT_VALUE_TIMESTEPS_RANGE] = release_plain,
    [GRAFT_VALUE_SAMPLER] = release_part,
    [GRAFT_VALUE_NOISE] = release_part,
    [GRAFT_VALUE_GUIDER] = release_part,
    [GRAFT_VALUE_QUANTIZATION_BOOSTER] = release_booster,
    [GRAFT_VALUE_DEEPCACHE_BOOSTER] = release_booster,
    [GRAFT_VALUE_TORCHCOMPILE_BOOSTER] = release_booster,
    [GRAFT_VALUE_CUSTOM_BOOSTER] = release_booster,
};

static void retain(graft_value *v)
{
    atomic_fetch_add_explicit(&((object *)v)->refs, 1, memory_order_relaxed);
}

static void release(graft_value *v)
{
    object *o = (object *)v;
    if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
    release_inner[o->kind](o->inner);
    graft_free(o);
}

static const void *query(const graft_value *v, const char *id)
{
    const object *o = (const object *)v;
    if (id == private_id) return o;
    if (strcmp(id, GRAFT_TENSOR_ID) == 0 && o->tensor.data) return &o->tensor;
    return NULL;
}

static const graft_value_ops ops[GRAFT_VALUE_KINDS] = {
    [GRAFT_VALUE_MODEL] = {"MODEL", retain, release, query},
    [GRAFT_VALUE_CLIP] = {"CLIP", retain, release, query},
    [GRAFT_VALUE_VAE] = {"VAE", retain, release, query},
    [GRAFT_VALUE_CONDITIONING] = {"CONDITIONING", retain, release, query},
    [GRAFT_VALUE_CONTROL_NET] = {"CONTROL_NET", retain, release, query},
    [GRAFT_VALUE_MODEL_PATCH] = {"MODEL_PATCH", retain, release, query},
    [GRAFT_VALUE_UPSCALE_MODEL] = {"UPSCALE_MODEL", retain, release, query},
    [GRAFT_VALUE_CLIP_VISION] = {"CLIP_VISION", retain, release, query},
    [GRAFT_VALUE_CLIP_VISION_OUTPUT] = {"CLIP_VISION_OUTPUT", retain, release, query},
    [GRAFT_VALUE_STYLE_MODEL] = {"STYLE_MODEL", retain, release, query},
    [GRAFT_VALUE_IP_ADAPTER] = {"IPADAPTER", retain, release, query},
    [GRAFT_VALUE_GLIGEN] = {"GLIGEN", retain, release, query},
    [GRAFT_VALUE_LATENT] = {"LATENT", retain, release, query},
    [GRAFT_VALUE_LATENT_OPERATION] = {"LATENT_OPERATION", retain, release, query},
    [GRAFT_VALUE_IMAGE] = {"IMAGE", retain, release, query},
    [GRAFT_VALUE_MASK] = {"MASK", retain, release, query},
    [GRAFT_VALUE_SIGMAS] = {"SIGMAS", retain, release, query},
    [GRAFT_VALUE_FLOATS] = {"FLOATS", retain, release, query},
    [GRAFT_VALUE_HOOKS] = {"HOOKS", retain, release, query},
    [GRAFT_VALUE_HOOK_KEYFRAMES] = {"HOOK_KEYFRAMES", retain, release, query},
    [GRAFT_VALUE_TIMESTEPS_RANGE] = {"TIMESTEPS_RANGE", retain, release, query},
    [GRAFT_VALUE_SAMPLER] = {"SAMPLER", retain, release, query},
    [GRAFT_VALUE_NOISE] = {"NOISE", retain, release, query},
    [GRAFT_VALUE_GUIDER] = {"GUIDER", retain, release, query},
    [GRAFT_VALUE_QUANTIZATION_BOOSTER] = {"QuantizationBooster", retain, release, query},
    [GRAFT_VALUE_DEEPCACHE_BOOSTER] = {"DeepCacheBooster", retain, release, query},
    [GRAFT_VALUE_TORCHCOMPILE_BOOSTER] = {"TorchCompileBooster", retain, release, query},
    [GRAFT_VALUE_CUSTOM_BOOSTER] = {"CUSTOM_BOOSTER", retain, release, query},
};

graft_value_kind graft_value_kind_of(const char *type)
{
    int k = 0;
    while (k < GRAFT_VALUE_KINDS && strcmp(type, ops[k].type) != 0) k++;
    return (graft_value_kind)k;
}

/* Publishes the object's samples; models and prompts have none. */
static void describe(object *o)
{
    graft_tensor *t = &o->tensor;
    const float *data = NULL;
    int64_t shape[5];
    int ndim = o->kind == GRAFT_VALUE_MASK ? 3 : 4;
    if (o->kind == GRAFT_VALUE_LATENT) data = graft_latent_data(o->inner, shape);
    if (o->kind == GRAFT_VALUE_LATENT && graft_latent_layers(o->inner) > 1) {
        shape[4] = shape[3];
        shape[3] = shape[2];
        shape[2] = graft_latent_layers(o->inner);
        shape[1] /= shape[2];
        ndim = 5;
    }
    if (o->kind == GRAFT_VALUE_IMAGE || o->kind == GRAFT_VALUE_MASK)
        data = graft_image_data(o->inner, shape);
    if (o->kind == GRAFT_VALUE_SIGMAS) {
        size_t n;
        data = graft_sigmas_data(o->inner, &n);
        shape[0] = (int64_t)n;
        ndim = 1;
    }
    if (!data) return;
    t->data = (void *)(uintptr_t)data; /* readers only: the header says that nobody writes */
    t->ndim = ndim;
    t->dtype_code = 2;
    t->dtype_bits = 32;
    t->dtype_lanes = 1;
    t->device_type = 1;
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->shape[i] = shape[i];
        t->stride[i] = stride;
        stride *= shape[i];
    }
}

graft_status graft_value_wrap(graft_value_kind kind, void *inner, graft_value **out, graft_err *e)
{
    assert(inner && kind < GRAFT_VALUE_KINDS);
    object *o = graft_calloc(1, sizeof *o);
    if (!o) {
        release_inner[kind](inner);
        return graft_fail_nomem(e, "a node's result");
    }
    o->value.ops = &ops[kind];
    o->kind = kind;
    o->inner = inner;
    atomic_init(&o->refs, 1);
    describe(o);
    *out = &o->value;
    return GRAFT_OK;
}

static graft_status check_place(const graft_tensor *t, graft_value_kind kind, graft_err *e)
{
    if (t->device_type == 1 && t->dtype_code == 2 && t->dtype_bits == 32 && t->dtype_lanes == 1)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "this %s of another plugin is not float32 in host memory", ops[kind].type);
}

/* Brings the shape to four dimensions and checks that the tensor is one that we can read. */
static graft_status check_shape(const graft_tensor *t, graft_value_kind kind, int64_t shape[4],
                                int64_t stride[4], graft_err *e)
{
    const char *type = ops[kind].type;
    int first = 0, want = 4;
    shape[0] = 1, stride[0] = 0;
    if (kind == GRAFT_VALUE_MASK) {
        want = 3;
        first = t->ndim == 2; /* a single mask without a batch axis */
        shape[3] = 1, stride[3] = 0;
    }
    if (t->ndim != want - first)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "this %s of another plugin has %d dimensions",
                          type, (int)t->ndim);
    for (int i = first; i < want; i++) {
        shape[i] = t->shape[i - first];
        stride[i] = t->stride[i - first];
        if (shape[i] < 1)
            return graft_fail(e, GRAFT_E_ARG, "this %s of another plugin is empty", type);
    }
    if (kind == GRAFT_VALUE_IMAGE && shape[3] != 1 && shape[3] != 3 && shape[3] != 4)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "this %s of another plugin has %lld channels",
                          type, (long long)shape[3]);
    return GRAFT_OK;
}

static graft_status copy_floats(const graft_tensor *t, graft_value_kind kind, graft_floats **out,
                                graft_err *e)
{
    const char *type = ops[kind].type;
    int64_t n = t->shape[0];
    if (t->ndim == 1 && n > GRAFT_SIGMAS_MAX)
        return graft_fail(e, GRAFT_E_LIMIT, "these %s of another plugin are too many: %lld", type,
                          (long long)n);
    if (t->ndim != 1 || n < 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "these %s of another plugin are not a list: %d dimensions", type,
                          (int)t->ndim);
    graft_floats *f = graft_malloc(sizeof *f + (size_t)n * sizeof f->value[0]);
    if (!f) return graft_fail_nomem(e, "a copy of another plugin's tensor");
    const float *from = t->data;
    f->n = (size_t)n;
    for (int64_t i = 0; i < n; i++) f->value[i] = from[i * t->stride[0]];
    *out = f;
    return GRAFT_OK;
}

static graft_status copy_list(const graft_tensor *t, graft_value_kind kind, void **out,
                              graft_err *e)
{
    graft_floats *f = NULL;
    graft_sigmas *sigmas = NULL;
    graft_status st = copy_floats(t, kind, &f, e);
    *out = f;
    if (st != GRAFT_OK || kind == GRAFT_VALUE_FLOATS) return st;
    st = graft_sigmas_from_data(f->value, f->n, &sigmas, e);
    *out = sigmas;
    graft_free(f);
    return st;
}

static void gather(float *dst, const float *src, const int64_t shape[4], const int64_t stride[4])
{
    for (int64_t n = 0; n < shape[0]; n++)
        for (int64_t y = 0; y < shape[1]; y++)
            for (int64_t x = 0; x < shape[2]; x++)
                for (int64_t c = 0; c < shape[3]; c++)
                    *dst++ = src[n * stride[0] + y * stride[1] + x * stride[2] + c * stride[3]];
}

static graft_status copy_pictures(const graft_tensor *t, graft_value_kind kind, void **out,
                                  graft_err *e)
{
    int64_t shape[4], stride[4], count;
    graft_status st = check_shape(t, kind, shape, stride, e);
    if (st != GRAFT_OK) return st;
    if (!graft_size_product(shape, 4, &count))
        return graft_fail(e, GRAFT_E_LIMIT, "this %s is too large", ops[kind].type);
    float *data = graft_malloc_array((size_t)count, sizeof *data);
    if (!data) return graft_fail_nomem(e, "a copy of another plugin's tensor");
    gather(data, t->data, shape, stride);
    if (kind == GRAFT_VALUE_LATENT) {
        graft_latent *latent = NULL;
        st = graft_latent_from_data(data, shape, &latent, e);
        *out = latent;
    } else {
        graft_image *image = NULL;
        st = graft_image_from_data(data, shape, kind == GRAFT_VALUE_MASK, &image, e);
        *out = image;
    }
    graft_free(data);
    return st;
}

static graft_status copy_in(const graft_tensor *t, graft_value_kind kind, graft_value **out,
                            graft_err *e)
{
    void *inner = NULL;
    graft_status st = check_place(t, kind, e);
    bool is_list = kind == GRAFT_VALUE_SIGMAS || kind == GRAFT_VALUE_FLOATS;
    if (st == GRAFT_OK)
        st = is_list ? copy_list(t, kind, &inner, e) : copy_pictures(t, kind, &inner, e);
    return st != GRAFT_OK ? st : graft_value_wrap(kind, inner, out, e);
}

graft_status graft_value_adopt(graft_value *v, graft_value_kind kind, graft_value **out,
                               graft_err *e)
{
    const object *o = v->ops->query(v, private_id);
    if (o && o->kind == kind) {
        retain(v);
        *out = v;
        return GRAFT_OK;
    }
    const graft_tensor *t = NULL;
    bool tensor_kind = kind == GRAFT_VALUE_LATENT || kind == GRAFT_VALUE_IMAGE ||
                       kind == GRAFT_VALUE_MASK || kind == GRAFT_VALUE_SIGMAS ||
                       kind == GRAFT_VALUE_FLOATS;
    if (tensor_kind && !o && strcmp(v->ops->type, ops[kind].type) == 0)
        t = v->ops->query(v, GRAFT_TENSOR_ID);
    if (t && t->data) return copy_in(t, kind, out, e);
    return graft_fail(e, GRAFT_E_ARG, "this %s is not a %s that Graft made or can read",
                      v->ops->type, ops[kind].type);
}

void *graft_value_object(const graft_value *v, graft_value_kind kind)
{
    const object *o = v->ops->query(v, private_id);
    assert(o && o->kind == kind);
    (void)kind;
    return o->inner;
}
