#include "tests/nodes/fake_trace.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

char fake_trace[4096];
int fake_live, fake_engines;
const char *fake_bad_clip;
graft_status fake_fail;
bool fake_wait_for_cancel, fake_vae_fits;

void fake_engine_reset(void)
{
    fake_trace[0] = 0;
    fake_fail = GRAFT_OK;
    fake_wait_for_cancel = false;
}

FAKE_OBJECT(model)
FAKE_OBJECT(clip)
FAKE_OBJECT(vae)
FAKE_OBJECT(cond)
FAKE_OBJECT(controlnet)
FAKE_OBJECT(upscaler)
FAKE_OBJECT(vision)
FAKE_OBJECT(vision_output)
FAKE_OBJECT(style)
FAKE_OBJECT(ip_adapter)
FAKE_OBJECT(gligen)

graft_status fake_make_cond(graft_cond **out, graft_err *e)
{
    return make_cond(out, e);
}

/* ------------------------------------------------------------------ engine and loading */

struct graft_engine {
    int unused;
};

graft_status graft_engine_create(const graft_engine_config *config, graft_engine **out,
                                 graft_err *e)
{
    graft_status st = due(e);
    if (st != GRAFT_OK) return st;
    *out = graft_malloc(sizeof **out);
    if (!*out) return graft_fail_nomem(e, "engine");
    fake_engines++;
    trace("engine cache=%s\n", config->cache_dir ? config->cache_dir : "none");
    return GRAFT_OK;
}

void graft_engine_release_unused(graft_engine *engine)
{
    (void)engine;
    trace("release\n");
}

void graft_engine_destroy(graft_engine *engine)
{
    if (engine) fake_engines--;
    graft_free(engine);
}

const char *const *graft_engine_backends(const graft_engine *engine)
{
    static const char *const names[] = {"cpu", "ref", NULL};
    (void)engine;
    return names;
}

graft_status graft_engine_describe(graft_engine *engine, const char *name, graft_engine_device *out,
                                   graft_err *e)
{
    (void)engine;
    if (out)
        *out = (graft_engine_device){.backend = "fake",
                                     .name = "a card",
                                     .own_memory = true,
                                     .memory_total = 2000,
                                     .memory_free = 500};
    return !name || strcmp(name, "cpu") == 0 ? due(e)
                                             : graft_fail(e, GRAFT_E_NOTFOUND, "no %s", name);
}

const char *graft_cache_folder(const graft_engine *engine)
{
    (void)engine;
    return "/fake/cache";
}

graft_status graft_cache_list(graft_engine *engine, bool verify, graft_cache_visit *visit,
                              void *ctx, graft_err *e)
{
    graft_status st = due(e);
    (void)engine;
    if (st != GRAFT_OK) return st;
    visit(ctx, "one", 1000, 1, true);
    visit(ctx, "two", 2000, 2, !verify);
    return GRAFT_OK;
}

bool graft_cache_old(const graft_engine *engine, const char *name)
{
    (void)engine, (void)name;
    return false;
}

graft_status graft_checkpoint_convert_int8(const char *from, const char *to, bool turned,
                                           graft_convert_info *info, graft_err *e)
{
    (void)from, (void)to, (void)turned, (void)info;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "no file is converted here");
}

graft_status graft_cache_clear(graft_engine *engine, uint64_t *count, graft_err *e)
{
    (void)engine;
    *count = 2;
    return due(e);
}

graft_status graft_checkpoint_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_model **model, graft_clip **clip, graft_vae **vae,
                                   graft_err *e)
{
    (void)engine;
    task->progress(task->ctx, 1, 1);
    trace("checkpoint %s\n", base_name(path));
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_status st = make_model(&m, e);
    if (st == GRAFT_OK) st = make_clip(&c, e);
    if (st == GRAFT_OK) st = make_vae(vae, e);
    if (st != GRAFT_OK) {
        graft_model_release(m);
        graft_clip_release(c);
        return st;
    }
    *model = m;
    *clip = c;
    return GRAFT_OK;
}

