/* Linear layers of files in FP8, MXFP8 and NVFP4 stay so in memory: what they compute is what the
 * same file gives as floats but for the order of sums. What the formats hold is weights.coded's;
 * what else becomes of packed layers engine.gguf_kept's. */
#include "tests/engine/kept.h"

static graft_engine *kept, *floats;

/* A way in which a program writes a matrix. */
typedef struct way {
    const char *name, *says; /* of X.comfy_quant; NULL: nothing */
    int32_t type;            /* of what it becomes */
    int rank;                /* of its scale; -1: it has none */
    bool rows;               /* a scale for each row */
} way;

enum { PLAIN, PLAIN_E5M2, ONE_SCALE, OLD_SCALE, ROWS, MX, NV, WAYS };
static const way ways[WAYS] = {
    [PLAIN] = {"plain", NULL, GRAFT_FLOAT_E4M3, -1, false},
    [PLAIN_E5M2] = {"plain E5M2", NULL, GRAFT_FLOAT_E5M2, -1, false},
    [ONE_SCALE] = {"float8_e4m3fn", "{\"format\": \"float8_e4m3fn\"}", GRAFT_FLOAT_E4M3, 0, false},
    [OLD_SCALE] = {"scale_weight", NULL, GRAFT_FLOAT_E5M2, 1, false},
    [ROWS] = {"rows", "{\"format\": \"float8_e4m3fn_rowwise\"}", GRAFT_FLOAT_E4M3, 2, true},
    [MX] = {"mxfp8", "{\"format\": \"mxfp8\"}", GRAFT_FLOAT_MXFP8, 2, false},
    [NV] = {"nvfp4", "{\"format\": \"nvfp4\"}", GRAFT_FLOAT_NVFP4, 2, false}};

static uint8_t random_byte(void)
{
    return (uint8_t)(128 + 127 * (double)random_value());
}

/* n bytes that each are a number in both kinds of FP8: E4M3 below 1, E5M2 below 2^-1. */
static uint8_t *random_levels(size_t n)
{
    uint8_t *p = malloc(n + 1);
    if (!p) abort();
    for (size_t i = 0; i < n; i++) p[i] = (random_byte() & 0x80) | random_byte() % 0x38;
    return p;
}

static void add(made_file *f, const char *layer, const char *suffix, graft_dtype dtype, int rank,
                const int64_t *shape, void *data)
{
    char name[300];
    graft_st_tensor *t = &f->tensor[f->n++];
    snprintf(name, sizeof name, "%s%s", layer, suffix);
    *t = (graft_st_tensor){.name = strdup(name), .dtype = dtype, .rank = rank, .data = data};
    t->bytes = (uint64_t)shape_count(shape, rank) * graft_dtype_size(dtype);
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
}

static void add_floats(made_file *f, const char *layer, const char *suffix, int rank,
                       const int64_t *shape, float least)
{
    const int64_t n = shape_count(shape, rank);
    float *v = malloc((size_t)n * sizeof *v);
    if (!v) abort();
    for (int64_t i = 0; i < n; i++) v[i] = least * (1.5f + random_value() / 2);
    add(f, layer, suffix, GRAFT_F32, rank, shape, v);
}

/* Scales of blocks lie in tiles of 128 rows and 4 blocks. */
static void add_tiles(made_file *f, const char *layer, graft_dtype dtype, int64_t rows,
                      int64_t blocks)
{
    const int64_t shape[2] = {(rows + 127) / 128 * 128, (blocks + 3) / 4 * 4};
    uint8_t *p = malloc((size_t)(shape[0] * shape[1]));
    if (!p) abort();
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        p[i] = (uint8_t)(dtype == GRAFT_U8 ? 121 + random_byte() % 4 : 0x10 + random_byte() % 8);
    add(f, layer, ".weight_scale", dtype, 2, shape, p);
}

