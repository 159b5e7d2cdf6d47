/* Random workflows: what is drawn, and in which form (mixed.c). */
#ifndef GRAFT_TESTS_MIXED_RECIPE_H
#define GRAFT_TESTS_MIXED_RECIPE_H
#include <stdlib.h>

#include "base/str.h"
#include "tests/test.h"

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

#define HYPERNETWORK "mixed.safetensors" /* made by mixed.c */

/* Files of one architecture. */
typedef struct kit {
    const char *loader, *input; /* of its models */
    const char *checkpoint[2];
    const char *words; /* what gives its CLIP; NULL: its checkpoint */
    const char *lora;  /* NULL, as those below: there is none */
    const char *control, *adapter, *hypernetwork;
    const char *second; /* another ControlNet; NULL: the same file */
    bool unet;
    const char *gligen; /* NULL: there is none */
} kit;
static const kit kits[] = {
    {"CheckpointLoaderSimple",
     "ckpt_name",
     {"tiny-sd1.safetensors", "tiny-sd1-b.safetensors"},
     NULL,
     "tiny-sd1-lora.safetensors",
     "tiny-sd1-control.safetensors",
     "tiny-sd1-ip.safetensors",
     HYPERNETWORK,
     NULL,
     true,
     "tiny-gligen.safetensors"},
    {"CheckpointLoaderSimple",
     "ckpt_name",
     {"tiny-sdxl.safetensors", "tiny-sdxl.safetensors"},
     NULL,
     NULL,
     "tiny-sdxl-control.safetensors",
     "tiny-sdxl-ip-plus.safetensors",
     NULL,
     "tiny-sdxl-union.safetensors",
     true,
     NULL},
    {"CheckpointLoaderSimple",
     "ckpt_name",
     {"tiny-sd3.safetensors", "tiny-sd3.safetensors"},
     NULL,
     "tiny-sd3-lora.safetensors",
     NULL,
     NULL,
     NULL,
     NULL,
     false,
     NULL},
    {"UNETLoader",
     "weight_dtype':'default','unet_name",
     {"tiny-chroma.safetensors", "tiny-chroma-b.safetensors"},
     "'CLIPLoader','inputs':{'clip_name':'tiny-t5.safetensors','type':'chroma'",
     NULL,
     NULL,
     NULL,
     NULL,
     NULL,
     false,
     NULL}};

/* What changes a model, in the order in which it is plain. Those before RESCALE change weights, and
 * stay in this order. */
typedef enum change {
    LORA,
    MERGE,
    LORA_ON_TOP,
    ATTENTION,
    RESCALE,
    GUIDED,
    AWAY,
    SKIPPED,
    FREEU,
    TILES,
    MERGED,
    DEEP,
    EASY,
    PERTURBED,
    ITSELF,
    DOWNSCALE,
    PICTURE,
    HYPER,
    QUANTIZED,
    CHANGES
} change;

typedef struct recipe {
    const kit *kit;
    int checkpoint; /* 0, 1 */
    bool has[CHANGES];
    char node[CHANGES][400]; /* class and inputs but the model */
    char control[200];       /* strength and range; empty: none */
    char box[160];           /* a text and where it is; empty: none */
    char prompts[3][120];    /* positive, negative, a second positive one; or "" */
    char area[200];          /* of the second one; or "" */
    char hook[3][200];       /* of the positive ones: a LoRA, its keyframe, what else; or "" */
    int width, height, batch;
    const char *precision;
    char sampler[200];
    char again[200];    /* of a second sampler on the latent, enlarged; or "" */
    bool masked, twice; /* twice: two ControlNets */
} recipe;

#define SET(r, what, ...)                                                                          \
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
        SET(r, LORA, "'LoraLoaderModelOnly','inputs':{'lora_name':'%s','strength_model':%s",
            r->kit->lora, ONE_OF(c, strengths));
    if (r->kit->unet && one_in(c, 10))
        SET(r, ATTENTION, "'UNet%sAttentionMultiply','inputs':{'q':1.1,'k':1,'v':0.9,'out':%d",
            one_in(c, 2) ? "Self" : "Cross", below(c, 2));
    if (one_in(c, 5))
        SET(r, MERGE, "'ModelMergeSimple','inputs':{'model2':['other',0],'ratio':%s",
            ONE_OF(c, ratios));
    if (r->kit->lora && one_in(c, 6))
        SET(r, LORA_ON_TOP, "'LoraLoaderModelOnly','inputs':{'lora_name':'%s','strength_model':%s",
            r->kit->lora, ONE_OF(c, strengths));
}

