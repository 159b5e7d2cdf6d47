/* graft-golden FILE...: holds the engine against reference tensors.
 *
 * Files have the layout that golden/README.md describes; what a file is follows from what is in it.
 * Prints the error of every case, the worst one last; exits 0 when all are within tolerance, 1 when
 * one is not, 2 when a file cannot be used, 77 when the backend lacks the precision here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tests/golden/golden.h"
#include "tests/golden/golden_sampling.h"
#include "engine/models/detect/detect.h"
#include "engine/models/parts/folding.h"

enum { SKIPPED = 77 };

static bool has(const graft_safetensors *f, const char *start)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (graft_str_starts(graft_safetensors_at(f, i)->name, start)) return true;
    return false;
}

typedef graft_status golden_compare_fn(const graft_safetensors *f, golden_case_fn *report,
                                       void *ctx, graft_err *e);

static void sampling_case(void *ctx, const char *what, double error, double tolerance)
{
    golden_note(ctx, what, error, tolerance);
}

static graft_status run_sampling(golden *g, graft_safetensors *f, golden_compare_fn *run,
                                 graft_err *e)
{
    graft_status st = run(f, sampling_case, g, e);
    graft_safetensors_close(f);
    return st;
}

static graft_status run_file(golden *g, const char *path, graft_err *e)
{
    graft_safetensors *f;
    const char *slash = strrchr(path, '/');
    g->file = slash ? slash + 1 : path;
    if (graft_str_ends(path, ".json")) return golden_prompts(g, path, e);
    graft_status st = graft_safetensors_open(path, &f, e);
    if (st) return st;
    if (has(f, "control_model.")) return golden_control(g, f, e);
    if (graft_safetensors_metadata(f, "control")) return golden_control_transformer(g, path, f, e);
    if (graft_safetensors_metadata(f, "within")) return golden_control_within(g, path, f, e);
    if (golden_case(f, 0, "output_v2")) return golden_freeu(g, f, e);
    if (has(f, "ip_adapter.")) return golden_ip_adapter(g, f, e);
    if (has(f, "run.")) return golden_flow(g, path, f, e);
    if (has(f, "model.diffusion_model.")) return golden_unet(g, f, e);
    if (has(f, "first_stage_model.")) return golden_vae(g, f, e);
    if (has(f, GRAFT_VAE_MEAN) || has(f, GRAFT_WAN_VAE_TENSOR)) return golden_own_vae(g, f, e);
    if (has(f, "decoder.layers.") || has(f, GRAFT_TAEHV_TENSOR) || graft_taesd_half_in(f))
        return golden_tiny(g, path, f, e);
    if (has(f, "text_model.") || has(f, "cond_stage_model.")) return golden_clip(g, f, e);
    if (has(f, GRAFT_T5_TENSOR)) return golden_t5(g, f, e);
    if (has(f, "visual.patch_embed.")) return golden_qwen_vision(g, f, e);
    if (graft_vision_in(f, "")) return golden_vision(g, f, e);
    if (has(f, "noise_augmentor.")) return golden_unclip(g, f, e);
    if (has(f, GRAFT_REDUX_TENSOR)) return golden_redux(g, f, e);
    if (has(f, GRAFT_QWEN3_TENSOR) || has(f, GRAFT_QWEN25_TENSOR) || has(f, GRAFT_MISTRAL_TENSOR))
        return golden_qwen3(g, f, e);
    if (graft_t2i_prefix(f)) return golden_t2i(g, f, e);
    if (graft_upscaler_prefix(f)) return golden_upscale(g, f, e);
    if (has(f, "sigmas_table")) return run_sampling(g, f, golden_schedules, e);
    if (has(f, "seed")) return run_sampling(g, f, golden_noise, e);
    if (has(f, "euler.") || graft_safetensors_metadata(f, "samplers"))
        return run_sampling(g, f, golden_samplers, e);
    graft_safetensors_close(f);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: no reference tensors that this program knows", path);
}

static void log_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft-golden: %s\n", text);
}

static int usage(void)
{
    fputs("usage: graft-golden [--backend ref|cpu|cuda] [--dtype f32|bf16|f16] [--kernels DIR] "
          "FILE.safetensors|prompts.json...\n",
          stderr);
    return 2;
}

/* Whether this backend has the precision on this machine. */
static bool computes(const golden *g, graft_err *e)
{
    graft_build_options o = {0};
    graft_backend *backend;
    graft_dtype dtype;
    snprintf(o.precision, sizeof o.precision, "%s", g->dtype);
    return graft_options_resolve(g->engine, &o, &backend, &dtype, e) != GRAFT_E_UNSUPPORTED;
}

int main(int argc, char **argv)
{
    golden g = {.backend = "auto", .dtype = "f32"};
    graft_err e = GRAFT_ERR_INIT;
    graft_engine_config config = {.kernel_dir = GRAFT_LIB_DIR, .log = {NULL, log_line}};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--backend") == 0)
            g.backend = argv[i + 1];
        else if (strcmp(argv[i], "--dtype") == 0)
            g.dtype = argv[i + 1];
        else if (strcmp(argv[i], "--kernels") == 0)
            config.kernel_dir = argv[i + 1];
        else
            return usage();
    }
    if (i >= argc || argv[i][0] == '-') return usage();
    config.backend = g.backend;
    if (graft_engine_create(&config, &g.engine, &e)) {
        fprintf(stderr, "graft-golden: %s\n", e.text);
        return 2;
    }
    if (!computes(&g, &e)) {
        printf("skipped: %s\n", e.text);
        graft_engine_destroy(g.engine);
        return SKIPPED;
    }
    int broken = 0;
    for (; i < argc; i++) {
        int before = g.cases;
        graft_status st = run_file(&g, argv[i], &e);
        golden_note_mean(&g);
        if (!st && g.cases == before)
            st = graft_fail(&e, GRAFT_E_FORMAT, "%s: holds no reference case", argv[i]);
        if (st) {
            fprintf(stderr, "graft-golden: %s\n", e.text);
            broken = 1;
        }
    }
    graft_engine_destroy(g.engine);
    printf("%d cases, %d failed; worst: %s, error %.3g, %.0f %% of its tolerance\n", g.cases,
           g.failed, g.cases ? g.worst_name : "none", g.worst_error, 100 * g.worst);
    return broken ? 2 : g.failed || !g.cases;
}
