/* Latents as colours. */
#include "engine/sampling/preview.h"

#include "tests/test.h"

enum { AREA = 3 };

static void of_nothing(void)
{
    const float zero[4 * AREA] = {0};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&graft_preview_sd, zero, AREA, rgb);
    for (int i = 0; i < 3 * AREA; i++) CHECK_INT(rgb[i], 127);
    graft_preview_draw(&graft_preview_sdxl, zero, AREA, rgb);
    for (int i = 0; i < AREA; i++) {
        CHECK_INT(rgb[3 * i], 150);
        CHECK_INT(rgb[3 * i + 1], 140);
        CHECK_INT(rgb[3 * i + 2], 130);
    }
}

/* Channels lie one after the other; each counts by its row. */
static void of_channels(void)
{
    static const graft_preview_colours c = {
        4, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {-1, -1, -1}, {0, 0.5f, -1}}};
    const float latent[4 * AREA] = {1, 0, 0, /**/ 0, 0.5f, 0, /**/ 0, 0, 1, /**/ 0, 0, 0.5f};
    static const uint8_t wanted[3 * AREA] = {255, 191, 0, /**/ 127, 255, 0, /**/ 63, 127, 63};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&c, latent, AREA, rgb);
    for (int i = 0; i < 3 * AREA; i++) CHECK_INT(rgb[i], wanted[i]);
}

/* Sixteen channels, each by itself. */
static void of_sd3(void)
{
    float latent[GRAFT_PREVIEW_MOST] = {0};
    uint8_t rgb[3];
    graft_preview_draw(&graft_preview_sd3, latent, 1, rgb);
    for (int k = 0; k < 3; k++) CHECK_INT(rgb[k], 127);
    for (int j = 0; j < GRAFT_PREVIEW_MOST; j++) {
        latent[j] = 2;
        graft_preview_draw(&graft_preview_sd3, latent, 1, rgb);
        for (int k = 0; k < 3; k++)
            CHECK_INT(rgb[k], (int)((2 * graft_preview_sd3.row[j][k] + 1) * 127.5f));
        latent[j] = 0;
    }
}

static void of_extremes(void)
{
    const float latent[4 * AREA] = {1e30f, -1e30f, NAN};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&graft_preview_sd, latent, AREA, rgb);
    for (int k = 0; k < 3; k++) {
        CHECK_INT(rgb[k], 255);
        CHECK_INT(rgb[3 + k], 0);
        CHECK_INT(rgb[6 + k], 0);
    }
}

int main(void)
{
    RUN(of_nothing);
    RUN(of_channels);
    RUN(of_sd3);
    RUN(of_extremes);
    return test_end();
}
