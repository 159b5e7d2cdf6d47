/* What holds of every family of transformers, tried on small ones: that a file under other names is
 * the same network, what is refused, LoRAs, prompts of any length, quantization.
 *
 * One program tests one family. Its file states the facts that differ, `tested`, and has as code
 * what is particular to it; run_family() runs the cases below that the facts allow. A check that
 * fails here is followed by the family's name and the case's, and by what of a list it was. */
#ifndef GRAFT_TESTS_ENGINE_FAMILY_H
#define GRAFT_TESTS_ENGINE_FAMILY_H
#include <math.h>

#include "engine/exec/invariants.h"
#include "tests/engine/damage.h"
#include "tests/engine/network_changes.h"
#include "tests/engine/renamed.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Room for any answer, and for what pictures show it; words of the longest prompt here. */
enum { ANSWER = 128 * SIDE * SIDE, SEEN = 128 * 40, WORDS_MAX = 128, TOLD_MAX = 4096 };

/* ------------------------------------------------------------------ facts */

/* What a network is asked. Prompt i's values begin at 20000 or at 60000 of fixed_value(). */
typedef struct asked {
    int words[2];   /* of the prompt, and of the negative one */
    float cfg;      /* up to 1: without the negative one */
    float guidance; /* 0: the family's */
    const graft_references *shown;
    const float *seen; /* the pictures that are shown, as x has them behind the latent */
} asked;

/* A pair of prompts, and how many graphs are new with the first one alone, then with both. */
typedef struct prompt_pair {
    int words[2], built[2];
} prompt_pair;
/* Up to 64 words run in the same graph, side by side; 65 to 128 in another. */
static const prompt_pair prompts_by_64[] = {{{5, 9}, {1, 1}},
                                            {{7, 7}, {0, 0}},
                                            {{1, 33}, {0, 0}},
                                            {{64, 2}, {0, 0}},
                                            {{65, 90}, {1, 1}},
                                            {{96, 1}, {0, 0}},
                                            {{0}}};

/* A tensor whose loss is told of otherwise than by its name; GRAFT_OK: it makes another network. */
typedef struct loss {
    const char *name;
    graft_status status;
    const char *words, *their_words; /* the latter for files in diffusers' names; NULL: the same */
} loss;

/* What no graph is built for: a batch of one, 8 x 8 with 32 tokens where the shape has zeros. */
typedef struct unbuilt {
    graft_net_shape shape;
    graft_status status;
} unbuilt;

/* A LoRA of rank 2 for one layer. All names of a layer come one after another and make the same. */
typedef struct lora_name {
    const char *stem, *up, *down;
    bool alpha;
    int64_t rows, columns; /* 0: the layer is the one before */
    const char *more;      /* a layer that is not the network's, in the same file */
} lora_name;
#define PEFT         "lora_B", "lora_A", false
#define PEFT_DEFAULT "lora_B.default", "lora_A.default", false
#define KOHYA        "lora_up", "lora_down", true
#define KOHYA_PLAIN  "lora_up", "lora_down", false /* without an alpha, which is then the rank */

