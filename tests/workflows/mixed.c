/* Everything together: random workflows out of what changes a model, each drawn once by a session
 * of its own, plain, and then again and again by one session that keeps everything, in another
 * order, compiled, with swapped weights, interrupted, several at once. Pictures must be the same
 * bits.
 *
 * GRAFT_MIXED_SEED, GRAFT_MIXED_RECIPES, GRAFT_MIXED_RUNS and GRAFT_MIXED_THREADS make it a longer
 * search. What differs is printed as prompts that `graft run` takes. */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/tree.h"
#include "host/prompt/validate.h"
#include "host/run/executor.h"
#include "host/session/session.h"

/* ------------------------------------------------------------------ chance */

typedef struct chance {
    uint64_t state;
} chance;

static uint64_t draw(chance *c)
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int below(chance *c, int n)
{
    return (int)(draw(c) % (uint64_t)n);
}

static bool one_in(chance *c, int n)
{
    return below(c, n) == 0;
}

#define ONE_OF(c, list) ((list)[below(c, (int)(sizeof(list) / sizeof *(list)))])

/* ------------------------------------------------------------------ what is drawn */

/* What changes a model, in the order in which it is plain. Those before RESCALE change weights, and
 * stay in this order. */
typedef enum change {
    LORA,
    MERGE,
    LORA_ON_TOP,
    RESCALE,
    FREEU,
    TILES,
    DEEP,
    EASY,
    PERTURBED,
    ITSELF,
    DOWNSCALE,
    PICTURE,
    QUANTIZED,
    CHANGES
} change;

typedef struct recipe {
    const struct kit *kit;
    int checkpoint; /* 0, 1 */
    bool has[CHANGES];
    char node[CHANGES][400]; /* class and inputs but the model */
    char control[200];       /* strength and range; empty: none */
    char prompts[3][120];    /* positive, negative, a second positive one; or "" */
    char area[200];          /* of the second one; or "" */
    int width, height, batch;
    char sampler[200];
    char again[200]; /* of a second sampler on the latent, enlarged; or "" */
    bool masked;
} recipe;

/* Files of one architecture. */
static const struct kit {
    const char *checkpoint[2];
    const char *lora; /* NULL: there is none */
    const char *control, *adapter;
} kits[] = {{{"tiny-sd1.safetensors", "tiny-sd1-b.safetensors"},
             "tiny-sd1-lora.safetensors",
             "tiny-sd1-control.safetensors",
             "tiny-sd1-ip.safetensors"},
            {{"tiny-sdxl.safetensors", "tiny-sdxl.safetensors"},
             NULL,
             "tiny-sdxl-control.safetensors",
             "tiny-sdxl-ip-plus.safetensors"}};

#define SET(r, what, c, ...)                                                                       \
    set_change(r, what, snprintf((r)->node[what], sizeof *(r)->node, __VA_ARGS__))

static void set_change(recipe *r, change what, int length)
{
    CHECK(length > 0 && length < (int)sizeof *r->node);
    r->has[what] = true;
}

static void draw_weights(recipe *r, chance *c)
{
    static const char *const strengths[] = {"1", "0.5", "-0.75", "0"};
    static const char *const ratios[] = {"0.3", "0.5", "1", "0"};
    if (r->kit->lora && one_in(c, 3))
        SET(r, LORA, c, "'LoraLoaderModelOnly','inputs':{'lora_name':'%s','strength_model':%s",
            r->kit->lora, ONE_OF(c, strengths));
    if (one_in(c, 5))
        SET(r, MERGE, c, "'ModelMergeSimple','inputs':{'model2':['other',0],'ratio':%s",
            ONE_OF(c, ratios));
    if (r->kit->lora && one_in(c, 6))
        SET(r, LORA_ON_TOP, c,
            "'LoraLoaderModelOnly','inputs':{'lora_name':'%s','strength_model':%s", r->kit->lora,
            ONE_OF(c, strengths));
}

