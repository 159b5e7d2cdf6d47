#include "tests/nodes/fake_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

struct graft_job {
    fake_host *host;
};

/* ------------------------------------------------------------------ job tables */

static void add_text(char *to, size_t n, const char *a, const char *b)
{
    size_t used = strlen(to);
    snprintf(to + used, n - used, "%s%s", a, b);
}

static void progress(graft_job *j, uint64_t done, uint64_t total)
{
    j->host->done = done;
    j->host->total = total;
}

static int32_t cancelled(graft_job *j)
{
    if (j->host->cancel_after < 0) return 0;
    return j->host->cancel_after-- == 0 ? (j->host->cancel_after = 0, 1) : 0;
}

static void log_line(graft_job *j, int32_t level, const char *text)
{
    (void)level;
    add_text(j->host->log, sizeof j->host->log, text, "\n");
}

static void fail(graft_job *j, graft_status why, const char *input, const char *text)
{
    fake_host *h = j->host;
    if (h->fails++) return;
    h->fail_code = why;
    snprintf(h->fail_input, sizeof h->fail_input, "%s", input ? input : "");
    snprintf(h->fail_text, sizeof h->fail_text, "%s", text);
}

static void preview(graft_job *j, const graft_tensor *t)
{
    j->host->previews++;
    if (t->ndim == 3 && t->dtype_bits == 8 && t->shape[2] == 3 && t->stride[0] == t->shape[1] * 3)
        j->host->preview_byte = *(const unsigned char *)t->data;
}

static void latent(graft_job *j, const graft_tensor *t)
{
    fake_host *h = j->host;
    h->latents++;
    if (t->ndim == 4 && t->dtype_code == 2 && t->dtype_bits == 32 &&
        t->stride[0] == t->shape[1] * t->shape[2] * t->shape[3] && t->stride[3] == 1)
        h->latent_value = *(const float *)t->data;
}

static void begin(graft_job *j, const char *phase)
{
    add_text(j->host->phases, sizeof j->host->phases, phase, " ");
}

static const char *prompt(graft_job *j)
{
    return j->host->prompt;
}

static const char *node_id(graft_job *j)
{
    (void)j;
    return "7";
}

static const char *extra_pnginfo(graft_job *j)
{
    return j->host->extra_pnginfo;
}

static void ui_add(graft_job *j, const char *key, const char *json)
{
    add_text(j->host->ui, sizeof j->host->ui, key, " ");
    add_text(j->host->ui, sizeof j->host->ui, json, "\n");
}

/* ------------------------------------------------------------------ folders */

/* As graft's folders.c: a folder of models gives paths of these alone. */
static bool is_refused(const char *folder, const char *name)
{
    static const char *const endings[] = {".safetensors", ".sft", ".gguf"};
    if (strcmp(folder, "input") == 0 || strcmp(folder, "output") == 0 ||
        strcmp(folder, "temp") == 0)
        return false;
    if (strcmp(folder, "text_encoders") == 0 &&
        (graft_str_ends(name, ".model") || graft_str_ends(name, "tokenizer.json")))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (graft_str_ends(name, endings[i])) return false;
    return true;
}

static graft_status resolve(const graft_host *host, const char *folder, const char *name,
                            char **path, char *text, uint64_t n)
{
    fake_host *h = (fake_host *)(uintptr_t)host;
    char dir[512];
    snprintf(dir, sizeof dir, "%s/%s", h->root, folder);
    graft_status st =
        is_refused(folder, name) ? GRAFT_E_ARG : graft_path_inside(dir, name, path, NULL);
    if (st == GRAFT_OK && !graft_file_exists(*path)) {
        graft_free(*path);
        *path = NULL;
        st = GRAFT_E_NOTFOUND;
    }
    if (st != GRAFT_OK) snprintf(text, n, "no file %s in %s", name, folder);
    return st;
}

static char **list(const graft_host *host, const char *folder)
{
    fake_host *h = (fake_host *)(uintptr_t)host;
    char dir[512];
    char **names = NULL;
    size_t count = 0;
    snprintf(dir, sizeof dir, "%s/%s", h->root, folder);
    if (graft_dir_list(dir, NULL, &names, &count, NULL) != GRAFT_OK) return NULL;
    char **copy = graft_calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = names[i];
        names[i] = NULL;
    }
    graft_names_free(names, count);
    return copy;
}

static void free_names(const graft_host *host, char **names)
{
    (void)host;
    for (size_t i = 0; names && names[i]; i++) graft_free(names[i]);
    graft_free(names);
}

static void free_text(const graft_host *host, char *text)
{
    (void)host;
    graft_free(text);
}

