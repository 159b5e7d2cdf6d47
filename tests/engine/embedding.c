/* Textual inversion: a prompt with an embedding is encoded as by a model that has the embedding's
 * vectors in its token table; and files that are of no use leave the rest of the prompt alone. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/half.h"
#include "tests/engine/fixture.h"

#define SD1_TABLE "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight"
#define SD2_TABLE "cond_stage_model.model.token_embedding.weight"
#define L_TABLE   "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight"
#define G_TABLE   "conditioner.embedders.1.model.token_embedding.weight"

/* "cat", "dog" and "bird" are one token each; their rows are those that are replaced. */
enum { WORDS = 3 };
static const int32_t words[WORDS] = {2368, 1929, 3329};

static graft_engine *engine;
static char folder[256], lines[4096];
static int asked;

/* ------------------------------------------------------------------ a task with a folder */

static void line(void *ctx, int32_t level, const char *text)
{
    size_t n = strlen(lines);
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(lines + n, sizeof lines - n, "%s\n", text);
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    return path;
}

static graft_status find(void *ctx, const char *name, char **path, graft_err *e)
{
    (void)ctx;
    asked++;
    if (!graft_file_exists(path_of(name)) && !graft_dir_exists(path_of(name)))
        return graft_fail(e, GRAFT_E_NOTFOUND, "there is no such file");
    *path = graft_strdup(path_of(name));
    return *path ? GRAFT_OK : graft_fail_nomem(e, "a path");
}

static graft_task task = {.embedding = find, .log = {.line = line}};

static graft_cond *encode(const graft_clip *c, const char *prompt)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    lines[0] = 0;
    asked = 0;
    CHECK_OK(graft_clip_encode(c, prompt, &task, &out, &e), &e);
    return out;
}

static bool same_cond(const graft_cond *a, const graft_cond *b)
{
    if (!a || !b || a->n != 1 || b->n != 1) return false;
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    if (x->tokens != y->tokens || x->width != y->width || x->pooled_width != y->pooled_width)
        return false;
    size_t n = (size_t)(x->tokens * x->width), p = (size_t)x->pooled_width;
    return memcmp(x->data, y->data, n * sizeof *x->data) == 0 &&
           memcmp(x->pooled, y->pooled, p * sizeof *x->pooled) == 0;
}

/* `prompt` for the one encoder and `other` for the second give the same bits, or do not. */
static void compare(const graft_clip *a, const char *prompt, const graft_clip *b, const char *other,
                    bool want)
{
    graft_cond *x = encode(a, prompt), *y = encode(b, other);
    bool same = same_cond(x, y);
    CHECK(same == want);
    if (same != want) fprintf(stderr, "    \"%s\" and \"%s\"\n", prompt, other);
    graft_cond_release(x);
    graft_cond_release(y);
}

/* ------------------------------------------------------------------ files */

typedef struct tensor {
    const char *name;
    graft_dtype dtype;
    int rank;
    int64_t shape[3];
    const void *data;
} tensor;

static void put(const char *name, const tensor *t, size_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_st_tensor out[4] = {{0}};
    for (size_t i = 0; i < n; i++) {
        out[i] = (graft_st_tensor){
            .name = t[i].name, .dtype = t[i].dtype, .rank = t[i].rank, .data = t[i].data};
        memcpy(out[i].shape, t[i].shape, sizeof t[i].shape);
        out[i].bytes = (uint64_t)shape_count(t[i].shape, t[i].rank) * graft_dtype_size(t[i].dtype);
    }
    CHECK_OK(graft_safetensors_write(path_of(name), out, n, NULL, 1, &e), &e);
}

/* Random vectors (WORDS,width) that a table of 16 bits can hold as well. */
static float *vectors(int64_t width)
{
    float *v = malloc(WORDS * (size_t)width * sizeof *v);
    for (int64_t i = 0; i < WORDS * width; i++)
        v[i] = graft_f16_to_f32(graft_f32_to_f16(0.3f * random_value()));
    return v;
}