static void draw_speed(recipe *r, chance *c)
{
    static const char *const schedules[] = {"uniform", "quadratic"};
    static const char *const cuts[] = {"block", "outermost"};
    static const char *const errors[] = {"0", "0", "0.05", "0.5"};
    const int layer = below(c, 2);
    if (one_in(c, 4))
        SET(r, TILES, c,
            "'HyperTile','inputs':{'tile_size':%d,'swap_size':%d,'max_depth':%d,'scale_depth':%s",
            one_in(c, 2) ? 32 : 48, 1 + below(c, 4), below(c, 3), one_in(c, 2) ? "true" : "false");
    if (one_in(c, 4))
        SET(r, DEEP, c,
            "'DeepCache','inputs':{'cache_interval':%d,'cache_layer_id':%d,'cache_block_id':%d,"
            "'start_step':%d,'end_step':%d,'schedule':'%s','max_error':%s,'cut':'%s'",
            1 + below(c, 3), layer, layer ? 0 : below(c, 2), below(c, 2), one_in(c, 2) ? 1000 : 3,
            ONE_OF(c, schedules), ONE_OF(c, errors), ONE_OF(c, cuts));
    if (one_in(c, 5))
        SET(r, EASY, c,
            "'EasyCache','inputs':{'reuse_threshold':%s,'start_percent':0,'end_percent':1,"
            "'verbose':false",
            one_in(c, 2) ? "0.3" : "3");
    if (!r->has[DEEP] && one_in(c, 6))
        SET(r, DOWNSCALE, c,
            "'PatchModelAddDownscale','inputs':{'block_number':%d,'downscale_factor':%s,"
            "'start_percent':0,'end_percent':%s,'downscale_after_skip':%s,"
            "'downscale_method':'bicubic','upscale_method':'bicubic'",
            1 + below(c, 3), one_in(c, 2) ? "2" : "1.5", one_in(c, 2) ? "0.35" : "1",
            one_in(c, 2) ? "true" : "false");
    if (one_in(c, 5))
        SET(r, QUANTIZED, c,
            "'QuantizeModel','inputs':{'bits':%d,'quantize_conv':'%s','quantize_linear':'enable',"
            "'conv_mse_threshold':1,'linear_mse_threshold':1,'compute_density_threshold':%d,"
            "'steps':0,'cfg':8,'seed':0,'plan_name':'','recalibrate':'disable','format':'%s',"
            "'quantize_attention':'%s','attention_mse_threshold':1",
            one_in(c, 3) ? 4 : 8, one_in(c, 2) ? "enable" : "disable", one_in(c, 2) ? 0 : 2, "int",
            one_in(c, 2) ? "enable" : "disable");
}

static void draw_guidance(recipe *r, chance *c)
{
    if (one_in(c, 5))
        SET(r, RESCALE, c, "'RescaleCFG','inputs':{'multiplier':%s", one_in(c, 2) ? "0.7" : "0");
    if (one_in(c, 4))
        SET(r, FREEU, c, "'%s','inputs':{'b1':1.%d,'b2':1.4,'s1':0.9,'s2':0.2",
            one_in(c, 2) ? "FreeU" : "FreeU_V2", below(c, 4));
    if (one_in(c, 6))
        SET(r, PERTURBED, c, "'PerturbedAttentionGuidance','inputs':{'scale':%d", below(c, 3));
    if (!r->has[DEEP] && !r->has[EASY] && one_in(c, 8))
        SET(r, ITSELF, c, "'SelfAttentionGuidance','inputs':{'scale':0.5,'blur_sigma':%d",
            below(c, 3));
    if (one_in(c, 5))
        SET(r, PICTURE, c,
            "'IPAdapter','inputs':{'ipadapter':['adapter',0],'image':['image',0],"
            "'clip_vision':['vision',0],'weight':%s,'start_at':%s,'end_at':%s,"
            "'weight_type':'standard'",
            one_in(c, 2) ? "1" : "0.4", one_in(c, 3) ? "0.3" : "0", one_in(c, 3) ? "0.6" : "1");
    if (!r->has[DOWNSCALE] && one_in(c, 4))
        snprintf(r->control, sizeof r->control, "'strength':%s,'start_percent':%s,'end_percent':%s",
                 one_in(c, 2) ? "1" : "0.3", one_in(c, 3) ? "0.4" : "0",
                 one_in(c, 3) ? "0.5" : "1");
}

