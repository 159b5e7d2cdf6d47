#include "host/serve/roots.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool known(const graft_roots *r, const char *path, size_t n)
{
    for (size_t i = 0; i < r->count; i++)
        if (strlen(r->root[i].path) == n && strncmp(r->root[i].path, path, n) == 0) return true;
    return false;
}

static bool add(graft_roots *r, const char *path, const char *name)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/') n--;
    if (n < 2 || known(r, path, n) || r->count == GRAFT_ROOTS_MAX) return true;
    char *copy = graft_malloc(n + 1);
    if (!copy) return false;
    memcpy(copy, path, n);
    copy[n] = 0;
    r->root[r->count].path = copy;
    r->root[r->count++].name = name;
    return true;
}

/* Messages name a file as it was asked for or as it was found, behind links. */
static bool add_both(graft_roots *r, const char *path, const char *name)
{
    char real[PATH_MAX];
    return add(r, path, name) && (!realpath(path, real) || add(r, real, name));
}

graft_status graft_roots_init(graft_roots *r, const graft_folders *folders, const char *state,
                              graft_err *e)
{
    memset(r, 0, sizeof *r);
    if (add_both(r, folders->models, "models") && add_both(r, folders->input, "input") &&
        add_both(r, folders->output, "output") && add_both(r, folders->temp, "temp") &&
        add_both(r, state, "state"))
        return GRAFT_OK;
    return graft_fail_nomem(e, "the server");
}

void graft_roots_finish(graft_roots *r)
{
    for (size_t i = 0; i < r->count; i++) graft_free(r->root[i].path);
    memset(r, 0, sizeof *r);
}

static bool of_name(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80) || strchr("._-", c);
}

/* The root at `at`, the longest if one lies in another; -1: none. */
static int find(const graft_roots *r, const char *at, size_t *length)
{
    int best = -1;
    for (size_t i = 0; i < r->count; i++) {
        size_t n = strlen(r->root[i].path);
        if (strncmp(at, r->root[i].path, n) != 0 || (best >= 0 && n <= *length)) continue;
        if (at[n] && of_name(at[n])) continue; /* "/a/bc" is not below "/a/b" */
        best = (int)i;
        *length = n;
    }
    return best;
}

void graft_roots_hide(const graft_roots *r, const char *text, graft_str *out)
{
    const char *from = text;
    for (const char *at = text; r && *at;) {
        size_t n = 0;
        bool start = at == text || (at[-1] != '/' && !of_name(at[-1]));
        int i = *at == '/' && start ? find(r, at, &n) : -1;
        if (i < 0) {
            at++;
            continue;
        }
        graft_str_append(out, from, (size_t)(at - from));
        graft_str_puts(out, r->root[i].name);
        from = at += n;
    }
    graft_str_puts(out, from);
}
