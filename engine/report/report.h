/* What a report says, gathered before it is written as text and drawn as a picture. */
#ifndef GRAFT_REPORT_REPORT_H
#define GRAFT_REPORT_REPORT_H
#include "engine/objects/objects.h"

enum { GRAFT_REPORT_PARTS = 6 }; /* the network, two text encoders, VAE, T5, Qwen or Llama */

typedef struct graft_report_part {
    const char *title;                   /* "UNet"; NULL: this part was not given */
    const char *kind;                    /* what the names of its graphs' kinds begin with */
    const graft_weights *weights, *more; /* more: in a second file; NULL */
    const graft_build_options *options;
    const char *backend, *precision; /* as they are resolved on this machine */
    graft_hash arch;
    uint64_t stored, resident; /* bytes in the file; packed and in memory */
    size_t n_graphs;
    uint64_t ns[GRAFT_OP_END], runs; /* over all of the part's graphs */
    const graft_exe *largest; /* by arena, of those that ran or else of all; NULL: no graph */
} graft_report_part;

typedef struct graft_report {
    const graft_engine *engine;
    const graft_model *model;
    graft_report_part part[GRAFT_REPORT_PARTS];
    graft_exe **exe; /* all compiled graphs in memory */
    size_t n_exes;
    /* Over the parts. Runs on devices with memory of their own have no times (graft_exe_times). */
    uint64_t ns[GRAFT_OP_END], all_ns, runs;
    uint64_t other_resident, arena_bytes;
    graft_packs_stats packs, offloaded; /* the latter in memory of the host, for lack of room */
    graft_compiled_stats compiled;
} graft_report;

/* The operator that took most of r->ns among those not `done`; -1: none did any more. */
int graft_report_next_op(const graft_report *r, const bool done[GRAFT_OP_END]);
graft_status graft_report_draw(const graft_report *r, graft_image **out, graft_err *e);
#endif