static void draw_prompts(recipe *r, chance *c)
{
    static const char *const texts[] = {"red apple, 3d", "robot, flat", "",
                                        "a (very:1.3) long one"};
    for (int i = 0; i < 2; i++) snprintf(r->prompts[i], sizeof *r->prompts, "%s", ONE_OF(c, texts));
    if (!one_in(c, 4)) return;
    snprintf(r->prompts[2], sizeof *r->prompts, "%s", ONE_OF(c, texts));
    if (one_in(c, 2))
        snprintf(r->area, sizeof r->area,
                 "'ConditioningSetAreaPercentage','inputs':{'width':0.%d,'height':0.%d,'x':0.%d,"
                 "'y':0,'strength':1",
                 3 + below(c, 6), 3 + below(c, 6), below(c, 4));
    else
        snprintf(r->area, sizeof r->area,
                 "'ConditioningSetTimestepRange','inputs':{'start':0.%d,'end':1", below(c, 6));
}

static void draw_recipe(recipe *r, chance *c)
{
    static const char *const samplers[] = {"euler",       "euler_ancestral", "dpmpp_2m", "heun",
                                           "ddim",        "dpmpp_sde",       "lcm",      "uni_pc",
                                           "euler_cfg_pp"};
    static const char *const schedulers[] = {"normal", "karras", "simple", "sgm_uniform"};
    static const char *const cfg[] = {"1", "3", "7.5", "7.5"};
    static const int sides[] = {32, 40, 48, 64};
    memset(r, 0, sizeof *r);
    r->kit = &kits[one_in(c, 4)];
    r->checkpoint = below(c, 2);
    draw_weights(r, c);
    draw_speed(r, c);
    draw_guidance(r, c);
    draw_prompts(r, c);
    r->width = ONE_OF(c, sides);
    r->height = ONE_OF(c, sides);
    r->batch = one_in(c, 3) ? 2 : 1;
    snprintf(r->sampler, sizeof r->sampler,
             "'seed':%d,'steps':%d,'cfg':%s,'sampler_name':'%s','scheduler':'%s','denoise':%s",
             below(c, 3), 2 + below(c, 4), ONE_OF(c, cfg), ONE_OF(c, samplers),
             ONE_OF(c, schedulers), one_in(c, 4) ? "0.6" : "1");
    r->masked = one_in(c, 8);
    if (one_in(c, 5))
        snprintf(r->again, sizeof r->again,
                 "'seed':1,'steps':2,'cfg':3,'sampler_name':'euler','scheduler':'normal',"
                 "'denoise':0.5");
}

/* ------------------------------------------------------------------ how it is drawn */

/* The steps of a model's chain: changes, and what must change nothing. */
enum { COMPILED = CHANGES, SWAPPED, STEPS };

typedef struct form {
    int step[STEPS]; /* in this order, n of them */
    int n;
    int from; /* the checkpoint that is loaded */
    char compile[300], swap[200];
    bool limited; /* memory may be too short */
} form;

static void plain_form(const recipe *r, form *f)
{
    *f = (form){.from = r->checkpoint};
    for (int i = 0; i < CHANGES; i++)
        if (r->has[i]) f->step[f->n++] = i;
}

static bool changes_weights(int step)
{
    return step < RESCALE || step == SWAPPED;
}