/* Lists end with an empty place. */
typedef struct family {
    const char *name, *title; /* in messages here; as a loader of something else calls it */

    /* Checkpoints: the larger network, with which most is done, and one of other sizes. */
    const char *two, *one;
    const char *tuned;      /* for LoRAs; NULL: the first */
    const char *plain;      /* for its network without a config, which is the same; NULL: none */
    const char *gguf;       /* what it is called in GGUF; NULL: it is not tried */
    const char *packed;     /* for GGUF: with rows of whole blocks */
    const renaming *theirs; /* diffusers' names; NULL: there they are ours */
    bool in_files;          /* its files are found in diffusers' names, too, and not LoRAs alone */

    /* What it takes besides a prompt: fills y, and what of the context is not the prompt's; returns
     * how many tokens that are. NULL: y[0] is the number of words, which are all tokens. */
    int64_t (*tell)(const graft_model *m, const asked *a, int i, float *context, float *y);
    float guidance;                /* what it is told where nobody says otherwise */
    const double *mean;            /* of each plane of a latent, */
    const double *deviation;       /* by which it is normalized */
    double scale, shift;           /* or of all together; both NULL and 0: as the model says */
    const graft_references *shown; /* by which changed networks are compared; NULL: none */
    double error;               /* limit for samplings; of what should differ ten times as much */
    const prompt_pair *prompts; /* that are sampled; the last one has no words */
    /* Attentions in the graph, and those in the first run of a series alone; 0: it is not tried. */
    size_t attended, attended_once;

    size_t tensors, their_tensors; /* of the first checkpoint in either's names */
    loss losses[8];
    const damage *damaged;
    bool told_guidance, takes_references, half; /* half: it computes in float16, too */
    bool any_length;                            /* a graph of a million tokens is built */
    int64_t bad_tokens;                         /* that none is built for */
    unbuilt unbuilt[8];

    size_t loras;           /* how many are tried, in all names */
    double lora_error;      /* limit */
    const char *untried[6]; /* parts of names of matrices without one */
    const char *unread[6];  /* parts of names of layers that change nothing */
    const char *bare;       /* their layers' names begin so in LoRAs, without "transformer." */
    lora_name lora_names[16];

    const char *kept[8];        /* beginnings of names of layers that are never quantized */
    size_t attentions, linears; /* of a plan */
} family;

/* The file that includes this one says what they are. */
static const family tested;
static graft_engine *engine;

static inline bool part_of_any(const char *const *part, size_t n, const char *name)
{
    for (size_t i = 0; i < n && part[i]; i++)
        if (strstr(name, part[i])) return true;
    return false;
}

/* After checks of one row of a list: which it was, if more have failed than before. */
static inline void name_row(int failed_before, const char *row)
{
    if (test_failures != failed_before) fprintf(stderr, "  %s: %s\n", tested.name, row);
}

/* ------------------------------------------------------------------ runs */

/* The network's answer at time t to x, behind which is what the pictures show. */
static inline void evaluate(const graft_model *m, const asked *a, int i, const float *x, float t,
                            float *out)
{
    const int64_t width = m->arch.context_dim;
    float *context = malloc((size_t)(WORDS_MAX * width) * sizeof *context);
    float *y = calloc(TOLD_MAX, sizeof *y);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t tokens = a->words[i];
    CHECK(tokens < WORDS_MAX && m->arch.adm_channels < TOLD_MAX && answer_values(m) <= ANSWER);
    for (int64_t k = 0; k < WORDS_MAX * width; k++)
        context[k] = fixed_value((i ? 60000 : 20000) + (uint64_t)k);
    asked told = *a;
    if (told.guidance == 0) told.guidance = tested.guidance;
    y[0] = (float)tokens;
    if (tested.tell) tokens = tested.tell(m, &told, i, context, y);
    memset(out, 0, answer_values(m) * sizeof *out);
    graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = SIDE, .width = SIDE, .tokens = tokens};
    if (a->shown) use.references = *a->shown;
    graft_status st = graft_model_bind_guided(m, &use, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
    free(context);
    free(y);
}

/* To what is always the same. m NULL, as it could not be made: nothing. */
static inline void run_some(const graft_model *m, float *out)
{
    static float x[ANSWER + SEEN];
    if (!m) return;
    for (size_t i = 0; i < COUNT(x); i++) x[i] = fixed_value(i);
    evaluate(m, &(asked){.words = {5}, .shown = tested.shown}, 0, x, 400, out);
}

