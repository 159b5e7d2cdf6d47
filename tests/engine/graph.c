/* The graph's text form and its verifier: what is printed parses to the same graph, text with any
 * fault is refused with its line, and each way to damage a graph in memory is found. */
#include "engine/graph/graph.h"

#include "base/alloc.h"
#include "engine/passes/passes.h"
#include "tests/engine/fixture.h"
#include "tests/locale.h"

#define VAE GRAFT_SOURCE_DIR "/golden/small/vae.safetensors"

static graft_graph *parse(const char *text)
{
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_graph_parse(text, strlen(text), &g, &e), &e);
    return g;
}

/* ------------------------------------------------------------------ round trips */

static void round_trip(const graft_graph *g)
{
    graft_str first = GRAFT_STR_INIT, second = GRAFT_STR_INIT;
    graft_hash a = {0, 0}, b = {0, 1};
    graft_err e = GRAFT_ERR_INIT;
    graft_graph_print(g, &first);
    graft_graph *again = parse(first.data);
    if (again) {
        graft_graph_print(again, &second);
        CHECK_STR(second.data, first.data);
        CHECK_OK(graft_graph_hash(g, &a, &e), &e);
        CHECK_OK(graft_graph_hash(again, &b, &e), &e);
        CHECK(graft_hash_equal(a, b));
    }
    graft_graph_destroy(again);
    graft_str_finish(&first);
    graft_str_finish(&second);
}

/* As built, and after the passes, which leave views of values that come later. */
static void both_ways(graft_graph *g)
{
    graft_err e = GRAFT_ERR_INIT;
    round_trip(g);
    CHECK_OK(graft_passes_run(g, &e), &e);
    round_trip(g);
    graft_graph_destroy(g);
}

static void models_survive(void)
{
    static const char *const unets[] = {SD1, SD2, SDXL};
    graft_engine *engine = make_engine("ref");
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    for (size_t i = 0; i < sizeof unets / sizeof *unets; i++) {
        graft_model *m = load_model(engine, unets[i]);
        graft_net_shape shape = {0};
        shape.batch = 2;
        shape.height = shape.width = SIDE;
        shape.tokens = TOKENS;
        shape.act_dtype = i ? GRAFT_F32 : GRAFT_BF16;
        CHECK_OK(graft_unet_build(&m->arch.unet, &shape, &g, &e), &e);
        both_ways(g);
        graft_model_release(m);
    }
    graft_vae *v = NULL;
    CHECK_OK(graft_vae_load(engine, VAE, NULL, &v, &e), &e);
    CHECK_OK(graft_vae_decoder_build(&v->arch, 1, 8, 8, GRAFT_F32, &g, &e), &e);
    both_ways(g);
    graft_vae_release(v);
    graft_engine_destroy(engine);
}

static const char sample[] =
    "graft-graph 1\n"
    "slot plain [6,4,3,3] 6 \"conv.weight\"\n"
    "slot rows [8,6] 4 \"q\" 4 \"a \\\"k\\\\\"\n"
    "slot transpose [6,4] 6 \"t\"\n"
    "literal f32 2 0000803f00000040\n"
    "%0 f32 [1,4,4,4] input 0\n"
    "%1 f32 [6,4,3,3] weight 0\n"
    "%2 f32 [1,4,4,6] temp\n"
    "%3 f32 [1,16,6] view %2 +0 [96,6,1]\n"
    "%4 f32 [8,6] weight 1\n"
    "%5 f32 [1,16,8] temp\n"
    "%6 f32 [1,16,4] view %5 +4 [128,8,1]\n"
    "%7 f32 [2] const 0\n"
    "%8 f32 [2] temp\n"
    "%9 f32 [6,4] weight 2\n"
    "%10 bf16 [1,16,6] temp\n"
    "conv2d %2 = %0 %1 - - - | kernel_h=3 kernel_w=3 stride_h=1 stride_w=1 pad_top=1 pad_left=1 "
    "pad_bottom=1 pad_right=1\n"
    "linear %5 = %3 %4 - - - - |\n"
    "scale %8 = %7 | scale=0x1.99999ap+1 shift=-0x1p-3\n"
    "linear %10 = %6 %9 - - - - | act=1\n"
    "output %10\n"
    "output %8\n";