/* A matrix of random values, as large as weights are. */
static void add_matrix(made_file *f, const graft_st_tensor *t, const way *w)
{
    const int64_t rows = t->shape[0], n = t->shape[1];
    const bool nv = w == &ways[NV];
    const int64_t shape[2] = {rows, nv ? n / 2 : n};
    const graft_dtype dtype = nv                            ? GRAFT_U8
                              : w->type == GRAFT_FLOAT_E5M2 ? GRAFT_F8_E5M2
                                                            : GRAFT_F8_E4M3;
    char layer[256];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    uint8_t *levels = random_levels((size_t)(shape[0] * shape[1]));
    for (int64_t i = 0; nv && i < shape[0] * shape[1]; i++) levels[i] = random_byte();
    for (int64_t i = 0; w->rank < 0 && i < shape[0] * shape[1]; i++)
        levels[i] = (levels[i] & 0x80) | levels[i] % 0x18; /* smaller ones */
    add(f, layer, ".weight", dtype, 2, shape, levels);
    if (w == &ways[MX] || nv)
        add_tiles(f, layer, nv ? GRAFT_F8_E4M3 : GRAFT_U8, rows, n / (nv ? 16 : 32));
    else if (w->rank >= 0)
        add_floats(f, layer, w->says ? ".weight_scale" : ".scale_weight", w->rank,
                   (const int64_t[]){w->rows ? rows : 1, 1}, 0.1f);
    if (nv) add_floats(f, layer, ".weight_scale_2", 0, NULL, 0.5f);
    if (!w->says) return;
    const int64_t length = (int64_t)strlen(w->says);
    add(f, layer, ".comfy_quant", GRAFT_U8, 1, &length, strdup(w->says));
}

typedef const way *ways_of(const char *name);
static const way *only;

static const way *one(const char *name)
{
    (void)name;
    return only;
}

static const way *several(const char *name)
{
    if (strstr(name, "attn1.to_v")) return &ways[ROWS];
    if (strstr(name, "attn1.to_")) return &ways[NV];
    if (strstr(name, "attn2")) return &ways[OLD_SCALE];
    return strstr(name, ".ff.") ? &ways[MX] : &ways[PLAIN];
}

static const way *others(const char *name)
{
    return strstr(name, "attn1.to_v") ? &ways[ONE_SCALE] : several(name);
}

static const way *scaled_v(const char *name)
{
    return strstr(name, "attn1.to_v") ? &ways[PLAIN_E5M2] : several(name);
}

/* SD1's network with its matrices so. Returns the bytes of its tensors. */
static uint64_t write_network(const char *path, ways_of *of)
{
    made_file *m = network(), *f = calloc(1, sizeof *f);
    uint64_t bytes = 0;
    if (!f) abort();
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        const way *own = t->rank == 2 ? of(t->name) : NULL;
        if (own && t->shape[1] % graft_blocks_values(own->type) == 0) {
            add_matrix(f, t, own);
            continue;
        }
        f->tensor[f->n] = *t;
        f->tensor[f->n++].name = strdup(t->name);
        t->data = NULL; /* the other file's now */
    }
    for (size_t i = 0; i < f->n; i++) bytes += f->tensor[i].bytes;
    write_file(f, path, config_of(SD1));
    finish_file(m);
    return bytes;
}

static void stays_in_memory(void)
{
    const char *path = temp_path("packed.safetensors");
    for (int i = 0; i < WAYS; i++) {
        only = &ways[i];
        const uint64_t file = write_network(path, one);
        last_log[0] = 0;
        graft_model *a = load_model(kept, path), *b = load_model(floats, path);
        CHECK_STR(last_log, "");
        CHECK(count_kept(a) > 30 && count_kept(b) == 0);
        /* What was one scale is one for each row here. */
        if (!((double)weight_bytes(a) < 1.1 * (double)file &&
              1.3 * (double)weight_bytes(a) < (double)weight_bytes(b)))
            CHECK_STR(only->name, "as small as its file");
        close_to(a, b, SUMS);
        check_layer(a, "time_embed.0.weight", 0, 1);
        check_layer(a, BLOCK "attn1.to_q.weight", only->type, 3);
        check_layer(a, BLOCK "ff.net.0.proj.weight", only->type, 1);
        RELEASE_ALL(a, b);
        unlink(path);
    }
}