static void draw_speed(recipe *r, chance *c)
{
    static const char *const schedules[] = {"uniform", "quadratic"};
    static const char *const cuts[] = {"block", "outermost"};
    static const char *const errors[] = {"0", "0", "0.05", "0.5"};
    const int layer = below(c, 2);
    const bool unet = r->kit->unet;
    if (unet && one_in(c, 4))
        SET(r, TILES,
            "'HyperTile','inputs':{'tile_size':%d,'swap_size':%d,'max_depth':%d,'scale_depth':%s",
            one_in(c, 2) ? 32 : 48, 1 + below(c, 4), below(c, 3), one_in(c, 2) ? "true" : "false");
    if (unet && one_in(c, 4))
        SET(r, MERGED, "'TomePatchModel','inputs':{'ratio':%s", one_in(c, 2) ? "0.3" : "0.8");
    if (unet && one_in(c, 4))
        SET(r, DEEP,
            "'DeepCache','inputs':{'cache_interval':%d,'cache_layer_id':%d,'cache_block_id':%d,"
            "'start_step':%d,'end_step':%d,'schedule':'%s','max_error':%s,'cut':'%s'",
            1 + below(c, 3), layer, layer ? 0 : below(c, 2), below(c, 2), one_in(c, 2) ? 1000 : 3,
            ONE_OF(c, schedules), ONE_OF(c, errors), ONE_OF(c, cuts));
    if (one_in(c, 5))
        SET(r, EASY,
            "'EasyCache','inputs':{'reuse_threshold':%s,'start_percent':0,'end_percent':1,"
            "'verbose':false",
            one_in(c, 2) ? "0.3" : "3");
    if (unet && !r->has[DEEP] && one_in(c, 6))
        SET(r, DOWNSCALE,
            "'PatchModelAddDownscale','inputs':{'block_number':%d,'downscale_factor':%s,"
            "'start_percent':0,'end_percent':%s,'downscale_after_skip':%s,"
            "'downscale_method':'bicubic','upscale_method':'bicubic'",
            1 + below(c, 3), one_in(c, 2) ? "2" : "1.5", one_in(c, 2) ? "0.35" : "1",
            one_in(c, 2) ? "true" : "false");
    if (one_in(c, 5))
        SET(r, QUANTIZED,
            "'QuantizeModel','inputs':{'bits':%d,'quantize_conv':'%s','quantize_linear':'enable',"
            "'conv_mse_threshold':1,'linear_mse_threshold':1,'compute_density_threshold':0,"
            "'steps':0,'cfg':8,'seed':0,'plan_name':'','recalibrate':'disable','format':'%s',"
            "'quantize_attention':'%s','attention_mse_threshold':1",
            one_in(c, 3) ? 4 : 8, one_in(c, 2) ? "enable" : "disable", "int",
            one_in(c, 2) ? "enable" : "disable");
}

static void draw_guidance(recipe *r, chance *c)
{
    static const char *const changes[] = {
        "'APG','inputs':{'eta':0.5,'norm_threshold':5,'momentum':-0.5",
        "'CFGZeroStar','inputs':{",
        "'TCFG','inputs':{",
        "'Mahiro','inputs':{",
        "'RenormCFG','inputs':{'cfg_trunc':100,'renorm_cfg':1",
        "'LatentApplyOperationCFG','inputs':{'operation':['operation',0],'end_percent':0.6",
        "'CFGOverride','inputs':{'cfg':3,'start_percent':0.5,'end_percent':1"};
    if (r->kit->unet && one_in(c, 5))
        SET(r, RESCALE, "'RescaleCFG','inputs':{'multiplier':%s", one_in(c, 2) ? "0.7" : "0");
    if (one_in(c, 6)) SET(r, GUIDED, "%s", ONE_OF(c, changes));
    if (one_in(c, 10))
        SET(r, AWAY, "'PerpNeg','inputs':{'empty_conditioning':['negative',0],'neg_scale':%d",
            below(c, 2));
    if (!r->kit->unet && one_in(c, 4))
        SET(r, SKIPPED,
            "'SkipLayerGuidanceDiT','inputs':{'double_layers':'%d','single_layers':'0','scale':%d,"
            "'start_percent':0,'end_percent':%s,'rescaling_scale':0.%d",
            below(c, 2), below(c, 3), one_in(c, 2) ? "0.5" : "1", below(c, 4));
}