/* Moves a step to a place where it does the same. */
static void shuffle(form *f, chance *c)
{
    for (int k = 0; k < 3 * f->n; k++) {
        const int i = f->n > 1 ? below(c, f->n - 1) : 0;
        if (f->n < 2) return;
        const int a = f->step[i], b = f->step[i + 1];
        const bool weights = changes_weights(a) && changes_weights(b);
        /* LoRAs survive a swap, merges do not. */
        const bool lora = (a == SWAPPED && b == LORA) || (a == LORA && b == SWAPPED);
        if (weights && !lora) continue;
        f->step[i] = b;
        f->step[i + 1] = a;
    }
}

static void put_first(form *f, int step)
{
    memmove(f->step + 1, f->step, (size_t)f->n * sizeof *f->step);
    f->step[0] = step;
    f->n++;
}

static void draw_form(const recipe *r, chance *c, form *f)
{
    plain_form(r, f);
    if (one_in(c, 2)) {
        f->from = below(c, 2);
        snprintf(f->swap, sizeof f->swap,
                 "'SwapWeights','inputs':{'ckpt_name':'%s','keep_resident':'%s'",
                 r->kit->checkpoint[r->checkpoint], one_in(c, 2) ? "enable" : "disable");
        put_first(f, SWAPPED);
    }
    if (one_in(c, 2)) {
        f->limited = one_in(c, 3);
        snprintf(f->compile, sizeof f->compile,
                 "'CompileModel','inputs':{'precision':'auto','tuning':'off','max_memory_mb':%d,"
                 "'device':'auto','cache':'%s','width':%d,'height':%d,'batch_size':%d",
                 f->limited ? 1 + below(c, 12) : 0, one_in(c, 2) ? "enable" : "disable",
                 one_in(c, 2) ? r->width : 0, r->height, r->batch);
        put_first(f, COMPILED);
    }
    shuffle(f, c);
}

static void add_prompt(graft_str *s, const char *id, const char *text)
{
    graft_str_printf(
        s, "'%s':{'class_type':'CLIPTextEncode','inputs':{'clip':['words',1],'text':'%s'}},", id,
        text);
}

static void add_conditioning(graft_str *s, const recipe *r, const char **positive)
{
    *positive = "positive";
    add_prompt(s, "positive", r->prompts[0]);
    add_prompt(s, "negative", r->prompts[1]);
    if (r->area[0]) {
        add_prompt(s, "second", r->prompts[2]);
        graft_str_printf(s,
                         "'placed':{'class_type':%s,'conditioning':['second',0]}},"
                         "'both':{'class_type':'ConditioningCombine','inputs':{"
                         "'conditioning_1':['positive',0],'conditioning_2':['placed',0]}},",
                         r->area);
        *positive = "both";
    }
    if (!r->control[0]) return;
    graft_str_printf(s,
                     "'net':{'class_type':'ControlNetLoader','inputs':{"
                     "'control_net_name':'%s'}},"
                     "'steered':{'class_type':'ControlNetApplyAdvanced','inputs':{"
                     "'positive':['%s',0],'negative':['negative',0],'control_net':['net',0],"
                     "'image':['image',0],%s}},",
                     r->kit->control, *positive, r->control);
    *positive = "steered";
}

static const char *text_of(const recipe *r, const form *f, int step)
{
    return step == COMPILED ? f->compile : step == SWAPPED ? f->swap : r->node[step];
}

static void add_files(graft_str *s, const recipe *r, const form *f)
{
    const char *const *file = r->kit->checkpoint;
    graft_str_printf(s,
                     "'load':{'class_type':'CheckpointLoaderSimple','inputs':{'ckpt_name':'%s'}},"
                     "'words':{'class_type':'CheckpointLoaderSimple','inputs':{'ckpt_name':'%s'}},"
                     "'other':{'class_type':'CheckpointLoaderSimple','inputs':{'ckpt_name':'%s'}},"
                     "'image':{'class_type':'LoadImage','inputs':{'image':'outline.png'}},"
                     "'vision':{'class_type':'CLIPVisionLoader','inputs':{"
                     "'clip_name':'tiny-clip-vision.safetensors'}},"
                     "'adapter':{'class_type':'IPAdapterModelLoader','inputs':{"
                     "'ipadapter_file':'%s'}},",
                     file[f->from], file[r->checkpoint], file[!r->checkpoint], r->kit->adapter);
}

