#include "host/services/folders.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/part.h"
#include "base/str.h"

static const char *const plain[] = {".safetensors", ".sft", NULL};
static const char *const or_gguf[] = {".safetensors", ".sft", ".gguf", NULL};

/* Some kinds of file have an old and a new folder name; both are read. */
static const struct model_folder {
    const char *key, *alias, *folder[2];
    bool takes_tokenizers; /* which are no choices */
    const char *const *suffix;
} model_folders[] = {
    {"checkpoints", NULL, {"checkpoints", NULL}, false, or_gguf},
    {"loras", NULL, {"loras", NULL}, false, plain},
    {"vae", NULL, {"vae", NULL}, false, or_gguf},
    {"vae_approx", NULL, {"vae_approx", NULL}, false, plain},
    {"text_encoders", "clip", {"text_encoders", "clip"}, true, or_gguf},
    {"diffusion_models", "unet", {"diffusion_models", "unet"}, false, or_gguf},
    {"embeddings", NULL, {"embeddings", NULL}, false, plain},
    {"controlnet", NULL, {"controlnet", "t2i_adapter"}, false, plain},
    {"upscale_models", NULL, {"upscale_models", NULL}, false, plain},
    {"clip_vision", NULL, {"clip_vision", NULL}, false, plain},
    {"style_models", NULL, {"style_models", NULL}, false, plain},
    {"model_patches", NULL, {"model_patches", NULL}, false, plain},
    {"ipadapter", NULL, {"ipadapter", NULL}, false, plain},
    {"hypernetworks", NULL, {"hypernetworks", NULL}, false, plain},
    {"gligen", NULL, {"gligen", NULL}, false, plain},
};
#define N_MODEL_FOLDERS (sizeof model_folders / sizeof *model_folders)

const char *graft_folders_key(size_t i)
{
    return i < N_MODEL_FOLDERS ? model_folders[i].key : NULL;
}

static const struct model_folder *find_models(const char *key)
{
    for (size_t i = 0; i < N_MODEL_FOLDERS; i++) {
        const struct model_folder *m = &model_folders[i];
        if (strcmp(m->key, key) == 0 || (m->alias && strcmp(m->alias, key) == 0)) return m;
    }
    return NULL;
}

bool graft_folders_of_models(const char *key)
{
    return find_models(key) != NULL;
}

static char *absolute(const char *path)
{
    char cwd[4096];
    if (path[0] == '/' || !getcwd(cwd, sizeof cwd)) return graft_strdup(path);
    while (path[0] == '.' && path[1] == '/') path += 2;
    return graft_path_join(cwd, path);
}

graft_status graft_folders_init(graft_folders *f, const char *models, const char *input,
                                const char *output, const char *temp, graft_err *e)
{
    f->models = absolute(models);
    f->input = absolute(input);
    f->output = absolute(output);
    f->temp = absolute(temp);
    if (f->models && f->input && f->output && f->temp) return GRAFT_OK;
    graft_folders_finish(f);
    return graft_fail_nomem(e, "the table of folders");
}

void graft_folders_finish(graft_folders *f)
{
    graft_free(f->models);
    graft_free(f->input);
    graft_free(f->output);
    graft_free(f->temp);
    memset(f, 0, sizeof *f);
}

const char *graft_folders_root(const graft_folders *f, const char *key)
{
    if (strcmp(key, "input") == 0) return f->input;
    if (strcmp(key, "output") == 0) return f->output;
    if (strcmp(key, "temp") == 0) return f->temp;
    return NULL;
}

/* 0, or why no file can be made there. Rights do not tell all: file systems that may only be read,
 * and those like /proc, refuse a user whom nothing is denied. */
static int try_folder(const char *path)
{
    char *name = graft_path_join(path, ".graft-XXXXXX");
    int why = name && mkdtemp(name) ? 0 : name ? errno : ENOMEM;
    if (!why) rmdir(name);
    graft_free(name);
    return why;
}