graft_status graft_model_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_model **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("model %s\n", base_name(path));
    return make_model(out, e);
}

graft_status graft_clip_load(graft_engine *engine, const char *const *paths, size_t n_paths,
                             const char *type, const graft_task *task, graft_clip **out,
                             graft_err *e)
{
    (void)engine, (void)task;
    trace("clip %s", type);
    for (size_t i = 0; i < n_paths; i++) trace(" %s", base_name(paths[i]));
    trace("\n");
    const char *bad = fake_bad_clip;
    fake_bad_clip = NULL;
    for (size_t i = 0; bad && i < n_paths; i++)
        if (strcmp(base_name(paths[i]), bad) == 0)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: planned", paths[i]);
    return make_clip(out, e);
}

graft_status graft_vae_load(graft_engine *engine, const char *path, const graft_task *task,
                            graft_vae **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("vae %s\n", base_name(path));
    return make_vae(out, e);
}

graft_status graft_vae_load_pair(graft_engine *engine, const char *encoder_path,
                                 const char *decoder_path, const graft_task *task, graft_vae **out,
                                 graft_err *e)
{
    (void)engine, (void)task;
    trace("vae %s and %s\n", base_name(encoder_path), base_name(decoder_path));
    return make_vae(out, e);
}

bool graft_vae_is_for(const graft_vae *v, const graft_model *m)
{
    (void)v, (void)m;
    return fake_vae_fits;
}

graft_status graft_controlnet_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_controlnet **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("controlnet %s\n", base_name(path));
    return make_controlnet(out, e);
}

graft_status graft_controlnet_load_diff(graft_engine *engine, const char *path,
                                        const graft_model *m, const graft_task *task,
                                        graft_controlnet **out, graft_err *e)
{
    (void)engine, (void)m, (void)task;
    trace("controlnet diff %s\n", base_name(path));
    return make_controlnet(out, e);
}

graft_status graft_controlnet_with_type(const graft_controlnet *n, const char *type,
                                        const graft_task *task, graft_controlnet **out,
                                        graft_err *e)
{
    (void)n, (void)task;
    trace("controlnet type %s\n", type);
    return make_controlnet(out, e);
}

graft_status graft_model_patch_load(graft_engine *engine, const char *path, const graft_task *task,
                                    graft_controlnet **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("model patch %s\n", base_name(path));
    return make_controlnet(out, e);
}

graft_status graft_model_control(const graft_model *m, const graft_model_control_options *o,
                                 graft_model **out, graft_err *e)
{
    const graft_image *const given[] = {o->hint, o->inpaint, o->mask};
    int64_t width[3] = {0}, s[4];
    (void)m;
    for (int i = 0; i < 3; i++) {
        if (!given[i]) continue;
        graft_image_data(given[i], s);
        width[i] = s[2];
    }
    trace("model control %g hint=%lld inpaint=%lld mask=%lld net=%d vae=%d\n", o->strength,
          (long long)width[0], (long long)width[1], (long long)width[2], o->net != NULL,
          o->vae != NULL);
    return make_model(out, e);
}

graft_status graft_upscaler_load(graft_engine *engine, const char *path, const graft_task *task,
                                 graft_upscaler **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("upscaler %s\n", base_name(path));
    return make_upscaler(out, e);
}

