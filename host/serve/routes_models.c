#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/part.h"
#include "base/tree.h"
#include "host/serve/routes.h"

#define HEADER_BYTES ((uint64_t)100 << 20) /* longest header of a model file that is read */

/* Frees the names. */
static graft_status answer_names(char **names, graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    graft_str_puts(&t, "[");
    for (size_t i = 0; names[i]; i++) {
        graft_str_puts(&t, i ? "," : "");
        graft_str_json(&t, names[i]);
    }
    graft_str_puts(&t, "]");
    graft_folders_free_names(names);
    return graft_http_str(r, 200, &t, e);
}

/* The files of a model folder; *names is NULL, and the answer 404, where `key` is none. */
static graft_status list_folder(graft_serve *s, const char *key, char ***names,
                                graft_http_response *r, graft_err *e)
{
    *names = NULL;
    if (graft_folders_of_models(key)) return graft_folders_list(&s->session.folders, key, names, e);
    graft_http_empty(r, 404);
    return GRAFT_OK;
}

graft_status graft_route_embeddings(graft_serve *s, const graft_http_request *q, const char *rest,
                                    graft_http_response *r, graft_err *e)
{
    char **names = NULL;
    (void)q, (void)rest;
    graft_status st = graft_folders_list(&s->session.folders, "embeddings", &names, e);
    if (st) return st;
    for (size_t i = 0; names[i]; i++) {
        char *dot = strrchr(names[i], '.');
        if (dot) *dot = 0;
    }
    return answer_names(names, r, e);
}

graft_status graft_route_models(graft_serve *s, const graft_http_request *q, const char *rest,
                                graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)s, (void)q, (void)rest;
    graft_str_puts(&t, "[");
    for (size_t i = 0; graft_folders_key(i); i++) {
        graft_str_puts(&t, i ? "," : "");
        graft_str_json(&t, graft_folders_key(i));
    }
    graft_str_puts(&t, "]");
    return graft_http_str(r, 200, &t, e);
}

/* The folder is named by its key: answers hold no absolute path. */
graft_status graft_route_experiment_models(graft_serve *s, const graft_http_request *q,
                                           const char *rest, graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)s, (void)q, (void)rest;
    graft_str_puts(&t, "[");
    for (size_t i = 0; graft_folders_key(i); i++)
        graft_str_printf(&t, "%s{\"name\":\"%s\",\"folders\":[\"%s\"]}", i ? "," : "",
                         graft_folders_key(i), graft_folders_key(i));
    graft_str_puts(&t, "]");
    return graft_http_str(r, 200, &t, e);
}

/* Of a file's first part the size of all up to one that is missing, and when the last was changed.
 */
static bool stat_parts(const char *path, struct stat *out)
{
    graft_part part;
    if (stat(path, out)) return false;
    if (!graft_part_of(path, &part)) return true;
    for (unsigned i = part.number + 1; i <= part.count; i++) {
        struct stat other;
        char *at = graft_part_path(path, &part, i);
        const bool there = at && stat(at, &other) == 0;
        graft_free(at);
        if (!there) break;
        out->st_size += other.st_size;
        if (other.st_mtime > out->st_mtime) out->st_mtime = other.st_mtime;
        if (other.st_ctime > out->st_ctime) out->st_ctime = other.st_ctime;
    }
    return true;
}

graft_status graft_route_experiment_folder(graft_serve *s, const graft_http_request *q,
                                           const char *rest, graft_http_response *r, graft_err *e)
{
    char **names;
    graft_str t = GRAFT_STR_INIT;
    (void)q;
    graft_status st = list_folder(s, rest, &names, r, e);
    if (!names) return st;
    graft_str_puts(&t, "[");
    for (size_t i = 0; names[i]; i++) {
        char *path = NULL;
        struct stat info;
        if (!graft_folders_resolve(&s->session.folders, rest, names[i], &path, NULL) &&
            stat_parts(path, &info)) {
            graft_str_puts(&t, t.len > 1 ? ",{\"name\":" : "{\"name\":");
            graft_str_json(&t, names[i]);
            graft_str_printf(
                &t, ",\"pathIndex\":0,\"modified\":%lld,\"created\":%lld,\"size\":%lld}",
                (long long)info.st_mtime, (long long)info.st_ctime, (long long)info.st_size);
        }
        graft_free(path);
    }
    graft_str_puts(&t, "]");
    graft_folders_free_names(names);
    return graft_http_str(r, 200, &t, e);
}

