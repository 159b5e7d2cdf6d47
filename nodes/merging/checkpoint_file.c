#include "nodes/merging/checkpoint_file.h"

#include "nodes/call/metadata.h"
#include "nodes/call/output.h"

typedef struct saved_parts {
    const graft_checkpoint *what;
    const graft_metadata *metadata;
    const graft_task *task;
} saved_parts;

static graft_status write_parts(const void *what, const char *path, graft_err *e)
{
    const saved_parts *s = what;
    return graft_checkpoint_save(s->what, path, (const char *const *)s->metadata->pairs, s->task,
                                 e);
}

graft_status graft_checkpoint_file_write(graft_call *c, const graft_checkpoint *what,
                                         const char *prefix)
{
    graft_metadata metadata = GRAFT_METADATA_INIT;
    const saved_parts parts = {what, &metadata, &c->task};
    const graft_output_place place = {"output", prefix, ".safetensors", 0, 0};
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    graft_status st = graft_metadata_read(c, &metadata);
    if (st == GRAFT_OK) st = graft_output_write(c, &place, "models", write_parts, &parts);
    graft_metadata_finish(&metadata);
    return st;
}