graft_status graft_folders_writable(const graft_folders *f, const char *key, const char *below,
                                    graft_err *e)
{
    const char *root = graft_folders_root(f, key);
    if (!root) return graft_fail(e, GRAFT_E_ARG, "there is no folder \"%s\"", key);
    char *whole = *below ? graft_path_join(root, below) : graft_strdup(root), *slash;
    char *at = whole ? graft_strdup(whole) : NULL;
    struct stat info;
    graft_status st = at ? GRAFT_OK : graft_fail_nomem(e, "a path");
    /* Up to the deepest part that is there. */
    while (at && stat(at, &info) && (errno == ENOENT || errno == ENOTDIR) &&
           (slash = strrchr(at, '/')) && at[1])
        slash[slash == at] = 0;
    if (at && !stat(at, &info) && !S_ISDIR(info.st_mode)) {
        st = graft_fail(e, GRAFT_E_IO, "cannot write to %s: %s is not a folder", whole, at);
    } else if (at) {
        int why = try_folder(at);
        if (why)
            st = graft_fail(e, GRAFT_E_IO, "cannot write to %s: %s: %s", whole, at, strerror(why));
    }
    graft_free(at);
    graft_free(whole);
    return st;
}

static bool has_suffix(const char *name, const char *const *suffix)
{
    for (; *suffix; suffix++)
        if (graft_str_ends(name, *suffix)) return true;
    return false;
}

static graft_status existing(const char *root, const char *name, char **path, graft_err *e)
{
    if (graft_file_exists(*path)) return GRAFT_OK;
    graft_free(*path);
    *path = NULL;
    return graft_fail(e, GRAFT_E_NOTFOUND, "there is no file %s in %s", name, root);
}

enum { MODEL_ROOTS = 4 };

/* Where models of a kind lie: in its folders below the models folder, then in those below the
 * output folder, where nodes save models. *root is NULL when there is no such folder name. */
static graft_status model_root(const graft_folders *f, const struct model_folder *m, int i,
                               char **root, graft_err *e)
{
    const char *name = m->folder[i % 2];
    *root = name ? graft_path_join(i < 2 ? f->models : f->output, name) : NULL;
    return name && !*root ? graft_fail_nomem(e, "a path") : GRAFT_OK;
}

static bool is_tokenizer(const char *name)
{
    return graft_str_ends(name, ".model") || graft_str_ends(name, "tokenizer.json");
}

/* Large models lie elsewhere and are linked. Nothing that a workflow or a request can do makes a
 * link, so one in the models folder was put there by the user, and is followed. */
static graft_status resolve_model(const graft_folders *f, const struct model_folder *m,
                                  const char *name, char **path, graft_err *e)
{
    if (!has_suffix(name, m->suffix) && !(m->takes_tokenizers && is_tokenizer(name)))
        return graft_fail(e, GRAFT_E_ARG, "%s: files of %s end in .safetensors or .sft%s", name,
                          m->key, m->suffix == or_gguf ? ", or in .gguf" : "");
    for (int i = 0; i < MODEL_ROOTS; i++) {
        char *root = NULL;
        graft_status st = model_root(f, m, i, &root, e);
        if (st) return st;
        if (!root) continue;
        st = i < 2 ? graft_path_below(root, name, path, e) : graft_path_inside(root, name, path, e);
        if (!st) st = existing(root, name, path, e);
        graft_free(root);
        if (st != GRAFT_E_NOTFOUND) return st;
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "there is no file %s in %s/%s", name, f->models,
                      m->folder[0]);
}

graft_status graft_folders_resolve(const graft_folders *f, const char *key, const char *name,
                                   char **path, graft_err *e)
{
    *path = NULL;
    const struct model_folder *m = find_models(key);
    if (m) return resolve_model(f, m, name, path, e);
    const char *root = graft_folders_root(f, key);
    if (!root) return graft_fail(e, GRAFT_E_ARG, "there is no folder \"%s\"", key);
    graft_status st = graft_path_inside(root, name, path, e);
    return st ? st : existing(root, name, path, e);
}

/* What is left of `path` below `root`; NULL when it lies elsewhere. */
static const char *below(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (n && root[n - 1] == '/') n--;
    if (strncmp(path, root, n) != 0 || path[n] != '/') return NULL;
    path += n + strspn(path + n, "/");
    return *path ? path : NULL;
}

/* `path` with its folder as it really is, so that a last part that is a link stays one. */
static char *really(const char *path)
{
    char real[PATH_MAX], *folder = graft_strdup(path),
                         *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) *slash = 0;
    char *out = slash && realpath(slash == folder ? "/" : folder, real)
                    ? graft_path_join(real, slash + 1)
                    : NULL;
    graft_free(folder);
    return out;
}