/* Puts the vectors into the rows of the words. */
static void replace_rows(const graft_safetensors *f, const char *table, const float *v)
{
    const graft_st_tensor *t = graft_safetensors_find(f, table);
    CHECK(t && t->rank == 2 && (t->dtype == GRAFT_F16 || t->dtype == GRAFT_F32));
    if (!t) exit(1);
    size_t width = (size_t)t->shape[1], size = graft_dtype_size(t->dtype);
    for (size_t w = 0; w < WORDS; w++)
        for (size_t i = 0; i < width; i++) {
            char *at = (char *)(uintptr_t)t->data + ((size_t)words[w] * width + i) * size;
            uint16_t half = graft_f32_to_f16(v[w * width + i]);
            memcpy(at, size == 2 ? (void *)&half : (void *)&v[w * width + i], size);
        }
}

static graft_clip *load(const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, NULL, &c, NULL, &e), &e);
    if (!c) exit(1);
    return c;
}

/* The checkpoint's text encoder as it is, and one with other rows: v[1] is SDXL's second. */
typedef struct pair {
    graft_clip *plain, *other;
    float *v[2];
    int64_t width[2];
} pair;

static pair open_pair(const char *path, const char *const tables[2])
{
    graft_err e = GRAFT_ERR_INIT;
    char *bytes = NULL;
    size_t n = 0;
    graft_safetensors *f = NULL;
    pair p = {.plain = load(path)};
    CHECK_OK(graft_file_read(path, 1 << 28, &bytes, &n, &e), &e);
    CHECK_OK(graft_safetensors_open_memory(bytes, n, "a copy", &f, &e), &e);
    if (!f) exit(1);
    for (size_t i = 0; i < 2 && tables[i]; i++) {
        const graft_st_tensor *t = graft_safetensors_find(f, tables[i]);
        p.width[i] = t ? t->shape[1] : 0;
        p.v[i] = vectors(p.width[i]);
        replace_rows(f, tables[i], p.v[i]);
    }
    const char *changed = temp_path("changed.safetensors");
    CHECK_OK(graft_file_write(changed, bytes, n, &e), &e);
    p.other = load(changed);
    unlink(changed); /* mapped */
    graft_safetensors_close(f);
    graft_free(bytes);
    return p;
}

static void close_pair(pair *p)
{
    graft_clip_release(p->plain);
    graft_clip_release(p->other);
    free(p->v[0]);
    free(p->v[1]);
}

/* ------------------------------------------------------------------ one encoder */

/* All that the prompts below need: "v" has all vectors, "a", "b" and "c" one each. */
static void put_good(const pair *p)
{
    int64_t w = p->width[0];
    const float *v = p->v[0];
    put("v", &(tensor){"emb_params", GRAFT_F32, 2, {WORDS, w}, v}, 1);
    put("a", &(tensor){"<token>", GRAFT_F32, 2, {1, w}, v}, 1);
    put("b", &(tensor){"emb_params", GRAFT_F32, 1, {w}, v + w}, 1);
    uint16_t *half = malloc((size_t)w * sizeof *half);
    for (int64_t i = 0; i < w; i++) half[i] = graft_f32_to_f16(v[2 * w + i]);
    put("c", &(tensor){"clip_l", GRAFT_F16, 2, {1, w}, half}, 1);
    free(half);
    /* Of several that fit, the one with a name that says what it is for. */
    put("named",
        (const tensor[]){{"a", GRAFT_F32, 2, {1, w}, v + w},
                         {"emb_params", GRAFT_F32, 2, {1, w}, v}},
        2);
    put("own",
        (const tensor[]){{"emb_params", GRAFT_F32, 2, {1, w}, v + w},
                         {"clip_l", GRAFT_F32, 2, {1, w}, v}},
        2);
    put("rest",
        (const tensor[]){{"count", GRAFT_F32, 1, {1}, v},
                         {"vectors", GRAFT_F32, 2, {1, w}, v},
                         {"more", GRAFT_F32, 2, {1, w}, v + w}},
        3);
}