/* Returns the name of the node that has it. */
static const char *add_latent(graft_str *s, const recipe *r)
{
    graft_str_printf(s,
                     "'empty':{'class_type':'EmptyLatentImage','inputs':{'width':%d,'height':%d,"
                     "'batch_size':%d}},",
                     r->width, r->height, r->batch);
    if (!r->masked) return "empty";
    graft_str_printf(s,
                     "'mask':{'class_type':'SolidMask','inputs':{'value':1,'width':%d,"
                     "'height':8}},'masked':{'class_type':'SetLatentNoiseMask','inputs':{"
                     "'samples':['empty',0],'mask':['mask',0]}},",
                     r->width);
    return "masked";
}

static void add_sampler(graft_str *s, const recipe *r, const char *id, const char *model,
                        const char *positive, const char *latent, const char *numbers)
{
    graft_str_printf(s,
                     "'%s':{'class_type':'KSampler','inputs':{'model':['%s',0],"
                     "'positive':['%s',0],'negative':['%s',%d],'latent_image':['%s',0],%s}},",
                     id, model, positive, r->control[0] ? "steered" : "negative",
                     r->control[0] != 0, latent, numbers);
}

/* The prompt as JSON; `name`: of the file that it saves. */
static char *write_prompt(const recipe *r, const form *f, const char *name)
{
    graft_str s = GRAFT_STR_INIT;
    const char *positive;
    char last[32] = "load";
    graft_str_puts(&s, "{");
    add_files(&s, r, f);
    const char *latent = add_latent(&s, r);
    add_conditioning(&s, r, &positive);
    for (int i = 0; i < f->n; i++) {
        const char *input = f->step[i] == MERGE ? "model1" : "model";
        graft_str_printf(&s, "'m%d':{'class_type':%s,'%s':['%s',0]}},", i,
                         text_of(r, f, f->step[i]), input, last);
        snprintf(last, sizeof last, "m%d", i);
    }
    add_sampler(&s, r, "sample", last, positive, latent, r->sampler);
    if (r->again[0]) {
        graft_str_puts(&s,
                       "'large':{'class_type':'LatentUpscaleBy','inputs':{'samples':['sample',0],"
                       "'upscale_method':'bilinear','scale_by':1.5}},");
        add_sampler(&s, r, "again", last, positive, "large", r->again);
    }
    graft_str_printf(&s,
                     "'save':{'class_type':'SaveLatent','inputs':{'samples':['%s',0],"
                     "'filename_prefix':'%s'}}}",
                     r->again[0] ? "again" : "sample", name);
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] == '\'') s.data[i] = '"';
    return graft_str_take(&s);
}

/* ------------------------------------------------------------------ runs */

static char folder[64];
static graft_options options;

static void say(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_ERROR) fprintf(stderr, "%s\n", text);
}

static void begin_session(graft_session *s)
{
    const graft_log log = {NULL, say};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_session_init(s, &options, &log, &e), &e);
    CHECK_INT(s->plugins, 1);
}

/* Interrupts behind so many calls of progress. */
typedef struct stop {
    atomic_int asked, left;
    int microseconds; /* or behind so many */
} stop;

static void *stop_later(void *arg)
{
    stop *s = arg;
    usleep((useconds_t)s->microseconds);
    atomic_store(&s->asked, 1);
    return NULL;
}

static void on_progress(void *ctx, const graft_where *at, uint64_t done, uint64_t total)
{
    stop *s = ctx;
    (void)at, (void)done, (void)total;
    if (s->left > 0 && atomic_fetch_sub(&s->left, 1) == 1) atomic_store(&s->asked, 1);
}

typedef struct drawn {
    graft_status st;
    graft_err error;
    char *data; /* the latent's values */
    size_t bytes;
} drawn;