/* A latent as it leaves. */
static inline void unscaled(const graft_model *m, const float *x, float *out)
{
    const size_t n = answer_values(m);
    if (!tested.mean && tested.scale == 0) {
        graft_model_unscale_latent(m, x, n, SIDE * SIDE, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t plane = i / (SIDE * SIDE);
        out[i] = (float)(tested.mean ? x[i] * tested.deviation[plane] + tested.mean[plane]
                                     : x[i] / tested.scale + tested.shift);
    }
}

/* Euler's steps of "simple" from zeros on the network itself. */
static inline void by_hand(const graft_model *m, const asked *a, float *out)
{
    float x[ANSWER + SEEN] = {0}, v[ANSWER], w[ANSWER];
    double sigma[STEPS + 1] = {0};
    const size_t n = answer_values(m);
    if (a->shown) {
        const int64_t patch = graft_net_patch(&m->arch);
        const size_t cells = (size_t)graft_references_cells(a->shown, patch);
        CHECK(cells * n / (SIDE * SIDE) <= SEEN);
        memcpy(x + n, a->seen, cells * n / (SIDE * SIDE) * sizeof *x);
    }
    for (int i = 0; i < STEPS; i++) {
        double share = 1 - (double)(int)(i * (double)m->flow_steps / STEPS) / m->flow_steps;
        sigma[i] = m->flow_shift * share / (1 + (m->flow_shift - 1) * share);
    }
    for (int i = 0; i < STEPS; i++) {
        evaluate(m, a, 0, x, (float)(1000 * sigma[i]), v);
        if (a->cfg > 1) evaluate(m, a, 1, x, (float)(1000 * sigma[i]), w);
        for (size_t k = 0; k < n; k++) {
            float d = a->cfg > 1 ? w[k] + a->cfg * (v[k] - w[k]) : v[k];
            x[k] += (float)(sigma[i + 1] - sigma[i]) * d;
        }
    }
    unscaled(m, x, out);
}

/* ------------------------------------------------------------------ files */

static inline made_file *their_file(const char *checkpoint)
{
    return renamed_file(checkpoint, tested.theirs, "");
}

static inline const char *written(made_file *f, const char *name, const char *config)
{
    const char *path = temp_path(name);
    write_file(f, path, config);
    return path;
}

/* Each row of the table is of a name of one checkpoint or the other. */
static inline void names_are_used(void)
{
    made_file *f[2] = {part_of_file(tested.two, UNET), part_of_file(tested.one, UNET)};
    for (const renaming *r = tested.theirs; r->ours; r++) {
        const int before = test_failures;
        const renaming alone[2] = {*r};
        bool used = false;
        for (size_t i = 0; i < f[0]->n + f[1]->n; i++) {
            const bool second = i >= f[0]->n;
            const char *name = f[second]->tensor[i - second * f[0]->n].name;
            their_tensor p;
            renamed(alone, name, 0, &p);
            used = used || strcmp(p.name, name) != 0;
        }
        CHECK(used);
        name_row(before, r->ours);
    }
    finish_file(f[0]);
    finish_file(f[1]);
}

/* Without a prefix, as its authors publish it. */
static inline void as_published(void)
{
    same_in_file(
        engine, tested.two,
        written(part_of_file(tested.two, UNET), "plain.safetensors", config_of(tested.two)),
        run_some);
    if (tested.plain)
        same_in_file(engine, tested.plain,
                     written(part_of_file(tested.plain, UNET), "plain.safetensors", NULL),
                     run_some);
}

static inline void same_in_diffusers_names(void)
{
    const char *const of[] = {tested.two, tested.one};
    for (size_t i = 0; i < COUNT(of); i++)
        same_in_file(engine, of[i],
                     written(their_file(of[i]), "transformer.safetensors", config_of(of[i])),
                     run_some);
}

/* As it is called here and in the shape that it has here, in whichever names it came. */
static inline void saved(void)
{
    const char *const of[] = {tested.two, tested.one};
    for (size_t i = 0; i < 2 * COUNT(of); i++) {
        const char *from = of[i / 2];
        if (i % 2 && !tested.in_files) continue;
        const char *path = written(i % 2 ? their_file(from) : part_of_file(from, UNET),
                                   "transformer.safetensors", config_of(from));
        saved_like(engine, path, from);
        unlink(path);
    }
}

static inline void no_memory_for_names(void)
{
    const char *path = written(their_file(tested.one), "oom.safetensors", config_of(tested.one));
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

static inline void gguf(void)
{
    same_in_gguf(engine, tested.packed, tested.gguf, config_of(tested.packed), run_some);
}

/* The same network with other weights runs in the graph that there is, and back again. */
static inline void swapped(void)
{
    const char *path = temp_path("other.safetensors");
    float got[ANSWER], want[ANSWER], plain[ANSWER];
    made_file *f = part_of_file(tested.two, UNET);
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < shape_count(f->tensor[i].shape, f->tensor[i].rank); k++)
            ((float *)(uintptr_t)f->tensor[i].data)[k] *= 0.75f;
    write_file(f, path, config_of(tested.two));
    graft_model *m = load_model(engine, tested.two), *other = load_model(engine, path);
    run_some(m, plain);
    const uint64_t built = graphs_built(engine);
    graft_model *to = swap_weights(m, path, true), *back = swap_weights(to, tested.two, true);
    run_some(to, got);
    CHECK_INT(graphs_built(engine), built);
    run_some(other, want);
    CHECK(same_answers(m, got, want) && difference(got, plain, answer_values(m)) > 1e-3);
    run_some(back, got);
    CHECK(same_answers(m, got, plain));
    RELEASE_ALL(m, other, to, back);
    unlink(path);
}

/* ------------------------------------------------------------------ damage */

static inline void refused(made_file *f, const char *config, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config, status, words, &e);
}

