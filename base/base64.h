/* Base64 (RFC 4648, section 4): with padding, without line breaks. Any thread. */
#ifndef GRAFT_BASE_BASE64_H
#define GRAFT_BASE_BASE64_H
#include "base/str.h"

/* The bytes that n characters stand for: 3/4 n at most at `out`, and *bytes of them. False where it
 * is not base64: digits of other alphabets, white space, padding that is missing or elsewhere. Bits
 * behind the last byte are not looked at. */
bool graft_base64_read(const char *text, size_t n, void *out, size_t *bytes);
void graft_base64_write(graft_str *s, const void *bytes, size_t n);
#endif
