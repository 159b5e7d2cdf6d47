#include "host/schema/object_info.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "host/schema/schema.h"
#include "plugin/loader.h"
#include "base/tree.h"

static bool flag(cJSON *options, const graft_input *in, uint32_t bit, const char *name)
{
    return !(in->flags & bit) || graft_tree_put(options, name, cJSON_CreateTrue());
}

/* An end of an INT range. The ends of a U64 range reach 2^64, which means the largest seed. */
static cJSON *int_end(const graft_input *in, double v)
{
    if (in->flags & GRAFT_INPUT_U64)
        return graft_json_new_u64(v >= 0x1p64 ? UINT64_MAX : v <= 0 ? 0 : (uint64_t)v);
    if (v >= 0x1p63) return graft_json_new_i64(INT64_MAX);
    if (v <= -0x1p63) return graft_json_new_i64(INT64_MIN);
    return graft_json_new_i64((int64_t)v);
}

static bool int_options(cJSON *options, const graft_input *in)
{
    bool u64 = in->flags & GRAFT_INPUT_U64;
    bool ok = graft_tree_put(options, "default",
                             u64 ? graft_json_new_u64((uint64_t)in->initial.i)
                                 : graft_json_new_i64(in->initial.i));
    if (in->min < in->max)
        ok = ok && graft_tree_put(options, "min", int_end(in, in->min)) &&
             graft_tree_put(options, "max", int_end(in, in->max));
    if (in->step > 0) ok = ok && graft_tree_put(options, "step", cJSON_CreateNumber(in->step));
    return ok;
}

static bool float_options(cJSON *options, const graft_input *in)
{
    bool ok = graft_tree_put(options, "default", cJSON_CreateNumber(in->initial.f));
    if (in->min < in->max)
        ok = ok && graft_tree_put(options, "min", cJSON_CreateNumber(in->min)) &&
             graft_tree_put(options, "max", cJSON_CreateNumber(in->max));
    if (in->step > 0) ok = ok && graft_tree_put(options, "step", cJSON_CreateNumber(in->step));
    if (in->flags & GRAFT_INPUT_EXACT)
        ok = ok && graft_tree_put(options, "round", cJSON_CreateFalse());
    else if (in->round > 0)
        ok = ok && graft_tree_put(options, "round", cJSON_CreateNumber(in->round));
    return ok;
}

static bool value_options(cJSON *options, const graft_input *in)
{
    if (strcmp(in->type, "INT") == 0) return int_options(options, in);
    if (strcmp(in->type, "FLOAT") == 0) return float_options(options, in);
    if (strcmp(in->type, "BOOLEAN") == 0)
        return graft_tree_put(options, "default", cJSON_CreateBool(in->initial.i != 0));
    if (strcmp(in->type, "STRING") == 0)
        return graft_tree_text(options, "default", in->initial.s ? in->initial.s : "");
    if (graft_schema_combo(in) && in->initial.s)
        return graft_tree_text(options, "default", in->initial.s);
    return true;
}

/* Where ComfyUI's editor finds the pictures, newest first, and shows them from. */
static bool put_output_folder(cJSON *options)
{
    cJSON *remote = cJSON_CreateObject();
    bool ok = remote && graft_tree_text(remote, "route", "/internal/files/output") &&
              graft_tree_put(remote, "refresh_button", cJSON_CreateTrue()) &&
              graft_tree_text(remote, "control_after_refresh", "first");
    if (!ok) {
        cJSON_Delete(remote);
        return false;
    }
    return graft_tree_text(options, "image_folder", "output") &&
           graft_tree_put(options, "remote", remote);
}

/* {"NAME": [choices]}: it counts while that one is one of these. */
static bool put_when(cJSON *options, const char *when)
{
    const char *list = strchr(when, '=');
    graft_str text = GRAFT_STR_INIT;
    graft_str_append(&text, when, (size_t)(list - when));
    cJSON *all = cJSON_AddObjectToObject(options, "when");
    cJSON *choices = all && !text.failed ? cJSON_AddArrayToObject(all, text.data) : NULL;
    bool ok = choices;
    while (ok && *list) {
        size_t n = strcspn(++list, "|");
        graft_str_finish(&text);
        graft_str_append(&text, list, n);
        ok = !text.failed && graft_tree_push(choices, cJSON_CreateString(text.data));
        list += n;
    }
    graft_str_finish(&text);
    return ok;
}

