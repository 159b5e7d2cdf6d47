/* `graft convert`: files of other programs as safetensors, through the plugins' "graft.convert/1".
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "host/commands/commands.h"
#include "host/session/session.h"

/* FILE.ckpt is FILE.safetensors, and what has that name already, FILE-converted.safetensors; NULL
 * when out of memory. */
static char *name_for(const char *from)
{
    static const char suffix[] = ".safetensors";
    const char *slash = strrchr(from, '/'), *dot = strrchr(slash ? slash : from, '.');
    graft_str s = GRAFT_STR_INIT;
    graft_str_append(&s, from, dot && dot != from ? (size_t)(dot - from) : strlen(from));
    if (dot && strcmp(dot, suffix) == 0) graft_str_puts(&s, "-converted");
    graft_str_puts(&s, suffix);
    return graft_str_take(&s);
}

/* Asks each plugin until one knows the format. */
static graft_status convert(const graft_registry *r, const char *from, const char *to, graft_err *e)
{
    const graft_registry_node *node;
    const graft_plugin *last = NULL;
    graft_status st = graft_fail(e, GRAFT_E_NOTFOUND, "no plugin converts files");
    for (size_t i = 0; (node = graft_registry_at(r, i)) != NULL; i++) {
        const graft_plugin *p = node->plugin;
        if (p == last || !p->query) continue;
        last = p;
        const graft_convert_api *api = p->query(GRAFT_CONVERT_ID);
        char text[1000] = "";
        if (!api) continue;
        st = api->convert(from, to, text, sizeof text);
        if (!st) printf("%s: %s\n", graft_path_shown(to), text);
        if (st) graft_fail(e, st, "%s", *text ? text : graft_status_text(st));
        if (st != GRAFT_E_FORMAT) break;
    }
    return st;
}

int graft_command_convert(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_session s;
    char *to = o->second ? graft_strdup(o->second) : name_for(o->file);
    graft_status st = to ? GRAFT_OK : graft_fail_nomem(&e, o->file);
    if (!st && graft_file_exists(to))
        st = graft_fail(&e, GRAFT_E_ARG,
                        "%s: there is such a file already; remove it, or name another", to);
    if (!st) st = graft_session_init(&s, o, &graft_session_log, &e);
    if (!st) {
        st = convert(s.registry, o->file, to, &e);
        graft_session_finish(&s);
    }
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    graft_free(to);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