#define LOADER(T)                                                                                  \
    graft_status graft_##T##_load(graft_engine *engine, const char *path, const graft_task *task,  \
                                  graft_##T **out, graft_err *e)                                   \
    {                                                                                              \
        (void)engine, (void)task;                                                                  \
        trace(#T " %s\n", base_name(path));                                                        \
        return make_##T(out, e);                                                                   \
    }
LOADER(vision)
LOADER(style)
LOADER(ip_adapter)
LOADER(gligen)

graft_status graft_cond_box(const graft_cond *c, const graft_clip *clip, graft_gligen *gligen,
                            const char *text, const graft_area *box, const graft_task *task,
                            graft_cond **out, graft_err *e)
{
    (void)c, (void)clip, (void)gligen, (void)task;
    trace("box \"%s\" %gx%g at %g,%g%s\n", text, box->width, box->height, box->x, box->y,
          box->shares ? " shares" : "");
    return make_cond(out, e);
}

graft_status graft_model_show(const graft_model *m, const graft_ip_adapter *a,
                              const graft_show_options *o, const graft_task *task,
                              graft_model **out, graft_err *e)
{
    int64_t s[4], others[4] = {0};
    (void)m, (void)a, (void)task;
    graft_image_data(o->image, s);
    if (o->negative) graft_image_data(o->negative, others);
    trace("show %lld against %lld x %g [%g,%g]%s\n", (long long)s[2], (long long)others[2],
          o->weight, o->start, o->end, o->mask ? " masked" : "");
    return make_model(out, e);
}

graft_status graft_vision_encode(const graft_vision *v, const graft_image *image, bool center,
                                 const graft_task *task, graft_vision_output **out, graft_err *e)
{
    int64_t s[4];
    (void)v, (void)task;
    graft_image_data(image, s);
    trace("see %lldx%lld%s\n", (long long)s[2], (long long)s[1], center ? " center" : "");
    return make_vision_output(out, e);
}

graft_status graft_cond_show(const graft_cond *c, const graft_vision_output *seen, double strength,
                             double noise, graft_cond **out, graft_err *e)
{
    (void)c, (void)seen;
    trace("show x %g, noise %g\n", strength, noise);
    return make_cond(out, e);
}

graft_status graft_style_apply(const graft_style *s, const graft_cond *c,
                               const graft_vision_output *seen, double strength,
                               const graft_task *task, graft_cond **out, graft_err *e)
{
    (void)s, (void)c, (void)seen, (void)task;
    trace("style x %g\n", strength);
    return make_cond(out, e);
}

graft_status graft_cond_control(const graft_cond *positive, const graft_cond *negative,
                                const graft_control_options *o, graft_cond **out_positive,
                                graft_cond **out_negative, graft_err *e)
{
    int64_t shape[4];
    graft_cond *p = NULL;
    (void)positive;
    graft_image_data(o->hint, shape);
    trace("control %g [%g,%g] hint=%lld pair=%d everywhere=%d net=%d vae=%d mask=%d\n", o->strength,
          o->start, o->end, (long long)shape[2], negative != NULL, o->everywhere, o->net != NULL,
          o->vae != NULL, o->mask != NULL);
    graft_status st = make_cond(&p, e);
    if (st == GRAFT_OK && negative) st = make_cond(out_negative, e);
    if (st != GRAFT_OK)
        graft_cond_release(p);
    else
        *out_positive = p;
    return st;
}

/* ------------------------------------------------------------------ options */

graft_status fake_make_clip(graft_clip **out, graft_err *e)
{
    return make_clip(out, e);
}

graft_status fake_make_model(graft_model **out, graft_err *e)
{
    return make_model(out, e);
}

graft_status graft_model_rescale_cfg(const graft_model *m, double multiplier, graft_model **out,
                                     graft_err *e)
{
    (void)m;
    trace("rescale %g\n", multiplier);
    return make_model(out, e);
}

graft_status graft_model_change_cfg(const graft_model *m, const graft_cfg_change *change,
                                    graft_model **out, graft_err *e)
{
    (void)m;
    trace("cfg %d %g %g %g\n", (int)change->kind, change->strength, change->limit,
          change->momentum);
    return make_model(out, e);
}

graft_status graft_model_operate_cfg(const graft_model *m, const graft_latent_operation *operation,
                                     double start, double end, graft_model **out, graft_err *e)
{
    (void)m;
    trace("operate %d %g %lld %g %g from %g to %g\n", (int)operation->kind, operation->multiplier,
          (long long)operation->radius, operation->sigma, operation->alpha, start, end);
    return make_model(out, e);
}

graft_status graft_model_override_cfg(const graft_model *m, const graft_cfg_override *o,
                                      graft_model **out, graft_err *e)
{
    (void)m;
    trace("cfg %g from %g to %g\n", o->cfg, o->start, o->end);
    return make_model(out, e);
}

graft_status graft_model_perp_neg(const graft_model *m, const graft_cond *empty, double scale,
                                  graft_model **out, graft_err *e)
{
    (void)m;
    trace("perp neg %d %g\n", empty != NULL, scale);
    return make_model(out, e);
}

graft_status graft_model_differential(const graft_model *m, double strength, graft_model **out,
                                      graft_err *e)
{
    (void)m;
    trace("differential %g\n", strength);
    return make_model(out, e);
}

graft_status graft_model_self_attention(const graft_model *m, double scale, double blur_sigma,
                                        graft_model **out, graft_err *e)
{
    (void)m;
    trace("self-attention %g %g\n", scale, blur_sigma);
    return make_model(out, e);
}

graft_status graft_model_perturbed_attention(const graft_model *m, double scale, graft_model **out,
                                             graft_err *e)
{
    (void)m;
    trace("perturbed %g\n", scale);
    return make_model(out, e);
}

graft_status graft_model_hypertile(const graft_model *m, const graft_hypertile_options *o,
                                   graft_model **out, graft_err *e)
{
    (void)m;
    trace("hypertile %lld %lld %lld %d\n", (long long)o->tile_size, (long long)o->swap_size,
          (long long)o->max_depth, o->scale_depth);
    return make_model(out, e);
}

graft_status graft_model_merge_tokens(const graft_model *m, double ratio, graft_model **out,
                                      graft_err *e)
{
    (void)m;
    trace("merge tokens %g\n", ratio);
    return make_model(out, e);
}

graft_status graft_model_easycache(const graft_model *m, const graft_easycache_options *o,
                                   graft_model **out, graft_err *e)
{
    (void)m;
    trace("easycache %g [%g,%g] %d\n", o->threshold, o->start, o->end, o->verbose);
    return make_model(out, e);
}

graft_status graft_model_downscale(const graft_model *m, const graft_downscale_options *o,
                                   graft_model **out, graft_err *e)
{
    (void)m;
    trace("downscale %lld by %g [%g,%g] %d %s %s\n", (long long)o->block_number, o->factor,
          o->start, o->end, o->after_skip, o->down_method, o->up_method);
    return make_model(out, e);
}

graft_status graft_model_freeu(const graft_model *m, const graft_freeu_options *o,
                               graft_model **out, graft_err *e)
{
    (void)m;
    trace("freeu %lld b %g %g s %g %g\n", (long long)o->version, o->b1, o->b2, o->s1, o->s2);
    return make_model(out, e);
}

static void trace_options(const char *what, const graft_compile_options *o)
{
    trace("%s %s %s %s memory=%lld cache=%d tile=%d %lldx%lldx%lld\n", what, o->precision,
          o->tuning, o->device, (long long)o->max_memory_mb, o->cache, o->tile, (long long)o->width,
          (long long)o->height, (long long)o->batch_size);
}

graft_status graft_model_compile(const graft_model *m, const graft_compile_options *options,
                                 const graft_task *task, graft_model **out, graft_err *e)
{
    (void)m, (void)task;
    trace_options("compile model", options);
    return make_model(out, e);
}

graft_status graft_vae_compile(const graft_vae *v, const graft_compile_options *options,
                               const graft_task *task, graft_vae **out, graft_err *e)
{
    (void)v, (void)task;
    trace_options("compile vae", options);
    return make_vae(out, e);
}

graft_status graft_model_deepcache(const graft_model *m, const graft_deepcache_options *o,
                                   graft_model **out, graft_err *e)
{
    (void)m;
    trace("deepcache %lld %lld.%lld [%lld,%lld) %s %g%s\n", (long long)o->cache_interval,
          (long long)o->cache_layer_id, (long long)o->cache_block_id, (long long)o->start_step,
          (long long)o->end_step, o->schedule, o->max_error, o->outermost ? " outermost" : "");
    return make_model(out, e);
}

graft_status graft_model_quantize(const graft_model *m, const graft_quantize_options *o,
                                  const graft_task *task, graft_model **out, char **report,
                                  graft_err *e)
{
    (void)m, (void)task;
    const char *slash = o->plan_path ? strrchr(o->plan_path, '/') : NULL;
    trace("quantize %lld conv=%d,%g linear=%d,%g density=%lld two=%d latent=%d steps=%lld cfg=%g "
          "seed=%llu plan=%s again=%d\n",
          (long long)o->bits, o->conv, o->conv_mse_threshold, o->linear, o->linear_mse_threshold,
          (long long)o->compute_density_threshold, o->positive != o->negative, o->latent != NULL,
          (long long)o->steps, o->cfg, (unsigned long long)o->seed, slash ? slash + 1 : "none",
          o->recalibrate);
    if (o->format && strcmp(o->format, "int") != 0) trace("format=%s\n", o->format);
    if (o->attention) trace("attention=%g\n", o->attention_mse_threshold);
    graft_model *q = NULL;
    graft_status st = make_model(&q, e);
    if (st != GRAFT_OK) return st;
    if (report) *report = graft_strdup("a \"report\"");
    if (report && !*report) {
        graft_model_release(q);
        return graft_fail_nomem(e, "report");
    }
    *out = q;
    return GRAFT_OK;
}

graft_status graft_model_save_quantized(const graft_model *m, const char *path,
                                        const graft_task *task, graft_err *e)
{
    (void)m, (void)task;
    const char *slash = strrchr(path, '/');
    if (graft_file_exists(path)) return graft_fail(e, GRAFT_E_ARG, "%s: exists", path);
    trace("save_quantized %s\n", slash ? slash + 1 : path);
    return due(e);
}

graft_status graft_model_quantization(const graft_model *m, char **json, graft_image **picture,
                                      graft_err *e)
{
    (void)m;
    graft_status st = graft_image_empty(4, 2, 1, 0xff0000, picture, e);
    if (st != GRAFT_OK) return st;
    *json = graft_strdup("{\"layers\":[]}");
    if (*json) return GRAFT_OK;
    graft_image_release(*picture);
    *picture = NULL;
    return graft_fail_nomem(e, "plan");
}

graft_status graft_model_swap(const graft_model *m, const char *path, bool keep,
                              const graft_task *task, graft_model **out, graft_err *e)
{
    (void)m, (void)task;
    trace("swap %s keep=%d\n", base_name(path), keep);
    return make_model(out, e);
}

graft_status graft_model_hypernetwork(const graft_model *m, const char *path, double strength,
                                      const graft_task *task, graft_model **out, graft_err *e)
{
    (void)m, (void)task;
    trace("hypernetwork %s %g\n", base_name(path), strength);
    return make_model(out, e);
}

graft_status graft_lora_apply(const graft_model *m, const graft_clip *c, const char *path,
                              double strength_model, double strength_clip, const graft_task *task,
                              graft_model **out_m, graft_clip **out_c, graft_err *e)
{
    (void)m, (void)c, (void)task;
    trace("lora %s %g %g clip=%d\n", base_name(path), strength_model, strength_clip, c != NULL);
    graft_model *model = NULL;
    graft_status st = make_model(&model, e);
    if (st == GRAFT_OK && out_c) st = make_clip(out_c, e);
    if (st != GRAFT_OK)
        graft_model_release(model);
    else
        *out_m = model;
    return st;
}

graft_status graft_model_report(const graft_model *m, const graft_vae *v, const graft_clip *c,
                                char **text, graft_image **picture, graft_err *e)
{
    trace("report model=%d vae=%d clip=%d\n", m != NULL, v != NULL, c != NULL);
    graft_status st = due(e);
    if (st == GRAFT_OK) st = graft_image_empty(4, 2, 1, 0xff0000, picture, e);
    if (st != GRAFT_OK) return st;
    *text = graft_strdup("line \"one\"\nline two");
    if (*text) return GRAFT_OK;
    graft_image_release(*picture);
    *picture = NULL;
    return graft_fail_nomem(e, "report");
}

void graft_text_free(char *text)
{
    graft_free(text);
}

/* ------------------------------------------------------------------ prompts */

graft_status graft_cond_guidance(const graft_cond *c, double guidance, graft_cond **out,
                                 graft_err *e)
{
    (void)c;
    trace("guidance %g\n", guidance);
    return make_cond(out, e);
}

graft_status graft_cond_untold(const graft_cond *c, graft_cond **out, graft_err *e)
{
    (void)c;
    trace("untold\n");
    return make_cond(out, e);
}

graft_status graft_clip_set_last_layer(const graft_clip *c, int64_t layer, graft_clip **out,
                                       graft_err *e)
{
    (void)c;
    trace("last_layer %lld\n", (long long)layer);
    return make_clip(out, e);
}

graft_status graft_clip_t5_options(const graft_clip *c, int64_t more, int64_t least,
                                   graft_clip **out, graft_err *e)
{
    (void)c;
    trace("t5 padding %lld %lld\n", (long long)more, (long long)least);
    return make_clip(out, e);
}

graft_status graft_cond_combine(const graft_cond *a, const graft_cond *b, graft_cond **out,
                                graft_err *e)
{
    trace("combine %d\n", a != b);
    return make_cond(out, e);
}

graft_status graft_cond_concat(const graft_cond *to, const graft_cond *from, graft_cond **out,
                               graft_err *e)
{
    trace("concat %d\n", to != from);
    return make_cond(out, e);
}

graft_status graft_cond_average(const graft_cond *to, const graft_cond *from, double strength,
                                graft_cond **out, graft_err *e)
{
    trace("average %d %g\n", to != from, strength);
    return make_cond(out, e);
}

graft_status graft_cond_timestep_range(const graft_cond *c, double start, double end,
                                       graft_cond **out, graft_err *e)
{
    (void)c;
    trace("range %g %g\n", start, end);
    return make_cond(out, e);
}

graft_status graft_cond_area(const graft_cond *c, const graft_area *a, double strength,
                             graft_cond **out, graft_err *e)
{
    (void)c;
    trace("area %g x %g at %g, %g %s %g\n", a->width, a->height, a->x, a->y,
          a->shares ? "shares" : "pixels", strength);
    return make_cond(out, e);
}

graft_status graft_cond_strength(const graft_cond *c, double strength, graft_cond **out,
                                 graft_err *e)
{
    (void)c;
    trace("strength %g\n", strength);
    return make_cond(out, e);
}

graft_status graft_cond_mask(const graft_cond *c, const graft_image *mask, double strength,
                             bool bounds, graft_cond **out, graft_err *e)
{
    (void)c;
    trace("mask %d %g bounds=%d\n", graft_image_is_mask(mask), strength, bounds);
    return make_cond(out, e);
}

graft_status graft_cond_inpaint(const graft_cond *c, const graft_latent *known, graft_cond **out,
                                graft_err *e)
{
    (void)c, (void)known;
    trace("inpaint\n");
    return make_cond(out, e);
}

graft_status graft_cond_picture(const graft_cond *c, const graft_latent *picture, graft_cond **out,
                                graft_err *e)
{
    (void)c, (void)picture;
    trace("picture\n");
    return make_cond(out, e);
}

graft_status graft_cond_reference(const graft_cond *c, const graft_latent *picture,
                                  graft_cond **out, graft_err *e)
{
    (void)c, (void)picture;
    trace("reference\n");
    return make_cond(out, e);
}

graft_status graft_cond_place_references(const graft_cond *c, graft_placing how, graft_cond **out,
                                         graft_err *e)
{
    (void)c;
    trace("references placed %d\n", how);
    return make_cond(out, e);
}

graft_status graft_cond_zero_out(const graft_cond *c, graft_cond **out, graft_err *e)
{
    (void)c;
    trace("zero_out\n");
    return make_cond(out, e);
}
