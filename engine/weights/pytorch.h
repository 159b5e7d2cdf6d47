/* Files that PyTorch's torch.save() wrote (.ckpt, .pt, .pth, .bin), read without Python and without
 * running anything: the archive's pickle is read as data (pickle.h), and of all that it names only
 * tensors and what holds them is understood. Both layouts: the zip archive (PyTorch 1.6 and later;
 * https://docs.pytorch.org/docs/stable/notes/serialization.html) and the row of pickles with the
 * storages behind it that came before.
 *
 * Refused: TorchScript archives, big-endian files, tensors that reach beyond their storage. Left
 * out and counted: what is no plain tensor (sparse, quantized by PyTorch, complex), and tensors
 * that repeat elements (expanded ones). */
#ifndef GRAFT_WEIGHTS_PYTORCH_H
#define GRAFT_WEIGHTS_PYTORCH_H
#include "engine/weights/safetensors.h"

/* Immutable once open; any thread. The file must not be written to meanwhile. */
typedef struct graft_pytorch graft_pytorch;

/* Names are the keys on the way to a tensor, joined with '.'; those of modules and parameters that
 * were saved as objects are what their state_dict() would have. Where the file has training state
 * beside the weights, `part` tells which entry was taken ("state_dict", "params_ema", …), and names
 * are without it. GRAFT_E_NOTFOUND: no tensors. */
graft_status graft_pytorch_open(const char *path, graft_pytorch **out, graft_err *e);
/* The same on bytes that the caller keeps alive; `what` names them in messages. */
graft_status graft_pytorch_open_memory(const void *data, size_t size, const char *what,
                                       graft_pytorch **out, graft_err *e);
void graft_pytorch_close(graft_pytorch *f);
/* *n tensors, in the order of the pickle; two may share their data. */
const graft_st_tensor *graft_pytorch_tensors(const graft_pytorch *f, size_t *n);
/* NULL: the whole file. */
const char *graft_pytorch_part(const graft_pytorch *f);
/* What a hypernetwork's file says beside its tensors of how they belong together, as texts: key and
 * value of number i; false: there is no more. Other files have none. A value of None is no entry.
 */
typedef struct graft_pytorch_note {
    const char *key;
    char value[128];
} graft_pytorch_note;
bool graft_pytorch_note_at(const graft_pytorch *f, size_t i, graft_pytorch_note *out);
/* How many tensors are of kinds that are not read, and the names of the first, fit for messages. */
size_t graft_pytorch_left_out(const graft_pytorch *f);
const char *graft_pytorch_left_out_names(const graft_pytorch *f);
#endif
