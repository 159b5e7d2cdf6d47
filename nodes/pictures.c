#include "nodes/pictures.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "nodes/metadata.h"
#include "nodes/output.h"

enum { SAVE_ATTEMPTS = 100 }; /* another process may take a reserved name first */

/* A copy of `prefix` with each %batch_num% replaced. */
static char *number_prefix(const char *prefix, int64_t index)
{
    static const char mark[] = "%batch_num%";
    graft_str s = GRAFT_STR_INIT;
    const char *hit;
    while ((hit = strstr(prefix, mark))) {
        graft_str_append(&s, prefix, (size_t)(hit - prefix));
        graft_str_printf(&s, "%lld", (long long)index);
        prefix = hit + sizeof mark - 1;
    }
    graft_str_puts(&s, prefix);
    char *text = graft_str_take(&s);
    graft_str_finish(&s);
    return text;
}

static graft_status write_reserved(graft_call *c, const char *folder, const char *prefix,
                                   const int64_t shape[4], const uint8_t *png, size_t size)
{
    graft_output_file file;
    graft_status st = GRAFT_E_IO;
    for (int i = 0; i < SAVE_ATTEMPTS; i++) {
        st = graft_output_reserve(c, folder, prefix, ".png", shape[2], shape[1], &file);
        if (st != GRAFT_OK) return st;
        st = graft_file_write_new(file.path, png, size, &c->err);
        bool taken = st == GRAFT_E_ARG && graft_file_exists(file.path);
        if (st == GRAFT_OK) st = graft_output_show(c, "images", folder, &file);
        graft_output_finish(c, &file);
        if (!taken) break;
    }
    return st;
}

static graft_status save_one(graft_call *c, const graft_image *images, int64_t index,
                             const char *folder, const char *prefix, int level,
                             const graft_metadata *metadata)
{
    int64_t shape[4];
    uint8_t *png = NULL;
    size_t size = 0;
    graft_status st;
    graft_image_data(images, shape);
    char *numbered = number_prefix(prefix, index);
    if (!numbered) return graft_fail_nomem(&c->err, "a file's name");
    GRAFT_TRY(graft_image_to_png(images, index, level, (const char *const *)metadata->pairs, &png,
                                 &size, &c->err));
    GRAFT_TRY(write_reserved(c, folder, numbered, shape, png, size));
out:
    graft_bytes_free(png);
    graft_free(numbered);
    return st;
}

graft_status graft_pictures_save(graft_call *c, const graft_image *images, const char *folder,
                                 const char *prefix, int level)
{
    graft_metadata metadata = GRAFT_METADATA_INIT;
    int64_t shape[4];
    graft_status st;
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    GRAFT_TRY(graft_metadata_read(c, &metadata));
    graft_image_data(images, shape);
    for (int64_t i = 0; i < shape[0]; i++) {
        if (c->task.cancelled(c->task.ctx)) {
            st = graft_fail(&c->err, GRAFT_E_CANCEL, "cancelled");
            goto out;
        }
        GRAFT_TRY(save_one(c, images, i, folder, prefix, level, &metadata));
    }
out:
    graft_metadata_finish(&metadata);
    return st;
}
