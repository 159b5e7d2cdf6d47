/* Loading, from the inside: what all kinds of files share (load.c), and the parts of a checkpoint
 * (load_unet.c, load_vae.c, load_clip.c). */
#ifndef GRAFT_FILES_LOAD_H
#define GRAFT_FILES_LOAD_H
#include "engine/objects/objects.h"
#include "engine/models/names/diffusers_file.h"

/* What latents are multiplied by, where the file does not tell. */
#define GRAFT_LOAD_SD_SCALE   0.18215
#define GRAFT_LOAD_SDXL_SCALE 0.13025
#define GRAFT_LOAD_SD3_SCALE  1.5305
#define GRAFT_LOAD_SD3_SHIFT  0.0609 /* taken away from them before */
#define GRAFT_LOAD_FLUX_SCALE 0.3611
#define GRAFT_LOAD_FLUX_SHIFT 0.1159

/* Whether the file has the tensor `prefix` + `name`. */
bool graft_load_has(const graft_safetensors *f, const char *prefix, const char *name);
/* The first of the prefixes, a list that ends with NULL, below which `name` is; or NULL. */
const char *graft_load_prefix(const graft_safetensors *f, const char *const *prefixes,
                              const char *name);
/* Where checkpoints and files of a UNet alone have it. */
extern const char *const graft_load_unet_prefixes[];

/* Below which prefix the file has a UNet or a transformer, and which one. GRAFT_E_UNSUPPORTED where
 * there is none that is known. */
graft_status graft_load_network(const graft_safetensors *f, const char **prefix,
                                graft_net_arch *out, graft_err *e);
/* All tensors of a file, in a checkpoint's names where it has diffusers' and `adopt`, which may be
 * NULL, knows them. `task`, whose phase it sets, may be NULL. The caller releases *out. */
graft_status graft_load_open(const char *path, graft_diffusers_adopt *adopt, const graft_task *task,
                             graft_weights **out, graft_err *e);
/* Whether the part has all that the graphs read. What they do not read is told to the log: it is
 * no error, since fine-tunes carry leftovers. */
graft_status graft_load_check(const graft_log *log, const graft_weights *w,
                              const graft_graph *const *graph, size_t n_graphs, graft_err *e);
/* Passes on the status of building a graph: one that the tensors' shapes do not add up to is the
 * file's fault. */
graft_status graft_load_blame(const graft_weights *w, graft_status st, graft_err *e);

/* The part of a file that is a UNet, a VAE, or one or two text encoders; GRAFT_E_UNSUPPORTED where
 * there is none, but for text encoders: then *out tells so (graft_clip_there). The caller releases
 * *out. */
graft_status graft_load_model_part(graft_engine *engine, graft_weights *file,
                                   const graft_task *task, graft_model **out, graft_err *e);
graft_status graft_load_vae_part(graft_engine *engine, graft_weights *file, graft_vae **out,
                                 graft_err *e);
/* A Control-LoRA, which `file` is below this prefix. */
graft_status graft_load_control_lora(graft_engine *engine, graft_weights *file, const char *prefix,
                                     graft_controlnet **out, graft_err *e);
graft_status graft_load_clip_part(graft_engine *engine, graft_weights *file, const graft_task *task,
                                  graft_clip **out, graft_err *e);
#endif
