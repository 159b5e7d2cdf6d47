/* FluxKontextImageScale: pictures of a size that FLUX.1 Kontext was trained with. */
#include <math.h>

#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to resize."), NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The pictures, about a million pixels each."), NULL};

/* Width and height, as Black Forest Labs published them. */
static const int64_t sizes[][2] = {{672, 1568}, {688, 1504}, {720, 1456}, {752, 1392},  {800, 1328},
                                   {832, 1248}, {880, 1184}, {944, 1104}, {1024, 1024}, {1104, 944},
                                   {1184, 880}, {1248, 832}, {1328, 800}, {1392, 752},  {1456, 720},
                                   {1504, 688}, {1568, 672}};

/* The one of the nearest ratio of width to height; the first of two as near. */
static const int64_t *nearest(const graft_image *i)
{
    int64_t shape[4];
    graft_image_data(i, shape);
    const double ratio = (double)shape[2] / (double)shape[1];
    const int64_t *best = sizes[0];
    for (size_t k = 1; k < sizeof sizes / sizeof *sizes; k++) {
        const double off = fabs(ratio - (double)sizes[k][0] / (double)sizes[k][1]);
        if (off < fabs(ratio - (double)best[0] / (double)best[1])) best = sizes[k];
    }
    return best;
}

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    const int64_t *size = nearest(graft_arg_image(c, IMAGE));
    graft_status st = graft_image_scale(graft_arg_image(c, IMAGE), "lanczos", size[0], size[1],
                                        true, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(flux_kontext_image_scale, .id = "FluxKontextImageScale",
           .title = "FluxKontextImageScale", .category = "advanced/conditioning/flux",
           .description = "Resizes pictures to the nearest size that FLUX.1 Kontext was trained "
                          "with and cuts off what is beyond its proportions.");
