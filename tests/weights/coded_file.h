/* Files of one quantized tensor "x", right or wrong, in memory. */
#ifndef GRAFT_TESTS_WEIGHTS_CODED_FILE_H
#define GRAFT_TESTS_WEIGHTS_CODED_FILE_H
#include <stdio.h>
#include <string.h>

#include "engine/weights/safetensors.h"

/* A tensor; its name goes on behind "x". */
typedef struct part {
    const char *name, *dtype, *shape;
    const void *data;
    size_t bytes;
} part;

/* The tensor `mark`, whose bytes are what is said, and n parts. The caller closes *out. */
static inline graft_status open_parts(const char *mark, const char *says, const part *p, size_t n,
                                      graft_safetensors **out, graft_err *e)
{
    static char file[1 << 16];
    char header[4096];
    size_t at = strlen(says);
    size_t length = (size_t)snprintf(
        header, sizeof header,
        "{\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}", mark, at, at);
    for (size_t i = 0; i < n; at += p[i].bytes, i++)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   ",\"x%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
                                   "\"data_offsets\":[%zu,%zu]}",
                                   p[i].name, p[i].dtype, p[i].shape, at, at + p[i].bytes);
    header[length++] = '}';
    uint64_t bytes = length;
    char *to = file;
    memcpy(to, &bytes, sizeof bytes);
    memcpy(to += sizeof bytes, header, length);
    memcpy(to += length, says, strlen(says));
    to += strlen(says);
    for (size_t i = 0; i < n; to += p[i].bytes, i++) memcpy(to, p[i].data, p[i].bytes);
    return graft_safetensors_open_memory(file, (size_t)(to - file), "file", out, e);
}
#endif
