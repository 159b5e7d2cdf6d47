#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "host/commands/commands.h"
#include "host/schema/describe.h"
#include "host/schema/object_info.h"
#include "host/session/session.h"
#include "base/tree.h"

static const char *category_of(const graft_node *n)
{
    return n->category ? n->category : "";
}

/* What most look for comes first: not what has a successor, nor what is being tried out, whose
 * categories begin with a line. */
static int rank_of(const graft_node *n)
{
    if (n->flags & GRAFT_NODE_DEPRECATED) return 2;
    return *category_of(n) == '_';
}

static int by_category(const void *a, const void *b)
{
    const graft_node *x = (*(const graft_registry_node *const *)a)->node;
    const graft_node *y = (*(const graft_registry_node *const *)b)->node;
    if (rank_of(x) != rank_of(y)) return rank_of(x) - rank_of(y);
    int order = strcmp(category_of(x), category_of(y));
    return order ? order : strcmp(x->id, y->id);
}

static void print_list(const graft_registry_node **list, size_t n)
{
    int wide = 0;
    for (size_t i = 0; i < n; i++)
        if ((int)strlen(list[i]->node->id) > wide) wide = (int)strlen(list[i]->node->id);
    const graft_node *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const graft_node *node = list[i]->node;
        const char *own = category_of(node);
        if (!last || strcmp(category_of(last), own) != 0 || rank_of(last) != rank_of(node))
            printf("%s%s%s\n", i ? "\n" : "", *own ? own : "(no category)",
                   node->flags & GRAFT_NODE_DEPRECATED ? " (deprecated)" : "");
        last = node;
        if (node->title && strcmp(node->title, node->id) != 0)
            printf("  %-*s  %s\n", wide, node->id, node->title);
        else
            printf("  %s\n", node->id);
    }
}

/* Whether `text`, which may be NULL, has this word in it, in capitals or not. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; text && *text; text++)
        if (strncasecmp(text, word, n) == 0) return true;
    return false;
}

static bool speaks_of(const graft_node *n, const char *word)
{
    return has_word(n->id, word) || has_word(n->title, word) || has_word(n->category, word) ||
           has_word(n->description, word);
}

/* All nodes, or those that speak of `word` if it is not NULL; says how many. */
static graft_status list_nodes(const graft_registry *r, const char *word, size_t *found,
                               graft_err *e)
{
    size_t n = 0;
    while (graft_registry_at(r, n)) n++;
    const graft_registry_node **list = graft_calloc(n, sizeof *list), *at;
    if (!list) return graft_fail_nomem(e, "the list of nodes");
    *found = 0;
    for (size_t i = 0; (at = graft_registry_at(r, i)); i++)
        if (!word || speaks_of(at->node, word)) list[(*found)++] = at;
    if (*found > 1) qsort(list, *found, sizeof *list, by_category);
    print_list(list, *found);
    graft_free(list);
    return GRAFT_OK;
}

static graft_status print_info(const graft_session *s, graft_err *e)
{
    cJSON *info = NULL;
    graft_status st = graft_object_info_all(&s->services.host, s->registry, &info, e);
    if (st) return st;
    char *text = graft_json_print(info);
    cJSON_Delete(info);
    if (!text) return graft_fail_nomem(e, "the node schemas");
    puts(text);
    graft_free(text);
    return GRAFT_OK;
}

/* One node, in words or as the object_info of it alone; where none has that name, those in whose
 * words it is. */
static graft_status print_one(const graft_session *s, const char *name, bool json, graft_err *e)
{
    const graft_registry_node *n = NULL;
    graft_str words = GRAFT_STR_INIT;
    cJSON *info = NULL, *schema = NULL;
    char *text = NULL;
    graft_status st = graft_describe_find(s->registry, name, &n, e);
    if (st == GRAFT_E_NOTFOUND && !json && *name) {
        size_t found = 0;
        graft_status listed = list_nodes(s->registry, name, &found, e);
        return found || listed ? listed : st;
    }
    if (!st && json) {
        info = cJSON_CreateObject();
        st = graft_object_info_node(&s->services.host, n, &schema, e);
        if (!st && graft_tree_put(info, n->node->id, schema)) text = graft_json_print(info);
        cJSON_Delete(info);
    } else if (!st) {
        st = graft_describe(&s->services.host, n->node, &words, e);
        text = graft_str_take(&words);
    }
    if (!st && !text) st = graft_fail_nomem(e, "a node's description");
    if (!st) printf(json ? "%s\n" : "%s", text);
    graft_free(text);
    return st;
}

int graft_command_nodes(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_session s;
    size_t all;
    graft_status st = graft_session_init(&s, o, &graft_session_log, &e);
    if (!st) {
        if (o->file)
            st = print_one(&s, o->file, o->json, &e);
        else
            st = o->json ? print_info(&s, &e) : list_nodes(s.registry, NULL, &all, &e);
        graft_session_finish(&s);
    }
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
