/* AuraFlow: which files it is found in and under which names, the part of its table of places that
 * a picture has, prompts, and what does not go with it. What the network computes is held against
 * golden/small/auraflow_*. */
#include "engine/models/detect/detect.h"
#include "engine/models/transformers/auraflow.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/auraflow_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/auraflow_one.safetensors"

#define DOUBLE "joint_transformer_blocks.#."
#define SINGLE "single_transformer_blocks.#."

static const renaming names[] = {{"positional_encoding", {"pos_embed.pos_embed"}},
                                 {"init_x_linear.", {"pos_embed.proj."}},
                                 {"t_embedder.mlp.0.", {"time_step_proj.linear_1."}},
                                 {"t_embedder.mlp.2.", {"time_step_proj.linear_2."}},
                                 {"cond_seq_linear.", {"context_embedder."}},
                                 {"modF.1.", {"norm_out.linear."}, .turned = true},
                                 {"final_linear.", {"proj_out."}},
                                 {"double_layers.#.modX.1.", {DOUBLE "norm1.linear."}},
                                 {"double_layers.#.modC.1.", {DOUBLE "norm1_context.linear."}},
                                 {"double_layers.#.attn.w2q.", {DOUBLE "attn.to_q."}},
                                 {"double_layers.#.attn.w2k.", {DOUBLE "attn.to_k."}},
                                 {"double_layers.#.attn.w2v.", {DOUBLE "attn.to_v."}},
                                 {"double_layers.#.attn.w2o.", {DOUBLE "attn.to_out.0."}},
                                 {"double_layers.#.attn.w1q.", {DOUBLE "attn.add_q_proj."}},
                                 {"double_layers.#.attn.w1k.", {DOUBLE "attn.add_k_proj."}},
                                 {"double_layers.#.attn.w1v.", {DOUBLE "attn.add_v_proj."}},
                                 {"double_layers.#.attn.w1o.", {DOUBLE "attn.to_add_out."}},
                                 {"double_layers.#.mlpX.", {DOUBLE "ff."}},
                                 {"double_layers.#.mlpC.", {DOUBLE "ff_context."}},
                                 {"single_layers.#.modCX.1.", {SINGLE "norm1.linear."}},
                                 {"single_layers.#.attn.w1q.", {SINGLE "attn.to_q."}},
                                 {"single_layers.#.attn.w1k.", {SINGLE "attn.to_k."}},
                                 {"single_layers.#.attn.w1v.", {SINGLE "attn.to_v."}},
                                 {"single_layers.#.attn.w1o.", {SINGLE "attn.to_out.0."}},
                                 {"single_layers.#.mlp.", {SINGLE "ff."}},
                                 {".c_fc1.", {".linear_1."}},
                                 {".c_fc2.", {".linear_2."}},
                                 {".c_proj.", {".out_projection."}},
                                 {NULL}};

static const damage damaged[] = {
    {"register_tokens", {3, 31}, GRAFT_E_FORMAT},
    {"register_tokens", {96}, GRAFT_E_FORMAT},
    {"positional_encoding", {63, 32}, GRAFT_E_FORMAT},
    {"positional_encoding", {64, 31}, GRAFT_E_FORMAT},
    {"init_x_linear.weight", {32, 15}, GRAFT_E_FORMAT},
    {"init_x_linear.weight", {32, 12}, GRAFT_E_FORMAT, "final_linear."},
    {"init_x_linear.bias", {31}, GRAFT_E_FORMAT},
    {"cond_seq_linear.weight", {31, 32}, GRAFT_E_FORMAT},
    {"double_layers.1.attn.w2q.weight", {31, 32}, GRAFT_E_FORMAT},
    {"double_layers.0.mlpX.c_fc1.weight", {60, 32}, GRAFT_E_FORMAT, "double_layers.0.mlpC.c_fc1."},
    {"single_layers.1.attn.w1o.weight", {32, 31}, GRAFT_E_FORMAT},
    {"modF.1.weight", {32, 32}, GRAFT_E_FORMAT},
    {"t_embedder.mlp.0.weight", {32, 255}, GRAFT_E_FORMAT, "do not fit together"},
    {NULL,
     {0},
     GRAFT_E_UNSUPPORTED,
     "width 32 does not divide into heads of 6",
     {NULL},
     "{\"num_heads\": 5}"},
    TOO_MUCH("joint_transformer_blocks.0.norm1.linear.bias",
             "AuraFlow's transformer has no tensor"),
    {NULL}};