static void draw_pictures(recipe *r, chance *c)
{
    if (!r->kit->unet) return;
    if (one_in(c, 4))
        SET(r, FREEU, "'%s','inputs':{'b1':1.%d,'b2':1.4,'s1':0.9,'s2':0.2",
            one_in(c, 2) ? "FreeU" : "FreeU_V2", below(c, 4));
    if (one_in(c, 6))
        SET(r, PERTURBED, "'PerturbedAttentionGuidance','inputs':{'scale':%d", below(c, 3));
    if (!r->has[DEEP] && !r->has[EASY] && one_in(c, 8))
        SET(r, ITSELF, "'SelfAttentionGuidance','inputs':{'scale':0.5,'blur_sigma':%d",
            below(c, 3));
    if (one_in(c, 5))
        SET(r, PICTURE,
            "'IPAdapter','inputs':{'ipadapter':['adapter',0],'image':['image',0],"
            "'clip_vision':['vision',0],'weight':%s,'start_at':%s,'end_at':%s,"
            "'weight_type':'standard'%s",
            one_in(c, 2) ? "1" : "0.4", one_in(c, 3) ? "0.3" : "0", one_in(c, 3) ? "0.6" : "1",
            one_in(c, 3) ? ",'attn_mask':['mask',0]" : "");
    if (r->kit->hypernetwork && one_in(c, 6))
        SET(r, HYPER, "'HypernetworkLoader','inputs':{'hypernetwork_name':'%s','strength':%s",
            r->kit->hypernetwork, one_in(c, 2) ? "1" : "0.5");
    r->twice = one_in(c, 3);
    if (r->kit->control && !r->has[DOWNSCALE] && one_in(c, 4))
        snprintf(r->control, sizeof r->control, "'strength':%s,'start_percent':%s,'end_percent':%s",
                 one_in(c, 2) ? "1" : "0.3", one_in(c, 3) ? "0.4" : "0",
                 one_in(c, 3) ? "0.5" : "1");
}

static void draw_hook(recipe *r, chance *c)
{
    static const char *const strengths[] = {"1", "0.5", "-0.75"};
    if (!r->kit->lora || !one_in(c, 4)) return;
    snprintf(r->hook[0], sizeof *r->hook,
             "'CreateHookLoraModelOnly','inputs':{'lora_name':'%s','strength_model':%s",
             r->kit->lora, ONE_OF(c, strengths));
    snprintf(r->hook[1], sizeof *r->hook,
             "'CreateHookKeyframesInterpolated','inputs':{'strength_start':1,'strength_end':%d,"
             "'interpolation':'linear','start_percent':0.%d,'end_percent':1,'keyframes_count':%d,"
             "'print_keyframes':false",
             below(c, 2), below(c, 6), 2 + below(c, 3));
    snprintf(r->hook[2], sizeof *r->hook, "'strength':1,'set_cond_area':'default'%s",
             one_in(c, 3) ? ",'mask':['mask',0]" : "");
}