static void text_survives(void)
{
    graft_graph *g = parse(sample);
    graft_str s = GRAFT_STR_INIT;
    graft_graph_print(g, &s);
    CHECK_STR(s.data, sample);
    CHECK_STR(g->slot[1].source[1], "a \"k\\");
    CHECK(g->node[2].attrs.scale == 3.2f);
    graft_str_finish(&s);
    graft_graph_destroy(g);
    both_ways(parse(sample));
}

static void text_survives_a_locale(void)
{
    if (locale_begin()) text_survives();
    locale_end();
}

/* Cut anywhere, the text is refused or is a whole graph of the lines that are left. */
static void cut_text_is_refused(void)
{
    graft_err e = GRAFT_ERR_INIT;
    for (size_t n = 0; n < sizeof sample - 1; n++) {
        graft_graph *g = NULL;
        graft_status st = graft_graph_parse(sample, n, &g, &e);
        CHECK((st == GRAFT_OK) == (g != NULL));
        if (n && sample[n - 1] != '\n') CHECK(st != GRAFT_OK);
        if (st) CHECK(e.text[0] != '\0');
        graft_graph_destroy(g);
    }
}

/* ------------------------------------------------------------------ faults in the text */

static const struct {
    const char *from, *to, *says;
} faults[] = {
    {"graft-graph 1", "graft-graph 2", "not a graph of version 1"},
    {"slot plain", "slot plane", "line 2: bad slot"},
    {"6 \"conv.weight\"", "6", "source has no name"},
    {"6 \"conv.weight\"", "6 conv", "line 2"},
    {"6 \"conv.weight\"", "6 \"\"", "no good name"},
    {"6 \"conv.weight\"", "3 \"conv.weight\"", "slot 0: sources do not fill it"},
    {"6 \"conv.weight\"", "3 \"a\" 3 \"b\"", "slot 0: sources do not fill it"},
    {"[8,6] 4", "[8,6] 5", "slot 1: sources do not fill it"},
    {"[8,6] 4", "[8,6] -4", "slot 1: rows out of range"},
    {"slot plain [6,4,3,3]", "slot plain [6,4,3,3,1]", "line 2"},
    {"slot plain [6,4,3,3]", "slot plain [6,4,3,-3]", "slot 0: shape out of range"},
    {"literal f32 2", "literal f99 2", "line 5: bad literal"},
    {"literal f32 2", "literal f32 -2", "line 5: bad literal"},
    {"literal f32 2", "literal f32 9223372036854775807", "literal cut short"},
    {"00000040\n", "0000004g\n", "bad hexadecimal digit"},
    {"literal f32 2 0000803f00000040", "literal f32 1 0000803f", "nothing of its shape"},
    {"%0 f32", "%1 f32", "line 6: bad value"},
    {"%0 f32 [1,4,4,4]", "%0 f32 [1,4,4,9223372036854775807]", "line 6"},
    {"%0 f32 [1,4,4,4]", "%0 f32 [0,4,1099511627776,1099511627776]", "line 6"},
    {"%0 f32 [1,4,4,4]", "%0 f32 [1,4,4]", "conv2d"},
    {"input 0", "input 1", "inputs out of order"},
    {"weight 0", "weight 9", "value 1"},
    {"weight 0", "weight 4294967296", "bad value"},
    {"weight 0", "weight 1", "value 1"},
    {"const 0", "const 1", "value 7"},
    {"view %2 +0", "view %3 +0", "bad view"},
    {"view %2 +0", "view %77 +0", "a view of no value"},
    {"view %2 +0", "view %6 +0", "root is no root"},
    {"view %2 +0", "view %2 +1", "value 3 leaves its root"},
    {"view %2 +0", "view %2 +-1", "value 3 leaves its root"},
    {"[96,6,1]", "[96,7,1]", "value 3 leaves its root"},
    {"[96,6,1]", "[96,9223372036854775807,1]", "value 3 leaves its root"},
    {"[96,6,1]", "[96,-6,1]", "value 3 leaves its root"},
    {"[96,6,1]", "[96,6]", "bad view"},
    {"%3 f32 [1,16,6]", "%3 bf16 [1,16,6]", "value 3 is not of its root's kind"},
    {"conv2d", "convolve", "unknown operator"},
    {"conv2d %2", "conv2d %3", "bad output"},
    {"conv2d %2 = %0", "conv2d %2 = -", "no first input"},
    {"conv2d %2 = %0", "conv2d %2 = %10", "before it is made"},
    {"kernel_h=3", "kernel_h=4", "conv2d"},
    {"kernel_h=3", "kernel_q=3", "unknown attribute"},
    {"kernel_h=3", "kernel_h=99999999999", "bad number"},
    {"stride_h=1", "stride_h=0", "stride below 1"},
    {"scale=0x1.99999ap+1", "scale=many", "bad number"},
    {"linear %5 = %3 %4 - - - - |", "linear %5 = %3 %4 - - - -", "no | before"},
    {"linear %5 = %3 %4 - - - - |", "linear %2 = %3 %4 - - - - |", "bad output"},
    {"linear %5 = %3 %4 - - - - |", "linear %5 = %3 %9 - - - - |", "linear"},
    {"output %10", "output %11", "bad output"},
    {"linear %10 = %6 %9 - - - - | act=1\n", "", "output 0 is never made"},
};