static void as_in_the_table(const pair *p)
{
    /* The words of the plain model are not needed in what follows, those of the other one are. */
    compare(p->plain, "cat", p->other, "cat", false);
    compare(p->plain, "a red apple", p->other, "a red apple", true);
    compare(p->plain, "embedding:a", p->other, "cat", true);
    compare(p->plain, "embedding:named", p->other, "cat", true);
    compare(p->plain, "embedding:own", p->other, "cat", true);
    compare(p->plain, "embedding:rest", p->other, "cat", true);
    compare(p->plain, "a embedding:v on a red apple", p->other, "a cat dog bird on a red apple",
            true);
    compare(p->plain, "embedding:a, embedding:b red embedding:c", p->other, "cat, dog red bird",
            true);
    compare(p->plain, "a (embedding:b:1.3) (red:0.7)", p->other, "a (dog:1.3) (red:0.7)", true);
    compare(p->plain, "a (embedding:v:-0.5)", p->other, "a (cat dog bird:-0.5)", true);
    compare(p->plain, "(embedding:a:1.3)", p->plain, "embedding:a", false);
    compare(p->plain, "embedding:a embedding:b", p->plain, "embedding:b embedding:a", false);
    CHECK_STR(lines, "");
    CHECK_INT(asked, 2);
}

/* 68 words, then some, so that three vectors end the chunk or begin the next. */
static void at_the_border(const pair *p)
{
    const char *plain_words =
        "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
        "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a ";
    for (int more = 3; more <= 8; more++) {
        char a[512], b[600];
        snprintf(a, sizeof a, "%s%.*s", plain_words, 2 * more, "a a a a a a a a ");
        snprintf(b, sizeof b, "%s(cat dog bird:1)red", a);
        snprintf(a + strlen(a), sizeof a - strlen(a), "(embedding:v:1) red");
        compare(p->plain, a, p->other, b, true);
        graft_cond *c = encode(p->plain, a);
        CHECK_INT(c ? c->entry[0]->tokens : 0, more <= 3 ? 77 : 154);
        graft_cond_release(c);
    }
}

/* No graph is made for embeddings, and none runs in another way for prompts without them. */
static void same_graph(const pair *p)
{
    graft_compiled_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *a = NULL, *b = encode(p->plain, "a red apple");
    CHECK_INT(asked, 0);
    graft_compiled_stats_get(engine->compiled, &before);
    CHECK_OK(graft_clip_encode(p->plain, "a red apple", NULL, &a, &e), &e);
    CHECK(same_cond(a, b));
    graft_cond_release(b);
    b = encode(p->plain, "a red embedding:a");
    CHECK_INT(asked, 1);
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT(after.built, before.built);
    CHECK(!same_cond(a, b));
    graft_cond_release(a);
    graft_cond_release(b);
    /* Without a task that finds files they are words. */
    CHECK_OK(graft_clip_encode(p->plain, "embedding:a", NULL, &a, &e), &e);
    b = encode(p->plain, "embedding:a");
    CHECK(!same_cond(a, b));
    graft_cond_release(a);
    graft_cond_release(b);
}

/* ------------------------------------------------------------------ files of no use */

/* The prompt with this embedding is the prompt without it, and the log says why. */
static void no_use(const graft_clip *c, const char *name, const char *why)
{
    char prompt[128];
    snprintf(prompt, sizeof prompt, "a embedding:%s, red", name);
    graft_cond *x = encode(c, prompt);
    CHECK(strstr(lines, why) != NULL && strstr(lines, name) != NULL);
    if (!strstr(lines, why)) fprintf(stderr, "    no \"%s\" in: %s\n", why, lines);
    graft_cond *y = encode(c, "a, red");
    CHECK(same_cond(x, y));
    graft_cond_release(x);
    graft_cond_release(y);
}

