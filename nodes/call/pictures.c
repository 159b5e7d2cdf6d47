#include "nodes/call/pictures.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "nodes/call/metadata.h"
#include "nodes/call/output.h"

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

typedef struct picture_file {
    uint8_t *data;
    size_t size;
} picture_file;

static graft_status write_file(const void *what, const char *path, graft_err *e)
{
    const picture_file *png = what;
    return graft_file_write_new(path, png->data, png->size, e);
}

static graft_status save_one(graft_call *c, const graft_image *images, int64_t index,
                             const char *folder, const char *prefix, int level, int bits,
                             const graft_metadata *metadata)
{
    int64_t shape[4];
    picture_file png = {NULL, 0};
    graft_status st;
    graft_image_data(images, shape);
    char *numbered = number_prefix(prefix, index);
    if (!numbered) return graft_fail_nomem(&c->err, "a file's name");
    GRAFT_TRY((bits == 16 ? graft_image_to_png16 : graft_image_to_png)(
        images, index, level, (const char *const *)metadata->pairs, &png.data, &png.size, &c->err));
    const graft_output_place place = {folder, numbered, ".png", shape[2], shape[1]};
    GRAFT_TRY(graft_output_write(c, &place, "images", write_file, &png));
out:
    graft_bytes_free(png.data);
    graft_free(numbered);
    return st;
}

graft_status graft_pictures_save(graft_call *c, const graft_image *images, const char *folder,
                                 const char *prefix, int level, int bits)
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
        GRAFT_TRY(save_one(c, images, i, folder, prefix, level, bits, &metadata));
    }
out:
    graft_metadata_finish(&metadata);
    return st;
}

/* How the pictures become one file, which is given to `made`. */
typedef graft_status encoder(const graft_image *images, const void *how, const char *const *text,
                             const graft_task *task, picture_file *made, graft_err *e);

static graft_status save_animation(graft_call *c, const graft_image *images, const char *prefix,
                                   const char *suffix, encoder *encode, const void *how)
{
    graft_metadata metadata = GRAFT_METADATA_INIT;
    picture_file made = {NULL, 0};
    int64_t shape[4];
    graft_status st;
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    GRAFT_TRY(graft_metadata_read(c, &metadata));
    graft_image_data(images, shape);
    const graft_output_place place = {"output", prefix, suffix, shape[2], shape[1]};
    GRAFT_TRY(encode(images, how, (const char *const *)metadata.pairs, &c->task, &made, &c->err));
    GRAFT_TRY(graft_output_write(c, &place, "images", write_file, &made));
    if (c->self->ui) c->self->ui->add(c->job, "animated", "true");
out:
    graft_bytes_free(made.data);
    graft_metadata_finish(&metadata);
    return st;
}

typedef struct apng_how {
    double fps;
    int level;
} apng_how;

static graft_status to_apng(const graft_image *images, const void *how, const char *const *text,
                            const graft_task *task, picture_file *made, graft_err *e)
{
    const apng_how *h = how;
    return graft_image_to_apng(images, (uint32_t)(1000 / h->fps), h->level, text, task, &made->data,
                               &made->size, e);
}

graft_status graft_pictures_save_apng(graft_call *c, const graft_image *images, const char *prefix,
                                      double fps, int level)
{
    const apng_how how = {fps, level};
    return save_animation(c, images, prefix, ".png", to_apng, &how);
}

static graft_status to_webp(const graft_image *images, const void *how, const char *const *text,
                            const graft_task *task, picture_file *made, graft_err *e)
{
    return graft_image_to_webp(images, how, text, task, &made->data, &made->size, e);
}

graft_status graft_pictures_save_webp(graft_call *c, const graft_image *images, const char *prefix,
                                      const graft_webp_options *options)
{
    return save_animation(c, images, prefix, ".webp", to_webp, options);
}
