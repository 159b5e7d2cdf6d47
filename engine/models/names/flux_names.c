/* Files of FLUX's kinds in almost the names that checkpoints have. */
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* What some files call ends and beginnings of names. */
static const struct {
    const char *theirs, *ours;
} ends[] = {
    {".query_norm.weight", ".query_norm.scale"},    {".key_norm.weight", ".key_norm.scale"},
    {"semantic_txt_norm.weight", "txt_norm.scale"}, {"txt_norm.weight", "txt_norm.scale"},
    {"semantic_txt_in.weight", "txt_in.weight"},    {"semantic_txt_in.bias", "txt_in.bias"}};

/* False: it is called so here, too. */
static bool renamed(const char *name, graft_name *ours)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!graft_str_ends(name, ends[i].theirs)) continue;
        const int before = (int)(strlen(name) - strlen(ends[i].theirs));
        *ours = NAME("%.*s%s", before, name, ends[i].ours);
        return true;
    }
    return false;
}

bool graft_flux_names_differ(const graft_safetensors *f)
{
    bool blocks = false, other = false;
    graft_name ours;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        blocks = blocks || strstr(name, "double_blocks.0.");
        other = other || renamed(name, &ours);
    }
    return blocks && other;
}

graft_status graft_flux_names_adopt(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    graft_diffusers_names_init(&n, f, e);
    for (size_t i = 0; i < graft_safetensors_count(f) && !n.status; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        graft_name ours, theirs = NAME("%s", t->name);
        if (!t->part && renamed(t->name, &ours))
            graft_diffusers_names_tensor(&n, ours, theirs, false);
    }
    graft_status st = n.status ? n.status : graft_safetensors_rename(f, n.alias, e);
    graft_diffusers_names_finish(&n);
    return st;
}