static void several_ways(void)
{
    const char *path = temp_path("packed.safetensors");
    write_network(path, several);
    graft_model *a = load_model(kept, path), *b = load_model(floats, path);
    close_to(a, b, SUMS);
    check_layer(a, BLOCK "attn1.to_q.weight", GRAFT_FLOAT_NVFP4, 2);
    check_layer(a, BLOCK "attn1.to_v.weight", GRAFT_FLOAT_E4M3, 1);
    check_layer(a, BLOCK "attn2.to_k.weight", GRAFT_FLOAT_E5M2, 2);
    check_layer(a, BLOCK "ff.net.0.proj.weight", GRAFT_FLOAT_MXFP8, 1);
    RELEASE_ALL(a, b);
    unlink(path);
}

/* The same types with scales of another kind are no other graph; other types are. */
static void swapped(void)
{
    const char *path[] = {temp_path("a.safetensors"), temp_path("b.safetensors"),
                          temp_path("c.safetensors")};
    ways_of *const of[] = {several, others, scaled_v};
    float want[OUT], got[OUT], first[OUT];
    for (int i = 0; i < 3; i++) write_network(path[i], of[i]);
    graft_model *a = load_model(kept, path[0]);
    run_model(a, first);
    const uint64_t built = graphs_built(kept);
    for (int i = 1; i < 3; i++) {
        graft_model *to = swap_weights(a, path[i], false);
        run_model(to, got);
        CHECK_INT(graphs_built(kept), built + (i == 2));
        graft_model *b = load_model(kept, path[i]);
        run_model(b, want);
        CHECK(same_bits(got, want) && !same_bits(got, first));
        graft_model *back = swap_weights(to, path[0], true);
        run_model(back, got);
        CHECK(same_bits(got, first));
        RELEASE_ALL(to, b, back);
    }
    graft_model_release(a);
    for (int i = 0; i < 3; i++) unlink(path[i]);
}

/* What a LoRA changes is Q8_0, whatever it was. */
static void with_loras(void)
{
    const char *path = temp_path("packed.safetensors");
    char lora[256];
    float plain[OUT], once[OUT];
    write_network(path, several);
    make_lora(lora, "lora.safetensors");
    graft_model *a = load_model(kept, path), *b = load_model(floats, path);
    graft_model *c = with_lora(a, lora, 0.8), *d = with_lora(b, lora, 0.8);
    run_model(a, plain);
    run_model(c, once);
    CHECK(difference(once, plain, OUT) > 1e-3);
    close_to(c, d, 0.2 * difference(once, plain, OUT));
    check_layer(c, BLOCK "attn1.to_q.weight", GRAFT_GGML_Q8_0, 1);
    check_layer(c, BLOCK "attn1.to_k.weight", GRAFT_FLOAT_NVFP4, 1);
    CHECK_INT(count_kept(c), count_kept(a) + 1);
    RELEASE_ALL(a, b, c, d);
    unlink(path);
    unlink(lora);
}

static void reports(void)
{
    const char *path = temp_path("packed.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    write_network(path, several);
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        graft_model *m = load_model(i ? floats : kept, path);
        CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
        CHECK(text && !strstr(text, "E4M3, E5M2, MXFP8, NVFP4") == (i == 1));
        free(text);
        graft_model_release(m);
    }
    unlink(path);
}

int main(void)
{
    setenv("GRAFT_PACKED", "floats", 1);
    floats = make_engine("cpu");
    setenv("GRAFT_PACKED", "keep", 1);
    kept = make_engine("cpu");
    unsetenv("GRAFT_PACKED");
    RUN(stays_in_memory);
    RUN(several_ways);
    RUN(swapped);
    RUN(with_loras);
    RUN(reports);
    graft_engine_destroy(kept);
    graft_engine_destroy(floats);
    return test_end();
}
