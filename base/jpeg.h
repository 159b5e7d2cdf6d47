/* What a JPEG file's tables must keep to before stb_image may see them. Any thread. */
#ifndef GRAFT_BASE_JPEG_H
#define GRAFT_BASE_JPEG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False for a JPEG file with a Huffman table of more than 256 codes, which none can have (ITU-T
 * T.81, B.2.4.2); stb_image 2.27 writes behind its own table for one. Such a table counts wherever
 * that decoder could come upon it, behind damage as well, but not behind the picture's end. True
 * for all that is no JPEG file. */
bool graft_jpeg_is_safe(const uint8_t *data, size_t size);
#endif
