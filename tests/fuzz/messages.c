/* Any bytes as what a WebSocket client says, behind the library that reads frames. A line is a
 * piece; one that ends with \ is not the last of its message, one that begins with # is binary.
 * The first message alone may be an answer worth giving, and nothing is kept of what is over. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/serve/inbox.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_inbox b = {0};
    const uint8_t *end = data + size;
    int answers = 0, texts = 0;
    for (const uint8_t *p = data, *stop; p < end; p = stop + 1) {
        stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - p), before = b.size;
        bool last = !n || stop[-1] != '\\', binary = n && *p == '#';
        uint8_t *piece = graft_malloc(n); /* no byte more, so that a sanitizer sees the next one */
        require(piece != NULL);
        memcpy(piece, p, n);
        graft_inbox_result r = graft_inbox_take(&b, piece, n, last, binary);
        graft_free(piece);
        require(r != GRAFT_INBOX_NOMEM);
        if (r == GRAFT_INBOX_TOO_LONG) {
            require(before + n > GRAFT_INBOX_MAX);
            break;
        }
        require(b.size == (last ? 0 : before + n) && !b.text == last);
        texts += last && !binary;
        if (r != GRAFT_INBOX_FEATURES) continue;
        require(++answers == 1 && texts == 1 && last && !binary && b.spoke);
    }
    graft_inbox_finish(&b);
    return 0;
}
