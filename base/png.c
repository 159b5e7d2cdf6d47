#include "base/png.h"

#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define MAX_TEXT ((size_t)64 << 20)
/* What the reader may ask for: a text is held up to three times. */
#define MAX_WORK (4 * MAX_TEXT)
#define MAX_SIDE 1000000u /* libpng's own default for users */

/* What libpng's callbacks need. Everything that changes after setjmp() lives here, reached through
 * a pointer, so that a jump cannot leave it in a lost register. */
typedef struct session {
    const uint8_t *in;
    size_t left;
    uint8_t *out;
    size_t size, cap;
    uint64_t budget; /* bytes that libpng may still ask for, given back or not */
    bool no_memory;
    bool own;       /* the message is one of ours, and no library's word */
    bool lost_text; /* a chunk of text was damaged, and left out */
    char message[128];
    jmp_buf jump;
} session;

static void on_error(png_structp png, png_const_charp text)
{
    session *s = png_get_error_ptr(png);
    size_t n = strnlen(text, sizeof s->message - 1);
    memcpy(s->message, text, n);
    s->message[n] = 0;
    longjmp(s->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    session *s = png_get_error_ptr(png);
    if (strncmp(text, "tEXt", 4) == 0 || strncmp(text, "zTXt", 4) == 0 ||
        strncmp(text, "iTXt", 4) == 0)
        s->lost_text = true;
}

static void fail_with(png_structp png, session *s, const char *text)
{
    s->own = true;
    png_error(png, text);
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    session *s = png_get_mem_ptr(png);
    if (size > s->budget) fail_with(png, s, "its texts are too long");
    s->budget -= size;
    void *p = graft_malloc(size);
    if (!p) s->no_memory = true;
    return p;
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    graft_free(p);
}

static void on_write(png_structp png, png_bytep data, size_t n)
{
    session *s = png_get_io_ptr(png);
    if (n > (size_t)-1 - s->size || graft_grow(&s->out, &s->cap, s->size + n, 1)) {
        s->no_memory = true;
        png_error(png, "out of memory");
    }
    memcpy(s->out + s->size, data, n);
    s->size += n;
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void on_read(png_structp png, png_bytep data, size_t n)
{
    session *s = png_get_io_ptr(png);
    if (n > s->left) fail_with(png, s, "the file ends too early");
    memcpy(data, s->in, n);
    s->in += n;
    s->left -= n;
}

static graft_status session_fail(const session *s, graft_status code, const char *doing,
                                 graft_err *e)
{
    if (s->no_memory) return graft_fail_nomem(e, doing);
    return graft_fail(e, code, "%s: %s", doing, s->message);
}

/* What libpng says of a damaged file is for those who know its insides. */
static graft_status read_failed(const session *s, graft_err *e)
{
    if (s->own || s->no_memory) return session_fail(s, GRAFT_E_FORMAT, "damaged PNG file", e);
    return graft_fail(e, GRAFT_E_FORMAT, "damaged PNG file");
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text > 0x7e) return false;
    return true;
}

/* libpng's list of chunks; the list is graft_free()d, the texts stay the caller's. */
static png_text *make_chunks(const graft_png_text *text, size_t n)
{
    png_text *chunk = graft_calloc(n ? n : 1, sizeof *chunk);
    for (size_t i = 0; chunk && i < n; i++) {
        bool ascii = is_ascii(text[i].value);
        chunk[i].compression = ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
        chunk[i].key = (char *)(uintptr_t)text[i].key;
        chunk[i].text = (char *)(uintptr_t)text[i].value;
        chunk[i].text_length = ascii ? strlen(text[i].value) : 0;
        chunk[i].itxt_length = ascii ? 0 : strlen(text[i].value);
    }
    return chunk;
}

static graft_status check_encode(uint32_t width, uint32_t height, int channels, int level,
                                 const graft_png_text *text, size_t n_text, graft_err *e)
{
    if (!width || !height || width > MAX_SIDE || height > MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG, "PNG: cannot hold a picture of %u x %u", width, height);
    if (channels != 1 && channels != 3 && channels != 4)
        return graft_fail(e, GRAFT_E_ARG, "PNG: %d channels; 1, 3 or 4 are possible", channels);
    if (level < 0 || level > 9)
        return graft_fail(e, GRAFT_E_ARG, "PNG: compression level %d is not in 0-9", level);
    for (size_t i = 0; i < n_text; i++) {
        size_t n = strlen(text[i].key);
        if (n < 1 || n > 79 || text[i].key[0] == ' ' || text[i].key[n - 1] == ' ')
            return graft_fail(e, GRAFT_E_ARG, "PNG: bad text key \"%.80s\"", text[i].key);
        for (const unsigned char *c = (const unsigned char *)text[i].key; *c; c++)
            if (*c < 0x20 || (*c >= 0x7f && *c < 0xa1))
                return graft_fail(e, GRAFT_E_ARG, "PNG: bad text key \"%.80s\"", text[i].key);
        if (strlen(text[i].value) > MAX_TEXT)
            return graft_fail(e, GRAFT_E_LIMIT, "PNG: more than %zu bytes in the text \"%s\"",
                              MAX_TEXT, text[i].key);
    }
    return GRAFT_OK;
}

typedef struct picture {
    uint32_t width, height;
    int channels, bits;
} picture;

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first;
}

