#include "engine/sampling/preview.h"

const graft_preview_colours graft_preview_sd = {{{0.3512f, 0.2297f, 0.3227f},
                                                 {0.3250f, 0.4974f, 0.2350f},
                                                 {-0.2829f, 0.1762f, 0.2721f},
                                                 {-0.2120f, -0.2616f, -0.7177f},
                                                 {0.0f, 0.0f, 0.0f}}};
/* https://huggingface.co/blog/TimothyAlexisVass/explaining-the-sdxl-latent-space gives them for
 * colours from 0 to 255. */
#define OF_255(r, g, b)                                                                            \
    {                                                                                              \
        r / 127.5f, g / 127.5f, b / 127.5f                                                         \
    }
const graft_preview_colours graft_preview_sdxl = {
    {OF_255(60, 60, 60),
     OF_255(-60, -5, 10),
     OF_255(25, 15, -5),
     OF_255(-70, -50, -35),
     {150 / 127.5f - 1, 140 / 127.5f - 1, 130 / 127.5f - 1}}};

void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t area,
                        uint8_t *rgb)
{
    for (int64_t i = 0; i < area; i++)
        for (int k = 0; k < 3; k++) {
            float v = c->row[GRAFT_PREVIEW_CHANNELS][k];
            for (int j = 0; j < GRAFT_PREVIEW_CHANNELS; j++)
                v += latent[j * area + i] * c->row[j][k];
            v = (v + 1.0f) * 127.5f;
            /* Written so that no number at all is black. */
            rgb[i * 3 + k] = (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0);
        }
}
