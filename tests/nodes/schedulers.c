/* The nodes that make and change sigmas give what their names say, or say why not; and compiling by
 * PyTorch's name. */
#include <string.h>

#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg model[4], second[4]; /* second: of a guider's models */

static graft_status run_with(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* Checks a list of sigmas and lets go of it. */
static void expect_sigmas(graft_arg *a, const char *want)
{
    const graft_tensor *t = a->u.v->ops->query(a->u.v, GRAFT_TENSOR_ID);
    char got[256] = "";
    size_t n = 0;
    CHECK(t && t->ndim == 1);
    for (int64_t i = 0; i < t->shape[0]; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, i ? " %g" : "%g",
                              (double)((const float *)t->data)[i]);
    CHECK_STR(got, want);
    fake_host_release(a, 4);
}

static void aligned_steps(void)
{
    const graft_node *n = fake_host_node("AlignYourStepsScheduler");
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 2;
    CHECK_INT(run_with("AlignYourStepsScheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "14.615 1.396 0");
    in[fake_host_input(n, "model_type")].u.s = "SDXL";
    in[fake_host_input(n, "denoise")].u.f = 0.5;
    CHECK_INT(run_with("AlignYourStepsScheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "0.862 0");
    in[fake_host_input(n, "model_type")].u.s = "SVD";
    CHECK_INT(run_with("AlignYourStepsScheduler", in, out), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(host.fail_text, "SVD") != NULL);
}

static void laplace(void)
{
    const graft_node *n = fake_host_node("LaplaceScheduler");
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 3;
    in[fake_host_input(n, "sigma_max")].u.f = 9;
    in[fake_host_input(n, "sigma_min")].u.f = 0.25;
    in[fake_host_input(n, "beta")].u.f = 2;
    CHECK_INT(run_with("LaplaceScheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "9 1 0.25");
    in[fake_host_input(n, "mu")].u.f = 5;
    CHECK_INT(run_with("LaplaceScheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "9 9 0.25");
    in[fake_host_input(n, "sigma_min")].u.f = 10;
    CHECK_INT(run_with("LaplaceScheduler", in, out), GRAFT_E_ARG);
    CHECK(strstr(host.fail_text, "sigma_min") != NULL);
}

/* The picture's size and the steps arrive; what they give is tests/sampling's. */
static void of_a_size(void)
{
    const graft_node *n = fake_host_node("Flux2Scheduler");
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 2;
    CHECK_INT(run_with("Flux2Scheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "1 0.909111 0");
    in[fake_host_input(n, "width")].u.i = 2048;
    in[fake_host_input(n, "height")].u.i = 2048;
    CHECK_INT(run_with("Flux2Scheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "1 0.961947 0");
    in[fake_host_input(n, "height")].u.i = 15;
    CHECK_INT(run_with("Flux2Scheduler", in, out), GRAFT_E_ARG);
    CHECK(strstr(host.fail_text, "2048x15") != NULL);
    n = fake_host_node("Ideogram4Scheduler");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 3;
    CHECK_INT(run_with("Ideogram4Scheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "0.999877 0.809524 0.484848 0");
    in[fake_host_input(n, "steps")].u.i = 2;
    in[fake_host_input(n, "width")].u.i = 2048;
    in[fake_host_input(n, "mu")].u.f = 0.5;
    in[fake_host_input(n, "std")].u.f = 1;
    CHECK_INT(run_with("Ideogram4Scheduler", in, out), GRAFT_OK);
    expect_sigmas(out, "0.999877 0.823424 0");
}

/* 128 channels, a place for 16 pixels each way, and a word about what is no multiple. */
static void empty_places(void)
{
    const graft_node *n = fake_host_node("EmptyFlux2LatentImage");
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "width")].u.i = 100;
    in[fake_host_input(n, "height")].u.i = 64;
    in[fake_host_input(n, "batch_size")].u.i = 2;
    CHECK_INT(run_with("EmptyFlux2LatentImage", in, out), GRAFT_OK);
    const graft_tensor *t = out[0].u.v->ops->query(out[0].u.v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 4 && t->shape[0] == 2 && t->shape[1] == 128);
    CHECK(t && t->shape[2] == 4 && t->shape[3] == 6);
    CHECK(strstr(host.log, "width 100 is taken as 96, a multiple of 16") != NULL);
    fake_host_release(out, 4);
}

static void first_sigma(void)
{
    const graft_node *n = fake_host_node("AlignYourStepsScheduler");
    graft_arg in[24], sigmas[4], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 2;
    CHECK_INT(run_with("AlignYourStepsScheduler", in, sigmas), GRAFT_OK);
    n = fake_host_node("SetFirstSigma");
    fake_host_defaults(n, in);
    in[0] = sigmas[0];
    CHECK_INT(run_with("SetFirstSigma", in, out), GRAFT_OK);
    expect_sigmas(out, "136 1.396 0");
    in[fake_host_input(n, "sigma")].u.f = -1;
    CHECK_INT(run_with("SetFirstSigma", in, out), GRAFT_E_ARG);
    fake_host_release(sigmas, 4);
}

static void numbers_arrive(void)
{
    const graft_node *n = fake_host_node("BetaSamplingScheduler");
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[0] = model[0];
    in[fake_host_input(n, "steps")].u.i = 9;
    in[fake_host_input(n, "alpha")].u.f = 0.5;
    in[fake_host_input(n, "beta")].u.f = 2;
    CHECK_INT(run_with("BetaSamplingScheduler", in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "alpha=0.5 beta=2 schedule beta steps=9 denoise=1\n");
    expect_sigmas(out, "2 1 0");
}

/* What the engine is asked when a custom sampler gets the node's method. */
static void expect_sampler(const char *id, const char *const *names, const double *values,
                           const char *choice, const char *want)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], sampler[4], out[4], prompt[4], latent[4], sigmas[4];
    fake_host_defaults(n, in);
    for (int i = 0; names && names[i]; i++) {
        graft_arg *a = &in[fake_host_input(n, names[i])];
        if (a->kind == GRAFT_INT || a->kind == GRAFT_BOOL)
            a->u.i = (int64_t)values[i];
        else
            a->u.f = values[i];
    }
    if (choice) in[0].u.s = choice;
    if (strcmp(n->inputs[0]->type, "MODEL") == 0) in[0] = model[0];
    CHECK_INT(run_with(id, in, sampler), GRAFT_OK);
    n = fake_host_node("CLIPTextEncode");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "clip")] = model[1];
    CHECK_INT(run_with("CLIPTextEncode", in, prompt), GRAFT_OK);
    fake_host_defaults(fake_host_node("EmptyLatentImage"), in);
    CHECK_INT(run_with("EmptyLatentImage", in, latent), GRAFT_OK);
    n = fake_host_node("AlignYourStepsScheduler");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "steps")].u.i = 1;
    CHECK_INT(run_with("AlignYourStepsScheduler", in, sigmas), GRAFT_OK);
    n = fake_host_node("SamplerCustom");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "model")] = model[0];
    in[fake_host_input(n, "positive")] = in[fake_host_input(n, "negative")] = prompt[0];
    in[fake_host_input(n, "sampler")] = sampler[0];
    in[fake_host_input(n, "sigmas")] = sigmas[0];
    in[fake_host_input(n, "latent_image")] = latent[0];
    CHECK_INT(run_with("SamplerCustom", in, out), GRAFT_OK);
    CHECK(strstr(fake_trace, want) != NULL);
    if (!strstr(fake_trace, want)) fprintf(stderr, "%s: %s", id, fake_trace);
    fake_host_release(out, 4), fake_host_release(sampler, 4), fake_host_release(prompt, 4);
    fake_host_release(latent, 4), fake_host_release(sigmas, 4);
}

static void samplers_with_numbers(void)
{
    static const char *const noise[] = {"eta", "s_noise", NULL}, *const all[] = {"eta", "s_noise",
                                                                                 "r", NULL};
    static const char *const order[] = {"order", NULL};
    static const char *const stages[] = {"eta", "s_noise", "max_stage", NULL};
    static const double values[] = {0.25, 1.5, 0.75}, two[] = {2}, some[] = {0.25, 1.5, 2};
    expect_sampler("SamplerEulerAncestral", noise, values, NULL,
                   " euler_ancestral two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5 order=4");
    expect_sampler("SamplerDPMPP_2S_Ancestral", noise, values, NULL,
                   " dpmpp_2s_ancestral two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5");
    expect_sampler("SamplerDPMPP_3M_SDE", noise, values, NULL,
                   " dpmpp_3m_sde two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5");
    expect_sampler("SamplerDPMPP_2M_SDE", noise, values, "midpoint",
                   " dpmpp_2m_sde two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5");
    expect_sampler("SamplerDPMPP_2M_SDE", NULL, NULL, "heun",
                   " dpmpp_2m_sde_heun two=0 sigmas=2: 14.615 0 eta=1 s_noise=1 r=0.5 order=4");
    expect_sampler("SamplerDPMPP_SDE", all, values, NULL,
                   " dpmpp_sde two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.75 order=4");
    expect_sampler("SamplerEulerAncestralCFGPP", noise, values, NULL,
                   " euler_ancestral_cfg_pp two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5");
    expect_sampler("SamplerER_SDE", stages, some, "ER-SDE",
                   " er_sde two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5 order=2\n");
    expect_sampler("SamplerER_SDE", stages, some, "Reverse-time SDE",
                   " er_sde two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5 order=2 reverse\n");
    expect_sampler("SamplerER_SDE", stages, some, "ODE",
                   " er_sde two=0 sigmas=2: 14.615 0 eta=0 s_noise=0 r=0.5 order=2 reverse\n");
    expect_sampler("SamplerLMS", order, two, NULL,
                   " lms two=0 sigmas=2: 14.615 0 eta=1 s_noise=1 r=0.5 order=2");
    static const char *const adaptive[] = {"order",  "rtol",    "atol",   "h_init",
                                           "pcoeff", "icoeff",  "dcoeff", "accept_safety",
                                           "eta",    "s_noise", NULL};
    static const double steps[] = {2, 0.25, 0.125, 0.5, 0.75, 1.5, 2.5, 0.875, 3, 4};
    expect_sampler("SamplerDPMAdaptative", NULL, NULL, NULL,
                   " dpm_adaptive two=0 sigmas=2: 14.615 0 eta=0 s_noise=1 r=0.5 order=3 rtol=0.05 "
                   "atol=0.0078 h_init=0.05 pid=0,1,0 safety=0.81\n");
    expect_sampler("SamplerDPMAdaptative", adaptive, steps, NULL,
                   " dpm_adaptive two=0 sigmas=2: 14.615 0 eta=3 s_noise=4 r=0.5 order=2 rtol=0.25 "
                   "atol=0.125 h_init=0.5 pid=0.75,1.5,2.5 safety=0.875\n");
    static const char *const sa[] = {"eta",
                                     "s_noise",
                                     "sde_start_percent",
                                     "sde_end_percent",
                                     "predictor_order",
                                     "corrector_order",
                                     NULL};
    static const double orders[] = {0.25, 1.5, 0.5, 1, 5, 0};
    expect_sampler("SamplerSASolver", NULL, NULL, NULL,
                   " sa_solver two=0 sigmas=2: 14.615 0 eta=1 s_noise=1 r=0.5 order=4 "
                   "noise=2.3,1.7 orders=3,4 pece=0 simple=0\n");
    expect_sampler("SamplerSASolver", sa, orders, NULL,
                   " sa_solver two=0 sigmas=2: 14.615 0 eta=0.25 s_noise=1.5 r=0.5 order=4 "
                   "noise=2,1.5 orders=5,0 pece=0 simple=0\n");
    static const char *const pece[] = {"use_pece", NULL}, *const simple[] = {"simple_order_2",
                                                                             NULL};
    static const double on[] = {1};
    expect_sampler("SamplerSASolver", pece, on, NULL, " orders=3,4 pece=1 simple=0\n");
    expect_sampler("SamplerSASolver", simple, on, NULL, " orders=3,4 pece=0 simple=1\n");
}

/* A guider's prompts, as SamplerCustomAdvanced hands them on; NULL: the first of `choices`. */
static void expect_guider(const char *id, const char *third, const char *style, const char *want)
{
    const graft_node *n = fake_host_node("CLIPTextEncode");
    graft_arg in[24], prompt[3][4], guider[4], parts[4][4], out[4];
    for (int i = 0; i < 3; i++) {
        fake_host_defaults(n, in);
        in[fake_host_input(n, "clip")] = model[1];
        CHECK_INT(run_with("CLIPTextEncode", in, prompt[i]), GRAFT_OK);
    }
    n = fake_host_node(id);
    fake_host_defaults(n, in);
    for (int i = 0, next = 0; n->inputs[i]; i++) {
        if (strcmp(n->inputs[i]->type, "MODEL") == 0) in[i] = i ? second[0] : model[0];
        if (strcmp(n->inputs[i]->type, "CONDITIONING") == 0) in[i] = prompt[next++][0];
        if (in[i].kind == GRAFT_FLOAT) in[i].u.f = in[i - 1].kind == GRAFT_FLOAT ? 1.5 : 4;
        if (in[i].kind == GRAFT_CHOICE && style) in[i].u.s = style;
    }
    CHECK(fake_host_input(n, third) >= 0);
    CHECK_INT(run_with(id, in, guider), GRAFT_OK);
    static const char *const makers[] = {"RandomNoise", "KSamplerSelect", "ManualSigmas",
                                         "EmptyLatentImage"};
    for (int i = 0; i < 4; i++) {
        fake_host_defaults(fake_host_node(makers[i]), in);
        if (i == 1) in[0].u.s = "euler";
        CHECK_INT(run_with(makers[i], in, parts[i]), GRAFT_OK);
    }
    const graft_arg all[5] = {parts[0][0], guider[0], parts[1][0], parts[2][0], parts[3][0]};
    CHECK_INT(run_with("SamplerCustomAdvanced", all, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    fake_host_release(out, 4), fake_host_release(guider, 4);
    for (int i = 0; i < 3; i++) fake_host_release(prompt[i], 4);
    for (int i = 0; i < 4; i++) fake_host_release(parts[i], 4);
}

static void guiders_of_three(void)
{
#define RUN_OF(rest)                                                                               \
    "custom model=1 seed=0 noise=1 cfg=4 euler two=1 sigmas=2: 1 0.5 third=1 " rest "\n"
    expect_guider("PerpNegGuider", "empty_conditioning", NULL, RUN_OF("way=0 scale=1.5"));
    expect_guider("DualCFGGuider", "cond2", "regular", RUN_OF("way=1 scale=1.5"));
    expect_guider("DualCFGGuider", "cond2", "nested", RUN_OF("way=2 scale=1.5"));
    graft_arg in[24], out[4], prompt[4];
    const graft_node *n = fake_host_node("CLIPTextEncode");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "clip")] = model[1];
    CHECK_INT(run_with("CLIPTextEncode", in, prompt), GRAFT_OK);
    n = fake_host_node("PerpNeg");
    fake_host_defaults(n, in);
    in[0] = model[0], in[1] = prompt[0], in[2].u.f = 0.75;
    CHECK_INT(run_with("PerpNeg", in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "perp neg 1 0.75\n");
    CHECK_STR(out[0].u.v->ops->type, "MODEL");
    fake_host_release(out, 4), fake_host_release(prompt, 4);
}

/* The second model goes along with its prompt; without the prompt, that is one of zeros. */
static void guider_of_two_models(void)
{
    graft_arg in[24], out[4], prompt[4];
    const graft_node *n = fake_host_node("CLIPTextEncode");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "clip")] = model[1];
    CHECK_INT(run_with("CLIPTextEncode", in, prompt), GRAFT_OK);
    n = fake_host_node("DualModelGuider");
    fake_host_defaults(n, in);
    in[0] = model[0], in[1] = prompt[0];
    CHECK_INT(run_with("DualModelGuider", in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "zero_out\n");
    CHECK_STR(out[0].u.v->ops->type, "GUIDER");
    fake_host_release(out, 4), fake_host_release(prompt, 4);
    n = fake_host_node("CFGOverride");
    fake_host_defaults(n, in);
    in[0] = model[0];
    CHECK_INT(run_with("CFGOverride", in, second), GRAFT_OK);
    expect_guider("DualModelGuider", "negative", NULL,
                  "custom model=1 seed=0 noise=1 cfg=4 euler two=1 sigmas=2: 1 0.5 of another=1\n");
    fake_host_release(second, 4);
}

/* Whatever is between the numbers; what is no sigma is refused, with the input at fault. */
static void sigmas_by_hand(void)
{
    static const char *const texts[][2] = {
        {"1, 0.5", "1 0.5"},          {"14.6 7;3\n0", "14.6 7 3 0"},
        {".5|0.", "0.5 0"},           {"a1b2c3d", "1 2 3"},
        {"+4 --- . 2..5", "4 2 0.5"}, {"", ""},
        {"[0.9, 0.0]", "0.9 0"},      {"1e2", "1 2"}};
    graft_arg in[24], out[4];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fake_host_defaults(fake_host_node("ManualSigmas"), in);
        in[0].u.s = texts[i][0];
        CHECK_INT(run_with("ManualSigmas", in, out), GRAFT_OK);
        expect_sigmas(out, texts[i][1]);
    }
    in[0].u.s = "1 -0.5";
    CHECK_INT(run_with("ManualSigmas", in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "sigmas");
    char long_text[400];
    memset(long_text, '0', 399);
    memcpy(long_text, "0.25", 4), long_text[399] = 0;
    in[0].u.s = long_text;
    CHECK_INT(run_with("ManualSigmas", in, out), GRAFT_OK);
    expect_sigmas(out, "0.25");
}

static void percents_and_noise(void)
{
    graft_arg in[24], out[4], parts[3][4];
    const graft_node *n = fake_host_node("SamplingPercentToSigma");
    fake_host_defaults(n, in);
    in[0] = model[0], in[1].u.f = 0.25, in[2].u.i = 1;
    CHECK_INT(run_with("SamplingPercentToSigma", in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "sigma at 0.25 actual=1 model=1\n");
    CHECK(out[0].kind == GRAFT_FLOAT && out[0].u.f == 2.25);
    static const char *const makers[] = {"RandomNoise", "ManualSigmas", "EmptyLatentImage"};
    for (int i = 0; i < 3; i++) {
        fake_host_defaults(fake_host_node(makers[i]), in);
        if (i == 0) in[0].u.i = 77;
        CHECK_INT(run_with(makers[i], in, parts[i]), GRAFT_OK);
    }
    const graft_arg all[4] = {model[0], parts[0][0], parts[1][0], parts[2][0]};
    CHECK_INT(run_with("AddNoise", all, out), GRAFT_OK);
    CHECK_STR(fake_trace, "noised model=1 sigmas=2 noise=1 seed=77\n");
    CHECK_STR(out[0].u.v->ops->type, "LATENT");
    fake_host_release(out, 4);
    for (int i = 0; i < 3; i++) fake_host_release(parts[i], 4);
}

static void pytorchs_compiler_is_ours(void)
{
    graft_arg in[24], out[4];
    fake_host_defaults(fake_host_node("TorchCompileModel"), in);
    in[0] = model[0];
    CHECK_INT(run_with("TorchCompileModel", in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "compile model auto fast auto memory=0 cache=1 tile=1 0x0x0\n");
    CHECK_STR(host.phases, "compile ");
    CHECK_STR(out[0].u.v->ops->type, "MODEL");
    fake_host_release(out, 4);
    fake_fail = GRAFT_E_DEVICE;
    CHECK_INT(fake_host_run(&host, fake_host_node("TorchCompileModel"), in, out, NULL, 0),
              GRAFT_E_DEVICE);
}

int main(void)
{
    graft_arg in[24];
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, model), GRAFT_OK);
    RUN(aligned_steps);
    RUN(laplace);
    RUN(of_a_size);
    RUN(empty_places);
    RUN(first_sigma);
    RUN(numbers_arrive);
    RUN(samplers_with_numbers);
    RUN(guiders_of_three);
    RUN(guider_of_two_models);
    RUN(sigmas_by_hand);
    RUN(percents_and_noise);
    RUN(pytorchs_compiler_is_ours);
    fake_host_release(model, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    CHECK_INT(fake_engines, 0);
    fake_host_finish(&host);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