static void draw_prompts(recipe *r, chance *c)
{
    static const char *const texts[] = {"red apple, 3d", "robot, flat", "",
                                        "a (very:1.3) long one"};
    for (int i = 0; i < 2; i++) snprintf(r->prompts[i], sizeof *r->prompts, "%s", ONE_OF(c, texts));
    if (r->kit->gligen && one_in(c, 4))
        snprintf(r->box, sizeof r->box, "'text':'%s','width':%d,'height':%d,'x':%d,'y':8",
                 ONE_OF(c, texts), 8 + 8 * below(c, 4), 8 + 8 * below(c, 4), 8 * below(c, 4));
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
    static const char *const precisions[] = {"auto", "auto", "auto", "f32", "bf16"};
    memset(r, 0, sizeof *r);
    r->kit = &kits[one_in(c, 2) ? 0 : 1 + below(c, 3)];
    r->checkpoint = below(c, 2);
    draw_weights(r, c);
    draw_speed(r, c);
    draw_guidance(r, c);
    draw_pictures(r, c);
    draw_prompts(r, c);
    draw_hook(r, c);
    r->width = ONE_OF(c, sides);
    r->height = ONE_OF(c, sides);
    r->batch = one_in(c, 3) ? 2 : 1;
    r->precision = ONE_OF(c, precisions);
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

static void put_first(form *f, int step)
{
    memmove(f->step + 1, f->step, (size_t)f->n * sizeof *f->step);
    f->step[0] = step;
    f->n++;
}

/* max_memory_mb 0: no limit; width 0: nothing is compiled ahead. */
static void compile(const recipe *r, form *f, int max_memory_mb, const char *cache, int width)
{
    snprintf(f->compile, sizeof f->compile,
             "'CompileModel','inputs':{'precision':'%s','tuning':'off','max_memory_mb':%d,"
             "'device':'auto','cache':'%s','width':%d,'height':%d,'batch_size':%d",
             r->precision, max_memory_mb, cache, width, r->height, r->batch);
    put_first(f, COMPILED);
}

static void begin_form(const recipe *r, form *f)
{
    *f = (form){.from = r->checkpoint};
    for (int i = 0; i < CHANGES; i++)
        if (r->has[i]) f->step[f->n++] = i;
}

/* Another precision than the usual one is not had without CompileModel. */
static bool is_usual(const recipe *r)
{
    return strcmp(r->precision, "auto") == 0;
}

static void plain_form(const recipe *r, form *f)
{
    begin_form(r, f);
    if (!is_usual(r)) compile(r, f, 0, "disable", 0);
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

static void draw_form(const recipe *r, chance *c, form *f)
{
    begin_form(r, f);
    if (one_in(c, 2)) {
        f->from = below(c, 2);
        snprintf(f->swap, sizeof f->swap,
                 "'SwapWeights','inputs':{'ckpt_name':'%s','keep_resident':'%s'",
                 r->kit->checkpoint[r->checkpoint], one_in(c, 2) ? "enable" : "disable");
        put_first(f, SWAPPED);
    }
    if (!is_usual(r) || one_in(c, 2)) {
        f->limited = one_in(c, 3);
        compile(r, f, f->limited ? 1 + below(c, 12) : 0, one_in(c, 2) ? "enable" : "disable",
                one_in(c, 2) ? r->width : 0);
    }
    shuffle(f, c);
}

static void add_prompt(graft_str *s, int slot, const char *id, const char *text)
{
    graft_str_printf(
        s, "'%s':{'class_type':'CLIPTextEncode','inputs':{'clip':['words',%d],'text':'%s'}},", id,
        slot, text);
}

static void add_control(graft_str *s, const char *id, const char *positive, const char *negative,
                        const char *net, const char *numbers)
{
    graft_str_printf(s,
                     "'%s':{'class_type':'ControlNetApplyAdvanced','inputs':{'positive':['%s',0],"
                     "'negative':['%s',%d],'control_net':['%s',0],'image':['image',0],%s}},",
                     id, positive, negative, strcmp(negative, "negative") != 0, net, numbers);
}

static void add_conditioning(graft_str *s, const recipe *r, const char **positive)
{
    const int slot = r->kit->words ? 0 : 1;
    *positive = "positive";
    add_prompt(s, slot, "positive", r->prompts[0]);
    add_prompt(s, slot, "negative", r->prompts[1]);
    if (r->box[0]) {
        graft_str_printf(s,
                         "'gligen':{'class_type':'GLIGENLoader','inputs':{'gligen_name':'%s'}},"
                         "'boxed':{'class_type':'GLIGENTextBoxApply','inputs':{"
                         "'conditioning_to':['positive',0],'clip':['words',%d],"
                         "'gligen_textbox_model':['gligen',0],%s}},",
                         r->kit->gligen, slot, r->box);
        *positive = "boxed";
    }
    if (r->area[0]) {
        add_prompt(s, slot, "second", r->prompts[2]);
        graft_str_printf(s,
                         "'placed':{'class_type':%s,'conditioning':['second',0]}},"
                         "'both':{'class_type':'ConditioningCombine','inputs':{"
                         "'conditioning_1':['%s',0],'conditioning_2':['placed',0]}},",
                         r->area, *positive);
        *positive = "both";
    }
    if (r->hook[0][0]) {
        graft_str_printf(s,
                         "'lora_hook':{'class_type':%s}},'keyframes':{'class_type':%s}},"
                         "'hook':{'class_type':'SetHookKeyframes','inputs':{"
                         "'hooks':['lora_hook',0],'hook_kf':['keyframes',0]}},"
                         "'hooked':{'class_type':'ConditioningSetProperties','inputs':{"
                         "'cond_NEW':['%s',0],'hooks':['hook',0],%s}},",
                         r->hook[0], r->hook[1], *positive, r->hook[2]);
        *positive = "hooked";
    }
    if (!r->control[0]) return;
    graft_str_printf(s,
                     "'net':{'class_type':'ControlNetLoader','inputs':{'control_net_name':'%s'}},"
                     "'second_net':{'class_type':'ControlNetLoader','inputs':{"
                     "'control_net_name':'%s'}},",
                     r->kit->control, r->kit->second ? r->kit->second : r->kit->control);
    add_control(s, "steered", *positive, "negative", "net", r->control);
    *positive = "steered";
    if (!r->twice) return;
    add_control(s, "steered_again", "steered", "steered", "second_net",
                "'strength':0.6,'start_percent':0.2,'end_percent':0.9");
    *positive = "steered_again";
}

static const char *text_of(const recipe *r, const form *f, int step)
{
    return step == COMPILED ? f->compile : step == SWAPPED ? f->swap : r->node[step];
}

static void add_model(graft_str *s, const recipe *r, const char *id, int checkpoint)
{
    graft_str_printf(s, "'%s':{'class_type':'%s','inputs':{'%s':'%s'}},", id, r->kit->loader,
                     r->kit->input, r->kit->checkpoint[checkpoint]);
}

static void add_files(graft_str *s, const recipe *r, const form *f)
{
    add_model(s, r, "load", f->from);
    add_model(s, r, "other", !r->checkpoint);
    if (r->kit->words)
        graft_str_printf(s, "'words':{'class_type':%s}},", r->kit->words);
    else
        add_model(s, r, "words", r->checkpoint);
    graft_str_puts(s, "'image':{'class_type':'LoadImage','inputs':{'image':'outline.png'}},"
                      "'vision':{'class_type':'CLIPVisionLoader','inputs':{"
                      "'clip_name':'tiny-clip-vision.safetensors'}},"
                      "'operation':{'class_type':'LatentOperationTonemapReinhard','inputs':{"
                      "'multiplier':0.5}},");
    if (r->kit->adapter)
        graft_str_printf(s,
                         "'adapter':{'class_type':'IPAdapterModelLoader','inputs':{"
                         "'ipadapter_file':'%s'}},",
                         r->kit->adapter);
}

/* Returns the name of the node that has it. */
static const char *add_latent(graft_str *s, const recipe *r)
{
    graft_str_printf(
        s,
        "'mask':{'class_type':'SolidMask','inputs':{'value':0.5,'width':%d,"
        "'height':8}},'empty':{'class_type':'EmptyLatentImage','inputs':{'width':%d,'height':%d,"
        "'batch_size':%d}},",
        r->width, r->width, r->height, r->batch);
    if (!r->masked) return "empty";
    graft_str_puts(s, "'masked':{'class_type':'SetLatentNoiseMask','inputs':{"
                      "'samples':['empty',0],'mask':['mask',0]}},");
    return "masked";
}

static void add_sampler(graft_str *s, const recipe *r, const char *id, const char *model,
                        const char *positive, const char *latent, const char *numbers)
{
    graft_str_printf(s,
                     "'%s':{'class_type':'KSampler','inputs':{'model':['%s',0],"
                     "'positive':['%s',0],'negative':['%s',%d],'latent_image':['%s',0],%s}},",
                     id, model, positive, r->control[0] ? positive : "negative", r->control[0] != 0,
                     latent, numbers);
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
        const char *text = text_of(r, f, f->step[i]);
        graft_str_printf(&s, "'m%d':{'class_type':%s%s'%s':['%s',0]}},", i, text,
                         text[strlen(text) - 1] == '{' ? "" : ",", input, last);
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

#endif
