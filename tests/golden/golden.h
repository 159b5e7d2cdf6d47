/* Holding the engine against files of reference tensors, one file kind a source file. */
#ifndef GRAFT_TESTS_GOLDEN_H
#define GRAFT_TESTS_GOLDEN_H
#include "engine/api/objects.h"

typedef struct golden {
    graft_engine *engine;
    const char *backend, *dtype; /* "ref" "cpu" …, "f32" "bf16" */
    const char *file;            /* now being read */
    int cases, failed;
    double worst; /* largest error as a share of its tolerance */
    char worst_name[256];
    double worst_error;
} golden;

/* Notes one case: prints its error and whether it is within `tolerance`. NaN fails. */
void golden_note(golden *g, const char *what, double error, double tolerance);
/* max |a-b| / max |b|; infinite when a holds a value that is not finite. */
double golden_error(const float *a, const float *b, size_t n);
/* Tolerance of models: the float32 one, or that of the dtype in use. */
double golden_tolerance(const golden *g);

/* A tensor as float32 (graft_free); NULL when absent. *n counts values. */
float *golden_read(const graft_safetensors *f, const char *name, size_t *n);
/* caseK.NAME; NULL when absent. */
const graft_st_tensor *golden_case(const graft_safetensors *f, int k, const char *name);

/* Each runs all cases of its kind in the file; GRAFT_OK also when cases are outside their
 * tolerance. They take over `f`. */
graft_status golden_unet(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_vae(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_clip(golden *g, graft_safetensors *f, graft_err *e);
graft_status golden_prompts(golden *g, const char *path, graft_err *e);
#endif