/* Takes what SaveLatent wrote. */
static void take_file(const char *name, drawn *out)
{
    char path[256], *data = NULL;
    size_t size = 0;
    uint64_t header = 0;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "output/%s_00001_.latent", name);
    graft_status st = graft_file_read(path, (size_t)1 << 24, &data, &size, &e);
    CHECK_OK(st, &e);
    if (!st && size > 8) memcpy(&header, data, 8);
    if (!st && header + 8 <= size) {
        out->bytes = size - 8 - (size_t)header;
        out->data = graft_malloc(out->bytes + 1);
        memcpy(out->data, data + 8 + header, out->bytes);
    }
    CHECK(out->bytes > 0);
    unlink(path);
    graft_free(data);
}

static drawn draw_with(graft_session *s, graft_executor *x, const char *json, const char *name,
                       const stop *stopping)
{
    graft_validation v = {0};
    graft_run_result result = {0};
    graft_err e = GRAFT_ERR_INIT;
    cJSON *prompt = NULL;
    stop end = {.left = stopping ? stopping->left : 0};
    pthread_t timer;
    bool timed = false;
    const graft_events events = {.ctx = &end, .progress = on_progress};
    drawn out = {0};
    CHECK_OK(graft_json_parse(json, strlen(json), "test", &prompt, &e), &e);
    out.st = graft_validate(s->registry, &s->services.host, prompt, NULL, 0, &v, &e);
    CHECK_OK(out.st, &e);
    const bool good = !out.st && !v.error && !(v.node_errors && v.node_errors->child);
    CHECK(good);
    if (!good) {
        char *text = v.node_errors ? graft_json_print(v.node_errors) : NULL;
        fprintf(stderr, "%s\n%s\n", json, text ? text : "");
        graft_free(text);
        out.st = GRAFT_E_ARG;
    }
    const graft_run_request request = {v.prompt, NULL, &events, &end.asked, false};
    if (stopping && stopping->microseconds) {
        end.microseconds = stopping->microseconds;
        timed = pthread_create(&timer, NULL, stop_later, &end) == 0;
    }
    if (good) out.st = graft_executor_run(x, &request, &result, &e);
    if (timed) pthread_join(timer, NULL);
    if (good && !out.st) take_file(name, &out);
    out.error = e;
    graft_run_result_finish(&result);
    graft_validation_finish(&v);
    return out;
}

/* ------------------------------------------------------------------ the plain pictures */

#define RECIPES_MAX 4096

static recipe *recipes;
static drawn *plain;
static int n_recipes = 14;