/* Each length has a graph of its own; two of the same are one batch. */
static const prompt_pair pairs[] = {
    {{5, 9}, {0, 1}}, {{7, 7}, {1, 1}}, {{9, 5}, {0, 0}}, {{1, 33}, {1, 1}}, {{0}}};

static const family tested = {
    .name = "auraflow",
    .title = "AuraFlow",
    .two = TWO,
    .one = ONE,
    .gguf = "aura",
    .packed = TWO,
    .theirs = names,
    .in_files = true,
    .scale = 0.13025,
    .error = 2e-4,
    .prompts = pairs,
    .tensors = 2 * 16 + 2 * 8 + 11,
    .their_tensors = 2 * 16 + 2 * 8 + 11,
    .losses = {{GRAFT_AURAFLOW_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"joint_transformer_blocks.0.attn.add_q_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .half = true,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.references.n = 1}, GRAFT_E_UNSUPPORTED},
                {{.height = 7}, GRAFT_E_ARG},
                {{.width = 18}, GRAFT_E_ARG}},
    .loras = 2 * (16 + 8 + 6),
    .lora_error = 1e-4,
    .untried = {"_layers.0."},
    .lora_names = {{"transformer.joint_transformer_blocks.1.attn.to_out.0", PEFT, 32, 32},
                   {"joint_transformer_blocks.1.attn.to_out.0", PEFT_DEFAULT},
                   {"diffusion_model.double_layers.1.attn.w2o", PEFT},
                   {"lora_unet_double_layers_1_attn_w2o", KOHYA},
                   {"lycoris_joint_transformer_blocks_1_attn_to_out_0", KOHYA},
                   {"transformer.single_transformer_blocks.1.ff.linear_1", PEFT, 64, 32},
                   {"single_transformer_blocks.1.ff.linear_1", PEFT_DEFAULT},
                   {"lora_unet_single_layers_1_mlp_c_fc1", KOHYA}},
    .kept = {"init_x_linear", "t_embedder.", "modF.", "final_linear"},
    .attentions = 4,
    .linears = 2 * 16 + 2 * 8 + 6,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_auraflow_arch *a = &two->arch.auraflow, *b = &one->arch.auraflow;
    CHECK(a->depth == 2 && a->single_depth == 2 && a->heads == 2 && a->hidden == 32);
    CHECK(a->mlp == 64 && a->registers == 3 && a->table == 8 && a->time_dim == 256);
    CHECK(a->channels == 4 && two->arch.context_dim == 32);
    CHECK(b->depth == 1 && b->single_depth == 2 && b->heads == 3 && b->hidden == 36);
    CHECK(b->mlp == 40 && b->registers == 5 && b->table == 7 && b->channels == 6);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_AURAFLOW && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_shift == 1.73);
        CHECK(m->flow_steps == 1000 && !m->planes && !m->promptless);
        CHECK(m->scale_factor == 0.13025 && m->latent_shift == 0);
        CHECK(memcmp(&m->preview, &graft_preview_sdxl, sizeof m->preview) == 0);
        CHECK(graft_net_cell(&m->arch) == 8 && graft_net_patch(&m->arch) == 2);
        CHECK(!graft_net_counts_tokens(&m->arch, 256) && graft_net_counts_tokens(&m->arch, 257));
        CHECK(graft_net_tokens(&m->arch, 256) == 256 && graft_net_tokens(&m->arch, 257) == 320);
        CHECK_STR(graft_net_kind_name(&m->arch), "auraflow");
    }
    RELEASE_ALL(two, one);
}

/* Heads of 256 values where the file does not say. */
static void heads_of_the_published(void)
{
    made_file *f = calloc(1, sizeof *f);
    graft_safetensors *file = NULL;
    graft_auraflow_arch a;
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("heads.safetensors");
    add_tensor(f, "init_x_linear.weight", 2, (int64_t[]){512, 16}, NULL, 1);
    add_tensor(f, "t_embedder.mlp.0.weight", 2, (int64_t[]){512, 256}, NULL, 1);
    add_tensor(f, "cond_seq_linear.weight", 2, (int64_t[]){512, 8}, NULL, 1);
    add_tensor(f, "double_layers.0.mlpX.c_fc1.weight", 2, (int64_t[]){8, 512}, NULL, 1);
    add_tensor(f, "positional_encoding", 3, (int64_t[]){1, 9, 512}, NULL, 1);
    add_tensor(f, "register_tokens", 3, (int64_t[]){1, 8, 512}, NULL, 1);
    add_tensor(f, "single_layers.0.mlp.c_fc1.weight", 2, (int64_t[]){8, 512}, NULL, 1);
    write_file(f, path, NULL);
    CHECK_OK(graft_safetensors_open(path, &file, &e), &e);
    CHECK_OK(graft_auraflow_detect(file, "", NULL, &a, &e), &e);
    CHECK(a.heads == 2 && a.registers == 8 && a.table == 3 && !a.depth && a.single_depth == 1);
    graft_safetensors_close(file);
    unlink(path);
}

