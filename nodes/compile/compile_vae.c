/* CompileVAE: how and when a VAE is compiled. */
#include "nodes/compile/compile_options.h"
#include "nodes/node.h"

enum { VAE, PRECISION, TUNING, MAX_MEMORY_MB, DEVICE, CACHE, TILE, WIDTH, HEIGHT, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE to compile."),
    [PRECISION] = &graft_compile_precision,
    [TUNING] = &graft_compile_tuning,
    [MAX_MEMORY_MB] = &graft_compile_max_memory_mb,
    [DEVICE] = &graft_compile_device,
    [CACHE] = &graft_compile_cache,
    [TILE] = IN_CHOICE("tile", CHOICES("auto", "off"),
                       "auto works strip by strip when the memory budget asks for it, which "
                       "takes longer and gives the same picture; off never does."),
    [WIDTH] = &graft_compile_width,
    [HEIGHT] = &graft_compile_height,
    [BATCH_SIZE] = &graft_compile_batch_size,
    NULL};
static const graft_output *const outputs[] = {
    OUT("VAE", "VAE", "The VAE, compiled with these options when it runs."), NULL};

static graft_status run(graft_call *c)
{
    graft_vae *vae = NULL;
    graft_compile_options options = graft_compile_options_read(c, PRECISION, WIDTH);
    options.tile = graft_arg_is(c, TILE, "auto");
    graft_call_phase(c, "compile");
    graft_status st = graft_vae_compile(graft_arg_vae(c, VAE), &options, &c->task, &vae, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_vae(c, 0, vae);
}

static char **list(const graft_host *h, const char *input)
{
    (void)h, (void)input;
    return graft_compile_options_devices();
}
QUERY_CHOICES()

GRAFT_NODE(compile_vae, .id = "CompileVAE", .title = "Compile VAE", .category = "graft",
           .description = "Chooses precision, tuning, memory budget and device of a VAE, apart "
                          "from those of the model, and compiles it.",
           .query = query);
