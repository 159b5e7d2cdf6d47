#include "engine/sampling/preview.h"

const graft_preview_colours graft_preview_sd = {4,
                                                0,
                                                0,
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
    0,
    0,
    {OF_255(60, 60, 60),
     OF_255(-60, -5, 10),
     OF_255(25, 15, -5),
     OF_255(-70, -50, -35),
     {150 / 127.5f - 1, 140 / 127.5f - 1, 130 / 127.5f - 1}}};

/* The numbers that InvokeAI (Apache License 2.0) has for FLUX.1's VAE. */
const graft_preview_colours graft_preview_flux = {16,
                                                  0,
                                                  0,
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
                                                 0,
                                                 0,
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

/* Likewise for FLUX.2's, of a cell. */
const graft_preview_colours graft_preview_flux2 = {
    32, 2, 0, {{0.0058f, 0.0113f, 0.0073f},    {0.0495f, 0.0443f, 0.0836f},
               {-0.0099f, 0.0096f, 0.0644f},   {0.2144f, 0.3009f, 0.3652f},
               {0.0166f, -0.0039f, -0.0054f},  {0.0157f, 0.0103f, -0.0160f},
               {-0.0398f, 0.0902f, -0.0235f},  {-0.0052f, 0.0095f, 0.0109f},
               {-0.3527f, -0.2712f, -0.1666f}, {-0.0301f, -0.0356f, -0.0180f},
               {-0.0107f, 0.0078f, 0.0013f},   {0.0746f, 0.0090f, -0.0941f},
               {0.0156f, 0.0169f, 0.0070f},    {-0.0034f, -0.0040f, -0.0114f},
               {0.0032f, 0.0181f, 0.0080f},    {-0.0939f, -0.0008f, 0.0186f},
               {0.0018f, 0.0043f, 0.0104f},    {0.0284f, 0.0056f, -0.0127f},
               {-0.0024f, -0.0022f, -0.0030f}, {0.1207f, -0.0026f, 0.0065f},
               {0.0128f, 0.0101f, 0.0142f},    {0.0137f, -0.0072f, -0.0007f},
               {0.0095f, 0.0092f, -0.0059f},   {0.0000f, -0.0077f, -0.0049f},
               {-0.0465f, -0.0204f, -0.0312f}, {0.0095f, 0.0012f, -0.0066f},
               {0.0290f, -0.0034f, 0.0025f},   {0.0220f, 0.0169f, -0.0048f},
               {-0.0332f, -0.0457f, -0.0468f}, {-0.0085f, 0.0389f, 0.0609f},
               {-0.0076f, 0.0003f, -0.0043f},  {-0.0111f, -0.0460f, -0.0614f},
               {-0.0329f, -0.0718f, -0.0851f}}};

/* Likewise for Wan 2.1's. */
const graft_preview_colours graft_preview_wan = {16,
                                                 0,
                                                 0,
                                                 {{-0.1299f, -0.1692f, 0.2932f},
                                                  {0.0671f, 0.0406f, 0.0442f},
                                                  {0.3568f, 0.2548f, 0.1747f},
                                                  {0.0372f, 0.2344f, 0.1420f},
                                                  {0.0313f, 0.0189f, -0.0328f},
                                                  {0.0296f, -0.0956f, -0.0665f},
                                                  {-0.3477f, -0.4059f, -0.2925f},
                                                  {0.0166f, 0.1902f, 0.1975f},
                                                  {-0.0412f, 0.0267f, -0.1364f},
                                                  {-0.1293f, 0.0740f, 0.1636f},
                                                  {0.0680f, 0.3019f, 0.1128f},
                                                  {0.0032f, 0.0581f, 0.0639f},
                                                  {-0.1251f, 0.0927f, 0.1699f},
                                                  {0.0060f, -0.0633f, 0.0005f},
                                                  {0.3477f, 0.2275f, 0.2950f},
                                                  {0.1984f, 0.0913f, 0.1861f},
                                                  {-0.1835f, -0.0868f, -0.3360f}}};

/* Planes of a place beside each other are those of a channel's cells, row by row. */
void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t height,
                        int64_t width, uint8_t *rgb)
{
    const int64_t side = graft_preview_side(c), area = height * width, cells = side * side;
    for (int64_t y = 0; y < height * side; y++)
        for (int64_t x = 0; x < width * side; x++, rgb += 3) {
            const float *at = latent + (y % side * side + x % side) * area + y / side * width;
            at += x / side;
            for (int k = 0; k < 3; k++) {
                float v = c->row[c->channels][k];
                for (int32_t j = 0; j < c->channels; j++) v += at[j * cells * area] * c->row[j][k];
                v = (v + 1.0f) * 127.5f;
                /* Written so that no number at all is black. */
                rgb[k] = (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0);
            }
        }
}