static graft_status reserve(const graft_host *host, const char *folder, const char *prefix,
                            const char *suffix, int64_t width, int64_t height, char **path,
                            char **name, char **subfolder, char *text, uint64_t n)
{
    fake_host *h = (fake_host *)(uintptr_t)host;
    char full[2048], dir[1024], leaf[512];
    if (strstr(prefix, "..")) {
        snprintf(text, n, "the prefix leaves the output folder");
        return GRAFT_E_ARG;
    }
    const char *slash = strrchr(prefix, '/');
    int dir_len = slash ? (int)(slash - prefix) : 0;
    snprintf(dir, sizeof dir, "%s/%s/%.*s", h->root, folder, dir_len, prefix);
    if (graft_dir_make(dir, NULL) != GRAFT_OK) return GRAFT_E_IO;
    int number = 0;
    do {
        snprintf(leaf, sizeof leaf, "%s_%05d_%s", slash ? slash + 1 : prefix, ++number, suffix);
        snprintf(full, sizeof full, "%s/%s", dir, leaf);
    } while (graft_file_exists(full));
    if (h->reserve_races > 0) {
        h->reserve_races--;
        graft_file_write(full, "taken", 5, NULL);
    }
    (void)width, (void)height;
    *path = graft_strdup(full);
    *name = graft_strdup(leaf);
    *subfolder = graft_strndup(prefix, (size_t)dir_len);
    if (*path && *name && *subfolder) return GRAFT_OK;
    graft_free(*path), graft_free(*name), graft_free(*subfolder);
    *path = *name = *subfolder = NULL;
    return GRAFT_E_NOMEM;
}

static int32_t send_picture(graft_job *j, const void *png, uint64_t n)
{
    bool fits = n > 8 && memcmp(png, "\x89PNG", 4) == 0;
    if (fits && !j->host->deaf) j->host->pictures++;
    return fits && !j->host->deaf;
}

static int32_t preview_kind(graft_job *j)
{
    return j->host->preview_kind;
}

static int32_t preview_wanted(graft_job *j)
{
    return j->host->previews_wanted;
}

static const void *query(const graft_host *host, const char *id)
{
    static const graft_job_api job = {progress, cancelled, log_line, fail, preview};
    static const graft_phase_api phase = {begin};
    static const graft_trace_api trace = {latent};
    static const graft_picture_api picture = {send_picture};
    static const graft_preview_api previews = {preview_kind, preview_wanted};
    static const graft_prompt_api prompts = {prompt, node_id, extra_pnginfo};
    static const graft_ui_api ui = {ui_add};
    static const graft_folders_api folders = {resolve, list, reserve, free_text, free_names};
    if (strcmp(id, GRAFT_JOB_ID) == 0) return &job;
    if (((const fake_host *)host)->bare) return NULL;
    if (strcmp(id, GRAFT_PHASE_ID) == 0) return &phase;
    if (strcmp(id, GRAFT_TRACE_ID) == 0) return &trace;
    if (strcmp(id, GRAFT_PICTURE_ID) == 0) return &picture;
    if (strcmp(id, GRAFT_PREVIEW_ID) == 0) return &previews;
    if (strcmp(id, GRAFT_PROMPT_ID) == 0) return &prompts;
    if (strcmp(id, GRAFT_UI_ID) == 0) return &ui;
    return strcmp(id, GRAFT_FOLDERS_ID) == 0 ? &folders : NULL;
}

/* ------------------------------------------------------------------ the host */

int fake_host_init(fake_host *h)
{
    static const char *const folders[] = {
        "input",         "output",       "temp",           "checkpoints",
        "loras",         "vae",          "text_encoders",  "diffusion_models",
        "controlnet",    "embeddings",   "upscale_models", "vae_approx",
        "clip_vision",   "style_models", "ipadapter",      "hypernetworks",
        "model_patches", "gligen"};
    const char *tmp = getenv("TMPDIR");
    char dir[512];
    memset(h, 0, sizeof *h);
    h->host = (graft_host){.size = sizeof(graft_host),
                           .abi_major = GRAFT_ABI_MAJOR,
                           .abi_minor = GRAFT_ABI_MINOR,
                           .name = "fake",
                           .version = "1",
                           .query = query};
    h->preview_kind = GRAFT_PREVIEW_LATENT;
    h->previews_wanted = 1;
    fake_host_clear(h);
    snprintf(h->root, sizeof h->root, "%s/graft-nodes-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(h->root)) return -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(dir, sizeof dir, "%s/%s", h->root, folders[i]);
        if (graft_dir_make(dir, NULL) != GRAFT_OK) return -1;
    }
    fake_host_put(h, "checkpoints", "file.safetensors", "x", 1);
    fake_host_put(h, "checkpoints", "sub/other.safetensors", "x", 1);
    fake_host_put(h, "loras", "file.safetensors", "x", 1);
    fake_host_put(h, "vae", "file.safetensors", "x", 1);
    fake_host_put(h, "text_encoders", "file.safetensors", "x", 1);
    fake_host_put(h, "diffusion_models", "file.safetensors", "x", 1);
    fake_host_put(h, "controlnet", "file.safetensors", "x", 1);
    fake_host_put(h, "upscale_models", "file.safetensors", "x", 1);
    fake_host_put(h, "clip_vision", "file.safetensors", "x", 1);
    fake_host_put(h, "style_models", "file.safetensors", "x", 1);
    fake_host_put(h, "model_patches", "file.safetensors", "x", 1);
    fake_host_put(h, "ipadapter", "file.safetensors", "x", 1);
    fake_host_put(h, "hypernetworks", "file.safetensors", "x", 1);
    fake_host_put(h, "gligen", "file.safetensors", "x", 1);
    return 0;
}

