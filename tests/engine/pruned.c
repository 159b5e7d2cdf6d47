/* UNets whose middle was pruned: told from what their files have, in both namings, and refused
 * where a file has only lost a tensor. golden/small has what they compute. */
#include "engine/models/unets/unet.h"
#include "tests/engine/diffusers.h"

static graft_engine *engine;

static void told(void)
{
    static const struct {
        const char *path;
        int residual, transformer;
    } models[] = {{PRUNED_ONE, 1, 0}, {PRUNED_NONE, 0, 0}, {SD1, 2, 1}, {SDXL, 2, 2}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        graft_model *m = load_model(engine, models[i].path);
        CHECK_INT(m->arch.unet.middle_residual, models[i].residual);
        CHECK_INT(m->arch.unet.middle_transformer, models[i].transformer);
        CHECK_INT(graft_unet_perturbs(&m->arch.unet), models[i].transformer > 0);
        graft_model_release(m);
    }
}

/* In diffusers' names it is the same model, bit by bit. */
static void same_in_diffusers_names(void)
{
    static const char *const models[] = {PRUNED_ONE, PRUNED_NONE};
    for (int i = 0; i < 2; i++) {
        graft_model *a = load_model(engine, models[i]);
        const char *path = temp_path("unet.safetensors");
        float one[OUT], two[OUT];
        write_file(diffusers_unet(a), path, unet_config(a));
        graft_model *b = load_model(engine, path);
        CHECK(b && memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
        run_model(a, one);
        run_model(b, two);
        CHECK(same_bits(one, two));
        RELEASE_ALL(a, b);
        unlink(path);
    }
}

static made_file *checkpoint_unet(const char *path)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, UNET);
    graft_safetensors_close(f);
    return m;
}

static char *config_text(const char *path)
{
    graft_safetensors *f = open_file(path);
    char *text = strdup(graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    return text;
}

/* Without any of the residual block's tensors it would be another model; without some of them it is
 * this one, damaged. */
static void damaged(void)
{
    static const char *const blocks[][2] = {
        {PRUNED_ONE, "middle_block.0."}, {SD1, "middle_block.0."}, {SD1, "middle_block.2."}};
    static const char *const layers[] = {
        "in_layers.0.weight",  "in_layers.2.weight",  "in_layers.2.bias", "emb_layers.1.weight",
        "out_layers.0.weight", "out_layers.3.weight", "out_layers.3.bias"};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            made_file *f = checkpoint_unet(blocks[b][0]);
            char *config = config_text(blocks[b][0]), name[128], words[192];
            graft_err e = GRAFT_ERR_INIT;
            snprintf(name, sizeof name, UNET "%s%s", blocks[b][1], layers[i]);
            snprintf(words, sizeof words, "%s is missing", name);
            drop_tensor(f, name);
            check_refused(engine, f, config, GRAFT_E_FORMAT, words, &e);
            free(config);
        }
}

/* A transformer that cannot be told by its first block is not taken for none. */
static void damaged_transformer(void)
{
    static const char *const gone[] = {"norm1.weight", "attn1.to_q.weight"};
    made_file *f = checkpoint_unet(SD1);
    char *config = config_text(SD1), name[160];
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, UNET "middle_block.1.transformer_blocks.0.%s", gone[i]);
        drop_tensor(f, name);
    }
    check_refused(engine, f, config, GRAFT_E_FORMAT,
                  "middle_block.1.transformer_blocks.0.norm1.weight is missing", &e);
    free(config);
}

/* diffusers' names: what is left of a block asks for the rest of it, by its own name. */
static void damaged_in_diffusers_names(void)
{
    static const char *const names[] = {"mid_block.resnets.0.conv1.weight",
                                        "mid_block.resnets.0.norm2.bias"};
    graft_model *m = load_model(engine, PRUNED_ONE);
    for (int i = 0; i < 2; i++) {
        made_file *f = diffusers_unet(m);
        char words[128];
        graft_err e = GRAFT_ERR_INIT;
        snprintf(words, sizeof words, "%s is missing", names[i]);
        drop_tensor(f, names[i]);
        check_refused(engine, f, unet_config(m), GRAFT_E_FORMAT, words, &e);
    }
    graft_model_release(m);
}

/* The graph of the whole model has no place for it. */
static void not_swapped_for_the_whole(void)
{
    made_file *f = checkpoint_unet(SD1);
    char *config = config_text(SD1);
    const char *path = temp_path("midless.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, ".middle_block.")) drop_tensor(f, f->tensor[i].name);
    write_file(f, path, config);
    graft_model *whole = load_model(engine, SD1), *out = NULL, *pruned = load_model(engine, path);
    float one[OUT], two[OUT];
    CHECK_INT(pruned->arch.unet.middle_residual, 0);
    run_model(whole, one);
    run_model(pruned, two);
    CHECK(!same_bits(one, two));
    CHECK_INT(graft_model_swap(whole, path, false, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "another architecture") && strstr(e.text, "middle_block."));
    CHECK_INT(graft_model_swap(pruned, SD1, false, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "another architecture") && strstr(e.text, "middle_block."));
    if (!strstr(e.text, "middle_block")) fprintf(stderr, "%s\n", e.text);
    RELEASE_ALL(whole, pruned);
    unlink(path);
    free(config);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(told);
    RUN(same_in_diffusers_names);
    RUN(damaged);
    RUN(damaged_transformer);
    RUN(damaged_in_diffusers_names);
    RUN(not_swapped_for_the_whole);
    graft_engine_destroy(engine);
    return test_end();
}