static cJSON *options_of(const graft_input *in)
{
    const char *when = GRAFT_FIELD(graft_input, in, when);
    cJSON *options = cJSON_CreateObject();
    bool ok = options;
    if (ok && in->tooltip && *in->tooltip) ok = graft_tree_text(options, "tooltip", in->tooltip);
    ok = ok && value_options(options, in) && flag(options, in, GRAFT_INPUT_LAZY, "lazy") &&
         flag(options, in, GRAFT_INPUT_MULTILINE, "multiline") &&
         flag(options, in, GRAFT_INPUT_DYNAMIC_PROMPTS, "dynamicPrompts") &&
         flag(options, in, GRAFT_INPUT_SEED, "control_after_generate") &&
         flag(options, in, GRAFT_INPUT_IMAGE_UPLOAD, "image_upload") &&
         flag(options, in, GRAFT_INPUT_ADVANCED, "advanced") &&
         flag(options, in, GRAFT_INPUT_RAW_LINK, "rawLink") &&
         flag(options, in, GRAFT_INPUT_SERIES, "series");
    if (ok && when) ok = put_when(options, when);
    if (ok && (in->flags & GRAFT_INPUT_IMAGE_OUTPUT)) ok = put_output_folder(options);
    if (ok && (in->flags & GRAFT_INPUT_SOCKET) && graft_schema_literal(in))
        ok = graft_tree_put(options, "forceInput", cJSON_CreateTrue());
    if (ok && (in->flags & (GRAFT_INPUT_SLIDER | GRAFT_INPUT_COLOR)))
        ok =
            graft_tree_text(options, "display", in->flags & GRAFT_INPUT_COLOR ? "color" : "slider");
    if (ok) return options;
    cJSON_Delete(options);
    return NULL;
}

graft_status graft_object_info_input(const graft_input *in, const graft_choices *choices,
                                     cJSON **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    cJSON *type = NULL;
    cJSON *pair = cJSON_CreateArray();
    *out = NULL;
    if (graft_schema_combo(in)) {
        type = cJSON_CreateArray();
        for (size_t i = 0; type && i < choices->count; i++)
            if (!graft_tree_push(type, cJSON_CreateString(choices->name[i]))) {
                st = graft_fail_nomem(e, "a node's schema");
                goto out;
            }
    } else {
        type = cJSON_CreateString(in->type);
    }
    bool ok = graft_tree_push(pair, type);
    type = NULL;
    if (!ok || !graft_tree_push(pair, options_of(in))) {
        st = graft_fail_nomem(e, "a node's schema");
        goto out;
    }
    *out = pair;
    pair = NULL;
out:
    cJSON_Delete(type);
    cJSON_Delete(pair);
    return st;
}

static graft_status describe(const graft_host *host, const graft_node *node, const graft_input *in,
                             cJSON **out, graft_err *e)
{
    graft_choices choices = {0};
    graft_status st = GRAFT_OK;
    if (graft_schema_combo(in)) st = graft_choices_init(&choices, host, node, in, e);
    if (!st) st = graft_object_info_input(in, &choices, out, e);
    graft_choices_finish(&choices);
    return st;
}

/* Adds the required or the optional inputs to `inputs` and their names to `order`. */
static graft_status add_section(const graft_host *host, const graft_node *node, bool optional,
                                cJSON *inputs, cJSON *order, graft_err *e)
{
    const char *name = optional ? "optional" : "required";
    cJSON *section = NULL, *names = NULL;
    for (size_t i = 0; i < graft_schema_inputs(node); i++) {
        const graft_input *in = node->inputs[i];
        if (!(in->flags & GRAFT_INPUT_OPTIONAL) == optional) continue;
        if (in->flags & GRAFT_INPUT_MANY) continue; /* no single one that could be shown */
        if (!section && (!graft_tree_put(inputs, name, cJSON_CreateObject()) ||
                         !graft_tree_put(order, name, cJSON_CreateArray())))
            return graft_fail_nomem(e, "a node's schema");
        section = graft_tree_get(inputs, name);
        names = graft_tree_get(order, name);
        cJSON *config;
        graft_status st = describe(host, node, in, &config, e);
        if (st) return st;
        if (!graft_tree_put(section, in->name, config) ||
            !graft_tree_push(names, cJSON_CreateString(in->name)))
            return graft_fail_nomem(e, "a node's schema");
    }
    /* Clients read input.required without asking whether it is there. */
    if (!section && !optional &&
        (!graft_tree_put(inputs, name, cJSON_CreateObject()) ||
         !graft_tree_put(order, name, cJSON_CreateArray())))
        return graft_fail_nomem(e, "a node's schema");
    return GRAFT_OK;
}

