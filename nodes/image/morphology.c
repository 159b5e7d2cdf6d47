/* Morphology: bright or dark parts of pictures grown, shrunk and picked out. */
#include "nodes/node.h"

enum { IMAGE, OPERATION, KERNEL_SIZE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to change."),
    [OPERATION] =
        IN_CHOICE("operation",
                  CHOICES("erode", "dilate", "open", "close", "gradient", "bottom_hat", "top_hat"),
                  "erode, dilate: dark or bright parts grow. open, close: small bright "
                  "or dark parts vanish. gradient: edges. bottom_hat, top_hat: what "
                  "close or open took away."),
    [KERNEL_SIZE] = IN_INT("kernel_size", 3, 3, 999, 1,
                           "The sides of the square that is looked at around a pixel, in pixels."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The changed pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_morphology(graft_arg_image(c, IMAGE), graft_arg_text(c, OPERATION),
                               graft_arg_i64(c, KERNEL_SIZE), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(
    morphology, .id = "Morphology", .title = "ImageMorphology", .category = "image/postprocessing",
    .description = "Erodes or dilates pictures, each channel by itself, or combines the two.");
