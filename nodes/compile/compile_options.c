#include "nodes/compile/compile_options.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

static const char *const precisions[] = {"auto", "f32", "bf16", "f16", NULL};
static const char *const tunings[] = {"off", "fast", "full", NULL};
static const char *const switches[] = {"enable", "disable", NULL};

const graft_input graft_compile_precision =
    INPUT_CHOICE("precision", precisions,
                 "The kind of numbers to compute with. auto takes the fastest that the device does "
                 "well; f32 is the most exact, bf16 takes half of its memory.",
                 .initial.s = "auto");
const graft_input graft_compile_tuning =
    INPUT_CHOICE("tuning", tunings,
                 "How long to look for the fastest kernels: off takes the usual ones, fast looks "
                 "for three seconds at most, full tries everything once and remembers it. "
                 "Tuned pictures differ from untuned ones in the last bits.",
                 .initial.s = "fast");
const graft_input graft_compile_max_memory_mb =
    INPUT_INT("max_memory_mb", 0, 0, 1048576, 0,
              "Memory that may be used, in MiB; 0 is no limit. Weights that have no room come from "
              "files in each step, on a GPU from the host's memory. When the budget cannot be met "
              "the node says so.");
const graft_input graft_compile_device =
    INPUT_CHOICE("device", NULL, "What to run on. auto takes the fastest that this machine has.",
                 .initial.s = "auto");
const graft_input graft_compile_cache =
    INPUT_CHOICE("cache", switches,
                 "Keeps compiled graphs on disk, so that the next start finds them. Disable it to "
                 "compile from scratch.",
                 .initial.s = "enable");
const graft_input graft_compile_width =
    INPUT_INT("width", 0, 0, 16384, 8,
              "Compile now for pictures of this width in pixels; 0 waits for the first run.",
              .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_compile_height =
    INPUT_INT("height", 0, 0, 16384, 8,
              "Compile now for pictures of this height in pixels; 0 waits for the first run.",
              .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_compile_batch_size =
    INPUT_INT("batch_size", 0, 0, 4096, 0,
              "Compile now for this many pictures at once; 0 waits for the first run.",
              .flags = GRAFT_INPUT_OPTIONAL);

graft_compile_options graft_compile_options_read(const graft_call *c, int first, int size)
{
    return (graft_compile_options){
        .precision = graft_arg_text(c, first),
        .tuning = graft_arg_text(c, first + 1),
        .max_memory_mb = graft_arg_i64(c, first + 2),
        .device = graft_arg_text(c, first + 3),
        .cache = graft_arg_is(c, first + 4, "enable"),
        .width = graft_arg_i64(c, size),
        .height = graft_arg_i64(c, size + 1),
        .batch_size = graft_arg_i64(c, size + 2),
    };
}

char **graft_compile_options_devices(void)
{
    graft_engine *engine = NULL;
    const char *const *backends = NULL;
    size_t n = 0;
    /* Without an engine nothing can run; "auto" alone keeps the workflow readable until then. */
    if (graft_nodes_engine(&engine, NULL) == GRAFT_OK) backends = graft_engine_backends(engine);
    while (backends && backends[n]) n++;
    const char **names = graft_calloc(n + 2, sizeof *names);
    if (!names) return NULL;
    names[0] = "auto";
    for (size_t i = 0; i < n; i++) names[i + 1] = backends[i];
    char **copy = graft_files_copy_choices(names);
    graft_free(names);
    return copy;
}
