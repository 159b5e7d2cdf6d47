/* RebatchImages: pictures in batches of another size. */
#include "base/alloc.h"
#include "nodes/call/list.h"
#include "nodes/node.h"

enum { IMAGES, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures, a batch or a list of batches.",
                         .flags = GRAFT_INPUT_LIST),
    [BATCH_SIZE] = IN_INT("batch_size", 1, 1, 4096, 0,
                          "How many pictures go into a batch; the last one has what is left."),
    NULL};
static const graft_output *const outputs[] = {
    OUT_LIST("IMAGE", "IMAGE", "The new batches: what follows runs once for each."), NULL};

static graft_status run(graft_call *c)
{
    const graft_value *from = graft_arg_list(c, IMAGES);
    size_t n = graft_list_count(from), made = 0;
    graft_value *list = NULL;
    graft_image **batches = NULL;
    graft_status st = GRAFT_OK;
    const graft_image **images = graft_malloc_array(n, sizeof *images);
    if (!images) return graft_fail_nomem(&c->err, "a list of pictures");
    for (size_t i = 0; i < n; i++) images[i] = graft_list_object(from, i, GRAFT_VALUE_IMAGE);
    GRAFT_TRY(
        graft_image_rebatch(images, n, graft_arg_i64(c, BATCH_SIZE), &batches, &made, &c->err));
    GRAFT_TRY(graft_list_create(made, &list, &c->err));
    for (size_t i = 0; i < made; i++) {
        st = graft_list_push(list, GRAFT_VALUE_IMAGE, batches[i], &c->err);
        batches[i] = NULL;
        if (st) goto out;
    }
    st = graft_call_out_list(c, 0, list);
    list = NULL;
out:
    if (list) list->ops->release(list);
    for (size_t i = 0; i < made; i++) graft_image_release(batches[i]);
    graft_free(batches);
    graft_free(images);
    return st;
}

GRAFT_NODE(rebatch_images, .id = "RebatchImages", .title = "Rebatch Images",
           .category = "image/batch",
           .description = "Divides pictures into batches of a given size, or joins single ones. "
                          "Pictures of another size begin a new batch.");