static inline const loss *find_loss(const char *name)
{
    for (size_t i = 0; i < COUNT(tested.losses) && tested.losses[i].name; i++)
        if (strcmp(tested.losses[i].name, name) == 0) return &tested.losses[i];
    return NULL;
}

static inline void check_loss(made_file *f, const char *name, bool theirs)
{
    const loss *l = find_loss(name);
    const char *config = config_of(tested.two);
    drop_tensor(f, name);
    if (!l) {
        refused(f, config, GRAFT_E_FORMAT, name);
    } else if (l->status) {
        refused(f, config, l->status, theirs && l->their_words ? l->their_words : l->words);
    } else {
        const char *path = written(f, "other.safetensors", config);
        graft_model *m = load_model(engine, path), *own = load_model(engine, tested.two);
        CHECK(m && memcmp(&m->arch, &own->arch, sizeof m->arch) != 0);
        RELEASE_ALL(m, own);
        unlink(path);
    }
}

/* Any of them, in either's names. */
static inline void without_tensors(void)
{
    for (int theirs = 0; theirs < (tested.in_files ? 2 : 1); theirs++) {
        made_file *all = theirs ? their_file(tested.two) : part_of_file(tested.two, UNET);
        CHECK_INT(all->n, theirs ? tested.their_tensors : tested.tensors);
        for (size_t i = 0; i < all->n; i++) {
            const int before = test_failures;
            const char *name = all->tensor[i].name;
            check_loss(theirs ? their_file(tested.two) : part_of_file(tested.two, UNET), name,
                       theirs);
            name_row(before, name);
        }
        finish_file(all);
    }
}

static inline void of_another_kind(void)
{
    for (const damage *d = tested.damaged; d->status; d++) {
        const int before = test_failures;
        made_file *f = d->theirs ? their_file(tested.two) : part_of_file(tested.two, UNET);
        damage_file(f, d);
        refused(f, d->config ? d->config : config_of(tested.two), d->status, words_of(d));
        name_row(before, words_of(d));
    }
    CHECK(tested.damaged->status);
}