/* The part that libpng may leave by a jump: it must own nothing. False after a jump. */
static bool encode_jumps(session *s, png_structp png, png_infop info, const uint8_t *pixels,
                         const picture *shape, int level, png_text *chunk, int n_chunk)
{
    static const int type[5] = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
    if (setjmp(s->jump)) return false;
    png_set_write_fn(png, s, on_write, on_flush);
    png_set_compression_level(png, level);
    png_set_text_compression_level(png, level);
    png_set_IHDR(png, info, shape->width, shape->height, shape->bits, type[shape->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (n_chunk) png_set_text(png, info, chunk, n_chunk);
    png_write_info(png, info);
    if (shape->bits == 16 && is_little_endian()) png_set_swap(png); /* PNG has it the other way */
    const size_t row = (size_t)shape->width * (size_t)(shape->channels * shape->bits / 8);
    for (uint32_t y = 0; y < shape->height; y++) png_write_row(png, pixels + y * row);
    png_write_end(png, NULL);
    return true;
}

static graft_status encode(const uint8_t *pixels, const picture *shape, int level,
                           const graft_png_text *text, size_t n_text, uint8_t **out, size_t *size,
                           graft_err *e)
{
    *out = NULL;
    *size = 0;
    graft_status st =
        check_encode(shape->width, shape->height, shape->channels, level, text, n_text, e);
    if (st != GRAFT_OK) return st;
    if (n_text > 1000)
        return graft_fail(e, GRAFT_E_LIMIT, "PNG: %zu text chunks are too many", n_text);
    session *s = graft_calloc(1, sizeof *s);
    if (s) s->budget = UINT64_MAX;
    png_text *chunk = make_chunks(text, n_text);
    png_structp png = NULL;
    png_infop info = NULL;
    if (s && chunk)
        png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, s, on_error, on_warning, s,
                                        on_malloc, on_free);
    if (png) info = png_create_info_struct(png);
    if (!info) {
        st = graft_fail_nomem(e, "PNG writer");
    } else if (!encode_jumps(s, png, info, pixels, shape, level, chunk, (int)n_text) ||
               s->no_memory) { /* libpng only warns of a text that it has no memory for */
        st = session_fail(s, GRAFT_E_INTERNAL, "PNG writer", e);
    } else {
        *out = s->out;
        *size = s->size;
        s->out = NULL;
    }
    if (png) png_destroy_write_struct(&png, &info);
    if (s) graft_free(s->out);
    graft_free(s);
    graft_free(chunk);
    return st;
}

graft_status graft_png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, int channels,
                              int level, const graft_png_text *text, size_t n_text, uint8_t **out,
                              size_t *size, graft_err *e)
{
    const picture shape = {width, height, channels, 8};
    return encode(pixels, &shape, level, text, n_text, out, size, e);
}

graft_status graft_png_encode16(const uint16_t *pixels, uint32_t width, uint32_t height,
                                int channels, int level, const graft_png_text *text, size_t n_text,
                                uint8_t **out, size_t *size, graft_err *e)
{
    const picture shape = {width, height, channels, 16};
    return encode((const uint8_t *)pixels, &shape, level, text, n_text, out, size, e);
}

/* Latin-1, which tEXt and zTXt hold, as UTF-8. */
static char *latin1_to_utf8(const char *text, size_t n)
{
    graft_str s = GRAFT_STR_INIT;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        char two[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        if (c < 0x80)
            graft_str_append(&s, text + i, 1);
        else
            graft_str_append(&s, two, 2);
    }
    return graft_str_take(&s);
}

