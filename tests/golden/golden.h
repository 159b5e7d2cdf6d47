/* Holding the engine against files of reference tensors, one file kind a source file. */
#ifndef GRAFT_TESTS_GOLDEN_H
#define GRAFT_TESTS_GOLDEN_H
#include "engine/objects/objects.h"

typedef struct golden {
    graft_engine *engine;
    const char *backend, *dtype; /* "ref" "cpu" …, "f32" "bf16" */
    const char *file;            /* now being read */
    int cases, failed;
    int models; /* of the file's cases, and the sum of their errors */
    double sum;
    double worst; /* largest error as a share of its tolerance */
    char worst_name[256];
    double worst_error;
} golden;

/* Notes one case: prints its error and whether it is within `tolerance`. NaN fails. */
void golden_note(golden *g, const char *what, double error, double tolerance);
/* max |a-b| / max |b|; infinite when a holds a value that is not finite. */
double golden_error(const float *a, const float *b, size_t n);
/* Likewise one case of a model, with the tolerance of the dtype in use. */
void golden_note_model(golden *g, const char *what, double error);
/* Notes the mean of the models' cases since the last call, if there were any. In 16 bits the
 * largest error of one output is a matter of luck: with the last bits that compilers and
 * instruction sets change, that of one UNet went from 0.012 to 0.023. Means hardly move, and are
 * what is promised. */
void golden_note_mean(golden *g);

/* A tensor as float32 (graft_free); NULL when absent. *n counts values. */
float *golden_read(const graft_safetensors *f, const char *name, size_t *n);
/* caseK.NAME; NULL when absent. */
const graft_st_tensor *golden_case(const graft_safetensors *f, int k, const char *name);

/* Holds what `b` makes of `in` against caseK.NAME, which is noted by that name. */
graft_status golden_check_run(golden *g, const graft_safetensors *f, int k, const char *name,
                              graft_binding *b, const void *const *in, graft_err *e);

/* Values of a tensor, and the same as float32 (graft_free). */
size_t golden_count(const graft_st_tensor *t);
float *golden_copy(const graft_st_tensor *t);
/* Token ids of 32 or 64 bits (graft_free). */
int32_t *golden_tokens(const graft_st_tensor *t);
/* The case's x, behind each of whose rows come that of its references (graft_free); *use says how
 * large they are, and of an x (N,C,layers,H,W) how large it is. */
float *golden_x(const graft_safetensors *f, int k, graft_unet_use *use);
/* For a network that counts tokens: in[2] becomes `all` tokens, of which it is not to see those
 * behind its own, and the last number of in[3] tells it (graft_free). Its own are all that context
 * has, or where a network is told nothing else, as many as in[3] says. False: no memory. */
bool golden_count_tokens(const graft_net_arch *a, const graft_st_tensor *context, int64_t all,
                         float *in[4]);
#define GOLDEN_MANY 275 /* tokens, which all that can count them count */
/* (N,C,H,W) and (N,H,W,C), either way. */
void golden_move_channels(const float *src, float *dst, const int64_t nchw[4], bool to_last);
/* Backend and precision of this run. */
void golden_options(const golden *g, graft_build_options *o);

/* Each runs all cases of its kind in the file; GRAFT_OK also when cases are outside their
 * tolerance. They take over `f`. */
graft_status golden_unet(golden *g, graft_safetensors *f, graft_err *e);
/* A UNet and a ControlNet, union or not: what it adds, and what the UNet then gives. */
graft_status golden_control(golden *g, graft_safetensors *f, graft_err *e);
/* The same of FLUX.1 and Stable Diffusion 3; the ControlNet is in a file beside this one, `path`.
 */
graft_status golden_control_transformer(golden *g, const char *path, graft_safetensors *f,
                                        graft_err *e);
/* Those that run within Qwen-Image's network. */
graft_status golden_control_within(golden *g, const char *path, graft_safetensors *f, graft_err *e);
/* A UNet with FreeU. */
graft_status golden_freeu(golden *g, graft_safetensors *f, graft_err *e);
/* The sigmas of a flow, and runs of its network. */
graft_status golden_flow(golden *g, const char *path, graft_safetensors *f, graft_err *e);
graft_status golden_vae(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_own_vae(golden *g, graft_safetensors *f, graft_err *e);
/* A TAESD, in diffusers' names or one half in its author's. */
graft_status golden_tiny(golden *g, const char *path, graft_safetensors *f, graft_err *e);
graft_status golden_clip(golden *g, graft_safetensors *f, graft_err *e);
/* Qwen 3. */
graft_status golden_qwen3(golden *g, graft_safetensors *f, graft_err *e);
/* What looks at pictures for Qwen 2.5-VL. */
graft_status golden_qwen_vision(golden *g, graft_safetensors *f, graft_err *e);
/* T5's encoder. */
graft_status golden_t5(golden *g, graft_safetensors *f, graft_err *e);
/* An encoder of pictures. */
graft_status golden_vision(golden *g, graft_safetensors *f, graft_err *e);
/* What unCLIP models are told. */
graft_status golden_unclip(golden *g, graft_safetensors *f, graft_err *e);
/* A UNet that attends to pictures by an IP-Adapter. */
graft_status golden_ip_adapter(golden *g, graft_safetensors *f, graft_err *e);
/* A T2I-Adapter. */
graft_status golden_t2i(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_redux(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_upscale(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_prompts(golden *g, const char *path, graft_err *e);
#endif
