/* Files of torch.save(): what golden/small/pytorch has in every form, and what must be refused. */
#include "engine/weights/pytorch.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/file.h"
#include "base/half.h"
#include "engine/engine.h"
#include "tests/test.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/small/pytorch/"

static const graft_st_tensor *find(const graft_pytorch *f, const char *name)
{
    size_t n;
    const graft_st_tensor *t = graft_pytorch_tensors(f, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(t[i].name, name) == 0) return &t[i];
    return NULL;
}

static double element(const graft_st_tensor *t, size_t i)
{
    const char *at = (const char *)t->data + i * graft_dtype_size(t->dtype);
    float f;
    double d;
    int64_t n = 0;
    int32_t n32;
    uint16_t h;
    switch (t->dtype) {
    case GRAFT_F32:
        memcpy(&f, at, sizeof f);
        return (double)f;
    case GRAFT_F64:
        memcpy(&d, at, sizeof d);
        return d;
    case GRAFT_F16:
        memcpy(&h, at, sizeof h);
        return (double)graft_f16_to_f32(h);
    case GRAFT_BF16:
        memcpy(&h, at, sizeof h);
        return (double)graft_bf16_to_f32(h);
    case GRAFT_I64:
        memcpy(&n, at, sizeof n);
        return (double)n;
    case GRAFT_I32:
        memcpy(&n32, at, sizeof n32);
        return n32;
    case GRAFT_I8:
        return *(const signed char *)at;
    default:
        return *(const unsigned char *)at;
    }
}

/* The tensor is there, of that type and shape, and its values are first, first + step, … */
static void counts(const graft_pytorch *f, const char *name, graft_dtype dtype, const char *shape,
                   double first, double step)
{
    const graft_st_tensor *t = find(f, name);
    char text[64];
    CHECK(t != NULL);
    if (!t) {
        fprintf(stderr, "  no tensor %s\n", name);
        return;
    }
    size_t n = (size_t)t->bytes / graft_dtype_size(dtype);
    CHECK_INT(t->dtype, dtype);
    CHECK_STR(graft_safetensors_shape_text(t->shape, t->rank, text, sizeof text), shape);
    for (size_t i = 0; i < n; i++) CHECK_NEAR(element(t, i), first + step * (double)i, 0);
}

/* What a trainer saved, in the zip archive and in the layout before it. */
static void checkpoint(const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    size_t n;
    CHECK_OK(graft_pytorch_open(path, &f, &e), &e);
    if (!f) return;
    graft_pytorch_tensors(f, &n);
    CHECK_INT(n, 17);
    CHECK_INT(graft_pytorch_left_out(f), 3);
    CHECK_STR(graft_pytorch_left_out_names(f), "expanded, complex, i16");
    CHECK_STR(graft_pytorch_part(f), "state_dict");
    counts(f, "first.weight", GRAFT_F32, "(3,4)", 0.25, 0.25);
    counts(f, "first.bias", GRAFT_F16, "(3)", -0.5, 0.25);
    counts(f, "bf16", GRAFT_BF16, "(2,2)", 1.25, 0.25);
    counts(f, "f64", GRAFT_F64, "(2)", 0.75, 0.25);
    counts(f, "ids", GRAFT_I64, "(5)", 0, 1);
    counts(f, "i32", GRAFT_I32, "(3)", 0, 1);
    counts(f, "i8", GRAFT_I8, "(4)", -2, 1);
    counts(f, "u8", GRAFT_U8, "(4)", 250, 1);
    counts(f, "yes", GRAFT_BOOL8, "(2)", 1, -1);
    counts(f, "scalar", GRAFT_F32, "()", 2.5, 0);
    counts(f, "empty", GRAFT_F32, "(0,3)", 0, 0);
    counts(f, "part", GRAFT_F32, "(4)", 0.75, 0.25);
    counts(f, "again", GRAFT_F32, "(10)", 0, 0.25);
    counts(f, "every_other", GRAFT_F32, "(3)", 0, 0.5);
    counts(f, "channels_last", GRAFT_F32, "(2,3,4,5)", 0, 0.25);
    counts(f, "parameter", GRAFT_F32, "(2)", 1.75, 0.25);
    const graft_st_tensor *turned = find(f, "turned");
    for (size_t i = 0; turned && i < 24; i++)
        CHECK_NEAR(element(turned, i), (double)(i % 4 * 6 + i / 4) / 4, 0);
    CHECK(turned != NULL);
    graft_pytorch_close(f);
}

