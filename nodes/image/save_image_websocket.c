/* SaveImageWebsocket: pictures for the client that asked for them, without files. */
#include "nodes/node.h"

enum { IMAGES };
enum { ZLIB_LEVEL = 1 };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to send."), NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status send_one(graft_call *c, int64_t index, bool *lost)
{
    const graft_picture_api *api = c->self->picture;
    uint8_t *png = NULL;
    size_t size = 0;
    graft_status st = graft_image_to_png(graft_arg_image(c, IMAGES), index, ZLIB_LEVEL, NULL, &png,
                                         &size, &c->err);
    if (st == GRAFT_OK && !(api && api->send(c->job, png, size))) *lost = true;
    graft_bytes_free(png);
    return st;
}

static graft_status run(graft_call *c)
{
    int64_t shape[4];
    bool lost = false;
    graft_status st;
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    graft_image_data(graft_arg_image(c, IMAGES), shape);
    for (int64_t i = 0; i < shape[0]; i++) {
        if (c->task.cancelled(c->task.ctx)) {
            st = graft_fail(&c->err, GRAFT_E_CANCEL, "cancelled");
            goto out;
        }
        GRAFT_TRY(send_one(c, i, &lost));
        c->task.progress(c->task.ctx, (uint64_t)i + 1, (uint64_t)shape[0]);
    }
    st = GRAFT_OK;
out:
    if (lost)
        c->self->job->log(c->job, GRAFT_LOG_WARN,
                          "SaveImageWebsocket: nobody receives the pictures; only a prompt with a "
                          "client_id sends them, and SaveImage writes files");
    return st;
}

GRAFT_NODE(save_image_websocket, .id = "SaveImageWebsocket", .title = "SaveImageWebsocket",
           .category = "api/image", .flags = GRAFT_NODE_OUTPUT | GRAFT_NODE_NOT_IDEMPOTENT,
           .description = "Sends pictures as PNG over the WebSocket of the client that queued the "
                          "prompt, and writes no files.");
