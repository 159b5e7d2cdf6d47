/* Hashes of content: pieces give what the whole gives. */
#include <stdlib.h>

#include "base/hash.h"
#include "tests/test.h"

static void known_values(void)
{
    char hex[33];
    graft_hash_hex(graft_hash128("", 0), hex); /* of XXH3, 128 bits, seed 0 */
    CHECK_STR(hex, "99aa06d3014798d86001c324468d497f");
}

static void pieces(void)
{
    enum { SIZE = 100000 };
    static const size_t steps[] = {1, 7, 64, 255, 256, 257, 1024, 4096, 65536, SIZE};
    unsigned char *data = malloc(SIZE + 3);
    for (int i = 0; i < SIZE + 3; i++) data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        for (size_t begin = 0; begin < 3; begin++)
            for (size_t size = 0; size <= SIZE; size += k ? 9091 : 33333) {
                graft_hasher h;
                graft_hasher_init(&h);
                for (size_t at = 0; at < size; at += steps[k])
                    graft_hasher_add(&h, data + begin + at,
                                     size - at < steps[k] ? size - at : steps[k]);
                CHECK(graft_hash_equal(graft_hasher_end(&h), graft_hash128(data + begin, size)));
            }
    free(data);
}

int main(void)
{
    RUN(known_values);
    RUN(pieces);
    return test_end();
}
