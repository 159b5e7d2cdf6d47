/* Latents as colours. */
#include "engine/sampling/preview.h"

#include "tests/test.h"

enum { AREA = 3 };

static void of_nothing(void)
{
    const float zero[4 * AREA] = {0};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&graft_preview_sd, zero, 1, AREA, rgb);
    for (int i = 0; i < 3 * AREA; i++) CHECK_INT(rgb[i], 127);
    graft_preview_draw(&graft_preview_sdxl, zero, 1, AREA, rgb);
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
        4, 0, 0, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {-1, -1, -1}, {0, 0.5f, -1}}};
    const float latent[4 * AREA] = {1, 0, 0, /**/ 0, 0.5f, 0, /**/ 0, 0, 1, /**/ 0, 0, 0.5f};
    static const uint8_t wanted[3 * AREA] = {255, 191, 0, /**/ 127, 255, 0, /**/ 63, 127, 63};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&c, latent, 1, AREA, rgb);
    for (int i = 0; i < 3 * AREA; i++) CHECK_INT(rgb[i], wanted[i]);
}

/* Sixteen channels, each by itself. */
static void of_sixteen(void)
{
    static const graft_preview_colours *const all[] = {&graft_preview_sd3, &graft_preview_flux,
                                                       &graft_preview_wan};
    for (int i = 0; i < 3; i++) {
        const graft_preview_colours *c = all[i];
        float latent[16] = {0};
        uint8_t rgb[3];
        CHECK(c->channels == 16 && graft_preview_planes(c) == 16);
        for (int j = 0; j < 16; j++) {
            latent[j] = 1;
            graft_preview_draw(c, latent, 1, 1, rgb);
            for (int k = 0; k < 3; k++)
                CHECK_INT(rgb[k], (int)((c->row[16][k] + c->row[j][k] + 1) * 127.5f));
            latent[j] = 0;
        }
    }
}

/* A place of FLUX.2's has four cells: plane 4 c + 2 y + x is channel c of that in row y and column
 * x. */
static void of_cells(void)
{
    enum { H = 2, W = 3, PLANES = 128 };
    static float latent[PLANES * H * W];
    const graft_preview_colours *c = &graft_preview_flux2;
    CHECK(c->channels == 32 && graft_preview_planes(c) == PLANES && graft_preview_side(c) == 2);
    for (int i = 0; i < PLANES * H * W; i++) {
        uint8_t rgb[3 * 4 * H * W];
        latent[i] = 1;
        graft_preview_draw(c, latent, H, W, rgb);
        latent[i] = 0;
        const int plane = i / (H * W), y = i / W % H * 2 + plane / 2 % 2, x = i % W * 2 + plane % 2;
        int wrong = 0;
        for (int p = 0; p < 4 * H * W; p++)
            for (int k = 0; k < 3; k++) {
                const float more = p == y * 2 * W + x ? c->row[plane / 4][k] : 0;
                wrong += rgb[p * 3 + k] != (int)((c->row[32][k] + more + 1) * 127.5f);
            }
        CHECK_INT(wrong, 0);
    }
}

static void of_extremes(void)
{
    const float latent[4 * AREA] = {1e30f, -1e30f, NAN};
    uint8_t rgb[3 * AREA];
    graft_preview_draw(&graft_preview_sd, latent, 1, AREA, rgb);
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
    RUN(of_sixteen);
    RUN(of_cells);
    RUN(of_extremes);
    return test_end();
}
