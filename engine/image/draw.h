/* Drawing into an RGB picture: boxes and text, for reports. What lies outside is cut off. One
 * thread at a time per canvas. */
#ifndef GRAFT_IMAGE_DRAW_H
#define GRAFT_IMAGE_DRAW_H
#include <stdint.h>

typedef struct graft_canvas {
    float *rgb; /* (height,width,3), 0..1; borrowed */
    int64_t width, height;
} graft_canvas;

#define GRAFT_DRAW_GLYPH 7 /* height of a capital at scale 1; letters may reach 2 below */

/* Colours are 0xRRGGBB, places in pixels from the top left corner. */
void graft_draw_box(graft_canvas *c, int64_t x, int64_t y, int64_t width, int64_t height,
                    uint32_t colour);
/* ASCII text of glyphs 5 wide and 7 high times `scale`; other bytes become '?', once for each UTF-8
 * character. Returns the x behind the text. */
int64_t graft_draw_text(graft_canvas *c, int64_t x, int64_t y, int scale, uint32_t colour,
                        const char *text);
/* Pixels that graft_draw_text would use. */
int64_t graft_draw_text_width(int scale, const char *text);
#endif