/* By a loader of something else it is told by its name. */
static inline void told_by_its_name(void)
{
    char title[100];
    snprintf(title, sizeof title, "a diffusion transformer (%s)", tested.title);
    for (int i = 0; i < (tested.in_files ? 4 : 2); i++) {
        const char *type = i % 2 ? "ideogram4" : "krea2";
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        const char *path = written(i / 2 ? their_file(tested.two) : part_of_file(tested.two, UNET),
                                   "transformer.safetensors", NULL);
        CHECK_INT(graft_clip_load(engine, &path, 1, type, NULL, &c, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!c && strstr(e.text, "no Qwen 3 text encoder in it"));
        CHECK(strstr(e.text, title) && strstr(e.text, "UNETLoader"));
        unlink(path);
    }
}

static inline void check_unbuilt(const graft_model *m, graft_net_shape shape, graft_status status)
{
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    shape.batch = 1;
    if (!shape.height) shape.height = SIDE;
    if (!shape.width) shape.width = SIDE;
    if (!shape.tokens) shape.tokens = 32;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), status);
    CHECK(!g);
}

static inline void what_does_not_go_with_it(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, tested.two), *out = NULL;
    graft_binding *b = NULL;
    const graft_deepcache_options cache = {.schedule = "uniform", .cache_interval = 3};
    const graft_compile_options f16 = {
        .precision = "f16", .tuning = "off", .width = 8 * SIDE, .height = 8 * SIDE};
    CHECK_INT(graft_model_deepcache(m, &cache, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_perturbed_attention(m, 3, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_sampling(m, "v_prediction", false, &out, &e), GRAFT_E_UNSUPPORTED);
    if (!tested.half) CHECK_INT(graft_model_compile(m, &f16, NULL, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out);
    CHECK(graft_net_told_guidance(&m->arch) == tested.told_guidance);
    CHECK(graft_net_takes_references(&m->arch) == tested.takes_references);
    CHECK_INT(graft_model_bind(m, 1, 8, 1 << 20, 32, NULL, &b, &e), GRAFT_E_LIMIT);
    if (!tested.any_length)
        CHECK_INT(graft_model_bind(m, 1, 8, 8, 1 << 20, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, tested.bad_tokens, NULL, &b, &e), GRAFT_E_ARG);
    CHECK(!b);
    if (!tested.half)
        check_unbuilt(m, (graft_net_shape){.act_dtype = GRAFT_F16}, GRAFT_E_UNSUPPORTED);
    for (size_t i = 0; i < COUNT(tested.unbuilt) && tested.unbuilt[i].status; i++) {
        const int before = test_failures;
        char row[32];
        snprintf(row, sizeof row, "unbuilt[%zu]", i);
        graft_net_shape shape = tested.unbuilt[i].shape;
        shape.act_dtype = GRAFT_F32;
        check_unbuilt(m, shape, tested.unbuilt[i].status);
        name_row(before, row);
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ LoRAs */

static inline const char *tuned(void)
{
    return tested.tuned ? tested.tuned : tested.two;
}

static inline float *matrix(made_file *f, const char *layer, const char *part, int64_t rows,
                            int64_t columns)
{
    char name[400];
    snprintf(name, sizeof name, "%s.%s.weight", layer, part);
    return add_tensor(f, name, 2, (int64_t[]){rows, columns}, NULL, 0.5f);
}

/* A LoRA of these rows of a weight by the name that it has for them, and the network with it. */
static inline void write_lora(const char *weight, const their_tensor *p, const char *layer,
                              const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(tuned(), UNET);
    graft_st_tensor *t = made_find(m, weight);
    const int64_t unit = t->shape[0] / p->all, rows = unit * p->share, columns = t->shape[1];
    float *w = (float *)(uintptr_t)t->data + unit * p->first * columns;
    const float *up = matrix(f, layer, "lora_B", rows, 2);
    const float *down = matrix(f, layer, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++) {
        float *to = w + (p->turned ? (r + rows / 2) % rows : r) * columns;
        for (int64_t c = 0; c < columns; c++)
            to[c] += up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    }
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(tuned()));
}

static inline void one_lora(const graft_model *m, const float *plain, const char *weight,
                            const their_tensor *p, const char *layer)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    const bool reads = !part_of_any(tested.unread, COUNT(tested.unread), weight);
    const int before = test_failures;
    const size_t n = answer_values(m);
    float got[ANSWER] = {0}, want[ANSWER] = {0};
    write_lora(weight, p, layer, lora, whole);
    last_log[0] = 0;
    graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
    CHECK_STR(last_log, "");
    run_some(w, want);
    run_some(x, got);
    CHECK(w && x && difference(got, want, n) < tested.lora_error);
    CHECK((difference(plain, want, n) > 1e-4) == reads);
    name_row(before, layer);
    RELEASE_ALL(w, x);
    unlink(lora);
    unlink(whole);
}

/* Each layer alone, in its own name and in diffusers': that none is taken for another, and that
 * every one changes something. */
static inline void loras(void)
{
    float plain[ANSWER];
    graft_model *m = load_model(engine, tuned());
    made_file *f = part_of_file(tuned(), UNET);
    size_t n = 0;
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const char *weight = f->tensor[i].name;
        int pieces = 1;
        their_tensor p = {.share = 1, .all = 1};
        char layer[300];
        if (f->tensor[i].rank != 2) continue;
        if (part_of_any(tested.untried, COUNT(tested.untried), weight)) continue;
        const int stem = (int)(strlen(weight) - strlen(".weight"));
        snprintf(layer, sizeof layer, "diffusion_model.%.*s", stem, weight);
        one_lora(m, plain, weight, &p, layer);
        n++;
        for (int k = 0; k < pieces; k++, n++) {
            pieces = renamed(tested.theirs, weight, k, &p);
            const bool bare = tested.bare && strncmp(p.name, tested.bare, strlen(tested.bare)) == 0;
            snprintf(layer, sizeof layer, "%s%.*s", bare ? "" : "transformer.",
                     (int)(strlen(p.name) - strlen(".weight")), p.name);
            one_lora(m, plain, weight, &p, layer);
        }
    }
    CHECK_INT(n, tested.loras);
    finish_file(f);
    graft_model_release(m);
}

static inline const char *write_named(const lora_name *l, int64_t rows, int64_t columns)
{
    made_file *f = calloc(1, sizeof *f);
    char alpha[200];
    random_state = 11;
    matrix(f, l->stem, l->up, rows, 2);
    matrix(f, l->stem, l->down, 2, columns);
    snprintf(alpha, sizeof alpha, "%s.alpha", l->stem);
    if (l->alpha) add_tensor(f, alpha, 1, (int64_t[]){1}, (const float[]){2}, 0);
    if (l->more) add_lora_pair(f, l->more, 32, 32);
    return written(f, "lora.safetensors", NULL);
}

/* The same LoRA in the names of several programs. */
static inline void loras_in_other_names(void)
{
    float plain[ANSWER], first[ANSWER], got[ANSWER] = {0};
    graft_model *m = load_model(engine, tuned());
    int64_t rows = 0, columns = 0;
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(tested.lora_names) && tested.lora_names[i].stem; i++) {
        const lora_name *l = &tested.lora_names[i];
        const int before = test_failures;
        if (l->rows) rows = l->rows, columns = l->columns;
        const char *path = write_named(l, rows, columns);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_some(x, got);
        if (l->rows) memcpy(first, got, sizeof got);
        CHECK(x && same_answers(m, first, got) && difference(got, plain, answer_values(m)) > 1e-3);
        name_row(before, l->stem);
        graft_model_release(x);
        unlink(path);
    }
    CHECK(rows > 0);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ sampling */

/* Prompts are seen as long as they are. */
static inline void prompts_of_any_length(void)
{
    float got[ANSWER], want[ANSWER], earlier[ANSWER] = {0};
    graft_model *m = load_model(engine, tested.two);
    const size_t n = answer_values(m);
    for (int i = 0; tested.prompts[i / 2].words[0]; i++) {
        const prompt_pair *p = &tested.prompts[i / 2];
        const asked a = {.words = {p->words[0], p->words[1]}, .cfg = i % 2 ? 4 : 1};
        const int before = test_failures;
        char row[64];
        graft_cond *yes = prompt_of(m, 20000, a.words[0]), *no = prompt_of(m, 60000, a.words[1]);
        const uint64_t built = graphs_built(engine);
        sampled(m, yes, no, a.cfg, got);
        CHECK_INT(graphs_built(engine) - built, p->built[i % 2]);
        by_hand(m, &a, want);
        CHECK(difference(got, want, n) < tested.error);
        CHECK(difference(got, earlier, n) > 10 * tested.error);
        memcpy(earlier, got, sizeof got);
        snprintf(row, sizeof row, "%d and %d words, cfg %g", a.words[0], a.words[1], a.cfg);
        name_row(before, row);
        graft_cond_release(yes);
        graft_cond_release(no);
    }
    CHECK(tested.prompts[0].words[0]);
    graft_model_release(m);
}

/* What the network makes of a prompt alone does not change with the time: it is computed in the
 * first run of a series, and later ones read no prompt. */
static inline void prompts_are_read_once(void)
{
    enum { WORDS = 64 };
    const float time[2] = {700, 300};
    float y = 9, x[2][ANSWER], want[ANSWER], got[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, tested.two);
    const size_t n = (size_t)(WORDS * m->arch.context_dim);
    float *context = malloc(n * sizeof *context);
    graft_binding *b = NULL;
    graft_invariants *series = NULL;
    size_t attentions = 0, once = 0;
    for (size_t i = 0; i < 2 * ANSWER; i++) x[i / ANSWER][i % ANSWER] = fixed_value(i);
    for (size_t i = 0; i < n; i++) context[i] = fixed_value(20000 + i);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, WORDS, NULL, &b, &e), &e);
    if (!b) return;
    for (size_t i = 0; i < b->exe->graph->n_nodes; i++) {
        const bool attends = b->exe->graph->node[i].op == GRAFT_OP_ATTENTION;
        attentions += attends;
        once += attends && b->exe->kept && b->exe->kept[i].invariant;
    }
    CHECK_INT(attentions, tested.attended);
    CHECK_INT(once, tested.attended_once);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x[1], &time[1], context, &y},
                           (void *[]){want}, NULL, NULL, &e),
             &e);
    CHECK_OK(graft_invariants_create(b->exe, engine->kept, &series, &e), &e);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_exe_run_again(b, engine->arenas, series,
                                     (const void *[]){x[i], &time[i], context, &y}, (void *[]){got},
                                     NULL, &e),
                 &e);
        for (size_t k = 0; k < n; k++) context[k] = NAN;
        y = NAN;
    }
    CHECK(same_answers(m, got, want));
    free(context);
    graft_invariants_destroy(series);
    graft_binding_release(b);
    graft_model_release(m);
}

