#include "host/prompt/choices.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/tree.h"
#include "host/prompt/widgets.h"
#include "host/schema/schema.h"

enum { MAX_DEPTH = 64 }; /* of choices in choices; deeper ones stay as they are written */

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A block comment that nothing ends is none. */
static void put_uncommented(graft_str *out, const char *p)
{
    while (*p) {
        const char *end = p[0] == '/' && p[1] == '*' ? strstr(p + 2, "*/") : NULL;
        if (end)
            p = end + 2;
        else if (p[0] == '/' && p[1] == '/')
            p += strcspn(p, "\r\n");
        else
            graft_str_append(out, p++, 1);
    }
}

/* The end of what begins at p: a bar or the closing bracket of this level, or `end`. */
static const char *part_end(const char *p, const char *end)
{
    for (int depth = 0; p < end; p++) {
        if (*p == '\\' && p + 1 < end)
            p++;
        else if (*p == '{')
            depth++;
        else if (!depth && (*p == '|' || *p == '}'))
            return p;
        else if (*p == '}')
            depth--;
    }
    return p;
}

static void put_text(graft_str *out, const char *p, const char *end, uint64_t *state, int depth);

/* p stands behind an opening bracket; returns what stands behind the closing one. One that is
 * missing is at the end. */
static const char *put_choice(graft_str *out, const char *p, const char *end, uint64_t *state,
                              int depth)
{
    size_t n = 1;
    const char *close = part_end(p, end);
    for (; close < end && *close == '|'; n++) close = part_end(close + 1, end);
    for (uint64_t skip = draw(state) % n; skip; skip--) p = part_end(p, end) + 1;
    put_text(out, p, part_end(p, end), state, depth + 1);
    return close < end ? close + 1 : end;
}

static void put_text(graft_str *out, const char *p, const char *end, uint64_t *state, int depth)
{
    while (p < end) {
        if (*p == '{' && depth < MAX_DEPTH) {
            p = put_choice(out, p + 1, end, state, depth);
            continue;
        }
        size_t n = *p == '\\' && p + 1 < end ? 2 : 1;
        bool plain = n == 2 && strchr("{}|", p[1]);
        graft_str_append(out, p + plain, n - plain);
        p += n;
    }
}

void graft_choices_text(graft_str *out, const char *text, uint64_t *state)
{
    graft_str plain = GRAFT_STR_INIT;
    put_uncommented(&plain, text);
    if (plain.failed) out->failed = true;
    if (plain.data && !plain.failed) put_text(out, plain.data, plain.data + plain.len, state, 0);
    graft_str_finish(&plain);
}

/* All that moves on after a run in an editor. */
static graft_hash seeds_of(const cJSON *prompt, const graft_registry *r)
{
    graft_hash hash = {0, 0};
    const cJSON *node;
    cJSON_ArrayForEach(node, prompt)
    {
        const graft_registry_node *entry =
            graft_registry_find(r, graft_json_str(node, "class_type", ""));
        for (size_t i = 0; entry && i < graft_schema_inputs(entry->node); i++) {
            const graft_input *in = entry->node->inputs[i];
            const cJSON *value = graft_tree_get(graft_tree_get(node, "inputs"), in->name);
            uint64_t seed = 0;
            if (value && graft_widgets_has_control(in) && graft_json_u64(value, &seed))
                hash = graft_hash_mix(hash, &seed, sizeof seed);
        }
    }
    return hash;
}

static graft_status choose(const cJSON *node, const graft_input *in, graft_hash seeds, graft_err *e)
{
    cJSON *inputs = graft_tree_get(node, "inputs");
    const cJSON *value = graft_tree_get(inputs, in->name);
    if (!(in->flags & GRAFT_INPUT_DYNAMIC_PROMPTS) || !cJSON_IsString(value)) return GRAFT_OK;
    if (!strpbrk(value->valuestring, "{}\\/")) return GRAFT_OK;
    seeds = graft_hash_mix(seeds, node->string, strlen(node->string));
    seeds = graft_hash_mix(seeds, in->name, strlen(in->name));
    graft_str out = GRAFT_STR_INIT;
    graft_choices_text(&out, value->valuestring, &seeds.lo);
    bool ok = !out.failed &&
              graft_tree_set(inputs, in->name, cJSON_CreateString(out.data ? out.data : ""));
    graft_str_finish(&out);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "a prompt");
}

graft_status graft_choices_make(cJSON *prompt, const graft_registry *r, graft_err *e)
{
    const graft_hash seeds = seeds_of(prompt, r);
    const cJSON *node;
    graft_status st = GRAFT_OK;
    cJSON_ArrayForEach(node, prompt)
    {
        const graft_registry_node *entry =
            graft_registry_find(r, graft_json_str(node, "class_type", ""));
        for (size_t i = 0; entry && i < graft_schema_inputs(entry->node) && !st; i++)
            st = choose(node, entry->node->inputs[i], seeds, e);
        if (st) break;
    }
    return st;
}