void fake_host_finish(fake_host *h)
{
    char **names = NULL, path[1024];
    size_t count = 0;
    graft_dir_list(h->root, NULL, &names, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", h->root, names[i]);
        unlink(path);
    }
    graft_names_free(names, count);
    snprintf(path, sizeof path, "find '%s' -depth -type d -delete", h->root);
    if (system(path) != 0) fprintf(stderr, "%s is left behind\n", h->root);
}

void fake_host_clear(fake_host *h)
{
    h->phases[0] = h->log[0] = h->ui[0] = h->fail_input[0] = h->fail_text[0] = 0;
    h->fail_code = GRAFT_OK;
    h->fails = h->previews = h->latents = h->pictures = 0;
    h->cancel_after = -1;
    h->done = h->total = 0;
}

void fake_host_path(fake_host *h, const char *folder, const char *name, char *out, size_t n)
{
    snprintf(out, n, "%s/%s/%s", h->root, folder, name);
}

void fake_host_put(fake_host *h, const char *folder, const char *name, const void *data, size_t n)
{
    char path[1024], *slash;
    fake_host_path(h, folder, name, path, sizeof path);
    slash = strrchr(path, '/');
    *slash = 0;
    graft_dir_make(path, NULL);
    *slash = '/';
    graft_file_write(path, data, n, NULL);
}

const graft_node *fake_host_node(const char *id)
{
    const graft_node *node = NULL;
    for (uint32_t i = 0; (node = graft_plugin_entry.node(i)); i++)
        if (strcmp(node->id, id) == 0) break;
    return node;
}

int fake_host_input(const graft_node *node, const char *name)
{
    for (int i = 0; node->inputs[i]; i++)
        if (strcmp(node->inputs[i]->name, name) == 0) return i;
    return -1;
}

void fake_host_defaults(const graft_node *node, graft_arg *in)
{
    for (int i = 0; node->inputs[i]; i++) {
        const graft_input *r = node->inputs[i];
        in[i] = (graft_arg){.kind = r->kind, .u = r->initial};
        if (r->kind == GRAFT_OBJECT) in[i] = (graft_arg){.kind = GRAFT_NONE};
        if (r->kind == GRAFT_CHOICE && !r->initial.s)
            in[i].u.s = r->choices ? r->choices[0] : "file.safetensors";
        if (r->kind == GRAFT_STRING && !r->initial.s) in[i].u.s = "";
    }
}

const char *fake_host_choices(fake_host *h, const graft_node *node, const char *input)
{
    const graft_choices_api *api = node->query(GRAFT_CHOICES_ID);
    char **names = api->list(&h->host, input);
    if (!names) return NULL;
    h->choices[0] = 0;
    for (size_t i = 0; names[i]; i++) add_text(h->choices, sizeof h->choices, names[i], " ");
    api->free(names);
    return h->choices;
}

graft_status fake_host_run(fake_host *h, const graft_node *node, const graft_arg *in,
                           graft_arg *out, char *text, size_t n_text)
{
    graft_job job = {h};
    void *self = NULL;
    memset(out, 0, 4 * sizeof *out);
    graft_status st = node->create(&h->host, &self);
    if (st != GRAFT_OK) return st;
    st = node->execute(self, &job, in, out);
    for (int i = 0; text && i < 4; i++)
        if (out[i].kind == GRAFT_STRING) snprintf(text, n_text, "%s", out[i].u.s);
    node->destroy(self);
    return st;
}

void fake_host_release(graft_arg *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].kind == GRAFT_OBJECT) a[i].u.v->ops->release(a[i].u.v);
        a[i] = (graft_arg){.kind = GRAFT_NONE};
    }
}
