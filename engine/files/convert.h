/* What files that convert have in common. */
#ifndef GRAFT_FILES_CONVERT_H
#define GRAFT_FILES_CONVERT_H
#include "engine/engine.h"
#include "engine/weights/safetensors.h"

/* The file's own pairs and what PyTorch's loader asks for, as graft_safetensors_write_from() takes
 * them; they point into the file. *out: graft_free(). */
graft_status graft_convert_metadata(const graft_safetensors *f, const char ***out, graft_err *e);
#endif
