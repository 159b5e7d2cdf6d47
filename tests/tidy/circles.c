/* Whether a reader can take the sources bottom first: no module includes one that includes it, on
 * whatever way. A module is NAME.h with NAME.c, and with NAME_inside.h, which the files share that
 * implement NAME.h together; a file without a namesake is one by itself. */
#include "tests/test.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"

#define NONE SIZE_MAX

static const char *const folders[] = {"base",  "plugin", "kernels", "engine",
                                      "nodes", "host",   "bench",   NULL};
static const char *const suffixes[] = {".c", ".h", ".cu", ".inc", NULL};

/* One module includes another. */
typedef struct edge {
    size_t to;
    char *said; /* "engine/a.c:3 includes engine/b.h" */
} edge;

typedef struct module {
    char *name; /* "engine/graph/graph" */
    edge *edge;
    size_t n, cap;
    size_t from; /* in a search: the module before it, NONE: it was not reached, */
    size_t by;   /* and that one's edge to it */
    bool told;   /* a circle that it is in was found */
} module;

typedef struct modules {
    module *at;
    size_t n, cap;
    graft_map number; /* name -> number + 1 */
} modules;

static void finish(modules *m)
{
    for (size_t i = 0; i < m->n; i++) {
        for (size_t k = 0; k < m->at[i].n; k++) graft_free(m->at[i].edge[k].said);
        graft_free(m->at[i].edge);
        graft_free(m->at[i].name);
    }
    graft_free(m->at);
    graft_map_finish(&m->number);
    *m = (modules){0};
}

/* The number of the module that a file is of. Tests end without memory. */
static size_t module_of(modules *m, const char *file)
{
    static const char inside[] = "_inside";
    char *name = graft_strndup(file, strcspn(file, "."));
    if (!name) exit(1);
    if (graft_str_ends(name, inside)) name[strlen(name) - (sizeof inside - 1)] = 0;
    size_t known = (size_t)(uintptr_t)graft_map_get(&m->number, name);
    if (known) {
        graft_free(name);
        return known - 1;
    }
    if (graft_grow(&m->at, &m->cap, m->n + 1, sizeof *m->at)) exit(1);
    m->at[m->n++] = (module){.name = name};
    if (graft_map_put(&m->number, name, (void *)(uintptr_t)m->n)) exit(1);
    return m->n - 1;
}

static void include(modules *m, const char *file, int line, const char *header)
{
    const size_t from = module_of(m, file), to = module_of(m, header);
    module *a = &m->at[from];
    char said[1024];
    if (from == to) return;
    for (size_t k = 0; k < a->n; k++)
        if (a->edge[k].to == to) return;
    snprintf(said, sizeof said, "%s:%d includes %s", file, line, header);
    if (graft_grow(&a->edge, &a->cap, a->n + 1, sizeof *a->edge)) exit(1);
    a->edge[a->n++] = (edge){to, graft_strdup(said)};
}

/* The shortest way from a module back to it, as `from` and `by` say; false: there is none. */
static bool find_circle(modules *m, size_t start)
{
    size_t *queue = graft_malloc_array(m->n + 1, sizeof *queue), first = 0, last = 0;
    if (!queue) exit(1);
    for (size_t i = 0; i < m->n; i++) m->at[i].from = NONE;
    for (queue[last++] = start; first < last && m->at[start].from == NONE; first++) {
        const module *a = &m->at[queue[first]];
        for (size_t k = 0; k < a->n; k++) {
            module *b = &m->at[a->edge[k].to];
            if (b->from != NONE) continue;
            b->from = queue[first];
            b->by = k;
            if (a->edge[k].to != start) queue[last++] = a->edge[k].to;
        }
    }
    graft_free(queue);
    return m->at[start].from != NONE;
}

/* Circles until each module that is in one was named; how many. */
static size_t circles(modules *m, graft_str *out)
{
    size_t count = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->at[i].told || !find_circle(m, i)) continue;
        size_t at = i;
        graft_str_printf(out, "a circle of includes, the last one first:\n");
        do {
            module *before = &m->at[m->at[at].from];
            graft_str_printf(out, "    %s\n", before->edge[m->at[at].by].said);
            at = m->at[at].from;
            m->at[at].told = true;
        } while (at != i);
        count++;
    }
    return count;
}

