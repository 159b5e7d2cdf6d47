/* Control-LoRAs (Stability AI 2023): what a ControlNet has beside the model's own weights. Matrices
 * and convolutions of the copy of the UNet are the model's plus ….up times ….down; all that no
 * model has, and biases and norms, are whole. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/objects/control.h"
#include "engine/weights/patch.h"

typedef struct changes {
    const char **name; /* of the weights that change, as the model calls them */
    graft_patch *patch;
    size_t n;
} changes;

static void finish(changes *c)
{
    for (size_t i = 0; i < c->n; i++) graft_free((char *)(uintptr_t)c->name[i]);
    graft_free(c->name);
    graft_free(c->patch);
}

/* "….up" and "….down", with the length of what is before. */
static bool is_factor(const char *name, int *stem)
{
    const char *end = strrchr(name, '.');
    *stem = end ? (int)(end - name) : 0;
    return end && (strcmp(end, ".up") == 0 || strcmp(end, ".down") == 0);
}

static graft_status add(changes *c, const graft_safetensors *f, const char *prefix,
                        const char *name, int stem, graft_err *e)
{
    char both[2][300], weight[300];
    const graft_st_tensor *t[2];
    graft_factors_size size;
    for (int i = 0; i < 2; i++) {
        snprintf(both[i], sizeof both[i], "%.*s.%s", stem, name, i ? "down" : "up");
        t[i] = graft_safetensors_find(f, both[i]);
        if (!t[i])
            return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s is missing",
                              graft_safetensors_path(f), both[i]);
        if (!graft_st_is_weight(t[i]) || graft_st_packed(t[i]))
            return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s holds no floating-point numbers",
                              graft_safetensors_path(f), both[i]);
    }
    const graft_patch_source source = {
        .form = GRAFT_PATCH_LOW_RANK, .part[0] = {.a = t[0], .b = t[1]}, .alpha = NAN};
    if (!graft_factors_size_of(&source.part[0], &size))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensors %s and %s do not fit together",
                          graft_safetensors_path(f), both[0], both[1]);
    if (graft_str_ends(name, ".down")) return GRAFT_OK; /* its other half's is enough */
    snprintf(weight, sizeof weight, "%.*s.weight", stem - (int)strlen(prefix),
             name + strlen(prefix));
    c->patch[c->n] = graft_patch_make(&source, 0, 0);
    c->patch[c->n].strength = 1;
    c->name[c->n] = graft_strdup(weight);
    return c->name[c->n++] ? GRAFT_OK : graft_fail_nomem(e, "Control-LoRA");
}

static graft_status collect(const graft_safetensors *f, const char *prefix, changes *c,
                            graft_err *e)
{
    const size_t n = graft_safetensors_count(f);
    graft_status st = GRAFT_OK;
    c->name = graft_calloc(n, sizeof *c->name);
    c->patch = graft_calloc(n, sizeof *c->patch);
    if (!c->name || !c->patch) return graft_fail_nomem(e, "Control-LoRA");
    for (size_t i = 0; i < n && !st; i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        int stem;
        if (!graft_str_starts(name, prefix) || strlen(name) > 280 || !is_factor(name, &stem) ||
            stem <= (int)strlen(prefix))
            continue;
        st = add(c, f, prefix, name, stem, e);
    }
    if (st || c->n) return st;
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: a Control-LoRA without tensors that end with .up and .down",
                      graft_safetensors_path(f));
}

graft_status graft_load_control_lora(graft_engine *engine, graft_weights *file, const char *prefix,
                                     graft_controlnet **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_controlnet *n = graft_calloc(1, sizeof *n);
    graft_weights *part = NULL;
    graft_graph *hint = NULL;
    changes c = {0};
    graft_status st;
    if (!n) return graft_fail_nomem(e, "Control-LoRA");
    atomic_init(&n->refs, 1);
    n->engine = engine;
    n->lora = graft_control_lora_create();
    st = n->lora ? graft_control_detect(f, prefix, NULL, &n->arch, e)
                 : graft_fail_nomem(e, "Control-LoRA");
    if (st) goto out;
    GRAFT_TRY(graft_weights_part(file, prefix, &part, e));
    GRAFT_TRY(graft_control_hint_build(&n->arch, 1, 8, 8, GRAFT_F32, &hint, e));
    GRAFT_TRY(graft_weights_check(part, hint, e));
    GRAFT_TRY(collect(f, prefix, &c, e));
    GRAFT_TRY(graft_weights_patch(part, c.name, c.patch, c.n, part, &n->weights, e));
    *out = n;
    n = NULL;
out:
    finish(&c);
    graft_graph_destroy(hint);
    graft_weights_release(part);
    graft_controlnet_release(n);
    return st;
}
