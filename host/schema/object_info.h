/* Node schemas as ComfyUI's /object_info gives them (V1 form: a COMBO is its list of choices). */
#ifndef GRAFT_HOST_SCHEMA_OBJECT_INFO_H
#define GRAFT_HOST_SCHEMA_OBJECT_INFO_H
#include "base/hash.h"
#include "base/json.h"
#include "host/schema/schema.h"
#include "plugin/loader.h"

/* [type or choices, options] of one input; *out is freed with cJSON_Delete(). `choices`: those of a
 * COMBO. */
graft_status graft_object_info_input(const graft_input *in, const graft_choices *choices,
                                     cJSON **out, graft_err *e);
graft_status graft_object_info_node(const graft_host *host, const graft_registry_node *node,
                                    cJSON **out, graft_err *e);
/* An object: class name -> schema, in order of loading. */
graft_status graft_object_info_all(const graft_host *host, const graft_registry *r, cJSON **out,
                                   graft_err *e);
/* Of the choices that depend on the machine, such as files: all else is constant. */
graft_status graft_object_info_hash(const graft_host *host, const graft_registry *r,
                                    graft_hash *out, graft_err *e);
#endif
