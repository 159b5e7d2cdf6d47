#include "nodes/compile_options.h"

#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

#define RECORD(name_, type_, kind_, tooltip_, ...)                                                 \
    {                                                                                              \
        .size = sizeof(graft_input), .name = (name_), .type = (type_), .kind = (kind_),            \
        .tooltip = (tooltip_), __VA_ARGS__                                                         \
    }
#define CHOICE(name_, tooltip_, ...) RECORD(name_, "COMBO", GRAFT_CHOICE, tooltip_, __VA_ARGS__)
#define INT(name_, max_, step_, tooltip_, ...)                                                     \
    RECORD(name_, "INT", GRAFT_INT, tooltip_, .max = (max_), .step = (step_), __VA_ARGS__)

static const char *const precisions[] = {"auto", "f32", "bf16", "f16", NULL};
static const char *const tunings[] = {"off", "fast", "full", NULL};
static const char *const switches[] = {"enable", "disable", NULL};

const graft_input graft_compile_precision =
    CHOICE("precision",
           "Numbers that are computed with. auto takes the fastest that the device does well; f32 "
           "is the most exact.",
           .choices = precisions, .initial.s = "auto");
const graft_input graft_compile_tuning =
    CHOICE("tuning",
           "How long to look for the fastest kernels: off takes the usual ones, fast looks for "
           "three seconds at most, full tries everything once and remembers it. "
           "Tuned pictures differ from untuned ones in the last bits.",
           .choices = tunings, .initial.s = "fast");
const graft_input graft_compile_max_memory_mb =
    INT("max_memory_mb", 1048576, 0,
        "Memory that may be used, in MiB; 0 is no limit. When the budget cannot be met the node "
        "says so.");
const graft_input graft_compile_device = CHOICE(
    "device", "What to run on. auto takes the fastest that this machine has.", .initial.s = "auto");
const graft_input graft_compile_cache =
    CHOICE("cache",
           "Keeps compiled graphs on disk, so that the next start finds them. Disable it to "
           "compile from scratch.",
           .choices = switches, .initial.s = "enable");
const graft_input graft_compile_width =
    INT("width", 16384, 8,
        "Compile now for pictures of this width in pixels; 0 waits for the first run.",
        .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_compile_height =
    INT("height", 16384, 8,
        "Compile now for pictures of this height in pixels; 0 waits for the first run.",
        .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_compile_batch_size = INT(
    "batch_size", 4096, 0, "Compile now for this many pictures at once; 0 waits for the first run.",
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
