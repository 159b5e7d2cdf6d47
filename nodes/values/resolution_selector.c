/* ResolutionSelector: a width and a height of a given aspect and area. */
#include "nodes/node.h"

enum { ASPECT_RATIO, MEGAPIXELS, MULTIPLE };
static const graft_input *const inputs[] = {
    [ASPECT_RATIO] =
        IN_CHOICE("aspect_ratio",
                  CHOICES("1:1 (Square)", "2:3 (Portrait Photo)", "3:2 (Photo)",
                          "3:4 (Portrait Standard)", "4:3 (Standard)", "9:16 (Portrait Widescreen)",
                          "16:9 (Widescreen)", "21:9 (Ultrawide)"),
                  "Width to height. The sides are rounded, so the picture has it nearly."),
    [MEGAPIXELS] = IN_FLOAT("megapixels", 1.0, 0.1, 16.0, 0.1,
                            "The area: 1 has as many pixels as 1024 x 1024, 0.25 as many as "
                            "512 x 512."),
    [MULTIPLE] = IN_INT("multiple", 8, 8, 128, 4,
                        "Both sides become the nearest multiples of this: 8 suits most models, 16 "
                        "or 32 some of them.",
                        .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {OUT("width", "INT", "Width in pixels."),
                                              OUT("height", "INT", "Height in pixels."), NULL};

/* Of "16:9 (Widescreen)". */
static void read_ratio(const char *text, int64_t *across, int64_t *down)
{
    int64_t *side = across;
    *across = *down = 0;
    for (; *text && *text != ' '; text++) {
        if (*text == ':')
            side = down;
        else
            *side = *side * 10 + (*text - '0');
    }
}

static graft_status run(graft_call *c)
{
    int64_t across, down, width = 0, height = 0;
    read_ratio(graft_arg_text(c, ASPECT_RATIO), &across, &down);
    graft_status st = graft_image_resolution(across, down, graft_arg_f64(c, MEGAPIXELS),
                                             graft_arg_i64(c, MULTIPLE), &width, &height, &c->err);
    if (st == GRAFT_OK) st = graft_call_out_i64(c, 0, width);
    return st != GRAFT_OK ? st : graft_call_out_i64(c, 1, height);
}

GRAFT_NODE(resolution_selector, .id = "ResolutionSelector", .title = "Resolution Selector",
           .category = "utils",
           .description = "Gives the width and height of a picture from its proportions and its "
                          "area, for an empty latent.");