static void checkpoints(void)
{
    checkpoint(GOLDEN "checkpoint.ckpt");
    checkpoint(GOLDEN "legacy.ckpt");
}

static graft_pytorch *open_golden(const char *name)
{
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    CHECK_OK(graft_pytorch_open(path, &f, &e), &e);
    return f;
}

static void other_forms(void)
{
    graft_pytorch *f = open_golden("protocol5.pt");
    if (f) counts(f, "a", GRAFT_F32, "(2,3)", 0.25, 0.25);
    graft_pytorch_close(f);
    f = open_golden("zip64.pt");
    if (f) counts(f, "a", GRAFT_F32, "(2,3)", 0.25, 0.25);
    if (f) CHECK(graft_pytorch_part(f) == NULL);
    graft_pytorch_close(f);
    f = open_golden("embedding.pt");
    if (f) counts(f, "*", GRAFT_F32, "(2,8)", 1, 0.25);
    if (f) CHECK_STR(graft_pytorch_part(f), "string_to_param");
    graft_pytorch_close(f);
    f = open_golden("upscaler.pth"); /* of two sets of weights the averaged one */
    if (f) counts(f, "conv.weight", GRAFT_F32, "(1,1,3,3)", 0.25, 0.25);
    graft_pytorch_close(f);
    f = open_golden("module.pt"); /* an object: names as state_dict() has them */
    if (f) {
        size_t n;
        graft_pytorch_tensors(f, &n);
        CHECK_INT(n, 7);
        counts(f, "0.weight", GRAFT_F32, "(3,2,1,1)", 0, 0.25);
        counts(f, "0.bias", GRAFT_F32, "(3)", 2.5, 0.25);
        counts(f, "1.running_var", GRAFT_F32, "(3)", 12.5, 0.25);
        counts(f, "1.num_batches_tracked", GRAFT_I64, "()", 15, 0);
    }
    graft_pytorch_close(f);
}

/* ------------------------------------------------------------------ by hand */

/* A file of the older layout whose tensors' pickle is given; storage "0", if that speaks of it, has
 * ten floats. It is freed with free(). */
static char *pickle_file(const char *pickle, size_t n, size_t *size)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                               "\x80\x02M\xe9\x03."
                               "\x80\x02}.";
    static const char tail[] = "\x80\x02]X\x01\0\0\0"
                               "0a."
                               "\x0a\0\0\0\0\0\0\0";
    static const char none[] = "\x80\x02].";
    bool some = memmem(pickle, n, "FloatStorage", 12) != NULL;
    size_t n_tail = some ? sizeof tail - 1 : sizeof none - 1;
    *size = sizeof head - 1 + n + n_tail + (some ? 40 : 0);
    char *p = calloc(1, *size); /* exactly: sanitizers see what is read beyond */
    memcpy(p, head, sizeof head - 1);
    memcpy(p + sizeof head - 1, pickle, n);
    memcpy(p + sizeof head - 1 + n, some ? tail : none, n_tail);
    return p;
}

static void given_as(int line, graft_status code, const char *words, const char *pickle, size_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    size_t size;
    char *bytes = pickle_file(pickle, n, &size);
    graft_status st = graft_pytorch_open_memory(bytes, size, "test.ckpt", &f, &e);
    CHECK_INT(st, code);
    CHECK((f == NULL) == (st != GRAFT_OK));
    CHECK(!st || (strstr(e.text, words) && strstr(e.text, "test.ckpt")));
    if (st != code || (st && !strstr(e.text, words)))
        fprintf(stderr, "  case of line %d: %d \"%s\"\n", line, (int)st, e.text);
    graft_pytorch_close(f);
    free(bytes);
}
#define GIVEN(code, words, pickle) given_as(__LINE__, code, words, pickle, sizeof(pickle) - 1)

#define FLOATS                                                                                     \
    "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"                                         \
    "0X\x03\0\0\0cpuK\x0aNtQ"
/* In the memory there is nothing else, so pickles may number from 0. */
#define TENSOR(offset, size, stride)                                                               \
    "ctorch._utils\n_rebuild_tensor_v2\n(" FLOATS offset size stride "\x89NtR"