/* `text` with its first `from` replaced; free(). */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    CHECK(at != NULL && out);
    if (!at) at = text;
    memcpy(out, text, (size_t)(at - text));
    strcpy(out + (at - text), to);
    strcat(out, at + strlen(from));
    return out;
}

static void faulty_text_is_refused(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        graft_graph *g = NULL;
        graft_err e = GRAFT_ERR_INIT;
        char *text = replaced(sample, faults[i].from, faults[i].to);
        graft_status st = graft_graph_parse(text, strlen(text), &g, &e);
        CHECK(st != GRAFT_OK && st != GRAFT_E_NOMEM);
        CHECK(g == NULL);
        CHECK(strstr(e.text, faults[i].says) != NULL);
        if (!st || !strstr(e.text, faults[i].says))
            fprintf(stderr, "%s -> %s: \"%s\"\n", faults[i].from, faults[i].to, e.text);
        graft_graph_destroy(g);
        free(text);
    }
}

/* ------------------------------------------------------------------ faults in memory */

static void damage_dim(graft_graph *g)
{
    g->value[2].dim[3] = 7;
}
static void damage_huge(graft_graph *g)
{
    g->value[0].dim[1] = INT64_MAX;
}
static void damage_negative(graft_graph *g)
{
    g->value[0].dim[1] = -4;
}
static void damage_rank(graft_graph *g)
{
    g->value[2].rank = 5;
}
static void damage_dtype(graft_graph *g)
{
    g->value[2].dtype = 99;
}
static void damage_stride(graft_graph *g)
{
    g->value[2].stride[0]++, g->value[2].stride[1]++;
}
static void damage_root(graft_graph *g)
{
    g->value[3].root = 99;
}
static void damage_root_chain(graft_graph *g)
{
    g->value[3].root = 6;
}
static void damage_offset(graft_graph *g)
{
    g->value[6].offset = 5;
}
static void damage_kind(graft_graph *g)
{
    g->value[6].kind = GRAFT_VALUE_INPUT;
}
static void damage_slot_index(graft_graph *g)
{
    g->value[1].index = -1;
}
static void damage_input_list(graft_graph *g)
{
    g->input[0] = 1;
}
static void damage_input_range(graft_graph *g)
{
    g->input[0] = 100;
}
static void damage_output(graft_graph *g)
{
    g->output[1] = 100;
}
static void damage_output_none(graft_graph *g)
{
    g->output[0] = -1;
}
static void damage_order(graft_graph *g)
{
    graft_gnode n = g->node[0];
    g->node[0] = g->node[1];
    g->node[1] = n;
}
static void damage_twice(graft_graph *g)
{
    g->node[1].out = g->node[0].out;
}
static void damage_node_out(graft_graph *g)
{
    g->node[0].out = 3;
}
static void damage_node_in(graft_graph *g)
{
    g->node[0].in[1] = 100;
}
static void damage_extra_in(graft_graph *g)
{
    g->node[1].in[5] = 0;
}
static void damage_op(graft_graph *g)
{
    g->node[0].op = 99;
}
static void damage_attrs(graft_graph *g)
{
    g->node[0].attrs.stride_h = 2;
}
static void damage_rows(graft_graph *g)
{
    g->slot[1].rows[0] = 3;
}
static void damage_slot_dim(graft_graph *g)
{
    g->slot[0].dim[0] = 5;
}
static void damage_literal(graft_graph *g)
{
    g->literal[0].count = 1;
}
static void damage_literal_type(graft_graph *g)
{
    g->literal[0].dtype = GRAFT_I32;
}
static void damage_status(graft_graph *g)
{
    graft_graph_fail(g, GRAFT_E_ARG, "broken");
}

