/* Power Lora Loader (rgthree): rgthree's node, any number of LoRAs one after the other. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/tree.h"
#include "nodes/node.h"

enum { MODEL, CLIP, LORAS };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that the LoRAs change.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder that the LoRAs change.",
                       .flags = GRAFT_INPUT_OPTIONAL),
    [LORAS] = IN_TEXT("lora_", NULL,
                      "A LoRA each: {\"on\": true, \"lora\": \"file.safetensors\", \"strength\": "
                      "1.0}, and with \"strengthTwo\" another strength for the text encoder.",
                      .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_MANY),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with the LoRAs."),
                                              OUT("CLIP", "CLIP", "The encoder with the LoRAs."),
                                              NULL};

typedef struct row {
    const char *file; /* NULL: it changes nothing */
    double model, clip;
} row;

/* *rows: an object of them by name, or NULL. */
static graft_status parse(const graft_arg *a, cJSON **rows, graft_err *e)
{
    *rows = NULL;
    if (a->kind != GRAFT_STRING || !a->u.s[0]) return GRAFT_OK;
    return graft_json_parse(a->u.s, strlen(a->u.s), "the LoRAs", rows, e);
}

static bool is_on(const cJSON *item)
{
    return cJSON_IsTrue(item) || (cJSON_IsNumber(item) && item->valuedouble != 0);
}

static graft_status strength_of(const cJSON *item, double *out, graft_err *e)
{
    if (graft_json_f64(item, out) && isfinite(*out)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "a strength is not a number");
}

/* One strength is for both; without an encoder there is none for it. */
static graft_status read_row(const cJSON *item, bool encoder, row *out, graft_err *e)
{
    const cJSON *file = graft_tree_get(item, "lora"), *strength = graft_tree_get(item, "strength");
    const cJSON *second = graft_tree_get(item, "strengthTwo");
    *out = (row){NULL, 0, 0};
    if (!strength || !is_on(graft_tree_get(item, "on"))) return GRAFT_OK;
    if (!cJSON_IsString(file) || !file->valuestring[0] || strcmp(file->valuestring, "None") == 0)
        return GRAFT_OK;
    graft_status st = strength_of(strength, &out->model, e);
    if (st != GRAFT_OK) return st;
    out->clip = out->model;
    if (second && !cJSON_IsNull(second)) st = strength_of(second, &out->clip, e);
    if (!encoder) out->clip = 0;
    if (out->model != 0 || out->clip != 0) out->file = file->valuestring;
    return st;
}

/* Names are compared whole or without their folders, and with or without their endings. */
static bool is_same(const char *name, const char *given, bool folders, bool ending)
{
    const char *slash = strrchr(name, '/');
    if (!folders && slash) name = slash + 1;
    slash = strrchr(given, '/');
    if (!folders && slash) given = slash + 1;
    const char *dot = strrchr(name, '.'), *end = strrchr(given, '.');
    if (ending || !dot) return strcmp(name, given) == 0;
    size_t n = (size_t)(dot - name), m = end && !strchr(end, '/') && strcmp(end, dot) == 0
                                             ? (size_t)(end - given)
                                             : strlen(given);
    return n == m && memcmp(name, given, n) == 0;
}

/* The file's path (graft_free). As rgthree's node has it, a file may lie in another folder than it
 * did where the workflow was made, and its name may lack the ending. */
static graft_status find(const graft_host *h, const char *given, char **path, graft_err *e)
{
    char *name = graft_strdup(given), **names = graft_files_choices(h, "loras");
    graft_status st = GRAFT_OK;
    const char *found = name;
    if (!name || !names) {
        st = graft_fail_nomem(e, "a LoRA's name");
        goto out;
    }
    for (char *p = name; *p; p++)
        if (*p == '\\') *p = '/';
    for (int how = 0; how < 4 && found == name; how++)
        for (size_t i = 0; names[i] && found == name; i++)
            if (is_same(names[i], name, how < 2, how % 2 == 0)) found = names[i];
    st = graft_files_resolve(h, "loras", found, path, e);
out:
    graft_files_free_choices(names);
    graft_free(name);
    return st;
}

/* *path: of the row's file, NULL where it changes nothing. */
static graft_status find_row(const graft_host *h, const cJSON *item, bool encoder, row *r,
                             char **path, graft_err *e)
{
    *path = NULL;
    graft_status st = read_row(item, encoder, r, e);
    return st == GRAFT_OK && r->file ? find(h, r->file, path, e) : st;
}