static long number(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

static void draw_plain(void)
{
    chance c = {(uint64_t)number("GRAFT_MIXED_SEED", 1)};
    n_recipes = (int)number("GRAFT_MIXED_RECIPES", n_recipes);
    if (n_recipes > RECIPES_MAX) n_recipes = RECIPES_MAX;
    recipes = graft_calloc((size_t)n_recipes, sizeof *recipes);
    plain = graft_calloc((size_t)n_recipes, sizeof *plain);
    setenv("GRAFT_CACHE", "no-cache", 1);
    for (int i = 0; i < n_recipes; i++) {
        graft_session s = {0};
        graft_executor *x = NULL;
        graft_err e = GRAFT_ERR_INIT;
        form f;
        draw_recipe(&recipes[i], &c);
        plain_form(&recipes[i], &f);
        char *json = write_prompt(&recipes[i], &f, "plain");
        char command[128];
        snprintf(command, sizeof command, "rm -rf no-cache");
        CHECK(system(command) == 0);
        begin_session(&s);
        CHECK_OK(graft_executor_create(&s.services.host, false, &x, &e), &e);
        plain[i] = draw_with(&s, x, json, "plain", NULL);
        if (getenv("GRAFT_MIXED_SHOW"))
            fprintf(stderr, "recipe %d: %d %s\n", i, plain[i].st, plain[i].error.text);
        graft_executor_destroy(x);
        graft_session_finish(&s);
        graft_free(json);
    }
}

/* ------------------------------------------------------------------ all in one session */

typedef struct worker {
    pthread_t thread;
    graft_session *session;
    int number;
    chance c;
    long runs;
    long same, stopped, refused;
} worker;

static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;
static int wrong;
static bool limited;

static void tell(int recipe, const char *json, const drawn *d, const char *what)
{
    float worst = 0;
    const drawn *p = &plain[recipe];
    for (size_t i = 0; d->bytes == p->bytes && i + 4 <= d->bytes; i += 4) {
        float a, b;
        memcpy(&a, d->data + i, 4);
        memcpy(&b, p->data + i, 4);
        if (!(fabsf(a - b) <= worst)) worst = fabsf(a - b);
    }
    pthread_mutex_lock(&telling);
    wrong++;
    form f;
    plain_form(&recipes[recipe], &f);
    char *of = write_prompt(&recipes[recipe], &f, "plain");
    fprintf(stderr,
            "recipe %d: %s: %d \"%s\" (%zu bytes), plain %d \"%s\" (%zu bytes), by at most %g\n"
            "%s\n%s\n",
            recipe, what, d->st, d->error.text, d->bytes, p->st, p->error.text, p->bytes,
            (double)worst, json, of);
    graft_free(of);
    pthread_mutex_unlock(&telling);
}

static void judge(worker *w, int recipe, const form *f, bool stopping, const char *json,
                  const drawn *d)
{
    const drawn *p = &plain[recipe];
    if (stopping && d->st == GRAFT_E_CANCEL) {
        w->stopped++;
    } else if ((f->limited || limited) && d->st == GRAFT_E_LIMIT) {
        w->refused++;
    } else if (d->st != p->st) {
        tell(recipe, json, d, "another end");
    } else if (d->bytes != p->bytes || (d->bytes && memcmp(d->data, p->data, d->bytes) != 0)) {
        tell(recipe, json, d, "another picture");
    } else {
        w->same++;
    }
}

/* Does to a file of the cache what a full disk, or another program, would. */
static void spoil_cache(chance *c)
{
    char **name = NULL, path[700];
    size_t n = 0;
    if (graft_dir_list("cache", NULL, &name, &n, NULL)) return;
    if (n) {
        snprintf(path, sizeof path, "cache/%s", name[below(c, (int)n)]);
        FILE *f = one_in(c, 3) ? NULL : fopen(path, "r+");
        if (!f)
            unlink(path);
        else if (one_in(c, 2))
            CHECK(ftruncate(fileno(f), below(c, 3000)) == 0);
        else if (fseek(f, below(c, 3000), SEEK_SET) == 0)
            fputc(below(c, 256), f);
        if (f) fclose(f);
    }
    graft_names_free(name, n);
}

/* The least that would do, by an error of a limit; 0: it says none. */
static int named_limit(const char *text)
{
    static const char *const words[] = {"would do is ", "the model needs "};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, words[i]);
        if (at) return atoi(at + strlen(words[i]));
    }
    return 0;
}

/* A limit that is refused names another, which does; or which names one that does, as of a
 * ControlNet alone. */
static void heed_limit(worker *w, graft_executor *x, int recipe, form *f, const drawn *refused)
{
    drawn d = *refused;
    d.data = NULL;
    for (int i = 0; i < 6 && d.st == GRAFT_E_LIMIT; i++) {
        const int mb = named_limit(d.error.text);
        char name[48], *at = strstr(f->compile, "'max_memory_mb':"), rest[200];
        CHECK(mb > 0);
        if (!at || mb <= 0) return;
        at += strlen("'max_memory_mb':");
        snprintf(rest, sizeof rest, "%s", strchr(at, ','));
        snprintf(at, sizeof f->compile - (size_t)(at - f->compile), "%d%s", mb, rest);
        snprintf(name, sizeof name, "heed-%d-%d", w->number, i);
        char *json = write_prompt(&recipes[recipe], f, name);
        d = draw_with(w->session, x, json, name, NULL);
        if (d.st != GRAFT_E_LIMIT || i == 5) {
            f->limited = false;
            judge(w, recipe, f, false, json, &d);
        }
        graft_free(d.data);
        graft_free(json);
    }
}

