/* Any bytes as a picture: both decoders refuse it with a reason, or give pixels, every one of which
 * can be read. */
#include <stdlib.h>

#include "engine/image/decode.h"
#include "host/serve/picture.h"
#include "tests/fuzz/fuzz.h"

#define MOST ((int64_t)1 << 22) /* pixels; larger ones say nothing new and take long */

static volatile unsigned sum;

static void look(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) sum += ((const uint8_t *)bytes)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_decoded d;
    graft_picture p;
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_picture_read(data, size, &p, &e);
    if (st && !e.text[0]) abort();
    if (!st) look(p.rgba, 4 * (size_t)p.width * (size_t)p.height);
    if (!st && (int64_t)p.width * p.height > MOST) size = 0; /* the other would take as long */
    graft_picture_finish(&p);
    e = (graft_err)GRAFT_ERR_INIT;
    st = graft_decode(data, size, "it", &d, &e);
    if (st && !e.text[0]) abort();
    if (!st)
        look(d.pixels, (size_t)d.frames * (size_t)d.width * (size_t)d.height * (size_t)d.channels *
                           (size_t)d.bits / 8);
    graft_decoded_finish(&d);
    return 0;
}
