/* One execute() of a node: arguments checked and unwrapped before the node's own code runs, results
 * wrapped, failures told to the host with the input at fault. Lives on the stack; one thread. */
#ifndef GRAFT_NODES_CALL_H
#define GRAFT_NODES_CALL_H
#include "engine/engine.h"
#include "nodes/call/booster.h"
#include "nodes/call/instance.h"
#include "nodes/call/task.h"

enum { GRAFT_CALL_MAX_INPUTS = 80, GRAFT_CALL_MAX_OUTPUTS = 4 };

typedef struct graft_call {
    graft_instance *self;
    graft_job *job;
    const graft_input *const *inputs;
    const graft_arg *in;
    graft_value *value[GRAFT_CALL_MAX_INPUTS]; /* objects and lists as ours; NULL: none */
    graft_arg out[GRAFT_CALL_MAX_OUTPUTS];     /* the host's once everything went well */
    graft_task_job where;
    graft_task task; /* for the engine */
    graft_err err;   /* for the engine's last argument */
    int blamed;      /* input that a failure is about; -1: none */
} graft_call;

typedef graft_status graft_call_fn(graft_call *c);

/* The whole of a node's execute(): checks `in` against `inputs`, runs `run`, fills `out`. */
graft_status graft_call_run(void *self, graft_job *job, const graft_input *const *inputs,
                            const graft_arg *in, graft_arg *out, graft_call_fn *run);

void graft_call_phase(graft_call *c, const char *name);
/* From now on a failure is about this input. */
void graft_call_blame(graft_call *c, int input);
/* After a failure with the files of inputs `first`, first + 1, …: it is about the one with which
 * the message begins, or else about the first. */
void graft_call_blame_file(graft_call *c, int first, char *const *paths, int n);
/* Fails because of this input. */
graft_status graft_call_fail(graft_call *c, int input, graft_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Set output `slot`. Each takes over the caller's reference, also on failure. */
graft_status graft_call_out_model(graft_call *c, int slot, graft_model *m);
graft_status graft_call_out_clip(graft_call *c, int slot, graft_clip *v);
graft_status graft_call_out_vae(graft_call *c, int slot, graft_vae *v);
graft_status graft_call_out_cond(graft_call *c, int slot, graft_cond *v);
graft_status graft_call_out_controlnet(graft_call *c, int slot, graft_controlnet *v);
graft_status graft_call_out_model_patch(graft_call *c, int slot, graft_controlnet *v);
graft_status graft_call_out_upscaler(graft_call *c, int slot, graft_upscaler *v);
graft_status graft_call_out_vision(graft_call *c, int slot, graft_vision *v);
graft_status graft_call_out_vision_output(graft_call *c, int slot, graft_vision_output *v);
graft_status graft_call_out_style(graft_call *c, int slot, graft_style *v);
graft_status graft_call_out_ip_adapter(graft_call *c, int slot, graft_ip_adapter *v);
graft_status graft_call_out_gligen(graft_call *c, int slot, graft_gligen *v);
graft_status graft_call_out_latent(graft_call *c, int slot, graft_latent *v);
graft_status graft_call_out_operation(graft_call *c, int slot,
                                      const graft_latent_operation *v); /* copied */
graft_status graft_call_out_image(graft_call *c, int slot, graft_image *v);
graft_status graft_call_out_mask(graft_call *c, int slot, graft_image *v);
graft_status graft_call_out_sigmas(graft_call *c, int slot, graft_sigmas *v);
graft_status graft_call_out_hooks(graft_call *c, int slot, graft_hooks *v);
graft_status graft_call_out_keyframes(graft_call *c, int slot, graft_keyframes *v);
graft_status graft_call_out_range(graft_call *c, int slot, double start, double end);
/* Outputs 0 and 1. */
graft_status graft_call_out_two_conds(graft_call *c, graft_cond *a, graft_cond *b);
graft_status graft_call_out_picture(graft_call *c, graft_image *image, graft_image *mask);
graft_status graft_call_out_two_sigmas(graft_call *c, graft_sigmas *a, graft_sigmas *b);
graft_status graft_call_out_i64(graft_call *c, int slot, int64_t v);
graft_status graft_call_out_f64(graft_call *c, int slot, double v);
graft_status graft_call_out_bool(graft_call *c, int slot, bool v);
graft_status graft_call_out_text(graft_call *c, int slot, const char *text); /* copied */
/* A part of sampling, which holds what is `known`; a booster; a list (list.h). */
graft_status graft_call_out_part(graft_call *c, int slot, const char *type,
                                 const graft_sampling *known);
graft_status graft_call_out_booster(graft_call *c, int slot, const char *type, graft_booster *b);
graft_status graft_call_out_list(graft_call *c, int slot, graft_value *list);
/* What came in, of whatever kind. */
graft_status graft_call_out_same(graft_call *c, int slot, int input);

/* Samples, and sets outputs 0 and 1 to the result and the last prediction. */
graft_status graft_call_sample(graft_call *c, const graft_sampling *sampling,
                               const graft_latent *latent);
#endif
