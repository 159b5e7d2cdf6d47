/* Any bytes as a WebP file that may carry a workflow: text is found or refused, and what is found
 * is terminated text. */
#include "base/webp.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"prompt", "workflow", "absent"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *text = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_status st = graft_webp_read_text(data, size, keys[i], &text, &e);
        if ((st == GRAFT_OK) != (text != NULL)) abort();
        if (st && !e.text[0]) abort();
        if (text && strlen(text) > size) abort();
        graft_free(text);
    }
    return 0;
}
