/* VAELoader: a VAE from a file of its own, or a tiny autoencoder from its one or two. */
#include <string.h>

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/call/vae_approx.h"
#include "nodes/node.h"

enum { VAE_NAME };
static const graft_input *const inputs[] = {
    [VAE_NAME] = IN_CHOICE(
        "vae_name", NULL,
        "The VAE's file. Put .safetensors files into models/vae (.gguf, too); those of diffusers "
        "(vae/diffusion_pytorch_model.safetensors) work, too. A name without an ending is a tiny "
        "autoencoder: NAME_encoder.safetensors and NAME_decoder.safetensors, or NAME.safetensors, "
        "in models/vae_approx."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("VAE", "VAE", "Turns pictures into latents and back."), NULL};

static graft_status load(graft_call *c, graft_engine *engine, graft_vae **vae)
{
    const char *name = c->in[VAE_NAME].u.s;
    char *encoder = NULL, *decoder = NULL;
    graft_status st;
    if (graft_vae_approx_is_name(name)) {
        graft_call_blame(c, VAE_NAME);
        GRAFT_TRY(graft_vae_approx_resolve(c->self->host, name, &encoder, &decoder, &c->err));
        if (encoder)
            GRAFT_TRY(graft_vae_load_pair(engine, encoder, decoder, &c->task, vae, &c->err));
        else
            GRAFT_TRY(graft_vae_load(engine, decoder, &c->task, vae, &c->err));
    } else {
        GRAFT_TRY(graft_arg_file(c, VAE_NAME, "vae", &decoder));
        GRAFT_TRY(graft_vae_load(engine, decoder, &c->task, vae, &c->err));
    }
out:
    graft_free(encoder);
    graft_free(decoder);
    return st;
}

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_vae *vae = NULL;
    graft_call_phase(c, "load");
    graft_status st = graft_nodes_engine(&engine, &c->err);
    if (!st) st = load(c, engine, &vae);
    return st ? st : graft_call_out_vae(c, 0, vae);
}

static char **list(const graft_host *h, const char *input)
{
    (void)input;
    return graft_vae_approx_choices(h);
}

static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    return graft_vae_approx_stamp(h, &in[VAE_NAME], text, n);
}

static const void *query(const char *id)
{
    static const graft_choices_api choices = {list, graft_files_free_choices};
    static const graft_fingerprint_api fingerprints = {fingerprint};
    if (strcmp(id, GRAFT_CHOICES_ID) == 0) return &choices;
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;
}

GRAFT_NODE(vae_loader, .id = "VAELoader", .title = "Load VAE", .category = "loaders",
           .description = "Opens a VAE to use instead of the one inside the checkpoint, or a tiny "
                          "autoencoder, which is faster and less exact.",
           .query = query);