static void bad_values(const pair *p)
{
    int64_t w = p->width[0];
    float *v = calloc(1025 * (size_t)w, sizeof *v);
    int32_t *whole = calloc((size_t)w, sizeof *whole);
    put("nan", &(tensor){"emb_params", GRAFT_F32, 2, {2, w}, (v[w + 1] = NAN, v)}, 1);
    no_use(p->plain, "nan", "not a finite number");
    put("inf", &(tensor){"emb_params", GRAFT_F32, 2, {2, w}, (v[w + 1] = -INFINITY, v)}, 1);
    no_use(p->plain, "inf", "not a finite number");
    v[w + 1] = 0;
    put("many", &(tensor){"emb_params", GRAFT_F32, 2, {1025, w}, v}, 1);
    no_use(p->plain, "many", "1025 vectors");
    put("empty", &(tensor){"emb_params", GRAFT_F32, 2, {0, w}, v}, 1);
    no_use(p->plain, "empty", "0 vectors");
    put("wide", &(tensor){"emb_params", GRAFT_F32, 2, {3, w + 1}, v}, 1);
    no_use(p->plain, "wide", "values, and this text encoder's have");
    put("deep", &(tensor){"emb_params", GRAFT_F32, 3, {1, 1, w}, v}, 1);
    no_use(p->plain, "deep", "no list of vectors");
    put("whole", &(tensor){"emb_params", GRAFT_I32, 2, {1, w}, whole}, 1);
    no_use(p->plain, "whole", "no list of vectors");
    put("nothing", NULL, 0);
    no_use(p->plain, "nothing", "no list of vectors");
    put("limit", &(tensor){"emb_params", GRAFT_F32, 2, {1024, w}, v}, 1);
    graft_cond *c = encode(p->plain, "embedding:limit");
    CHECK_INT(c ? c->entry[0]->tokens : 0, 14 * 77);
    CHECK_STR(lines, "");
    graft_cond_release(c);
    free(v);
    free(whole);
}

static void bad_files(const pair *p)
{
    graft_err e = GRAFT_ERR_INIT;
    char *bytes = NULL;
    size_t n = 0;
    no_use(p->plain, "missing", "there is no such file");
    CHECK_OK(graft_file_read(path_of("v"), 1 << 20, &bytes, &n, &e), &e);
    const size_t keep[] = {0, 7, 40, n - 1};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        CHECK_OK(graft_file_write(path_of("cut"), bytes, keep[i], &e), &e);
        no_use(p->plain, "cut", "left out");
    }
    memset(bytes, 0xff, 8);
    CHECK_OK(graft_file_write(path_of("cut"), bytes, n, &e), &e);
    no_use(p->plain, "cut", "left out");
    CHECK_OK(graft_file_write(path_of("cut"), "\x80\x02}q\x00.", 6, &e), &e); /* a pickle */
    no_use(p->plain, "cut", "left out");
    CHECK_OK(graft_dir_make(path_of("folder"), &e), &e);
    no_use(p->plain, "folder", "left out");
    rmdir(path_of("folder"));
    graft_free(bytes);
    /* One of several; the same twice is told once. */
    compare(p->plain, "embedding:missing embedding:a embedding:missing", p->plain, "embedding:a",
            true);
    graft_cond_release(encode(p->plain, "embedding:missing, embedding:missing,"));
    const char *first = strstr(lines, "left out");
    CHECK(first && !strstr(first + 1, "left out"));
}

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void no_memory(const pair *p)
{
    graft_cond_release(encode(p->plain, "a (embedding:v:1.2), embedding:missing, red"));
    int64_t before = live();
    int failed = 0;
    graft_status st = GRAFT_E_NOMEM;
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_cond *c = NULL;
        graft_alloc_fail_at(i);
        st = graft_clip_encode(p->plain, "a (embedding:v:1.2), embedding:missing, red", &task, &c,
                               &e);
        graft_alloc_fail_at(0);
        if (st == GRAFT_OK) CHECK(c != NULL);
        if (st != GRAFT_OK) CHECK_INT(st, GRAFT_E_NOMEM);
        graft_cond_release(c);
        CHECK_INT(live(), before);
        failed += st != GRAFT_OK;
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK(failed > 20);
}

static void one_encoder(const char *path, const char *table)
{
    pair p = open_pair(path, (const char *const[2]){table, NULL});
    put_good(&p);
    as_in_the_table(&p);
    at_the_border(&p);
    same_graph(&p);
    bad_values(&p);
    bad_files(&p);
    no_memory(&p);
    close_pair(&p);
}

static void sd1(void)
{
    one_encoder(MODELS "/tiny-sd1.safetensors", SD1_TABLE);
}

