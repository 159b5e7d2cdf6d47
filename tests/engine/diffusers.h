/* Small models in diffusers' names. What a UNet's layers are called comes from the architecture, as
 * for LoRAs; loading counts in the file instead. */
#ifndef GRAFT_TESTS_ENGINE_DIFFUSERS_H
#define GRAFT_TESTS_ENGINE_DIFFUSERS_H
#include "base/alloc.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "tests/engine/merge.h"

static inline int64_t live_blocks(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static inline void call_tensor(graft_st_tensor *t, const char *name)
{
    free((char *)t->name);
    t->name = strdup(name);
}

static inline void drop_tensor(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
}

static inline void drop_tensors(made_file *f, const char *beginning)
{
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, beginning, strlen(beginning)) == 0)
            drop_tensor(f, f->tensor[i].name);
}

/* The part of a checkpoint below `prefix`, without it. */
static inline made_file *part_of_file(const char *path, const char *prefix)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, prefix);
    char name[512];
    for (size_t i = 0; i < m->n; i++) {
        snprintf(name, sizeof name, "%s", m->tensor[i].name + strlen(prefix));
        call_tensor(&m->tensor[i], name);
    }
    graft_safetensors_close(f);
    return m;
}

/* A file of golden/small without its cases. */
static inline made_file *golden_file(const char *path)
{
    made_file *f = part_of_file(path, "");
    drop_tensors(f, "case");
    return f;
}

/* The network of `path`, saved, has the names, shapes and bytes that it has in a checkpoint. */
static inline void saved_like(graft_engine *g, const char *path, const char *checkpoint)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *out = temp_path("saved.safetensors");
    graft_model *m = load_model(g, path);
    if (!m) return;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, out, NULL, NULL, &e), &e);
    graft_safetensors *f = open_file(out), *own = open_file(checkpoint);
    made_file *want = copy_file(own, UNET);
    CHECK_INT(graft_safetensors_count(f), want->n);
    for (size_t i = 0; i < want->n; i++) check_tensor(f, want->tensor[i].name, &want->tensor[i]);
    finish_file(want);
    graft_safetensors_close(f);
    graft_safetensors_close(own);
    graft_model_release(m);
    unlink(out);
}

/* Memory ends everywhere in naming the file's tensors: an error, and nothing is lost. */
static inline void adopt_short_of_memory(const char *path, graft_diffusers_adopt *adopt)
{
    int64_t n = 0, live = live_blocks();
    for (bool done = false; !done && n < 100000; n += n / 20) {
        graft_safetensors *f = open_file(path);
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(++n);
        graft_status st = adopt(f, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        CHECK(done || st == GRAFT_E_NOMEM);
        graft_safetensors_close(f);
    }
    CHECK(n > 20 && n < 100000);
    CHECK_INT(live_blocks(), live);
}

/* ------------------------------------------------------------------ UNets */

static inline void unet_to_diffusers(made_file *f, const graft_unet_arch *a)
{
    for (size_t i = 0; i < f->n; i++) {
        char layer[256], name[300];
        const char *end = strrchr(f->tensor[i].name, '.');
        snprintf(layer, sizeof layer, "%.*s", (int)(end - f->tensor[i].name), f->tensor[i].name);
        CHECK(graft_diffusers_unet_name(a, layer, name, 256));
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s", end);
        call_tensor(&f->tensor[i], name);
    }
}

/* A checkpoint's UNet as a file of its own, with the config that tells its heads. */
static inline made_file *diffusers_unet(const graft_model *m)
{
    const graft_safetensors *f = graft_weights_file(m->weights);
    made_file *d = part_of_file(graft_safetensors_path(f), graft_weights_prefix(m->weights));
    unet_to_diffusers(d, &m->arch.unet);
    return d;
}

static inline const char *unet_config(const graft_model *m)
{
    return graft_safetensors_metadata(graft_weights_file(m->weights), "config");
}

/* ------------------------------------------------------------------ VAEs */

typedef struct vae_naming {
    bool old, matrices; /* of the attention: query, key, …; (C,C) in place of (C,C,1,1) */
} vae_naming;

static inline const char *vae_attention_name(const char *layer, bool old)
{
    static const char *const names[][3] = {{"norm", "group_norm", "group_norm"},
                                           {"q", "to_q", "query"},
                                           {"k", "to_k", "key"},
                                           {"v", "to_v", "value"},
                                           {"proj_out", "to_out.0", "proj_attn"}};
    for (size_t i = 0; i < 5; i++)
        if (strcmp(names[i][0], layer) == 0) return names[i][1 + old];
    return "?";
}

/* `name` without ".weight"; `levels` of the VAE. */
static inline void vae_name(const char *name, int levels, bool old, char *out, size_t size)
{
    char half[16], rest[64];
    int level, k;
    if (sscanf(name, "decoder.up.%d.block.%d.%60s", &level, &k, rest) == 3)
        snprintf(out, size, "decoder.up_blocks.%d.resnets.%d.%s", levels - 1 - level, k,
                 strcmp(rest, "nin_shortcut") == 0 ? "conv_shortcut" : rest);
    else if (sscanf(name, "encoder.down.%d.block.%d.%60s", &level, &k, rest) == 3)
        snprintf(out, size, "encoder.down_blocks.%d.resnets.%d.%s", level, k,
                 strcmp(rest, "nin_shortcut") == 0 ? "conv_shortcut" : rest);
    else if (sscanf(name, "decoder.up.%d.upsample.%60s", &level, rest) == 2)
        snprintf(out, size, "decoder.up_blocks.%d.upsamplers.0.%s", levels - 1 - level, rest);
    else if (sscanf(name, "encoder.down.%d.downsample.%60s", &level, rest) == 2)
        snprintf(out, size, "encoder.down_blocks.%d.downsamplers.0.%s", level, rest);
    else if (sscanf(name, "%15[a-z].mid.block_%d.%60s", half, &k, rest) == 3)
        snprintf(out, size, "%s.mid_block.resnets.%d.%s", half, k - 1, rest);
    else if (sscanf(name, "%15[a-z].mid.attn_1.%60s", half, rest) == 2)
        snprintf(out, size, "%s.mid_block.attentions.0.%s", half, vae_attention_name(rest, old));
    else if (strstr(name, ".norm_out"))
        snprintf(out, size, "%.7s.conv_norm_out", name);
    else
        snprintf(out, size, "%s", name);
}

static inline made_file *diffusers_vae(const graft_vae *v, vae_naming how)
{
    const graft_safetensors *f = graft_weights_file(v->weights);
    made_file *d = part_of_file(graft_safetensors_path(f), graft_weights_prefix(v->weights));
    for (size_t i = 0; i < d->n; i++) {
        graft_st_tensor *t = &d->tensor[i];
        char layer[256], name[300];
        const char *end = strrchr(t->name, '.');
        snprintf(layer, sizeof layer, "%.*s", (int)(end - t->name), t->name);
        vae_name(layer, v->arch.levels, how.old, name, 256);
        if (how.matrices && strstr(name, ".attentions.") && t->rank == 4) t->rank = 2;
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s", end);
        call_tensor(t, name);
    }
    return d;
}
#endif