graft_status graft_folders_name_of(const graft_folders *f, const char *key, const char *path,
                                   char **name, graft_err *e)
{
    graft_status st = GRAFT_OK;
    const struct model_folder *m = find_models(key);
    char *own = absolute(path), *real = own ? really(own) : NULL, *file = NULL;
    *name = NULL;
    if (!own) return graft_fail_nomem(e, "a path");
    for (int i = 0; m && i < MODEL_ROOTS && !*name; i++) {
        char *root = NULL, real_root[PATH_MAX];
        GRAFT_TRY(model_root(f, m, i, &root, e));
        const char *rest = root ? below(root, own) : NULL;
        if (root && !rest && real && realpath(root, real_root)) rest = below(real_root, real);
        graft_free(root);
        if (!rest || graft_folders_resolve(f, key, rest, &file, NULL)) continue;
        graft_free(file);
        *name = graft_strdup(rest);
        if (!*name) st = graft_fail_nomem(e, "a path");
    }
out:
    graft_free(own);
    graft_free(real);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Models in several parts are chosen by their first one. */
static bool is_later_part(const char *name)
{
    graft_part part;
    return graft_part_of(name, &part) && part.number > 1;
}

/* Appends the files below `root` to the NULL-terminated list of *count names: with a suffix, those
 * of models. */
static graft_status append_names(const char *root, const char *const *suffix, char ***names,
                                 size_t *count, graft_err *e)
{
    char **found = NULL;
    size_t n = 0, cap = *names ? *count + 1 : 0;
    graft_status st = graft_dir_list(root, suffix, &found, &n, e);
    if (st) return st;
    if (graft_grow(names, &cap, *count + n + 1, sizeof **names)) {
        graft_names_free(found, n);
        return graft_fail_nomem(e, "a list of files");
    }
    for (size_t i = 0; i < n; i++) {
        if (suffix && is_later_part(found[i])) continue;
        (*names)[*count] = graft_strdup(found[i]);
        if (!(*names)[*count]) {
            st = graft_fail_nomem(e, "a list of files");
            break;
        }
        (*count)++;
    }
    (*names)[*count] = NULL;
    graft_names_free(found, n);
    return st;
}

graft_status graft_folders_list(const graft_folders *f, const char *key, char ***out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    char **names = graft_calloc(1, sizeof *names), *root = NULL;
    size_t count = 0;
    *out = NULL;
    if (!names) return graft_fail_nomem(e, "a list of files");
    const struct model_folder *m = find_models(key);
    for (int i = 0; m && i < MODEL_ROOTS; i++) {
        GRAFT_TRY(model_root(f, m, i, &root, e));
        if (root) GRAFT_TRY(append_names(root, m->suffix, &names, &count, e));
        graft_free(root);
        root = NULL;
    }
    if (!m && graft_folders_root(f, key))
        GRAFT_TRY(append_names(graft_folders_root(f, key), NULL, &names, &count, e));
    if (count > 1) qsort(names, count, sizeof *names, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept && strcmp(names[kept - 1], names[i]) == 0)
            graft_free(names[i]);
        else
            names[kept++] = names[i];
    }
    names[kept] = NULL;
    *out = names;
    names = NULL;
out:
    graft_free(root);
    graft_folders_free_names(names);
    return st;
}

void graft_folders_free_names(char **names)
{
    for (size_t i = 0; names && names[i]; i++) graft_free(names[i]);
    graft_free(names);
}