/* Its authors' files have it below "model.". */
static void below_model(void)
{
    made_file *f = part_of_file(TWO, UNET);
    char name[200];
    for (size_t i = 0; i < f->n; i++) {
        snprintf(name, sizeof name, "model.%s", f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    same_in_file(engine, TWO, written(f, "below.safetensors", config_of(TWO)), run_some);
}

/* Without any block of one stream it is not known. */
static void without_single_blocks(void)
{
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "single_layers.")) drop_tensor(f, f->tensor[i].name);
    refused(f, config_of(TWO), GRAFT_E_FORMAT, "single_layers.0.attn.w1q.weight");
}

/* Of a picture of so many cells, with what the network has for these places changed: all that are
 * in the rows and columns, or all others. */
static void with_places(int64_t height, int64_t width, const int row[2], const int column[2],
                        bool within, float *out)
{
    enum { OF_A_SIDE = 8, WIDE = 32, WORDS = 3 };
    const char *path = temp_path("places.safetensors");
    const graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = height, .width = width, .tokens = WORDS};
    float x[ANSWER], context[WORDS * WIDE], t = 500;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = part_of_file(TWO, UNET);
    float *table = (float *)(uintptr_t)made_find(f, "positional_encoding")->data;
    for (int r = 0; r < OF_A_SIDE; r++)
        for (int c = 0; c < OF_A_SIDE; c++) {
            const bool in = r >= row[0] && r <= row[1] && c >= column[0] && c <= column[1];
            for (int k = 0; k < WIDE && in == within; k++)
                table[(r * OF_A_SIDE + c) * WIDE + k] += 1 + (float)(k % 3);
        }
    for (size_t i = 0; i < ANSWER; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < WORDS * WIDE; i++) context[i] = fixed_value(900 + i);
    write_file(f, path, config_of(TWO));
    graft_model *m = load_model(engine, path);
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context}, (void *[]){out},
                           NULL, NULL, &e),
             &e);
    graft_binding_release(b);
    graft_model_release(m);
    unlink(path);
}

/* Of a table of 8 a picture has the middle: one of 4 x 2 squares rows 2 to 5 and columns 3 and 4,
 * one of 3 x 5 rows 3 to 5 and columns 2 to 6. All others count nothing, and each corner does. */
static void places(void)
{
    static const struct {
        int64_t height, width;
        int row[2], column[2];
    } sizes[] = {{8, 4, {2, 5}, {3, 4}}, {6, 10, {3, 5}, {2, 6}}, {2, 16, {4, 4}, {0, 7}}};
    static const int nowhere[2] = {9, 9};
    float plain[ANSWER], got[ANSWER];
    for (size_t s = 0; s < COUNT(sizes); s++) {
        const int64_t h = sizes[s].height, w = sizes[s].width;
        const size_t bytes = (size_t)(4 * h * w) * sizeof(float);
        with_places(h, w, nowhere, nowhere, true, plain);
        with_places(h, w, sizes[s].row, sizes[s].column, false, got);
        CHECK(memcmp(plain, got, bytes) == 0);
        for (int i = 0; i < 2; i++) {
            const int row = sizes[s].row[i], column = sizes[s].column[i];
            with_places(h, w, (int[]){row, row}, (int[]){column, column}, true, got);
            CHECK(memcmp(plain, got, bytes) != 0);
        }
    }
}

/* What a block adds is its MLP's alone. */
static bool is_added(const char *name)
{
    return strstr(name, ".c_proj.") &&
           (strstr(name, "double_layers.1.") || strstr(name, "single_layers.0."));
}

static void blocks_left_out(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *out = NULL;
    const graft_skip_options none = {"2", "2, 9", 2, 0, 1, 0};
    left_out("1", "0", is_added);
    CHECK_INT(graft_model_skip_blocks(m, &none, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "name none of this model's blocks, which are 0 to 1 and 0 to 1"));
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && strstr(e.text, "AuraFlow's there is SkipLayerGuidanceDiT"));
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(heads_of_the_published);
    RUN(below_model);
    RUN(without_single_blocks);
    run_family();
    RUN(places);
    RUN(blocks_left_out);
    graft_engine_destroy(engine);
    return test_end();
}