static void one_run(worker *w, graft_executor *x, long number)
{
    const int recipe = below(&w->c, n_recipes);
    const bool stopping = one_in(&w->c, 4), timed = one_in(&w->c, 2);
    stop at = {.left = timed ? 0 : 1 + below(&w->c, 120),
               .microseconds = timed ? 1 + below(&w->c, 40000) : 0};
    char name[48];
    form f;
    draw_form(&recipes[recipe], &w->c, &f);
    snprintf(name, sizeof name, "run-%d-%ld", w->number, number);
    char *json = write_prompt(&recipes[recipe], &f, name);
    drawn d = draw_with(w->session, x, json, name, stopping ? &at : NULL);
    judge(w, recipe, &f, stopping, json, &d);
    if (d.st == GRAFT_E_LIMIT && f.limited && !limited) heed_limit(w, x, recipe, &f, &d);
    graft_free(d.data);
    graft_free(json);
}

static void *work(void *arg)
{
    worker *w = arg;
    graft_executor *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_executor_create(&w->session->services.host, true, &x, &e)) return NULL;
    graft_executor_keep_recent(x, 30);
    for (long i = 0; i < w->runs; i++) {
        one_run(w, x, i);
        if (one_in(&w->c, 12)) graft_executor_clear(x);
        if (one_in(&w->c, 8)) spoil_cache(&w->c);
    }
    graft_executor_destroy(x);
    return NULL;
}

/* Runs of several workers in one session. */
static void draw_fancy(uint64_t seed, int threads, long runs)
{
    enum { MOST = 16 };
    worker w[MOST];
    graft_session s = {0};
    long same = 0, stopped = 0, refused = 0;
    if (threads > MOST) threads = MOST;
    setenv("GRAFT_CACHE", "cache", 1);
    begin_session(&s);
    for (int i = 0; i < threads; i++) {
        w[i] = (worker){
            .session = &s, .number = i, .c = {seed + 1000 * (uint64_t)(i + 1)}, .runs = runs};
        CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        same += w[i].same;
        stopped += w[i].stopped;
        refused += w[i].refused;
    }
    graft_session_finish(&s);
    CHECK_INT(wrong, 0);
    CHECK(same > 0);
    printf("%ld the same, %ld interrupted, %ld refused for their memory\n", same, stopped, refused);
}

static void one_after_another(void)
{
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 7, 1, number("GRAFT_MIXED_RUNS", 60));
}

/* What the cache has on the disk by now, and little memory. */
static void with_a_limit(void)
{
    setenv("GRAFT_MEMORY_MB", "9", 1);
    limited = true;
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 7, 1, number("GRAFT_MIXED_RUNS", 60) / 2);
    limited = false;
    unsetenv("GRAFT_MEMORY_MB");
}

static void several_at_once(void)
{
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 77, (int)number("GRAFT_MIXED_THREADS", 3),
               number("GRAFT_MIXED_RUNS", 60) / 3 + 1);
}

int main(void)
{
    char command[128];
    snprintf(folder, sizeof folder, "/tmp/graft-mixed-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    options = (graft_options){.models = (char *)WORKFLOW_MODELS,
                              .input = (char *)GRAFT_SOURCE_DIR "/input",
                              .output = (char *)"output",
                              .temp = (char *)"temp",
                              .plugins = (char *)GRAFT_LIB_DIR};
    RUN(draw_plain);
    RUN(one_after_another);
    RUN(with_a_limit);
    RUN(several_at_once);
    for (int i = 0; i < n_recipes; i++) graft_free(plain[i].data);
    graft_free(plain);
    graft_free(recipes);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") || system(command) || test_end();
}