/* Those of our files, which are included by their full paths. */
static void read_includes(modules *m, const char *file, const char *text)
{
    int line = 1;
    for (const char *p = text; *p; line++) {
        char header[256];
        p += strspn(p, " \t");
        if (sscanf(p, "# include \"%255[^\"]", header) == 1)
            for (const char *const *f = folders; *f; f++)
                if (graft_str_starts(header, *f) && header[strlen(*f)] == '/')
                    include(m, file, line, header);
        p += strcspn(p, "\n");
        p += *p != 0;
    }
}

static void sources_have_no_circles(void)
{
    modules m = {0};
    graft_str out = GRAFT_STR_INIT;
    for (const char *const *f = folders; *f; f++) {
        char **names = NULL, path[4096];
        size_t n = 0;
        snprintf(path, sizeof path, "%s/%s", GRAFT_SOURCE_DIR, *f);
        CHECK(!graft_dir_list(path, suffixes, &names, &n, NULL) && n > 0);
        for (size_t i = 0; i < n; i++) {
            char *text = NULL;
            size_t size = 0;
            if (strstr(names[i], "node_modules/")) continue; /* installed, not ours */
            snprintf(path, sizeof path, "%s/%s/%s", GRAFT_SOURCE_DIR, *f, names[i]);
            CHECK(!graft_file_read(path, 1 << 24, &text, &size, NULL));
            snprintf(path, sizeof path, "%s/%s", *f, names[i]);
            if (text) read_includes(&m, path, text);
            graft_free(text);
        }
        graft_names_free(names, n);
    }
    CHECK(m.n > 500);
    CHECK_INT(circles(&m, &out), 0);
    if (out.len) fprintf(stderr, "%s", out.data);
    graft_str_finish(&out);
    finish(&m);
}

static void circles_are_found(void)
{
    modules m = {0};
    graft_str out = GRAFT_STR_INIT;
    read_includes(&m, "engine/a.c", "#include \"engine/a.h\"\n#include \"engine/b.h\"\n");
    read_includes(&m, "engine/b.c", "#include \"engine/b.h\"\n\n#include \"engine/c.h\"\n");
    read_includes(&m, "engine/c.h", "#include \"elsewhere/a.h\"\n#include <engine/a.h>\n");
    read_includes(&m, "engine/d.c", "#include \"engine/a.h\"\n#include \"engine/b.h\"\n");
    CHECK_INT(circles(&m, &out), 0);
    /* By way of a header that has no namesake, and whatever else d includes. */
    read_includes(&m, "engine/c.h", "/* a */\n#  include \"engine/a.h\"\n");
    CHECK_INT(circles(&m, &out), 1);
    CHECK_STR(out.data, "a circle of includes, the last one first:\n"
                        "    engine/c.h:2 includes engine/a.h\n"
                        "    engine/b.c:3 includes engine/c.h\n"
                        "    engine/a.c:2 includes engine/b.h\n");
    graft_str_finish(&out);
    finish(&m);
}

/* What the files share that implement a header is no module of its own. */
static void insides_belong_to_their_headers(void)
{
    modules m = {0};
    graft_str out = GRAFT_STR_INIT;
    read_includes(&m, "host/a.c", "#include \"host/a_inside.h\"\n");
    read_includes(&m, "host/a_more.c", "#include \"host/a_inside.h\"\n");
    read_includes(&m, "host/a_inside.h", "#include \"host/a.h\"\n#include \"host/b.h\"\n");
    CHECK_INT(circles(&m, &out), 0);
    read_includes(&m, "host/b.c", "#include \"host/a.h\"\n");
    CHECK_INT(circles(&m, &out), 1);
    graft_str_finish(&out);
    finish(&m);
}

int main(void)
{
    RUN(sources_have_no_circles);
    RUN(circles_are_found);
    RUN(insides_belong_to_their_headers);
    return test_end();
}