static bool add_outputs(const graft_node *node, cJSON *info)
{
    cJSON *type = cJSON_AddArrayToObject(info, "output");
    cJSON *list = cJSON_AddArrayToObject(info, "output_is_list");
    cJSON *name = cJSON_AddArrayToObject(info, "output_name");
    cJSON *tip = cJSON_AddArrayToObject(info, "output_tooltips");
    if (!type || !list || !name || !tip) return false;
    for (size_t i = 0; i < graft_schema_outputs(node); i++) {
        const graft_output *o = node->outputs[i];
        if (!graft_tree_push(type, cJSON_CreateString(o->type)) ||
            !graft_tree_push(list, cJSON_CreateBool(o->flags & GRAFT_OUTPUT_LIST)) ||
            !graft_tree_push(name, cJSON_CreateString(o->name && *o->name ? o->name : o->type)) ||
            !graft_tree_push(tip, cJSON_CreateString(o->tooltip ? o->tooltip : "")))
            return false;
    }
    return true;
}

static bool add_texts(const graft_registry_node *r, cJSON *info)
{
    const graft_node *n = r->node;
    graft_str module = GRAFT_STR_INIT;
    graft_str_printf(&module, "custom_nodes.%s", r->plugin->id);
    bool ok = !module.failed && graft_tree_text(info, "name", n->id) &&
              graft_tree_text(info, "display_name", n->title && *n->title ? n->title : n->id) &&
              graft_tree_text(info, "description", n->description ? n->description : "") &&
              graft_tree_text(info, "python_module", module.data) &&
              graft_tree_text(info, "category", n->category ? n->category : "") &&
              graft_tree_put(info, "output_node", cJSON_CreateBool(n->flags & GRAFT_NODE_OUTPUT));
    graft_str_finish(&module);
    if (n->flags & GRAFT_NODE_DEPRECATED)
        ok = ok && graft_tree_put(info, "deprecated", cJSON_CreateTrue());
    if (n->flags & GRAFT_NODE_EXPERIMENTAL)
        ok = ok && graft_tree_put(info, "experimental", cJSON_CreateTrue());
    return ok;
}

graft_status graft_object_info_node(const graft_host *host, const graft_registry_node *r,
                                    cJSON **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    cJSON *info = cJSON_CreateObject();
    cJSON *inputs = cJSON_AddObjectToObject(info, "input");
    cJSON *order = cJSON_AddObjectToObject(info, "input_order");
    *out = NULL;
    if (!info || !inputs || !order) {
        st = graft_fail_nomem(e, "a node's schema");
        goto out;
    }
    GRAFT_TRY(add_section(host, r->node, false, inputs, order, e));
    GRAFT_TRY(add_section(host, r->node, true, inputs, order, e));
    if (!add_outputs(r->node, info) || !add_texts(r, info)) {
        st = graft_fail_nomem(e, "a node's schema");
        goto out;
    }
    *out = info;
    info = NULL;
out:
    cJSON_Delete(info);
    return st;
}

static graft_status mix_choices(const graft_host *host, const graft_node *node, graft_hash *h,
                                graft_err *e)
{
    for (size_t i = 0; i < graft_schema_inputs(node); i++) {
        const graft_input *in = node->inputs[i];
        graft_choices c;
        if (!graft_schema_combo(in) || in->choices) continue;
        graft_status st = graft_choices_init(&c, host, node, in, e);
        if (st) return st;
        *h = graft_hash_mix(*h, &c.count, sizeof c.count);
        for (size_t k = 0; k < c.count; k++) *h = graft_hash_mix(*h, c.name[k], strlen(c.name[k]));
        graft_choices_finish(&c);
    }
    return GRAFT_OK;
}

graft_status graft_object_info_hash(const graft_host *host, const graft_registry *r,
                                    graft_hash *out, graft_err *e)
{
    const graft_registry_node *node;
    graft_hash h = {0, 0};
    for (size_t i = 0; (node = graft_registry_at(r, i)); i++) {
        graft_status st = mix_choices(host, node->node, &h, e);
        if (st) return st;
    }
    *out = h;
    return GRAFT_OK;
}

graft_status graft_object_info_all(const graft_host *host, const graft_registry *r, cJSON **out,
                                   graft_err *e)
{
    graft_status st = GRAFT_OK;
    cJSON *all = cJSON_CreateObject();
    *out = NULL;
    const graft_registry_node *node;
    for (size_t i = 0; (node = graft_registry_at(r, i)); i++) {
        cJSON *info;
        GRAFT_TRY(graft_object_info_node(host, node, &info, e));
        if (!graft_tree_put(all, node->node->id, info)) {
            st = graft_fail_nomem(e, "the node schemas");
            goto out;
        }
    }
    *out = all;
    all = NULL;
    if (!*out) st = graft_fail_nomem(e, "the node schemas");
out:
    cJSON_Delete(all);
    return st;
}
