/* Hypernetworks: graft convert makes files of them, which give what PyTorch gives; their strength
 * is no part of the graph; beside LoRAs, DeepCache, quantization and other weights; what is
 * refused. */
#include "tests/engine/golden_unet.h"

#define FOLDER GRAFT_SOURCE_DIR "/golden/hypernetwork/"
#define GOLDEN FOLDER "unet.safetensors"

/* The file that graft convert makes of a network there. */
static const char *converted(const char *name)
{
    static char path[512], from[512];
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(from, sizeof from, FOLDER "%s.pt", name);
    snprintf(path, sizeof path, "%s", temp_path("hypernetwork.safetensors"));
    unlink(path);
    CHECK_OK(graft_checkpoint_convert(from, path, &info, &e), &e);
    CHECK(info.tensors > 4 && !info.left_out && !info.part[0]);
    return path;
}

static graft_model *with_net(const graft_model *m, const char *name, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_hypernetwork(m, converted(name), strength, NULL, &out, &e), &e);
    return out;
}

/* What a model makes of the golden file's x, after so many calls. */
static void run(const graft_model *m, int calls, float out[N])
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_golden(m, positive, negative, calls, out, &e), &e);
}

/* ------------------------------------------------------------------ what it computes */

static void is_that_of_pytorch(void)
{
    static const char *const names[] = {"relu", "swish", "leaky", "sigmoid", "old"};
    float got[N];
    float *plain = golden_values("plain", NULL);
    run(model, 0, got);
    CHECK(difference(got, plain, N) < 5e-5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[64];
        snprintf(key, sizeof key, "strength.%s", names[i]);
        float *strength = golden_values(key, NULL);
        snprintf(key, sizeof key, "out.%s", names[i]);
        float *want = golden_values(key, NULL);
        graft_model *m = with_net(model, names[i], (double)strength[0]);
        run(m, 0, got);
        CHECK(difference(got, want, N) < 5e-5);
        CHECK(difference(got, plain, N) > 0.05);
        graft_model_release(m);
        free(strength);
        free(want);
    }
    free(plain);
}

static void strength_is_no_part_of_the_graph(void)
{
    graft_model *weak = with_net(model, "relu", 0.25), *none = with_net(model, "relu", 0),
                *other = with_net(model, "swish", 1);
    float plain[N], got[N], more[N];
    run(model, 0, plain);
    run(weak, 0, got);
    uint64_t before = graphs_built(engine);
    run(none, 0, more);
    CHECK_INT(graphs_built(engine), before);
    CHECK(difference(more, plain, N) < 2e-5);
    CHECK(difference(got, plain, N) > 1e-2);
    run(weak, 0, more);
    CHECK(memcmp(got, more, sizeof got) == 0);
    run(other, 0, more); /* of another form */
    graft_model *const all[] = {weak, none, other};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
}

/* ------------------------------------------------------------------ beside all else */