#define DICT(tensor) "\x80\x02}X\x01\0\0\0a" tensor "s."

static void bounds(void)
{
    GIVEN(GRAFT_OK, "", DICT(TENSOR("K\0", "K\x0a\x85", "K\1\x85")));
    GIVEN(GRAFT_OK, "", DICT(TENSOR("K\4", "K\2K\2\x86", "K\3K\2\x86")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("K\0", "K\x0b\x85", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("K\1", "K\x0a\x85", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("K\4", "K\2K\2\x86", "K\4K\2\x86")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("J\xff\xff\xff\x7f", "K\1\x85", "K\1\x85")));
    /* Products and sums that leave 64 bits. */
#define HUGE "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("K\0", HUGE "K\2\x86", "K\1K\1\x86")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR("K\0", "K\3\x85", HUGE "\x85")));
    GIVEN(GRAFT_E_FORMAT, "beyond", DICT(TENSOR(HUGE, "K\2\x85", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "shape", DICT(TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "shape", DICT(TENSOR("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "shape", DICT(TENSOR("K\0", "K\1\x85", "K\1K\1\x86")));
    GIVEN(GRAFT_E_FORMAT, "shape", DICT(TENSOR("K\0", "N", "K\1\x85")));
    GIVEN(GRAFT_E_FORMAT, "shape", DICT(TENSOR("K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", ")")));
    /* How far apart the rows of one row are is of no concern. */
    GIVEN(GRAFT_OK, "", DICT(TENSOR("K\1", "K\1K\2\x86", HUGE "K\2\x86")));
    /* The same element again and again, which no file has to have room for. */
    GIVEN(GRAFT_E_NOTFOUND, "no tensors", DICT(TENSOR("K\0", "J\xff\xff\xff\x7f\x85", "K\0\x85")));
    /* One storage as a hundred tensors of ten. */
    enum { TIMES = 100 };
    static const char one[] = TENSOR("K\0", "K\x0a\x85", "K\1\x85") "q\0";
    char many[8 + sizeof one + 2 * TIMES + 4] = "\x80\x02](";
    size_t n = 4;
    memcpy(many + n, one, sizeof one - 1);
    n += sizeof one - 1;
    for (int i = 1; i < TIMES; i++, n += 2) memcpy(many + n, "h\0", 2);
    memcpy(many + n, "e.", 2);
    given_as(__LINE__, GRAFT_E_LIMIT, "many times", many, n + 2);
}

/* A thousand empty tensors in lists that lie in each other twice, all below eight long keys. */
static void long_names(void)
{
    enum { KEYS = 8, LENGTH = 1000, TWICE = 10 };
    static const char key[] = "}X\xe8\3\0\0",
                      tensor[] = "]" TENSOR("K\0", "K\0\x85", "K\1\x85") "a";
    char *pickle = calloc(1, 2 * KEYS * LENGTH), *p = pickle;
    p = mempcpy(p, "\x80\x02", 2);
    for (int i = 0; i < KEYS; i++) {
        p = mempcpy(p, key, sizeof key - 1);
        memset(p, 'k', LENGTH);
        p += LENGTH;
    }
    p = mempcpy(p, tensor, sizeof tensor - 1);
    for (char i = 0; i < TWICE; i++)
        p = mempcpy(p, (char[]){'q', i, '0', ']', '(', 'h', i, 'h', i, 'e'}, 10);
    for (int i = 0; i < KEYS; i++) *p++ = 's';
    *p++ = '.';
    given_as(__LINE__, GRAFT_E_LIMIT, "many times", pickle, (size_t)(p - pickle));
    free(pickle);
}

/* What makes a tensor in another way than a view of a storage. */
static void other_tensors(void)
{
    static const char pickle[] =
        "\x80\x02}(X\x01\0\0\0"
        "a" TENSOR("K\0", "K\1\x85", "K\1\x85") "X\x01\0\0\0"
                                                "bctorch._utils\n_rebuild_sparse_tensor\n()tR"
                                                "X\x01\0\0\0"
                                                "cctorch._utils\n_rebuild_qtensor\n(" FLOATS
                                                "K\0K\1\x85K\1\x85)\x89NtR"
                                                "X\x01\0\0\0"
                                                "dctorch._utils\n_rebuild_parameter\n(ctorch._"
                                                "utils\n_rebuild_sparse_tensor\n()tR\x89NtRu.";
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    size_t size, n = 0;
    char *bytes = pickle_file(pickle, sizeof pickle - 1, &size);
    CHECK_OK(graft_pytorch_open_memory(bytes, size, "test.ckpt", &f, &e), &e);
    if (f) graft_pytorch_tensors(f, &n);
    CHECK_INT(n, 1);
    if (f) CHECK_INT(graft_pytorch_left_out(f), 3);
    if (f) CHECK_STR(graft_pytorch_left_out_names(f), "b, c, d");
    graft_pytorch_close(f);
    free(bytes);
}

static void add_key(graft_str *p, const char *name)
{
    const char head[] = {'X', (char)strlen(name), 0, 0, 0};
    graft_str_append(p, head, sizeof head);
    graft_str_puts(p, name);
}

/* Of many the first are named, cut where they are long, without what a terminal would obey. */
static void others_named(void)
{
    static const char tensor[] = TENSOR("K\0", "K\1\x85", "K\1\x85"), begin[] = "\x80\x02}(";
    static const char *const others[] = {"\x1b[2Jx",
                                         "m234567890"
                                         "1234567890"
                                         "1234567890"
                                         "1234567890"
                                         "1234567890"
                                         "12345678901",
                                         "c",
                                         "d",
                                         "e",
                                         "f"};
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    graft_str p = GRAFT_STR_INIT;
    size_t size;
    graft_str_append(&p, begin, sizeof begin - 1);
    add_key(&p, "a");
    graft_str_append(&p, tensor, sizeof tensor - 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        add_key(&p, others[i]);
        graft_str_puts(&p, "ctorch._utils\n_rebuild_sparse_tensor\n()tR");
    }
    graft_str_puts(&p, "u.");
    char *bytes = pickle_file(p.data, p.len, &size);
    CHECK_OK(graft_pytorch_open_memory(bytes, size, "test.ckpt", &f, &e), &e);
    if (f) CHECK_INT(graft_pytorch_left_out(f), 6);
    if (f)
        CHECK_STR(graft_pytorch_left_out_names(f),
                  "?[2Jx, m23456789012345678901234567890123456789012345678901234567890..., c, d, "
                  "...");
    graft_pytorch_close(f);
    graft_str_finish(&p);
    free(bytes);
}

static void pickles(void)
{
    GIVEN(GRAFT_E_NOTFOUND, "no tensors", "\x80\x02}.");
    GIVEN(GRAFT_E_FORMAT, "protocol 2", "(dp0\n.");
    GIVEN(GRAFT_E_FORMAT, "above 5", "\x80\x06}.");
    GIVEN(GRAFT_E_UNSUPPORTED, "0x49", "\x80\x02I1\n.");
    static const char *const short_of[] = {"\x80\x02.",
                                           "\x80\x02"
                                           "a.",
                                           "\x80\x02s.",
                                           "\x80\x02R.",
                                           "\x80\x02"
                                           "b.",
                                           "\x80\x02Q.",
                                           "\x80\x02\x85.",
                                           "\x80\x02\x87.",
                                           "\x80\x02"
                                           "2.",
                                           "\x80\x02"
                                           "0.",
                                           "\x80\x02(0N\x86.",
                                           "\x80\x02q."};
    for (size_t i = 0; i < sizeof short_of / sizeof *short_of; i++)
        given_as(__LINE__, GRAFT_E_FORMAT, "damaged pickle", short_of[i], strlen(short_of[i]));
    GIVEN(GRAFT_E_FORMAT, "no mark", "\x80\x02t.");
    GIVEN(GRAFT_E_FORMAT, "nothing was stored", "\x80\x02h\5.");
    GIVEN(GRAFT_E_FORMAT, "too far away", "\x80\x02}r\xff\xff\xff\xff.");
    GIVEN(GRAFT_E_FORMAT, "without a value", "\x80\x02}(Nu.");
    GIVEN(GRAFT_E_FORMAT, "no list", "\x80\x02}Na.");
    GIVEN(GRAFT_E_FORMAT, "no dictionary", "\x80\x02]NNs.");
    GIVEN(GRAFT_E_FORMAT, "cut short", "\x80\x02X\xff\xff\xff\xff.");
    GIVEN(GRAFT_E_FORMAT, "cut short", "\x80\x02\x8e\xff\xff\xff\xff\xff\xff\xff\xff.");
    GIVEN(GRAFT_E_FORMAT, "does not end",
          "\x80\x02"
          "cposix.system");
    /* A list in itself, and one that is ten times in ten lists, eight levels up. */
    GIVEN(GRAFT_E_LIMIT, "in itself", "\x80\x02]q\0h\0a.");
#define TEN(n) "q" n "0](h" n "h" n "h" n "h" n "h" n "h" n "h" n "h" n "h" n "h" n "e"
    GIVEN(GRAFT_E_LIMIT, "nested",
          "\x80\x02]" TEN("\0") TEN("\1") TEN("\2") TEN("\3") TEN("\4") TEN("\5") TEN("\6") ".");
}

static size_t put(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return n;
}

/* Dictionaries can be shared, too: one tensor of no bytes has a hundred thousand names of two
 * thousand letters in a file of three kilobytes. */
static void many_names(void)
{
    enum { LEVELS = 7, TENS = 5, LETTERS = 1000 };
    static const char leaf[] = "\x80\x02" TENSOR("K\0", "K\0\x85", "K\1\x85") "q\0";
    static const char key[] = "X\xe8\x03\0";
    char many[LEVELS * (LETTERS + 100)], letters[LETTERS];
    size_t n = put(many, leaf, sizeof leaf - 1);
    memset(letters, 'k', sizeof letters);
    for (char level = 0; level < LEVELS; level++) {
        n += put(many + n, "0}(", 3); /* what is in the memory is let go of */
        for (char k = 0; k < (level < TENS ? 10 : 1); k++) {
            const char one[] = {'X', 1, 0, 0, 0, (char)('a' + k)}, back[] = {'h', level};
            if (level < TENS) n += put(many + n, one, sizeof one);
            if (level >= TENS) n += put(many + n, key, sizeof key);
            if (level >= TENS) n += put(many + n, letters, sizeof letters);
            n += put(many + n, back, sizeof back);
        }
        const char keep[] = {'u', 'q', (char)(level + 1)};
        n += put(many + n, keep, sizeof keep);
    }
    many[n++] = '.';
    given_as(__LINE__, GRAFT_E_LIMIT, "many times the file", many, n);
}

/* What a pickle calls is not called. */
static void runs_nothing(void)
{
    static const char call[] = "\x80\x02"
                               "cposix\nsystem\n(X";
    char path[256], command[300], pickle[600];
    snprintf(path, sizeof path, "%s/pickle-ran-%ld", GRAFT_BINARY_DIR, (long)getpid());
    size_t length = (size_t)snprintf(command, sizeof command, "touch %s", path);
    size_t n = sizeof call - 1;
    memcpy(pickle, call, n);
    for (int i = 0; i < 4; i++) pickle[n++] = (char)(length >> (8 * i));
    memcpy(pickle + n, command, length);
    memcpy(pickle + n + length, "tR.", 3);
    n += length + 3;
    given_as(__LINE__, GRAFT_E_NOTFOUND, "no tensors", pickle, n);
    CHECK(access(path, F_OK) != 0);
}

/* ------------------------------------------------------------------ damage */

/* Cut anywhere, and with any one byte turned over: an error or tensors inside the bytes. */
static void damaged(const char *name)
{
    char path[512], *data;
    size_t size, n;
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    CHECK_OK(graft_file_read(path, 1 << 20, &data, &size, &e), &e);
    for (size_t cut = 0; cut < 2 * size; cut++) {
        size_t now = cut < size ? cut : size;
        char *copy = malloc(now ? now : 1);
        memcpy(copy, data, now);
        if (cut >= size) copy[cut - size] ^= (char)0xff;
        graft_status st = graft_pytorch_open_memory(copy, now, "damaged", &f, &e);
        CHECK(st ? f == NULL : f != NULL);
        const graft_st_tensor *t = f ? graft_pytorch_tensors(f, &n) : NULL;
        volatile char sum = 0;
        for (size_t i = 0; t && i < n; i++)
            for (uint64_t k = 0; k < t[i].bytes; k++) sum ^= ((const char *)t[i].data)[k];
        (void)sum;
        graft_pytorch_close(f);
        free(copy);
    }
    graft_free(data);
}

static void survives_damage(void)
{
    damaged("zip64.pt");
    damaged("protocol5.pt");
    damaged("embedding.pt");
    damaged("legacy.ckpt");
}

static void other_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_pytorch *f;
    CHECK_INT(graft_pytorch_open(GOLDEN "none.pt", &f, &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_pytorch_open(GOLDEN "script.pt", &f, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "TorchScript") != NULL);
    CHECK_INT(graft_pytorch_open(GOLDEN "../noise.safetensors", &f, &e), GRAFT_E_FORMAT);
    static const char zip[] = "PK\3\4";
    CHECK_INT(graft_pytorch_open_memory(zip, 4, "a", &f, &e), GRAFT_E_FORMAT);
    graft_safetensors *s;
    for (int i = 0; i < 2; i++) {
        const char *path = i ? GOLDEN "legacy.ckpt" : GOLDEN "checkpoint.ckpt";
        CHECK_INT(graft_safetensors_open(path, &s, &e), GRAFT_E_FORMAT);
        CHECK(strstr(e.text, "graft convert") != NULL);
    }
}

/* ------------------------------------------------------------------ conversion */

static void converts(void)
{
    char to[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_convert_info info;
    graft_safetensors *s = NULL;
    graft_pytorch *f = open_golden("checkpoint.ckpt");
    snprintf(to, sizeof to, "%s/converted-%ld.safetensors", GRAFT_BINARY_DIR, (long)getpid());
    CHECK_OK(graft_checkpoint_convert(GOLDEN "checkpoint.ckpt", to, &info, &e), &e);
    CHECK_OK(graft_safetensors_open(to, &s, &e), &e);
    size_t n = 0;
    uint64_t bytes = 0;
    const graft_st_tensor *t = f ? graft_pytorch_tensors(f, &n) : NULL;
    CHECK_INT(s ? graft_safetensors_count(s) : 0, n);
    CHECK_INT(info.tensors, n);
    CHECK_INT(info.left_out, 3);
    CHECK_STR(info.part, "state_dict");
    for (size_t i = 0; s && i < n; i++) {
        const graft_st_tensor *u = graft_safetensors_find(s, t[i].name);
        CHECK(u && u->dtype == t[i].dtype && u->rank == t[i].rank && u->bytes == t[i].bytes);
        CHECK(u && memcmp(u->shape, t[i].shape, (size_t)u->rank * sizeof *u->shape) == 0);
        CHECK(u && memcmp(u->data, t[i].data, (size_t)u->bytes) == 0);
        bytes += t[i].bytes;
    }
    CHECK_INT(info.bytes, bytes);
    CHECK_INT(graft_checkpoint_convert(GOLDEN "upscaler.pth", to, &info, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "exists") != NULL);
    graft_safetensors_close(s);
    graft_pytorch_close(f);
    unlink(to);
}

/* Two ways to one name, which a safetensors file cannot have twice: nothing is written. */
static void names_once(void)
{
    static const char twice[] =
        "\x80\x02}(X\x03\0\0\0"
        "a.b" TENSOR("K\0", "K\1\x85", "K\1\x85") "X\x01\0\0\0"
                                                  "a}X\x01\0\0\0"
                                                  "b" TENSOR("K\0", "K\1\x85", "K\1\x85") "su.";
    char from[256], to[256];
    size_t size;
    graft_err e = GRAFT_ERR_INIT;
    graft_convert_info info;
    char *bytes = pickle_file(twice, sizeof twice - 1, &size);
    snprintf(from, sizeof from, "%s/twice-%ld.ckpt", GRAFT_BINARY_DIR, (long)getpid());
    snprintf(to, sizeof to, "%s/twice-%ld.safetensors", GRAFT_BINARY_DIR, (long)getpid());
    CHECK_OK(graft_file_write(from, bytes, size, &e), &e);
    CHECK_INT(graft_checkpoint_convert(from, to, &info, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, to) && strstr(e.text, "\"a.b\" occurs twice"));
    CHECK(!graft_file_exists(to));
    unlink(from);
    free(bytes);
}

int main(void)
{
    RUN(checkpoints);
    RUN(other_forms);
    RUN(bounds);
    RUN(long_names);
    RUN(other_tensors);
    RUN(others_named);
    RUN(pickles);
    RUN(many_names);
    RUN(runs_nothing);
    RUN(survives_damage);
    RUN(other_files);
    RUN(converts);
    RUN(names_once);
    return test_end();
}
