#include "engine/sampling/preview.h"

const graft_preview_colours graft_preview_sd = {4,
                                                {{0.3512f, 0.2297f, 0.3227f},
                                                 {0.3250f, 0.4974f, 0.2350f},
                                                 {-0.2829f, 0.1762f, 0.2721f},
                                                 {-0.2120f, -0.2616f, -0.7177f}}};
/* https://huggingface.co/blog/TimothyAlexisVass/explaining-the-sdxl-latent-space gives them for
 * colours from 0 to 255. */
#define OF_255(r, g, b)                                                                            \
    {                                                                                              \
        r / 127.5f, g / 127.5f, b / 127.5f                                                         \
    }
const graft_preview_colours graft_preview_sdxl = {
    4,
    {OF_255(60, 60, 60),
     OF_255(-60, -5, 10),
     OF_255(25, 15, -5),
     OF_255(-70, -50, -35),
     {150 / 127.5f - 1, 140 / 127.5f - 1, 130 / 127.5f - 1}}};

/* The numbers that InvokeAI (Apache License 2.0) has for FLUX.1's VAE. */
const graft_preview_colours graft_preview_flux = {16,
                                                  {{-0.0412f, 0.0149f, 0.0521f},
                                                   {0.0056f, 0.0291f, 0.0768f},
                                                   {0.0342f, -0.0681f, -0.0427f},
                                                   {-0.0258f, 0.0092f, 0.0463f},
                                                   {0.0863f, 0.0784f, 0.0547f},
                                                   {-0.0017f, 0.0402f, 0.0158f},
                                                   {0.0501f, 0.1058f, 0.1152f},
                                                   {-0.0209f, -0.0218f, -0.0329f},
                                                   {-0.0314f, 0.0083f, 0.0896f},
                                                   {0.0851f, 0.0665f, -0.0472f},
                                                   {-0.0534f, 0.0238f, -0.0024f},
                                                   {0.0452f, -0.0026f, 0.0048f},
                                                   {0.0892f, 0.0831f, 0.0881f},
                                                   {-0.1117f, -0.0304f, -0.0789f},
                                                   {0.0027f, -0.0479f, -0.0043f},
                                                   {-0.1146f, -0.0827f, -0.0598f}}};

/* Likewise for SD 3.5's VAE, which is SD 3's. */
const graft_preview_colours graft_preview_sd3 = {16,
                                                 {{-0.0524f, 0.0325f, 0.0749f},
                                                  {-0.0581f, 0.0076f, 0.0573f},
                                                  {0.1614f, 0.0127f, -0.0377f},
                                                  {0.1442f, 0.0846f, 0.1594f},
                                                  {0.0489f, 0.0056f, -0.0669f},
                                                  {0.0519f, 0.1922f, 0.0626f},
                                                  {0.1539f, 0.0482f, 0.0710f},
                                                  {-0.0860f, 0.0901f, 0.1089f},
                                                  {-0.1240f, -0.0677f, 0.0034f},
                                                  {-0.0440f, 0.0783f, 0.0226f},
                                                  {0.0310f, 0.0638f, 0.0775f},
                                                  {-0.0132f, 0.0855f, -0.0877f},
                                                  {0.0646f, 0.0591f, 0.1326f},
                                                  {-0.0786f, -0.0226f, -0.1276f},
                                                  {-0.0992f, -0.0801f, -0.0626f},
                                                  {-0.0339f, -0.0804f, -0.0608f}}};

void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t area,
                        uint8_t *rgb)
{
    for (int64_t i = 0; i < area; i++)
        for (int k = 0; k < 3; k++) {
            float v = c->row[c->channels][k];
            for (int32_t j = 0; j < c->channels; j++) v += latent[j * area + i] * c->row[j][k];
            v = (v + 1.0f) * 127.5f;
            /* Written so that no number at all is black. */
            rgb[i * 3 + k] = (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0);
        }
}