static void beside_loras(void)
{
    static const char layer[] = "diffusion_model.middle_block.1.transformer_blocks.0.attn1.to_k";
    made_file *f = calloc(1, sizeof *f);
    graft_model *a = with_net(model, "relu", 1), *b = NULL, *c = NULL, *d = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float net[N], both_of[N], reverse[N], lora[N];
    char path[512];
    add_lora_pair(f, layer, 32, 32);
    snprintf(path, sizeof path, "%s", temp_path("lora.safetensors"));
    write_file(f, path, NULL);
    CHECK_OK(graft_lora_apply(a, NULL, path, 8, 0, NULL, &b, NULL, &e), &e);
    CHECK_OK(graft_lora_apply(model, NULL, path, 8, 0, NULL, &c, NULL, &e), &e);
    d = with_net(c, "relu", 1);
    run(a, 0, net);
    run(b, 0, both_of);
    run(d, 0, reverse);
    run(c, 0, lora);
    CHECK(memcmp(both_of, reverse, sizeof reverse) == 0);
    CHECK(difference(both_of, net, N) > 1e-3 && difference(both_of, lora, N) > 1e-2);
    graft_model *const all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

/* Fast steps take the same input; so does a model of other weights, here the same ones again. */
static void beside_deepcache_and_other_weights(void)
{
    graft_model *m = with_net(model, "swish", 1), *d = with_deepcache(m, 3, 0, 0);
    graft_model *swapped = swap_weights(m, GOLDEN, false);
    float whole[N], fast[N], again[N];
    run(m, 0, whole);
    run(d, 2, fast);
    CHECK(difference(fast, whole, N) < 2e-5);
    run(swapped, 0, again);
    CHECK(memcmp(again, whole, sizeof whole) == 0);
    graft_model *const all[] = {m, d, swapped};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
}

/* Quantized layers stay near, and the network's own are none of them. */
static void beside_quantization(void)
{
    graft_model *m = with_net(model, "relu", 1), *q = graft_model_copy(m);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_unet_use use = {
        .pictures = 2, .entries = 1, .height = 8, .width = 12, .tokens = TOKENS};
    float whole[N], got[N];
    size_t quantized = 0, own = 0;
    q->quant.bits = 8;
    memset(q->quant.set, 0xff, sizeof q->quant.set);
    run(m, 0, whole);
    run(q, 0, got);
    CHECK(difference(got, whole, N) < 0.1 && difference(got, whole, N) > 1e-4);
    CHECK_OK(graft_model_bind_guided(q, &use, NULL, &b, &e), &e);
    for (size_t i = 0; b && i < b->exe->graph->n_nodes; i++) {
        const graft_gnode *n = &b->exe->graph->node[i];
        const graft_vid w = n->op == GRAFT_OP_LINEAR ? n->in[GRAFT_LINEAR_W] : GRAFT_NO_VALUE;
        if (w < 0) continue;
        const graft_gvalue *v = &b->exe->graph->value[w];
        const bool hyper = strstr(b->exe->graph->slot[v->index].source[0], ".linear.") != NULL;
        quantized += n->attrs.quant != GRAFT_QUANT_NONE;
        own += hyper;
        CHECK(!hyper || n->attrs.quant == GRAFT_QUANT_NONE);
    }
    CHECK(quantized > 10 && own > 10);
    graft_binding_release(b);
    graft_model_release(q);
    graft_model_release(m);
}

static void is_in_the_report(void)
{
    graft_model *m = with_net(model, "relu", -0.75);
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    CHECK_OK(graft_model_report(m, NULL, NULL, &text, &image, &e), &e);
    CHECK(text && strstr(text, "  hypernetwork ") && strstr(text, ".safetensors, strength -0.75"));
    graft_text_free(text);
    graft_image_release(image);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what is refused */

static void check_net_refused(const graft_model *m, const char *path, graft_status status,
                              const char *words)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_hypernetwork(m, path, 1, NULL, &out, &e), status);
    CHECK(!out && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
}

static void other_files(void)
{
    graft_model *one = with_net(model, "relu", 1), *flow = load_model(engine, MMDIT), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *path = converted("relu");
    check_net_refused(one, path, GRAFT_E_LIMIT, "one hypernetwork");
    check_net_refused(flow, path, GRAFT_E_UNSUPPORTED, "hypernetwork");
    check_net_refused(model, FOLDER "relu.pt", GRAFT_E_FORMAT, "graft convert");
    check_net_refused(model, GOLDEN, GRAFT_E_UNSUPPORTED, "no hypernetwork in it");
    CHECK_INT(graft_model_hypernetwork(model, path, NAN, NULL, &out, &e), GRAFT_E_ARG);
    graft_model_release(one);
    graft_model_release(flow);
}

/* Writes a network of width 16: layers of these shapes, numbered so; act may be NULL. */
static const char *made_net(const int64_t (*shape)[2], const int *number, int n, const char *act)
{
    static char path[512];
    made_file *f = calloc(1, sizeof *f);
    graft_err e = GRAFT_ERR_INIT;
    const char *metadata[] = {"activation_func", act, NULL};
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < n; i++) {
            char name[64];
            snprintf(name, sizeof name, "16.%d.linear.%d.weight", part, number[i]);
            add_tensor(f, name, shape[i][1] ? 2 : 1, shape[i], NULL, 0.1f);
        }
    snprintf(path, sizeof path, "%s", temp_path("made.safetensors"));
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, act ? metadata : NULL, 1, &e), &e);
    finish_file(f);
    return path;
}

static void files_that_do_not_add_up(void)
{
    static const int64_t good[][2] = {{32, 16}, {16, 32}}, open_end[][2] = {{32, 16}, {8, 32}};
    static const int64_t apart[][2] = {{32, 16}, {16, 24}}, norm[][2] = {{16, 16}, {24, 0}};
    static const int64_t no_bias[][2] = {{16, 16}, {16, 0}};
    static const int next[] = {0, 1}, gap[] = {0, 2};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_hypernetwork(model, made_net(good, next, 2, NULL), 1, NULL, &out, &e), &e);
    graft_model_release(out);
    CHECK_OK(graft_model_hypernetwork(model, made_net(good, gap, 2, "tanh"), 1, NULL, &out, &e),
             &e);
    graft_model_release(out);
    check_net_refused(model, made_net(good, gap, 2, "mish"), GRAFT_E_UNSUPPORTED, "\"mish\"");
    check_net_refused(model, made_net(good, gap, 2, NULL), GRAFT_E_FORMAT, "activation_func");
    check_net_refused(model, made_net(open_end, next, 2, NULL), GRAFT_E_FORMAT, "come back");
    check_net_refused(model, made_net(apart, next, 2, NULL), GRAFT_E_FORMAT, "does not fit");
    check_net_refused(model, made_net(norm, next, 2, NULL), GRAFT_E_FORMAT, "does not fit");
    check_net_refused(model, made_net(no_bias, next, 2, NULL), GRAFT_E_FORMAT, "is missing");
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    graft_safetensors *f = open_file(GOLDEN);
    golden = f;
    for (int i = 0; i < 2; i++) {
        if (!begin_golden(backends[i], GOLDEN)) return test_end();
        RUN(is_that_of_pytorch);
        RUN(strength_is_no_part_of_the_graph);
        RUN(beside_loras);
        RUN(beside_deepcache_and_other_weights);
        RUN(beside_quantization);
        RUN(is_in_the_report);
        RUN(other_files);
        RUN(files_that_do_not_add_up);
        end_golden();
    }
    graft_safetensors_close(f);
    return test_end();
}