/* Reads up to the picture, or from there to the end. False after a jump. */
static bool read_jumps(session *s, png_structp png, png_infop info, bool head)
{
    /* Chunks that nobody asks for cannot fail if they are not looked at. */
    static const png_byte ignored[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0oFFs\0pCAL\0sBIT\0"
                                      "sCAL\0sPLT\0sTER\0sRGB\0tIME";
    if (setjmp(s->jump)) return false;
    if (head) {
        png_set_read_fn(png, s, on_read);
        png_set_user_limits(png, MAX_SIDE, MAX_SIDE);
        png_set_chunk_malloc_max(png, MAX_TEXT);
        png_set_chunk_cache_max(png, 1000);
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, ignored, sizeof ignored / 5);
        png_read_info(png, info);
    } else {
        png_start_read_image(png);
        png_read_end(png, info);
    }
    return true;
}

static graft_status find_text(png_structp png, png_infop info, const char *key, char **out,
                              graft_err *e)
{
    png_textp chunk = NULL;
    int n = 0;
    png_get_text(png, info, &chunk, &n);
    for (int i = 0; i < n; i++) {
        if (strcmp(chunk[i].key, key) != 0) continue;
        bool utf8 = chunk[i].compression >= PNG_ITXT_COMPRESSION_NONE;
        const char *text = chunk[i].text ? chunk[i].text : "";
        *out = utf8 ? graft_strdup(text) : latin1_to_utf8(text, strlen(text));
        return *out ? GRAFT_OK : graft_fail_nomem(e, "PNG text");
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "PNG: no text with the key \"%.80s\"", key);
}

graft_status graft_png_read_text(const uint8_t *data, size_t size, const char *key, char **out,
                                 graft_err *e)
{
    *out = NULL;
    if (size < 8 || png_sig_cmp(data, 0, 8)) return graft_fail(e, GRAFT_E_FORMAT, "not a PNG file");
    graft_status st;
    session *s = graft_calloc(1, sizeof *s);
    png_structp png = NULL;
    png_infop info = NULL;
    if (s) {
        s->in = data;
        s->left = size;
        s->budget = MAX_WORK;
        png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, s, on_error, on_warning, s, on_malloc,
                                       on_free);
    }
    if (png) info = png_create_info_struct(png);
    if (!info)
        st = graft_fail_nomem(e, "PNG reader");
    else if (!read_jumps(s, png, info, true))
        st = read_failed(s, e);
    else if ((st = find_text(png, info, key, out, e)) == GRAFT_E_NOTFOUND) {
        /* Few writers put text behind the picture; the pixels are then inflated and dropped. */
        st =
            read_jumps(s, png, info, false) ? find_text(png, info, key, out, e) : read_failed(s, e);
    }
    if (st == GRAFT_E_NOTFOUND && s->no_memory) st = graft_fail_nomem(e, "PNG text");
    if (st == GRAFT_E_NOTFOUND && s->lost_text)
        st = graft_fail(e, GRAFT_E_FORMAT, "damaged PNG file: a text in it cannot be read");
    if (png) png_destroy_read_struct(&png, &info, NULL);
    graft_free(s);
    return st;
}

#define MAX_PIXELS ((uint64_t)1 << 28)

graft_status graft_png_decode_rgb(const uint8_t *data, size_t size, uint8_t **pixels,
                                  uint32_t *width, uint32_t *height, graft_err *e)
{
    png_image image;
    graft_status st = GRAFT_OK;
    uint8_t *out = NULL;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, data, size))
        return graft_fail(e, GRAFT_E_FORMAT, "PNG: %s", image.message);
    image.format = PNG_FORMAT_RGB;
    if ((uint64_t)image.width * image.height > MAX_PIXELS)
        st = graft_fail(e, GRAFT_E_LIMIT, "PNG: %u x %u pixels are too many", image.width,
                        image.height);
    if (!st) out = graft_malloc_array((size_t)image.width * image.height, 3);
    if (!st && !out) st = graft_fail_nomem(e, "a picture");
    const png_color black = {0, 0, 0};
    if (!st && !png_image_finish_read(&image, &black, out, 0, NULL))
        st = graft_fail(e, GRAFT_E_FORMAT, "PNG: %s", image.message);
    *width = image.width;
    *height = image.height;
    png_image_free(&image);
    if (st)
        graft_free(out);
    else
        *pixels = out;
    return st;
}
