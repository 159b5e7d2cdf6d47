#include "base/base64.h"

#include <stdint.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool graft_base64_read(const char *text, size_t n, void *out, size_t *bytes)
{
    uint8_t *to = out;
    size_t padding = 0;
    *bytes = 0;
    if (n % 4) return false;
    while (padding < 2 && padding < n && text[n - 1 - padding] == '=') padding++;
    for (size_t i = 0; i < n; i += 4) {
        const size_t count = i + 4 < n ? 3 : 3 - padding;
        uint32_t bits = 0;
        for (size_t k = i; k < i + 4; k++) {
            const int v = k + padding >= n ? 0 : value_of(text[k]);
            if (v < 0) return false;
            bits = bits << 6 | (uint32_t)v;
        }
        for (size_t k = 0; k < count; k++) *to++ = (uint8_t)(bits >> (16 - 8 * k));
    }
    *bytes = n / 4 * 3 - padding;
    return true;
}

void graft_base64_write(graft_str *s, const void *bytes, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                              (left > 2 ? p[i + 2] : 0);
        const char four[4] = {digit[bits >> 18], digit[bits >> 12 & 63],
                              left > 1 ? digit[bits >> 6 & 63] : '=',
                              left > 2 ? digit[bits & 63] : '='};
        graft_str_append(s, four, sizeof four);
    }
}
