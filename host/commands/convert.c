/* `graft convert`: files of other programs as safetensors, and networks in 8-bit integers, through
 * the plugins' "graft.convert/1" and "graft.convert-int8/1". */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/part.h"
#include "base/str.h"
#include "host/commands/commands.h"
#include "host/session/session.h"

/* FILE.ckpt is FILE.safetensors, and what has that name already, FILE-converted.safetensors; with
 * integers it is FILE_int8_convrot.safetensors, or FILE_int8. What comes of parts is one file,
 * whose name has no number. NULL when out of memory. */
static char *name_for(const graft_options *o)
{
    const char *from = o->file;
    static const char suffix[] = ".safetensors";
    const char *slash = strrchr(from, '/'), *dot = strrchr(slash ? slash : from, '.');
    graft_str s = GRAFT_STR_INIT;
    graft_part part;
    graft_str_append(&s, from,
                     graft_part_of(from, &part) ? graft_part_stem(&part)
                     : dot && dot != from       ? (size_t)(dot - from)
                                                : strlen(from));
    if (o->int8)
        graft_str_puts(&s, o->straight ? "_int8" : "_int8_convrot");
    else if (dot && strcmp(dot, suffix) == 0)
        graft_str_puts(&s, "-converted");
    graft_str_puts(&s, suffix);
    return graft_str_take(&s);
}

/* What one plugin makes of it; false: it converts nothing. */
static bool convert_by(const graft_plugin *p, const graft_options *o, const char *to, char *text,
                       uint64_t n, graft_status *st)
{
    const graft_convert_api *any = o->int8 ? NULL : p->query(GRAFT_CONVERT_ID);
    const graft_convert_int8_api *int8 = o->int8 ? p->query(GRAFT_CONVERT_INT8_ID) : NULL;
    if (any) *st = any->convert(o->file, to, text, n);
    if (int8) *st = int8->convert(o->file, to, !o->straight, text, n);
    return any || int8;
}

/* Asks each plugin until one knows the format. */
static graft_status convert(const graft_registry *r, const graft_options *o, const char *to,
                            graft_err *e)
{
    const graft_registry_node *node;
    const graft_plugin *last = NULL;
    graft_status st = graft_fail(e, GRAFT_E_NOTFOUND, "no plugin converts files");
    for (size_t i = 0; (node = graft_registry_at(r, i)) != NULL; i++) {
        const graft_plugin *p = node->plugin;
        if (p == last || !p->query) continue;
        last = p;
        char text[1000] = "";
        if (!convert_by(p, o, to, text, sizeof text, &st)) continue;
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
    char *to = o->second ? graft_strdup(o->second) : name_for(o);
    graft_status st = to ? GRAFT_OK : graft_fail_nomem(&e, o->file);
    if (!st && graft_file_exists(to))
        st = graft_fail(&e, GRAFT_E_ARG,
                        "%s: there is such a file already; remove it, or name another", to);
    if (!st) st = graft_session_init(&s, o, &graft_session_log, &e);
    if (!st) {
        st = convert(s.registry, o, to, &e);
        graft_session_finish(&s);
    }
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    graft_free(to);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
