#include "nodes/call/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/part.h"
#include "base/str.h"
#include "engine/engine.h"

const char *const graft_files_picture_suffixes[] = {
    ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tga", ".psd", ".ppm", ".pgm", ".pnm", NULL};

/* Splits "x.png [output]" into the name's length and its folder; others keep `folder`. */
static size_t annotation(const char *name, const char **folder)
{
    static const struct {
        const char *suffix, *folder;
    } known[] = {{" [input]", "input"}, {" [output]", "output"}, {" [temp]", "temp"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (graft_str_ends(name, known[i].suffix)) {
            *folder = known[i].folder;
            return strlen(name) - strlen(known[i].suffix);
        }
    return strlen(name);
}

static graft_status resolve(const graft_host *h, const char *folder, const char *name, char **path,
                            graft_err *e)
{
    const graft_folders_api *api = h->query(h, GRAFT_FOLDERS_ID);
    if (!api) return graft_fail(e, GRAFT_E_UNSUPPORTED, "this host gives no access to files");
    char *found = NULL, why[512] = "";
    graft_status st = api->resolve(h, folder, name, &found, why, sizeof why);
    if (st != GRAFT_OK) return graft_fail(e, st, "%s", why[0] ? why : graft_status_text(st));
    *path = graft_strdup(found);
    api->free_text(h, found);
    return *path ? GRAFT_OK : graft_fail_nomem(e, "a file's path");
}

graft_status graft_files_resolve(const graft_host *h, const char *folder, const char *name,
                                 char **path, graft_err *e)
{
    const char *where = folder;
    char *plain = graft_strndup(name, annotation(name, &where));
    if (!plain) return graft_fail_nomem(e, "a file's name");
    for (char *p = plain; *p; p++)
        if (*p == '\\') *p = '/'; /* from Windows; no name may have one */
    graft_status st = resolve(h, where, plain, path, e);
    graft_free(plain);
    return st;
}

void graft_files_free_choices(char **names)
{
    if (!names) return;
    for (size_t i = 0; names[i]; i++) graft_free(names[i]);
    graft_free(names);
}

static bool has_suffix(const char *name, const char *const *suffixes)
{
    size_t n = strlen(name);
    for (size_t i = 0; suffixes[i]; i++) {
        size_t m = strlen(suffixes[i]);
        if (n > m && strcasecmp(name + n - m, suffixes[i]) == 0) return true;
    }
    return false;
}

static char **copy_some(const char *const *names, const char *const *suffixes)
{
    size_t count = 0, n = 0;
    while (names[count]) count++;
    char **copy = graft_calloc(count + 1, sizeof *copy);
    if (!copy) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (suffixes && (strchr(names[i], '/') || !has_suffix(names[i], suffixes))) continue;
        copy[n] = graft_strdup(names[i]);
        if (!copy[n++]) {
            graft_files_free_choices(copy);
            return NULL;
        }
    }
    return copy;
}

char **graft_files_copy_choices(const char *const *names)
{
    return copy_some(names, NULL);
}

char **graft_files_choices_of(const graft_host *h, const char *folder, const char *const *suffixes)
{
    const graft_folders_api *api = h->query(h, GRAFT_FOLDERS_ID);
    if (!api) return graft_calloc(1, sizeof(char *)); /* a host without files: nothing to choose */
    char **names = api->list(h, folder);
    if (!names) return NULL;
    char **copy = copy_some((const char *const *)names, suffixes);
    api->free_names(h, names);
    return copy;
}

char **graft_files_choices(const graft_host *h, const char *folder)
{
    return graft_files_choices_of(h, folder, NULL);
}

/* Those that may also be among text encoders. */
static const char *const tokenizers[] = {"spiece.model", "llama_tokenizer.json", "tokenizer.json"};
enum { TOKENIZERS = sizeof tokenizers / sizeof *tokenizers };

/* What an input will be is not known before the run when it is linked. */
static bool is_linked(const graft_arg *name)
{
    return name->kind != GRAFT_CHOICE && name->kind != GRAFT_STRING;
}

static graft_status put_one(const char *path, graft_str *out)
{
    graft_file_id id = {0};
    graft_status st = graft_file_identify(path, &id) ? GRAFT_OK : GRAFT_E_NOTFOUND;
    graft_str_printf(
        out,
        "%" PRIx64 " %" PRIx64 " %" PRIu64 " %" PRId64 ".%09" PRId64 " %" PRId64 ".%09" PRId64 " ",
        id.device, id.inode, id.size, id.changed_s, id.changed_ns, id.status_s, id.status_ns);
    return st;
}

graft_status graft_files_put_identity(const char *path, graft_str *out)
{
    graft_part part;
    if (!graft_part_of(path, &part)) return put_one(path, out);
    graft_status st = GRAFT_OK;
    for (unsigned i = 1; i <= part.count && st == GRAFT_OK; i++) {
        char *other = graft_part_path(path, &part, i);
        st = other ? put_one(other, out) : GRAFT_E_NOMEM;
        graft_free(other);
    }
    return st;
}

/* Of a file that may be missing. */
static graft_status put_maybe(const graft_host *h, const char *folder, const char *name,
                              graft_str *out)
{
    char *path = NULL;
    graft_status st = graft_files_resolve(h, folder, name, &path, NULL);
    if (st == GRAFT_OK) st = graft_files_put_identity(path, out);
    if (st != GRAFT_OK) graft_str_puts(out, "none ");
    graft_free(path);
    return st == GRAFT_E_NOMEM ? st : GRAFT_OK;
}

/* A folder in which text encoders may be. */
static bool may_have_text(const char *folder)
{
    return strcmp(folder, "text_encoders") == 0 || strcmp(folder, "checkpoints") == 0;
}

/* Tokenizers of T5, Llama, Qwen and Mistral are files of their own beside the encoder at `path`.
 * Those that are no models a host gives no paths of. */
static graft_status put_tokenizers(const char *path, graft_str *out)
{
    static const char *const files[] = {"spiece.model", "llama_tokenizer.json", "tokenizer.json",
                                        "vocab.json",   "merges.txt",           "tekken.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *beside = graft_path_beside(path, files[i]);
        if (!beside) return GRAFT_E_NOMEM;
        if (put_one(beside, out) != GRAFT_OK) graft_str_puts(out, "none ");
        graft_free(beside);
    }
    return GRAFT_OK;
}

static graft_status put_model(const graft_host *h, const char *folder, const char *name,
                              graft_str *out)
{
    char *path = NULL;
    graft_status st = graft_files_resolve(h, folder, name, &path, NULL);
    if (st == GRAFT_OK) st = graft_files_put_identity(path, out);
    if (st == GRAFT_OK && may_have_text(folder)) st = put_tokenizers(path, out);
    graft_free(path);
    return st;
}

static graft_status put_folder(const graft_host *h, const char *folder, graft_str *out)
{
    char **names = graft_files_choices(h, folder);
    graft_status st = names ? GRAFT_OK : GRAFT_E_NOMEM;
    for (size_t i = 0; st == GRAFT_OK && names[i]; i++) {
        graft_str_printf(out, "%s ", names[i]);
        st = put_model(h, folder, names[i], out);
        if (st == GRAFT_OK || st == GRAFT_E_NOMEM) continue;
        graft_str_puts(out, "none ");
        st = GRAFT_OK;
    }
    graft_files_free_choices(names);
    return st;
}

/* Everything that a linked name may turn out to be; some names choose among folders. */
static graft_status put_all(const graft_host *h, const char *folder, graft_str *out)
{
    static const char *const beside[][3] = {{"input", "output", "temp"}, {"vae", "vae_approx"}};
    graft_status st = put_folder(h, folder, out);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        for (int k = 1; k < 3 && beside[i][k] && strcmp(folder, beside[i][0]) == 0; k++)
            if (st == GRAFT_OK) st = put_folder(h, beside[i][k], out);
    return st;
}

graft_status graft_files_fingerprint(const graft_host *h, const char *folder, const graft_arg *name,
                                     char *text, uint64_t n)
{
    if (is_linked(name)) return graft_files_stamp(h, folder, name, 1, text, n);
    char *path = NULL, hex[33];
    graft_mapping map = {NULL, 0};
    graft_status st = graft_files_resolve(h, folder, name->u.s, &path, NULL);
    if (st == GRAFT_OK) st = graft_file_map(path, &map, NULL);
    if (st == GRAFT_OK) {
        graft_hash_hex(graft_hash128(map.data, map.size), hex);
        snprintf(text, n, "%s", hex);
        graft_file_unmap(&map);
    }
    graft_free(path);
    return st;
}

/* What looks at pictures for text encoders in GGUF, which are files beside them. */
static graft_status put_sight(const graft_host *h, const char *folder, graft_str *out)
{
    char **names = graft_files_choices(h, folder);
    graft_status st = names ? GRAFT_OK : GRAFT_E_NOMEM;
    for (size_t i = 0; st == GRAFT_OK && names[i]; i++)
        if (strcasestr(names[i], "mmproj")) st = put_maybe(h, folder, names[i], out);
    graft_files_free_choices(names);
    return st;
}

static graft_status put_stamp(const graft_host *h, const char *folder, const graft_arg *name,
                              graft_str *out)
{
    graft_status st =
        is_linked(name) ? put_all(h, folder, out) : put_model(h, folder, name->u.s, out);
    for (int i = 0; st == GRAFT_OK && may_have_text(folder) && i < TOKENIZERS; i++)
        st = put_maybe(h, "text_encoders", tokenizers[i], out);
    if (st == GRAFT_OK && may_have_text(folder) && !is_linked(name) &&
        graft_str_ends(name->u.s, ".gguf"))
        st = put_sight(h, folder, out);
    return st;
}

graft_status graft_files_stamp(const graft_host *h, const char *folder, const graft_arg *names,
                               size_t count, char *text, uint64_t n)
{
    graft_str all = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    char hex[33];
    for (size_t i = 0; i < count && st == GRAFT_OK; i++) st = put_stamp(h, folder, &names[i], &all);
    if (all.failed) st = GRAFT_E_NOMEM;
    if (st == GRAFT_OK) {
        graft_hash_hex(graft_hash128(all.data ? all.data : "", all.len), hex);
        snprintf(text, n, "%s", hex);
    }
    graft_str_finish(&all);
    return st;
}

/* *path stays NULL when it is not known yet which file the name is. */
static graft_status find(const graft_host *h, const char *folder, const graft_arg *name,
                         const char *what, char **path, char *text, uint64_t n)
{
    *path = NULL;
    if (is_linked(name)) return GRAFT_OK;
    graft_status st = graft_files_resolve(h, folder, name->u.s, path, NULL);
    if (st != GRAFT_OK) snprintf(text, n, "%s: %s", what, name->u.s);
    return st;
}

graft_status graft_files_validate(const graft_host *h, const char *folder, const graft_arg *name,
                                  const char *what, char *text, uint64_t n)
{
    char *path;
    graft_status st = find(h, folder, name, what, &path, text, n);
    graft_free(path);
    return st;
}

graft_status graft_files_validate_picture(const graft_host *h, const char *folder,
                                          const graft_arg *name, const char *what, char *text,
                                          uint64_t n)
{
    char *path;
    graft_status st = find(h, folder, name, what, &path, text, n);
    const char *kind = path ? graft_image_unread(path) : NULL;
    if (kind) {
        snprintf(text, n, "%s: %s (%s files are not read, only " GRAFT_IMAGE_KINDS ")", what,
                 name->u.s, kind);
        st = GRAFT_E_FORMAT;
    }
    graft_free(path);
    return st;
}