#define DAMAGE(name)                                                                               \
    {                                                                                              \
#name, damage_##name                                                                       \
    }
static const struct {
    const char *name;
    void (*apply)(graft_graph *g);
} damages[] = {DAMAGE(dim),          DAMAGE(huge),        DAMAGE(negative),   DAMAGE(rank),
               DAMAGE(dtype),        DAMAGE(stride),      DAMAGE(root),       DAMAGE(root_chain),
               DAMAGE(offset),       DAMAGE(kind),        DAMAGE(slot_index), DAMAGE(input_list),
               DAMAGE(output),       DAMAGE(output_none), DAMAGE(order),      DAMAGE(twice),
               DAMAGE(node_out),     DAMAGE(node_in),     DAMAGE(extra_in),   DAMAGE(op),
               DAMAGE(attrs),        DAMAGE(rows),        DAMAGE(slot_dim),   DAMAGE(literal),
               DAMAGE(literal_type), DAMAGE(status),      DAMAGE(input_range)};

static void damage_is_found(void)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        graft_graph *g = parse(sample);
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_graph_verify(g, &e), &e);
        damages[i].apply(g);
        graft_status st = graft_graph_verify(g, &e);
        CHECK(st != GRAFT_OK && e.text[0]);
        if (!st) fprintf(stderr, "not found: %s\n", damages[i].name);
        graft_graph_destroy(g);
    }
}

/* ------------------------------------------------------------------ building */

/* The first failure is kept, later calls pass it through, and nothing is lost. */
static void first_failure_is_kept(void)
{
    graft_graph *g = graft_graph_create();
    graft_err e = GRAFT_ERR_INIT;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){1, 4, 8});
    graft_vid w = graft_graph_weight(g, "w", 2, (int64_t[]){6, 9});
    graft_vid y = graft_graph_node(g, GRAFT_OP_LINEAR, NULL, (graft_vid[]){x, w}, 2, 0);
    CHECK_INT(y, GRAFT_NO_VALUE);
    CHECK_INT(graft_graph_reshape(g, y, 1, (int64_t[]){1}), GRAFT_NO_VALUE);
    CHECK_INT(graft_graph_slice(g, x, 0, 100), GRAFT_NO_VALUE);
    graft_graph_output(g, y);
    CHECK_INT(graft_graph_status(g, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "8 columns") != NULL);
    graft_graph_destroy(g);
}

static void same_weight_is_one_slot(void)
{
    graft_graph *g = graft_graph_create();
    graft_vid a = graft_graph_weight(g, "w", 2, (int64_t[]){6, 4});
    CHECK_INT(graft_graph_weight(g, "w", 2, (int64_t[]){6, 4}), a);
    CHECK(graft_graph_weight(g, "w", 2, (int64_t[]){4, 6}) != a);
    CHECK(graft_graph_weight(g, "v", 2, (int64_t[]){6, 4}) != a);
    CHECK(graft_graph_weight_transposed(g, "w", (int64_t[]){6, 4}) != a);
    CHECK_INT(g->n_slots, 4);
    graft_graph_destroy(g);
}

