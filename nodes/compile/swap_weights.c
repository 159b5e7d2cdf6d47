/* SwapWeights: another checkpoint in the same compiled graphs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nodes/node.h"

/* A model's file lies in either; of two that are called alike it is the checkpoint. */
static const char *const folders[] = {"checkpoints", "diffusion_models"};
enum { FOLDERS = sizeof folders / sizeof *folders };

enum { MODEL, CKPT_NAME, KEEP_RESIDENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The model whose compiled graphs are used again."),
    [CKPT_NAME] =
        IN_CHOICE("ckpt_name", NULL,
                  "The checkpoint, or the file of a diffusion model alone, whose weights to "
                  "use. It must have the same architecture as the model."),
    [KEEP_RESIDENT] = IN_CHOICE("keep_resident", CHOICES("enable", "disable"),
                                "enable keeps both sets of weights in memory, so that swapping "
                                "back is instant; disable saves the memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The same model with the other weights."), NULL};

static graft_status find(const graft_host *h, const char *name, size_t *folder, char **path)
{
    graft_status st = GRAFT_E_NOTFOUND;
    for (*folder = 0; *folder < FOLDERS; ++*folder) {
        st = graft_files_resolve(h, folders[*folder], name, path, NULL);
        if (st != GRAFT_E_NOTFOUND) return st;
    }
    return st;
}

static graft_status find_input(graft_call *c, char **path)
{
    size_t folder;
    graft_call_blame(c, CKPT_NAME);
    graft_status st = find(c->self->host, graft_arg_text(c, CKPT_NAME), &folder, path);
    /* Says what there is instead. */
    return st ? graft_arg_file(c, CKPT_NAME, folders[0], path) : st;
}

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(find_input(c, &path));
    GRAFT_TRY(graft_model_swap(graft_arg_model(c, MODEL), path,
                               graft_arg_is(c, KEEP_RESIDENT, "enable"), &c->task, &model,
                               &c->err));
    GRAFT_TRY(graft_call_out_model(c, 0, model));
out:
    graft_free(path);
    return st;
}

static bool has(char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

/* Takes `more`, whose names that are new come behind those of the list; NULL when out of memory. */
static char **joined(char **list, char **more)
{
    size_t n = 0, k = 0;
    while (list && list[n]) n++;
    while (more && more[k]) k++;
    char **all = list && more ? graft_realloc(list, n + k + 1, sizeof *all) : NULL;
    if (!all) {
        graft_files_free_choices(list);
        graft_files_free_choices(more);
        return NULL;
    }
    for (size_t i = 0; i < k; i++) {
        if (has(all, more[i]))
            graft_free(more[i]);
        else
            all[n++] = more[i];
        all[n] = NULL;
    }
    graft_free(more);
    return all;
}

static char **list(const graft_host *h, const char *input)
{
    (void)input;
    return joined(graft_files_choices(h, folders[0]), graft_files_choices(h, folders[1]));
}

/* A name that is linked may be of a file in any of the folders. */
static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    char *path = NULL, stamp[FOLDERS][64] = {""};
    size_t folder = FOLDERS;
    graft_status st = GRAFT_OK;
    if (in[CKPT_NAME].kind == GRAFT_CHOICE) st = find(h, in[CKPT_NAME].u.s, &folder, &path);
    for (size_t i = 0; i < FOLDERS && !st; i++)
        if (folder == FOLDERS || folder == i)
            st = graft_files_stamp(h, folders[i], &in[CKPT_NAME], 1, stamp[i], sizeof stamp[i]);
    if (!st) snprintf(text, n, "%s%s", stamp[0], stamp[1]);
    graft_free(path);
    return st;
}

static const void *query(const char *id)
{
    static const graft_choices_api choices = {list, graft_files_free_choices};
    static const graft_fingerprint_api fingerprints = {fingerprint};
    if (strcmp(id, GRAFT_CHOICES_ID) == 0) return &choices;
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;
}

GRAFT_NODE(
    swap_weights, .id = "SwapWeights", .title = "Swap Weights", .category = "graft",
    .description =
        "Runs the same compiled graphs with the weights of another checkpoint's model; nothing is "
        "recompiled. Text encoder and VAE stay what they are.",
    .query = query);