/* How much a prompt's words in their opposite order change a picture. */
static inline double turned_around(const char *checkpoint)
{
    enum { WORDS = 6 };
    float out[2][ANSWER];
    graft_model *m = load_model(engine, checkpoint);
    const size_t width = (size_t)m->arch.context_dim;
    for (int i = 0; i < 2; i++) {
        graft_cond *c = prompt_of(m, 20000, WORDS);
        for (size_t k = 0; i && k < WORDS * width; k++)
            c->entry[0]->data[(WORDS - 1 - k / width) * width + k % width] = fixed_value(20000 + k);
        sampled(m, c, c, 1, out[i]);
        graft_cond_release(c);
    }
    const double most = difference(out[0], out[1], answer_values(m));
    graft_model_release(m);
    return most;
}

static inline void other_schedules(void)
{
    const asked a = {.words = {12}};
    float got[ANSWER], want[ANSWER], plain[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, tested.two), *n = NULL;
    graft_cond *c = prompt_of(m, 20000, a.words[0]);
    CHECK_OK(graft_model_sampling_flow(m, 1.9, false, &n, &e), &e);
    CHECK(n->flow_shift == 1.9);
    sampled(m, c, c, 1, plain);
    sampled(n, c, c, 1, got);
    by_hand(n, &a, want);
    CHECK(difference(got, want, answer_values(m)) < tested.error);
    CHECK(difference(got, plain, answer_values(m)) > 10 * tested.error);
    graft_cond_release(c);
    RELEASE_ALL(m, n);
}

