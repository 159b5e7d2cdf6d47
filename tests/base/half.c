#include "base/half.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float value(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* From the definition of binary16, by arithmetic instead of by bits. */
static double f16_by_definition(uint32_t h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h & 0x8000 ? -v : v;
}

static void f16_widens(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = graft_f16_to_f32((uint16_t)h);
        bool special = (h >> 10 & 31) == 31;
        if (special && (h & 1023))
            CHECK(isnan(f));
        else if (special)
            CHECK(isinf(f) && !signbit(f) == !(h & 0x8000));
        else
            CHECK((double)f == f16_by_definition(h) && !signbit(f) == !(h & 0x8000));
        uint16_t back = graft_f32_to_f16(f);
        CHECK_INT(back, isnan(f) ? (h | 0x200) : h);
    }
}

/* Each pair of neighbours: below, at and above the middle between them. */
static void f16_rounds(void)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = graft_f16_to_f32((uint16_t)h), b = graft_f16_to_f32((uint16_t)(h + 1));
        float middle = (float)(((double)a + b) / 2);
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        CHECK_INT(graft_f32_to_f16(middle), even);
        CHECK_INT(graft_f32_to_f16(nextafterf(middle, 0)), h);
        CHECK_INT(graft_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        CHECK_INT(graft_f32_to_f16(-middle), even | 0x8000);
    }
    CHECK_INT(graft_f32_to_f16(65504), 0x7bff);
    CHECK_INT(graft_f32_to_f16(nextafterf(65520, 0)), 0x7bff);
    CHECK_INT(graft_f32_to_f16(65520), 0x7c00);
    CHECK_INT(graft_f32_to_f16(-1e30f), 0xfc00);
    CHECK_INT(graft_f32_to_f16(INFINITY), 0x7c00);
    CHECK_INT(graft_f32_to_f16(0x1p-149f), 0);
    CHECK_INT(graft_f32_to_f16(-0.0f), 0x8000);
    CHECK(isnan(graft_f16_to_f32(graft_f32_to_f16(value(0x7f800001)))));
}

static void bf16_both_ways(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = graft_bf16_to_f32((uint16_t)h);
        CHECK(bits(f) == h << 16);
        CHECK_INT(graft_f32_to_bf16(f), isnan(f) ? (h | 0x40) : h);
        if ((h & 0x7fff) >= 0x7f80) continue;
        CHECK_INT(graft_f32_to_bf16(value(h << 16 | 0x7fff)), h);
        CHECK_INT(graft_f32_to_bf16(value(h << 16 | 0x8000)), h & 1 ? h + 1 : h);
        CHECK_INT(graft_f32_to_bf16(value(h << 16 | 0x8001)), h + 1);
    }
    CHECK(isnan(graft_bf16_to_f32(graft_f32_to_bf16(value(0x7fffffff)))));
    CHECK(isnan(graft_bf16_to_f32(graft_f32_to_bf16(value(0x7f800001)))));
}

static void f8_widens(void)
{
    for (int v = 0; v < 256; v++) {
        int sign = v & 128 ? -1 : 1, e = v >> 3 & 15, m = v & 7;
        float f = graft_f8_e4m3_to_f32((uint8_t)v);
        if (e == 15 && m == 7)
            CHECK(isnan(f));
        else
            CHECK((double)f == sign * (e ? ldexp(8 + m, e - 10) : ldexp(m, -9)));
        CHECK(isnan(f) || !signbit(f) == !(v & 128));
        e = v >> 2 & 31, m = v & 3;
        f = graft_f8_e5m2_to_f32((uint8_t)v);
        if (e == 31)
            CHECK(m ? isnan(f) : isinf(f));
        else
            CHECK((double)f == sign * (e ? ldexp(4 + m, e - 17) : ldexp(m, -16)));
    }
    CHECK_NEAR(graft_f8_e4m3_to_f32(0x7e), 448, 0);
    CHECK_NEAR(graft_f8_e5m2_to_f32(0x7b), 57344, 0);
}

