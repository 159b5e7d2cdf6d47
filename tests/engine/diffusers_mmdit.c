/* Stable Diffusion 3's transformer in diffusers' names: the same bits as in a checkpoint's,
 * swapped, merged, saved and with LoRAs, and what is wrong with such files told in their own names.
 */
#include "tests/engine/mmdit.h"

static graft_engine *engine;

static void same_run(const graft_model *a, const graft_model *b)
{
    float one[MMDIT_OUT], two[MMDIT_OUT];
    run_mmdit(a, one);
    run_mmdit(b, two);
    CHECK(same_mmdit_bits(one, two));
}

/* Writes the file in diffusers' names. */
static const char *written(const char *checkpoint, const char *name)
{
    const char *path = temp_path(name);
    write_file(diffusers_mmdit(checkpoint), path, config_of(checkpoint));
    return path;
}

static void same_models(void)
{
    static const char *const of[] = {MMDIT, MMDIT3};
    for (int i = 0; i < 2; i++) {
        const char *path = written(of[i], "transformer.safetensors");
        last_log[0] = 0;
        graft_model *a = load_model(engine, of[i]), *b = load_model(engine, path);
        CHECK_STR(last_log, "");
        CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
        CHECK(b->prediction == GRAFT_PREDICT_FLOW);
        same_run(a, b);
        RELEASE_ALL(a, b);
        unlink(path);
    }
}

/* A variant of the checkpoint as a file in its own names, and in diffusers'. */
static void make_variants(const char *ours, const char *theirs, graft_dtype dtype)
{
    graft_safetensors *f = open_file(MMDIT);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n; i++) {
        float *v = (float *)(uintptr_t)m->tensor[i].data;
        int64_t n = shape_count(m->tensor[i].shape, m->tensor[i].rank);
        for (int64_t k = 0; k < n; k++) v[k] *= 1 + 0.3f * random_value();
    }
    write_file(m, ours, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    made_file *d = diffusers_mmdit(ours);
    m = part_of_file(ours, "");
    for (size_t i = 0; dtype != GRAFT_F32 && i < m->n; i++) store_as(&m->tensor[i], dtype);
    for (size_t i = 0; dtype != GRAFT_F32 && i < d->n; i++) store_as(&d->tensor[i], dtype);
    write_file(m, ours, config_of(MMDIT));
    write_file(d, theirs, config_of(MMDIT));
}

/* Between namings in both directions, also in half precision: nothing is compiled again, and all
 * weights are packed already. */
static void swapped(void)
{
    const char *ours = temp_path("ours.safetensors"), *theirs = temp_path("theirs.safetensors");
    const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    for (int i = 0; i < 3; i++) {
        random_state = 7;
        make_variants(ours, theirs, dtypes[i]);
        graft_model *a = load_model(engine, MMDIT), *v = load_model(engine, ours);
        graft_model *b = load_model(engine, theirs);
        float out[MMDIT_OUT];
        run_mmdit(a, out);
        run_mmdit(v, out);
        uint64_t built = graphs_built(engine), made = packs_of(engine).made;
        graft_model *to = swap_weights(a, theirs, true), *back = swap_weights(b, MMDIT, true);
        same_run(to, v);
        same_run(back, a);
        CHECK_INT(graphs_built(engine), built);
        CHECK_INT(packs_of(engine).made, made);
        RELEASE_ALL(a, v, b, to, back);
    }
    unlink(ours);
    unlink(theirs);
}

static void merged_models(void)
{
    const char *ours = temp_path("ours.safetensors"), *theirs = temp_path("theirs.safetensors");
    float one[MMDIT_OUT], two[MMDIT_OUT];
    random_state = 8;
    make_variants(ours, theirs, GRAFT_F32);
    graft_model *a = load_model(engine, MMDIT), *v = load_model(engine, ours);
    graft_model *b = load_model(engine, theirs);
    graft_model *mv = simple(a, v, 0.25), *mb = simple(a, b, 0.25);
    same_run(mv, mb);
    run_mmdit(mv, one);
    run_mmdit(a, two);
    CHECK(difference(one, two, MMDIT_OUT) > 1e-3);
    graft_model *same = simple(v, b, 0.5);
    same_run(v, same);
    RELEASE_ALL(a, v, b, mv, mb, same);
    unlink(ours);
    unlink(theirs);
}

static void saved(void)
{
    const char *path = written(MMDIT, "theirs.safetensors");
    saved_like(engine, path, MMDIT);
    unlink(path);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(MMDIT), status, words, &e);
}

static void without_tensors(void)
{
    static const char *const names[] = {"transformer_blocks.1.attn.to_k.weight",
                                        "transformer_blocks.0.attn.add_v_proj.bias",
                                        "transformer_blocks.3.norm1_context.linear.weight",
                                        "transformer_blocks.1.attn2.to_v.bias",
                                        "transformer_blocks.2.attn.norm_added_q.weight",
                                        "transformer_blocks.2.ff.net.2.weight",
                                        "norm_out.linear.bias",
                                        "proj_out.weight",
                                        "pos_embed.pos_embed",
                                        "time_text_embed.text_embedder.linear_2.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made_file *f = diffusers_mmdit(MMDIT);
        char words[128];
        drop_tensor(f, names[i]);
        snprintf(words, sizeof words, "tensor %s is missing", names[i]);
        refused(f, GRAFT_E_FORMAT, words);
    }
}

static void with_more_tensors(void)
{
    static const char *const names[] = {
        "transformer_blocks.3.attn2.to_q.weight", "transformer_blocks.3.ff_context.net.2.weight",
        "transformer_blocks.0.attn.to_r.weight", "transformer_blocks.200.attn.to_q.weight",
        "single_transformer_blocks.0.attn.to_q.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made_file *f = diffusers_mmdit(MMDIT);
        add_tensor(f, names[i], 2, (const int64_t[]){4, 4}, NULL, 1);
        refused(f, GRAFT_E_UNSUPPORTED, names[i]);
    }
}

static void wrong_shapes(void)
{
    made_file *f = diffusers_mmdit(MMDIT);
    graft_st_tensor *t = made_find(f, "transformer_blocks.2.attn.to_v.weight");
    t->shape[0] = t->shape[1] * t->shape[0] / 8;
    t->shape[1] = 8;
    refused(f, GRAFT_E_FORMAT, "transformer_blocks.2.attn.to_v.weight do not fit each other");
    f = diffusers_mmdit(MMDIT);
    store_as(made_find(f, "transformer_blocks.0.attn.add_k_proj.bias"), GRAFT_F16);
    refused(f, GRAFT_E_FORMAT, "transformer_blocks.0.attn.add_k_proj.bias do not fit each other");
    f = diffusers_mmdit(MMDIT);
    t = made_find(f, "transformer_blocks.1.ff.net.0.proj.weight");
    t->rank = 1;
    t->shape[0] = (int64_t)(t->bytes / sizeof(float));
    refused(f, GRAFT_E_FORMAT, "transformer_blocks.1.ff.net.0.proj.weight has the shape");
}

/* A ControlNet for SD 3 has the same blocks. */
static void another_kind(void)
{
    made_file *f = diffusers_mmdit(MMDIT);
    add_tensor(f, "controlnet_blocks.0.weight", 2, (const int64_t[]){4, 4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "ControlNet");
}

static void short_of_memory(void)
{
    const char *path = written(MMDIT, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(same_models);
    RUN(swapped);
    RUN(merged_models);
    RUN(saved);
    RUN(without_tensors);
    RUN(with_more_tensors);
    RUN(wrong_shapes);
    RUN(another_kind);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}