static graft_status put_file(const graft_host *h, const cJSON *item, graft_str *out)
{
    row r;
    char *path;
    graft_status st = find_row(h, item, true, &r, &path, NULL);
    if (path) st = graft_files_put_identity(path, out);
    graft_free(path);
    return st;
}

static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    graft_str all = GRAFT_STR_INIT;
    cJSON *rows;
    const cJSON *item;
    char hex[33];
    graft_status st = parse(&in[LORAS], &rows, NULL);
    cJSON_ArrayForEach(item, rows) if (st == GRAFT_OK) st = put_file(h, item, &all);
    if (all.failed) st = GRAFT_E_NOMEM;
    if (st == GRAFT_OK) {
        graft_hash_hex(graft_hash128(all.data ? all.data : "", all.len), hex);
        snprintf(text, n, "%s", hex);
    }
    graft_str_finish(&all);
    cJSON_Delete(rows);
    return st;
}

/* Says why, and which row it is. */
static graft_status validate(const graft_host *h, const graft_arg *in, const char **input,
                             char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *rows;
    graft_status st = parse(&in[LORAS], &rows, &e);
    const cJSON *item = rows ? rows->child : NULL;
    while (st == GRAFT_OK && item) {
        row r;
        char *path;
        st = find_row(h, item, true, &r, &path, &e);
        graft_free(path);
        if (st == GRAFT_OK) item = item->next;
    }
    if (st != GRAFT_OK) {
        snprintf(text, n / 2, "%s", e.text[0] ? e.text : graft_status_text(st));
        size_t end = strlen(text) + 1;
        snprintf(text + end, n - end, "%s", item ? item->string : inputs[LORAS]->name);
        *input = text + end;
    }
    cJSON_Delete(rows);
    return st;
}

static const void *query(const char *id)
{
    static const graft_fingerprint_api fingerprints = {fingerprint};
    static const graft_validate_api checks = {validate};
    if (strcmp(id, GRAFT_FINGERPRINT_ID) == 0) return &fingerprints;
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &checks : NULL;
}

/* *model and *clip, which may be NULL, become those with the row's LoRA. */
static graft_status add(graft_call *c, const cJSON *item, graft_model **model, graft_clip **clip)
{
    graft_status st;
    row r;
    char *path = NULL;
    graft_model *next = NULL;
    graft_clip *next_clip = NULL;
    GRAFT_TRY(find_row(c->self->host, item, *clip, &r, &path, &c->err));
    if (!path) goto out;
    GRAFT_TRY(graft_lora_apply(*model, *clip, path, r.model, r.clip, &c->task, &next,
                               *clip ? &next_clip : NULL, &c->err));
    graft_model_release(*model);
    graft_clip_release(*clip);
    *model = next;
    *clip = next_clip;
out:
    if (st != GRAFT_OK) c->self->job->fail(c->job, st, item->string, c->err.text);
    graft_free(path);
    return st;
}

static graft_status run(graft_call *c)
{
    graft_model *model = graft_arg_model(c, MODEL);
    graft_clip *clip = graft_arg_clip(c, CLIP);
    cJSON *rows = NULL;
    const cJSON *item;
    graft_status st;
    if (model) graft_model_retain(model);
    if (clip) graft_clip_retain(clip);
    graft_call_phase(c, "load");
    GRAFT_TRY(parse(&c->in[LORAS], &rows, &c->err));
    if (model) /* as there: an encoder alone stays as it is */
        cJSON_ArrayForEach(item, rows) GRAFT_TRY(add(c, item, &model, &clip));
    if (model) {
        st = graft_call_out_model(c, 0, model);
        model = NULL;
    }
    if (clip && st == GRAFT_OK) {
        st = graft_call_out_clip(c, 1, clip);
        clip = NULL;
    }
out:
    graft_model_release(model);
    graft_clip_release(clip);
    cJSON_Delete(rows);
    return st;
}

GRAFT_NODE(power_lora_loader_rgthree, .id = "Power Lora Loader (rgthree)",
           .title = "Power Lora Loader (rgthree)", .category = "rgthree", .query = query,
           .description = "Adds any number of LoRAs to a model and its text encoder. It is "
                          "rgthree's node, which many workflows have; rows of Load LoRA do the "
                          "same.");
