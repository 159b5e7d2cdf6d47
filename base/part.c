#include "base/part.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

enum { DIGITS = 5 };

static bool read_digits(const char *p, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (p[i] < '0' || p[i] > '9') return false;
        *out = *out * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

static bool is_model(const char *path)
{
    return graft_str_ends(path, ".safetensors") || graft_str_ends(path, ".sft") ||
           graft_str_ends(path, ".gguf");
}

bool graft_part_of(const char *path, graft_part *out)
{
    static const char of[] = "-of-";
    const size_t middle = sizeof of - 1, all = 1 + DIGITS + middle + DIGITS;
    const char *dot = strrchr(path, '.');
    if (!dot || !is_model(path)) return false;
    if ((size_t)(dot - path) < all) return false;
    const char *number = dot - all + 1;
    if (number[-1] != '-' || memcmp(number + DIGITS, of, middle) != 0) return false;
    if (!read_digits(number, &out->number) || !read_digits(number + DIGITS + middle, &out->count))
        return false;
    out->at = (size_t)(number - path);
    return out->count > 1 && out->number >= 1 && out->number <= out->count;
}

size_t graft_part_stem(const graft_part *p)
{
    return p->at - 1;
}

char *graft_part_path(const char *path, const graft_part *p, unsigned number)
{
    char digits[DIGITS + 8], *out = graft_strdup(path);
    snprintf(digits, sizeof digits, "%0*u", (int)DIGITS, number);
    if (out) memcpy(out + p->at, digits, DIGITS);
    return out;
}