/* The nearest of all 126 positive values, by distances in double; of two the even code. */
static uint8_t nearest_e4m3(double x)
{
    int best = 0;
    for (int v = 1; v < 127; v++) {
        double to = fabs(fabs(x) - (double)graft_f8_e4m3_to_f32((uint8_t)v));
        double least = fabs(fabs(x) - (double)graft_f8_e4m3_to_f32((uint8_t)best));
        if (to < least || (to == least && v % 2 == 0)) best = v;
    }
    return (uint8_t)(best | (signbit(x) ? 128 : 0));
}

static void f8_rounds(void)
{
    for (int v = 0; v < 256; v++) {
        float f = graft_f8_e4m3_to_f32((uint8_t)v);
        CHECK_INT(graft_f32_to_f8_e4m3(f), v); /* NaNs too */
        if ((v & 127) >= 126) continue;
        float half = (f + graft_f8_e4m3_to_f32((uint8_t)(v + 1))) / 2; /* exact */
        CHECK_INT(graft_f32_to_f8_e4m3(half), v & 1 ? v + 1 : v);
        CHECK_INT(graft_f32_to_f8_e4m3(nextafterf(half, 0)), v);
        CHECK_INT(graft_f32_to_f8_e4m3(nextafterf(half, (float)copysign(999, half))), v + 1);
    }
    static const float large[] = {448.0001f, 463.9f, 464, 480, 65504, 3e38f, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        CHECK_INT(graft_f32_to_f8_e4m3(large[i]), 0x7e);
        CHECK_INT(graft_f32_to_f8_e4m3(-large[i]), 0xfe);
    }
    CHECK_INT(graft_f32_to_f8_e4m3(NAN), 0x7f);
    CHECK_INT(graft_f32_to_f8_e4m3(1e-45f), 0);
    CHECK_INT(graft_f32_to_f8_e4m3(-1e-45f), 0x80);
    for (uint32_t u = 0; u < 0x7f800000; u += 66931) {
        CHECK_INT(graft_f32_to_f8_e4m3(value(u)), nearest_e4m3((double)value(u)));
        CHECK_INT(graft_f32_to_f8_e4m3(-value(u)), nearest_e4m3(-(double)value(u)));
    }
}

/* Arrays agree with single values for every length, every alignment, and all kinds of bits. */
static void arrays_agree(void)
{
    enum { N = 70001 };
    float *wide = malloc((N + 1) * sizeof *wide);
    uint8_t *narrow = malloc(2 * N + 1);
    uint32_t x = 12345;
    for (int i = 0; i < N; i++) {
        x = x * 1664525u + 1013904223u;
        wide[i] = value(i % 3 ? x : (x & 0x8fffffffu) | 0x38000000u);
    }
    for (size_t n = 0; n <= N; n = n < 40 ? n + 1 : n < 600 ? n + 29 : n + 23133) {
        uint8_t *dst = narrow + n % 2;
        for (int b = 0; b < 2; b++) {
            if (b)
                graft_f32_to_bf16_array(wide, dst, n);
            else
                graft_f32_to_f16_array(wide, dst, n);
            for (size_t i = 0; i < n; i++) {
                uint16_t h;
                memcpy(&h, dst + 2 * i, 2);
                CHECK(h == (b ? graft_f32_to_bf16(wide[i]) : graft_f32_to_f16(wide[i])));
            }
        }
    }
    float *back = malloc(65536 * sizeof *back);
    uint8_t *all = malloc(2 * 65536 + 1);
    for (uint32_t h = 0; h < 65536; h++) memcpy(all + 1 + 2 * h, &(uint16_t){(uint16_t)h}, 2);
    graft_f16_to_f32_array(all + 1, back, 65536);
    for (uint32_t h = 0; h < 65536; h++)
        CHECK(bits(back[h]) == bits(graft_f16_to_f32((uint16_t)h)));
    graft_bf16_to_f32_array(all + 1, back, 65536);
    for (uint32_t h = 0; h < 65536; h++) CHECK(bits(back[h]) == h << 16);
    free(back), free(all), free(wide), free(narrow);
}

int main(void)
{
    RUN(f16_widens);
    RUN(f16_rounds);
    RUN(bf16_both_ways);
    RUN(f8_widens);
    RUN(f8_rounds);
    RUN(arrays_agree);
    return test_end();
}
