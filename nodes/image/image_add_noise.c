/* ImageAddNoise: pictures with grain. */
#include "nodes/node.h"

enum { IMAGE, SEED, STRENGTH };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures that get noise."),
    [SEED] = IN_SEED("seed", "Number that the noise comes from; the same one gives the same."),
    [STRENGTH] = IN_FLOAT("strength", 0.5, 0.0, 1.0, 0.01,
                          "How strong the noise is: 0.05 is grain, 0.5 hides most of a picture."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The noisy pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_noise(graft_arg_image(c, IMAGE), graft_arg_u64(c, SEED),
                                        graft_arg_f64(c, STRENGTH), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_add_noise, .id = "ImageAddNoise", .title = "ImageAddNoise", .category = "image",
           .description = "Adds grain to pictures; what is sampled from them then gets more "
                          "detail.");