/* A block that adds nothing is what leaving it out comes to: in rows that are computed twice, and
 * where negative prompts leave it out. adds: whether a tensor is of what these blocks add to their
 * streams. */
static inline void left_out(const char *layers, const char *single, bool (*adds)(const char *name))
{
    enum { WORDS = 5 };
    const char *path = temp_path("idle.safetensors");
    const graft_skip_options o = {layers, single, 2, 0, 1, 0};
    static float x[ANSWER], both[2 * ANSWER], plain[ANSWER], less[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = part_of_file(tested.two, UNET);
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (adds(t->name))
            memset((void *)(uintptr_t)t->data, 0, (size_t)shape_count(t->shape, t->rank) * 4);
    }
    write_file(f, path, config_of(tested.two));
    graft_model *m = load_model(engine, tested.two), *idle = load_model(engine, path);
    graft_model *skips = NULL;
    graft_binding *b = NULL;
    const size_t n = answer_values(m), width = (size_t)m->arch.context_dim;
    float *context = malloc(WORDS * width * sizeof *context), t = 400;
    const float y = WORDS;
    CHECK_OK(graft_model_skip_blocks(m, &o, &skips, &e), &e);
    run_some(m, plain);
    run_some(idle, less);
    const graft_unet_use use = {.pictures = 1,
                                .entries = 1,
                                .height = SIDE,
                                .width = SIDE,
                                .tokens = WORDS,
                                .perturbed = 1};
    for (size_t i = 0; i < ANSWER; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < WORDS * width; i++) context[i] = fixed_value(20000 + i);
    CHECK_OK(graft_model_bind_guided(skips, &use, NULL, &b, &e), &e);
    if (b)
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context, &y},
                               (void *[]){both}, NULL, NULL, &e),
                 &e);
    CHECK(difference(both, plain, n) < 1e-5);
    CHECK(difference(both + n, less, n) < 1e-5);
    CHECK(difference(plain, less, n) > 1e-2);
    free(context);
    graft_binding_release(b);
    RELEASE_ALL(m, idle, skips);
    unlink(path);
}