/* A kernel over several pictures, of which the last slice is read. */
static void last_slices(void)
{
    static const char text[] =
        "graft-graph 1\n"
        "slot last [6,4,3,3] 3 \"k\"\n"
        "%0 f32 [1,4,4,4] input 0\n"
        "%1 f32 [6,4,3,3] weight 0\n"
        "%2 f32 [1,2,2,6] temp\n"
        "conv2d %2 = %0 %1 - - - | kernel_h=3 kernel_w=3 stride_h=1 stride_w=1\n"
        "output %2\n";
    static const char *const slots[] = {"last [6,4,3,3] 0 \"k\"", "last [6,4,3,3] 65 \"k\"",
                                        "last [6,4,9] 3 \"k\"", "last [6,4,3,3] 3 \"k\" 3 \"l\""};
    graft_str s = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = parse(text);
    graft_graph_print(g, &s);
    CHECK_STR(s.data, text);
    CHECK(g->slot[0].kind == GRAFT_SLOT_LAST && g->slot[0].rows[0] == 3);
    CHECK(!graft_gslot_plain(&g->slot[0]));
    graft_str_finish(&s);
    graft_graph_destroy(g);
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        graft_graph *bad = NULL;
        graft_str_printf(&s, "graft-graph 1\nslot %s\n%s", slots[i], strstr(text, "%0"));
        CHECK(graft_graph_parse(s.data, s.len, &bad, &e) != GRAFT_OK && !bad);
        graft_str_finish(&s);
    }
    g = graft_graph_create();
    const int64_t dim[4] = {6, 4, 3, 3};
    graft_vid a = graft_graph_weight_last(g, "w", 3, dim);
    CHECK_INT(graft_graph_weight_last(g, "w", 3, dim), a);
    CHECK(graft_graph_weight(g, "w", 4, dim) != a);
    CHECK_INT(g->n_slots, 2);
    graft_graph_destroy(g);
}

/* Weights of which a source has several, in parts of a row or in rows. */
static void slots_of_parts(void)
{
    static const char *const kinds[] = {"first", "sum", "bottom"};
    static const char *const bad[] = {"[6,4] 0 \"k\"", "[6,4] 65 \"k\"", "[6] 2 \"k\"",
                                      "[6,4] 2 \"k\" 2 \"l\""};
    const int64_t dim[2] = {6, 4};
    for (int i = 0; i < 3; i++) {
        graft_str s = GRAFT_STR_INIT, again = GRAFT_STR_INIT;
        graft_err e = GRAFT_ERR_INIT;
        graft_graph *g = NULL;
        static const char rest[] = "%0 f32 [2,4] input 0\n"
                                   "%1 f32 [6,4] weight 0\n"
                                   "%2 f32 [2,6] temp\n"
                                   "linear %2 = %0 %1 - - - - |\n"
                                   "output %2\n";
        graft_str_printf(&s, "graft-graph 1\nslot %s [6,4] 2 \"k\"\n%s", kinds[i], rest);
        g = parse(s.data);
        CHECK((int)g->slot[0].kind == GRAFT_SLOT_FIRST + i && g->slot[0].rows[0] == 2);
        CHECK(graft_gslot_part(&g->slot[0]) && !graft_gslot_rows(&g->slot[0]));
        graft_graph_destroy(g);
        graft_str_finish(&s);
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            g = NULL;
            graft_str_printf(&again, "graft-graph 1\nslot %s %s\n%s", kinds[i], bad[k], rest);
            CHECK(graft_graph_parse(again.data, again.len, &g, &e) != GRAFT_OK && !g);
            graft_str_finish(&again);
        }
    }
    /* A vector has no parts side by side. */
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    static const char vector[] = "graft-graph 1\n"
                                 "slot first [6] 2 \"k\"\n"
                                 "%0 f32 [2,6] input 0\n"
                                 "%1 f32 [6] weight 0\n"
                                 "%2 f32 [2,6] temp\n"
                                 "rms_norm %2 = %0 %1 | heads=1 eps=0.5\n"
                                 "output %2\n";
    CHECK(graft_graph_parse(vector, strlen(vector), &g, &e) != GRAFT_OK && !g);
    CHECK(strstr(e.text, "shape out of range") != NULL);
    g = graft_graph_create();
    const graft_vid a = graft_graph_weight_first(g, "w", 2, 2, dim);
    CHECK_INT(graft_graph_weight_first(g, "w", 2, 2, dim), a);
    CHECK(graft_graph_weight_sum(g, "w", 2, 2, dim) != a);
    CHECK(graft_graph_weight_bottom(g, "w", 2, 2, dim) != a);
    CHECK_INT(g->n_slots, 3);
    graft_graph_destroy(g);
}

