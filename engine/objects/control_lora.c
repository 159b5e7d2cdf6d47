/* Control-LoRAs, and ControlNets for Z-Image: made of the model's weights, too. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/objects/control.h"
#include "engine/weights/patch.h"

struct graft_control_lora {
    pthread_mutex_t lock;
    graft_weights *base, *made; /* of the model that asked last, and with it; or both NULL */
    graft_control_arch arch;
};

struct graft_control_lora *graft_control_lora_create(void)
{
    struct graft_control_lora *l = graft_calloc(1, sizeof *l);
    if (l) pthread_mutex_init(&l->lock, NULL);
    return l;
}

void graft_control_lora_destroy(graft_engine *engine, struct graft_control_lora *l)
{
    if (!l) return;
    graft_engine_release_weights(engine, l->made);
    graft_engine_release_weights(engine, l->base);
    pthread_mutex_destroy(&l->lock);
    graft_free(l);
}

/* As detection finds it in the file of a whole ControlNet for this model, whose graphs it shares.
 */
static graft_control_arch arch_for(const graft_model *m, const graft_controlnet *net)
{
    const graft_unet_arch *unet = &m->arch.unet;
    graft_control_arch a;
    memcpy(&a, &net->arch, sizeof a);
    memcpy(&a.begins_with, &m->arch.zimage, sizeof a.begins_with);
    if (!a.lora) return a;
    a.lora = 0;
    memcpy(&a.half, unet, sizeof a.half);
    memset(a.half.output, 0, sizeof a.half.output);
    a.half.n_output = a.half.out_channels = a.half.unclip = 0;
    a.half.in_channels = graft_unet_latent_channels(unet);
    return a;
}

/* Whether all layers that the file changes are there. */
static graft_status check_layers(const graft_controlnet *net, const graft_graph *g, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(net->weights);
    const size_t prefix = strlen(graft_weights_prefix(net->weights));
    graft_map there = GRAFT_MAP_INIT;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < g->n_slots && !st; i++)
        for (size_t k = 0; k < g->slot[i].n_sources && !st; k++)
            if (graft_map_put(&there, g->slot[i].source[k], &there))
                st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        char weight[300];
        if (strlen(name) <= prefix || strlen(name) > 280 || !graft_str_ends(name, ".up")) continue;
        snprintf(weight, sizeof weight, "%.*s.weight", (int)(strlen(name + prefix) - 3),
                 name + prefix);
        if (!graft_map_has(&there, weight))
            st = graft_fail(e, GRAFT_E_ARG,
                            "this Control-LoRA belongs to another model: it changes %s, which the "
                            "model lacks",
                            weight);
    }
    graft_map_finish(&there);
    return st;
}

/* Whether its factors have the shapes of the layers. */
static graft_status check_factors(const graft_weights *w, const graft_graph *g, graft_err *e)
{
    for (size_t i = 0; i < g->n_slots; i++)
        for (size_t k = 0; k < g->slot[i].n_sources; k++) {
            graft_slot_source s;
            graft_status st = graft_weights_source(w, &g->slot[i], k, false, &s, e);
            for (size_t p = 0; p < s.n_patches && !st; p++)
                st = graft_patch_check(&s.patch[p], s.tensor, e);
            if (st) return st;
        }
    return GRAFT_OK;
}

static graft_status make(const graft_model *m, const graft_controlnet *net,
                         graft_control_arch *arch, graft_weights **out, graft_err *e)
{
    const graft_control_arch a = arch_for(m, net);
    const graft_control_shape s = graft_control_some_shape(&a);
    graft_weights *w = NULL;
    graft_graph *g = NULL;
    graft_status st;
    GRAFT_TRY(graft_weights_over(net->weights, m->weights, &w, e));
    GRAFT_TRY(graft_control_build(&a, &s, &g, e));
    if (net->arch.lora) GRAFT_TRY(check_layers(net, g, e));
    GRAFT_TRY(graft_weights_check(w, g, e));
    if (net->arch.lora) GRAFT_TRY(check_factors(w, g, e));
    memcpy(arch, &a, sizeof a);
    *out = w;
    w = NULL;
out:
    graft_graph_destroy(g);
    graft_weights_release(w);
    if (!st || st == GRAFT_E_NOMEM) return st;
    return graft_err_prefix(e, st, "%s", graft_safetensors_path(graft_weights_file(net->weights)));
}

graft_status graft_control_made(const graft_model *m, const graft_controlnet *net,
                                graft_control_arch *arch, graft_weights **weights, graft_err *e)
{
    struct graft_control_lora *l = net->lora;
    graft_weights *made = NULL;
    graft_status st = GRAFT_OK;
    if (!l) {
        memcpy(arch, &net->arch, sizeof *arch);
        *weights = graft_weights_retain(net->weights);
        return GRAFT_OK;
    }
    pthread_mutex_lock(&l->lock);
    if (l->base != m->weights) st = make(m, net, &l->arch, &made, e);
    if (made) {
        graft_engine_release_weights(net->engine, l->made);
        graft_engine_release_weights(net->engine, l->base);
        l->base = graft_weights_retain(m->weights);
        l->made = made;
    }
    if (!st) {
        memcpy(arch, &l->arch, sizeof *arch);
        *weights = graft_weights_retain(l->made);
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}