/* ------------------------------------------------------------------ changes */

static inline bool is_kept(const char *layer)
{
    for (size_t i = 0; i < COUNT(tested.kept) && tested.kept[i]; i++)
        if (strncmp(layer, tested.kept[i], strlen(tested.kept[i])) == 0) return true;
    return false;
}

static inline void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = tested.attentions, .linears = tested.linears};
    quantized_as(engine, tested.two, &want, run_some);
}

/* Prompts that are no whole blocks. */
static inline void measured(void)
{
    measured_on(engine, tested.two, 12, 40);
}

static inline void halves(void)
{
    halves_add_up(engine, tested.two, config_of(tested.two), run_some);
}

#define CASE(test)                                                                                 \
    do {                                                                                           \
        const int case_before = test_failures;                                                     \
        RUN(test);                                                                                 \
        name_row(case_before, "in " #test);                                                        \
    } while (0)

static inline void run_family(void)
{
    if (tested.theirs) CASE(names_are_used);
    CASE(as_published);
    if (tested.in_files) CASE(same_in_diffusers_names);
    CASE(saved);
    if (tested.in_files) CASE(no_memory_for_names);
    if (tested.gguf) CASE(gguf);
    CASE(swapped);
    CASE(without_tensors);
    CASE(of_another_kind);
    CASE(told_by_its_name);
    CASE(what_does_not_go_with_it);
    CASE(loras);
    CASE(loras_in_other_names);
    CASE(prompts_of_any_length);
    if (tested.attended_once) CASE(prompts_are_read_once);
    CASE(other_schedules);
    CASE(quantized);
    CASE(measured);
    CASE(halves);
}
#endif
