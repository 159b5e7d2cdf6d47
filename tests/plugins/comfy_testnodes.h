/* Nodes by the names that ComfyUI's execution tests look for, so that those tests, in a user's own
 * checkout, and ours can be pointed at `graft serve`. A file for each theme; comfy_testnodes.c has
 * the plugin, comfy_testnodes_values.c what nodes share. Never installed. */
#ifndef GRAFT_TESTS_PLUGINS_COMFY_TESTNODES_H
#define GRAFT_TESTS_PLUGINS_COMFY_TESTNODES_H
#include <stdatomic.h>
#include <stddef.h>

#include "plugin/graft_plugin.h"

/* Looked up once by init(), which is counted by the host. */
extern const graft_job_api *job_api;
extern const graft_dynamic_api *dynamic_api;
extern const graft_ui_api *ui_api;
extern const graft_expand_api *expand_api;
extern const graft_prompt_api *prompt_api;

/* Each theme's nodes: NULL past the end. */
typedef const graft_node *node_list(uint32_t i);
node_list constant_nodes, condition_nodes, list_nodes, check_nodes, expand_nodes, async_nodes;

/* IMAGE (N,H,W,3) or MASK (N,H,W). */
typedef struct picture {
    graft_value value;
    atomic_int refs;
    graft_tensor tensor;
    float data[];
} picture;
extern const graft_value_ops image_ops, mask_ops;
/* Sizes are at most 4096 each and the batch 1024, so the product fits. NULL: no memory. */
picture *picture_create(const graft_value_ops *ops, int32_t ndim, const int64_t *shape);
const graft_tensor *tensor_of(const graft_arg *a); /* NULL: no tensor */
size_t count_of(const graft_tensor *t);
float at(const graft_tensor *t, size_t i);
int same_shape(const graft_tensor *a, const graft_tensor *b);

/* LIST or ACCUMULATION of anything. Strings are copies, objects have a reference. */
typedef struct list {
    graft_value value;
    atomic_int refs;
    uint64_t n;
    graft_arg item[];
} list;
extern const graft_value_ops list_ops, accumulation_ops;
/* Room for `room` items; NULL: no memory. */
list *list_create(const graft_value_ops *ops, uint64_t room);
int list_push(list *l, const graft_arg *item); /* 0: no memory */
void list_release(graft_value *v);
/* The items of an ACCUMULATION; NULL for anything else. */
const list *accumulation_of(const graft_arg *a);

/* Constants that carry nothing. */
extern const graft_value loud_block, silent_block, flow_control;

/* ---- what nodes share */
graft_status create(const graft_host *h, void **self);
void destroy(void *self);
graft_status fail(graft_job *j, const char *text);
graft_status no_memory(graft_job *j);
void give(graft_arg *out, graft_value *v);
void give_constant(graft_arg *out, const graft_value *v);
/* The same value once more; a string lasts, because it is the input's. */
void pass(graft_arg *out, const graft_arg *in);
graft_status run_same(void *self, graft_job *j, const graft_arg *in, graft_arg *out);
/* A picture of one value, in an output. */
graft_status give_image(graft_job *j, graft_arg *out, float value, int64_t batch, int64_t height,
                        int64_t width);
/* Sleeps, and fails when cancelled. Progress, from 0 to `max`, each time that another whole number
 * of it is reached; 0: none is shown. */
graft_status nap(graft_job *j, double seconds, uint64_t max);

/* ---- records */
#define IN(var, nm, ty, ...)                                                                       \
    static const graft_input var = {                                                               \
        .size = sizeof(graft_input), .name = nm, .type = ty, .tooltip = "For tests.", __VA_ARGS__}
#define OUT(var, ty, fl)                                                                           \
    static const graft_output var = {                                                              \
        .size = sizeof(graft_output), .flags = fl, .name = ty, .type = ty}
#define INS(...)  ((const graft_input *const[]){__VA_ARGS__, NULL})
#define OUTS(...) ((const graft_output *const[]){__VA_ARGS__, NULL})
#define NODE(nm, fl, ins, outs, fn, q)                                                             \
    {                                                                                              \
        sizeof(graft_node), fl, nm, nm, "Testing/Nodes", "A node for tests.", ins, outs, create,   \
            destroy, fn, q                                                                         \
    }
#define NODE_LIST(function, table)                                                                 \
    const graft_node *function(uint32_t i)                                                         \
    {                                                                                              \
        return i < sizeof table / sizeof *table ? &table[i] : NULL;                                \
    }
#endif
