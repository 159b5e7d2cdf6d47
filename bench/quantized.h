/* A model with every layer quantized that may be: what 8 bits bring at most. */
#ifndef GRAFT_BENCH_QUANTIZED_H
#define GRAFT_BENCH_QUANTIZED_H
#include "engine/objects/objects.h"

/* To 8 bits, whatever it costs in error; *out has one reference. */
graft_status quantize_all(const graft_model *m, graft_model **out, graft_err *e);
#endif