/* The middle of a square, and the one behind it, are slots apart; both survive the text form, and
 * none is larger than its square. */
static void middles(void)
{
    static const int64_t dim[4] = {1, 3, 2, 5}, large[4] = {1, 2, 9, 5};
    static const graft_slot_kind kinds[] = {GRAFT_SLOT_CROP, GRAFT_SLOT_LATER};
    graft_graph *g = graft_graph_create();
    const int64_t in[4] = {2, 3, 2, 5};
    graft_err e = GRAFT_ERR_INIT;
    graft_str s = GRAFT_STR_INIT;
    graft_vid v[2];
    v[0] = graft_graph_weight_crop(g, "w", 8, dim);
    v[1] = graft_graph_weight_crop_later(g, "w", 8, dim);
    CHECK(v[0] != v[1] && graft_graph_weight_crop_later(g, "w", 8, dim) == v[1]);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, in);
    for (int i = 0; i < 2; i++)
        x = graft_graph_node(g, GRAFT_OP_ADD, NULL, (graft_vid[]){x, v[i]}, 2, GRAFT_DTYPE_NONE);
    graft_graph_output(g, x);
    CHECK_OK(graft_graph_verify(g, &e), &e);
    graft_graph_print(g, &s);
    graft_graph *again = NULL;
    CHECK_OK(graft_graph_parse(s.data, s.len, &again, &e), &e);
    for (int i = 0; i < 2 && again; i++) {
        CHECK(again->slot[i].kind == kinds[i] && again->slot[i].rows[0] == 8);
        CHECK(graft_gslot_crop(&again->slot[i]) && !graft_gslot_rows(&again->slot[i]));
    }
    graft_graph_destroy(again);
    graft_str_finish(&s);
    CHECK_INT(graft_graph_weight_crop_later(g, "w", 8, large), GRAFT_NO_VALUE);
    CHECK(graft_graph_status(g, &e) == GRAFT_E_ARG &&
          strstr(e.text, "2 x 9 cells of a square of 8"));
    graft_graph_destroy(g);
}

/* A weight that is one more than what is stored has a slot of its own. */
static void one_more(void)
{
    static const char text[] = "graft-graph 1\n"
                               "slot more [6] 6 \"k\"\n"
                               "%0 f32 [2,6] input 0\n"
                               "%1 f32 [6] weight 0\n"
                               "%2 f32 [2,6] temp\n"
                               "rms_norm %2 = %0 %1 | heads=1 eps=0.5\n"
                               "output %2\n";
    graft_str s = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = parse(text), *bad = NULL;
    graft_graph_print(g, &s);
    CHECK(g->slot[0].kind == GRAFT_SLOT_MORE && !graft_gslot_plain(&g->slot[0]));
    graft_graph *again = NULL;
    CHECK_OK(graft_graph_parse(s.data, s.len, &again, &e), &e);
    CHECK(again && again->slot[0].kind == GRAFT_SLOT_MORE);
    graft_graph_destroy(again);
    graft_str_finish(&s);
    graft_graph_destroy(g);
    graft_str_printf(&s, "graft-graph 1\nslot more [6] 3 \"k\" 3 \"l\"\n%s", strstr(text, "%0"));
    CHECK(graft_graph_parse(s.data, s.len, &bad, &e) != GRAFT_OK && !bad);
    graft_str_finish(&s);
    g = graft_graph_create();
    const int64_t dim[1] = {6};
    graft_vid a = graft_graph_weight_more(g, "w", 1, dim);
    CHECK_INT(graft_graph_weight_more(g, "w", 1, dim), a);
    CHECK(graft_graph_weight(g, "w", 1, dim) != a);
    CHECK_INT(g->n_slots, 2);
    graft_graph_destroy(g);
}

int main(void)
{
    RUN(models_survive);
    RUN(text_survives);
    RUN(text_survives_a_locale);
    RUN(cut_text_is_refused);
    RUN(faulty_text_is_refused);
    RUN(damage_is_found);
    RUN(first_failure_is_kept);
    RUN(same_weight_is_one_slot);
    RUN(last_slices);
    RUN(slots_of_parts);
    RUN(middles);
    RUN(one_more);
    return test_end();
}