/* The header of a safetensors file: its length in 8 little-endian bytes, then JSON. NULL when there
 * is none that can be read. */
static cJSON *read_header(const char *path)
{
    uint8_t head[8];
    cJSON *json = NULL;
    uint64_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && read(fd, head, 8) == 8) {
        for (int i = 7; i >= 0; i--) n = n << 8 | head[i];
        char *text = n <= HEADER_BYTES && (int64_t)n <= info.st_size - 8 ? graft_malloc(n) : NULL;
        if (text && read(fd, text, n) == (ssize_t)n)
            graft_json_parse(text, n, "a model's header", &json, NULL);
        graft_free(text);
    }
    close(fd);
    return json;
}

static bool has_one(const cJSON *header, const char *const *prefix)
{
    for (const cJSON *tensor = header ? header->child : NULL; tensor; tensor = tensor->next)
        for (size_t i = 0; prefix[i]; i++)
            if (graft_str_starts(tensor->string, prefix[i])) return true;
    return false;
}

/* Whether a checkpoint has a text encoder and a VAE beside the network, by how their tensors are
 * called in files of that form. */
static bool is_whole(const graft_serve *s, const char *name)
{
    static const char *const text[] = {"cond_stage_model.", "conditioner.", "text_encoders.", NULL};
    static const char *const vae[] = {"first_stage_model.", "vae.", NULL};
    char *path = NULL;
    cJSON *header = NULL;
    if (!graft_folders_resolve(&s->session.folders, "checkpoints", name, &path, NULL))
        header = read_header(path);
    const bool whole = has_one(header, text) && has_one(header, vae);
    cJSON_Delete(header);
    graft_free(path);
    return whole;
}

/* Keeps the first `most` names of whole checkpoints. */
static void keep_whole(const graft_serve *s, char **names, int64_t most)
{
    int64_t kept = 0;
    for (size_t i = 0; names[i]; i++) {
        if (kept < most && is_whole(s, names[i])) {
            char *name = names[i];
            names[i] = NULL;
            names[kept++] = name;
        } else {
            graft_free(names[i]);
            names[i] = NULL;
        }
    }
}

graft_status graft_route_models_folder(graft_serve *s, const graft_http_request *q,
                                       const char *rest, graft_http_response *r, graft_err *e)
{
    char **names;
    const char *most = graft_http_arg(q, "whole");
    graft_status st = list_folder(s, rest, &names, r, e);
    if (names && most && strcmp(rest, "checkpoints") == 0)
        keep_whole(s, names, strtoll(most, NULL, 10));
    return names ? answer_names(names, r, e) : st;
}

graft_status graft_route_view_metadata(graft_serve *s, const graft_http_request *q,
                                       const char *rest, graft_http_response *r, graft_err *e)
{
    const char *name = graft_http_arg(q, "filename");
    char *path = NULL;
    cJSON *header = NULL;
    if (name && graft_folders_of_models(rest) &&
        !graft_folders_resolve(&s->session.folders, rest, name, &path, NULL))
        header = read_header(path);
    graft_free(path);
    const cJSON *meta = graft_tree_get(header, "__metadata__");
    graft_status st = GRAFT_OK;
    if (meta)
        st = graft_http_tree(r, 200, meta, e);
    else
        graft_http_empty(r, 404);
    cJSON_Delete(header);
    return st;
}
