/* Models in GGUF files: what they compute has the bits of a file that holds the same values in
 * float32, and they are swapped, merged, changed by LoRAs, quantized and saved as others. */
#include "tests/engine/flux.h"
#include "tests/engine/merge.h"
#include "tests/gguf_file.h"

static graft_engine *engine;

static void write_gguf(const made_file *f, const char *config, const char *path)
{
    gguf_file bytes = gguf_of("flux", config, f->tensor, f->n);
    gguf_write(&bytes, path);
    free(bytes.data);
}

/* The network of a file: its matrices as Q8_0, some of them of rows that are no whole blocks, and
 * the same with what those hold. Returns how many there are. */
static size_t write_both(const char *from, const char *packed, const char *plain)
{
    made_file *m = part_of_file(from, UNET), *f = part_of_file(from, UNET);
    size_t n_packed = 0;
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i], *to = &f->tensor[i];
        const size_t n = (size_t)shape_count(t->shape, t->rank);
        if (t->rank != 2 || n % 32) continue;
        gguf_pack_tensor(to, t);
        n_packed++;
    }
    write_gguf(f, config_of(from), packed);
    finish_file(f);
    write_file(m, plain, config_of(from));
    return n_packed;
}

/* How close a network of Q8_0 is to the one that it was made from, in units of what it computes. */
#define CLOSE 0.05

static void same_as_values(void)
{
    const char *path[] = {temp_path("packed.gguf"), temp_path("plain.safetensors")};
    float got[FLUX_OUT], want[FLUX_OUT];
    CHECK(write_both(FLUX_DEV, path[0], path[1]) > 10);
    last_log[0] = 0;
    graft_model *a = load_model(engine, path[0]), *b = load_model(engine, path[1]);
    CHECK_STR(last_log, "");
    run_flux(a, 3.5f, got);
    run_flux(b, 3.5f, want);
    CHECK(same_flux_bits(got, want));
    graft_model *dev = load_model(engine, FLUX_DEV);
    run_flux(dev, 3.5f, want);
    CHECK(!same_flux_bits(got, want) && difference(got, want, FLUX_OUT) < CLOSE);
    graft_model *to = swap_weights(dev, path[0], true); /* by what was compiled for float16 */
    run_flux(to, 3.5f, want);
    CHECK(same_flux_bits(got, want));
    graft_model *back = swap_weights(to, FLUX_DEV, true);
    run_flux(back, 3.5f, want);
    CHECK(!same_flux_bits(got, want));
    RELEASE_ALL(a, b, dev, to, back);
    unlink(path[0]);
    unlink(path[1]);
}

/* LoRAs and merges take them as they take others. */
static void changed_and_merged(void)
{
    const char *path[] = {temp_path("packed.gguf"), temp_path("plain.safetensors")};
    const char *lora = temp_path("lora.safetensors");
    float got[FLUX_OUT], want[FLUX_OUT], none[FLUX_OUT];
    write_both(FLUX_DEV, path[0], path[1]);
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "lora_unet_img_in.lora_up.weight", 2, (int64_t[]){48, 2}, NULL, 0.3f);
    add_tensor(f, "lora_unet_img_in.lora_down.weight", 2, (int64_t[]){2, 64}, NULL, 0.3f);
    write_file(f, lora, NULL);
    graft_model *a = load_model(engine, path[0]), *b = load_model(engine, path[1]);
    graft_model *c = with_lora(a, lora, 0.8), *d = with_lora(b, lora, 0.8);
    run_flux(a, 3.5f, none);
    run_flux(c, 3.5f, got);
    run_flux(d, 3.5f, want);
    CHECK(same_flux_bits(got, want) && !same_flux_bits(got, none));
    RELEASE_ALL(c, d);
    graft_model *dev = load_model(engine, FLUX_DEV);
    c = merged(a, dev, 0.25, 0.25, 0.25);
    d = merged(b, dev, 0.25, 0.25, 0.25);
    run_flux(c, 3.5f, got);
    run_flux(d, 3.5f, want);
    CHECK(same_flux_bits(got, want) && !same_flux_bits(got, none));
    RELEASE_ALL(a, b, c, d, dev);
    unlink(path[0]);
    unlink(path[1]);
    unlink(lora);
}

/* Saved, they are float16; with quantized layers those are as if the values had been read. */
static void saved(void)
{
    const char *path[] = {temp_path("packed.gguf"), temp_path("plain.safetensors")};
    const char *out = temp_path("saved.safetensors");
    float got[FLUX_OUT], want[FLUX_OUT];
    graft_err e = GRAFT_ERR_INIT;
    write_both(FLUX_DEV, path[0], path[1]);
    graft_model *m = load_model(engine, path[0]), *n = NULL;
    run_flux(m, 3.5f, want);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, out, NULL, NULL, &e), &e);
    n = load_model(engine, out);
    run_flux(n, 3.5f, got);
    CHECK(difference(got, want, FLUX_OUT) < 2e-2);
    graft_model_release(n);
    unlink(out);
    graft_model *q = half_quantized(m);
    run_flux(q, 3.5f, want);
    CHECK_OK(graft_model_save_quantized(q, out, NULL, &e), &e);
    n = load_model(engine, out);
    run_flux(n, 3.5f, got);
    CHECK(difference(got, want, FLUX_OUT) < 4e-2); /* what was kept was rounded to float16 */
    RELEASE_ALL(m, n, q);
    unlink(out);
    unlink(path[0]);
    unlink(path[1]);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(same_as_values);
    RUN(changed_and_merged);
    RUN(saved);
    graft_engine_destroy(engine);
    return test_end();
}