/* The value of %name% in a file name prefix; false when there is no such variable. */
static bool variable(graft_str *out, const char *name, size_t n, int64_t width, int64_t height,
                     const struct tm *t)
{
    const struct {
        const char *name;
        long long value;
        int digits;
    } known[] = {
        {"width", width, 1},         {"height", height, 1},   {"year", t->tm_year + 1900, 1},
        {"month", t->tm_mon + 1, 2}, {"day", t->tm_mday, 2},  {"hour", t->tm_hour, 2},
        {"minute", t->tm_min, 2},    {"second", t->tm_sec, 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0) {
            graft_str_printf(out, "%0*lld", known[i].digits, known[i].value);
            return true;
        }
    return false;
}

/* The prefix with its variables replaced and its empty and "." parts dropped. */
static char *expand(const char *prefix, int64_t width, int64_t height)
{
    graft_str full = GRAFT_STR_INIT, clean = GRAFT_STR_INIT;
    time_t now = time(NULL);
    struct tm t;
    localtime_r(&now, &t);
    for (const char *p = prefix; *p;) {
        const char *end = *p == '%' ? strchr(p + 1, '%') : NULL;
        if (end && variable(&full, p + 1, (size_t)(end - p - 1), width, height, &t)) {
            p = end + 1;
        } else {
            graft_str_append(&full, p++, 1);
        }
    }
    if (full.data && full.data[0] == '/') graft_str_puts(&clean, "/");
    for (const char *p = full.data ? full.data : ""; *p;) {
        size_t n = strcspn(p, "/");
        if (n && !(n == 1 && *p == '.')) {
            if (clean.len && clean.data[clean.len - 1] != '/') graft_str_puts(&clean, "/");
            graft_str_append(&clean, p, n);
        }
        p += n + (p[n] == '/');
    }
    clean.failed = clean.failed || full.failed;
    graft_str_finish(&full);
    return graft_str_take(&clean);
}

/* Highest number N of the files STEM_N_… in `folder`; 0 when there is none. */
static uint64_t highest_number(const char *folder, const char *stem)
{
    uint64_t high = 0;
    size_t n = strlen(stem);
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strncmp(name, stem, n) != 0 || name[n] != '_') continue;
        const char *digits = name + n + 1;
        size_t len = strspn(digits, "0123456789");
        if (!len || len > 18 || (digits[len] && digits[len] != '_')) continue;
        uint64_t number = strtoull(digits, NULL, 10);
        if (number > high) high = number;
    }
    if (dir) closedir(dir);
    return high;
}

static graft_status fill_reserved(const char *root, const char *sub, const char *stem,
                                  const char *suffix, graft_reserved *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    char *folder = NULL;
    graft_str name = GRAFT_STR_INIT;
    if (*sub) {
        GRAFT_TRY(graft_path_inside(root, sub, &folder, e));
        GRAFT_TRY(graft_dir_make(folder, e));
    } else if (!(folder = graft_strdup(root))) {
        st = graft_fail_nomem(e, "a path");
        goto out;
    }
    uint64_t number = highest_number(folder, stem) + 1;
    graft_str_printf(&name, "%s_%05llu_%s", stem, (unsigned long long)number, suffix);
    if (name.failed) {
        st = graft_fail_nomem(e, "a file name");
        goto out;
    }
    /* The last check is on the whole name, so that nothing in `suffix` can leave the folder. */
    GRAFT_TRY(graft_path_inside(folder, name.data, &out->path, e));
    out->name = graft_str_take(&name);
    out->subfolder = graft_strdup(sub);
    if (!out->name || !out->subfolder) st = graft_fail_nomem(e, "a file name");
out:
    graft_str_finish(&name);
    graft_free(folder);
    return st;
}

graft_status graft_folders_reserve(const graft_folders *f, const char *key, const char *prefix,
                                   const char *suffix, int64_t width, int64_t height,
                                   graft_reserved *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    const char *root = graft_folders_root(f, key);
    if (!root || strcmp(key, "input") == 0)
        return graft_fail(e, GRAFT_E_ARG, "files cannot be written to folder \"%s\"", key);
    char *full = expand(prefix, width, height);
    if (!full) return graft_fail_nomem(e, "a file name");
    graft_status st = GRAFT_OK;
    char *slash = strrchr(full, '/');
    const char *stem = slash ? slash + 1 : full;
    if (full[0] == '/' || strcmp(stem, "..") == 0 || strchr(suffix, '/')) {
        st = graft_fail(e, GRAFT_E_ARG, "the name \"%s\" leaves the %s folder", prefix, key);
        goto out;
    }
    GRAFT_TRY(graft_dir_make(root, e));
    if (slash) *slash = 0;
    st = fill_reserved(root, slash ? full : "", stem, suffix, out, e);
    if (st) graft_reserved_finish(out);
out:
    graft_free(full);
    return st;
}

void graft_reserved_finish(graft_reserved *r)
{
    graft_free(r->path);
    graft_free(r->name);
    graft_free(r->subfolder);
    memset(r, 0, sizeof *r);
}