static void sd2(void)
{
    one_encoder(MODELS "/tiny-sd2.safetensors", SD2_TABLE);
}

/* ------------------------------------------------------------------ SDXL */

static void both(const pair *p)
{
    int64_t l = p->width[0], g = p->width[1];
    const tensor files[] = {{"clip_g", GRAFT_F32, 2, {WORDS, g}, p->v[1]},
                            {"clip_l", GRAFT_F32, 2, {WORDS, l}, p->v[0]}};
    put("both", files, 2);
    put("one_each",
        (const tensor[]){{"clip_l", GRAFT_F32, 2, {1, l}, p->v[0]},
                         {"clip_g", GRAFT_F32, 2, {1, g}, p->v[1]}},
        2);
    compare(p->plain, "a embedding:both on red", p->other, "a cat dog bird on red", true);
    CHECK_STR(lines, "");
    compare(p->plain, "a (embedding:one_each:1.4), red", p->other, "a (cat:1.4), red", true);
    graft_err e = GRAFT_ERR_INIT;
    graft_sdxl_size size = {64, 64, 0, 0, 64, 64};
    graft_cond *a = NULL, *b = NULL;
    CHECK_OK(graft_clip_encode_sdxl(p->plain, "embedding:both", "red embedding:one_each", &size,
                                    &task, &a, &e),
             &e);
    CHECK_OK(graft_clip_encode_sdxl(p->other, "cat dog bird", "red cat", &size, &task, &b, &e), &e);
    CHECK(same_cond(a, b));
    graft_cond_release(a);
    graft_cond_release(b);
}

/* The columns of one encoder. */
static bool same_columns(const graft_cond *a, const graft_cond *b, int64_t from, int64_t n)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    bool same = x->tokens == y->tokens;
    for (int64_t i = 0; i < x->tokens && same; i++)
        same = memcmp(x->data + i * x->width + from, y->data + i * y->width + from,
                      (size_t)n * sizeof *x->data) == 0;
    return same;
}

/* A file with one tensor is of use to one of the encoders, and leaves the other one in step. */
static void half(const pair *p)
{
    int64_t l = p->width[0], g = p->width[1];
    put("half", &(tensor){"emb_params", GRAFT_F32, 2, {WORDS, l}, p->v[0]}, 1);
    graft_cond *x = encode(p->plain, "a embedding:half, red");
    CHECK(strstr(lines, "\"half\" is left out: its vectors have 32 values") != NULL);
    graft_cond *y = encode(p->other, "a cat dog bird, red"), *z = encode(p->plain, "a, red");
    CHECK(same_columns(x, y, 0, l) && !same_columns(x, z, 0, l));
    CHECK(same_columns(x, z, l, g) && !same_columns(x, y, l, g));
    graft_cond_release(x);
    graft_cond_release(y);
    graft_cond_release(z);
    /* 75 words and the vectors are two chunks, for both: the last word is not lost. */
    char prompt[512] = "";
    for (int i = 0; i < 74; i++) strcat(prompt, "a ");
    strcat(prompt, "(embedding:half:1) red");
    x = encode(p->plain, prompt);
    CHECK_INT(x ? x->entry[0]->tokens : 0, 154);
    graft_cond_release(x);
}

static void sdxl(void)
{
    pair p = open_pair(MODELS "/tiny-sdxl.safetensors", (const char *const[2]){L_TABLE, G_TABLE});
    both(&p);
    half(&p);
    close_pair(&p);
}

static void run_backend(const char *backend)
{
    printf("backend %s\n", backend);
    engine = make_engine(backend);
    RUN(sd1);
    RUN(sd2);
    RUN(sdxl);
    graft_engine_destroy(engine);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    snprintf(folder, sizeof folder, "%s", temp_path("embeddings"));
    CHECK_OK(graft_dir_make(folder, &e), &e);
    run_backend("ref");
    run_backend("cpu");
    const char *more = getenv("GRAFT_TEST_BACKEND"); /* for machines that have another */
    if (more) run_backend(more);
    char **names = NULL;
    size_t n = 0;
    graft_dir_list(folder, NULL, &names, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    graft_names_free(names, n);
    rmdir(folder);
    return test_end();
}
