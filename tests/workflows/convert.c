/* `graft convert`: a PyTorch file beside its safetensors, and what is refused. */
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/gguf_file.h"
#include "tests/workflows/process.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/small/pytorch/"

/* Runs it, and expects this status and these words. */
static void convert(const char *from, const char *to, int status, const char *words)
{
    process p = {.output = "convert/out"};
    process_run(&p, (const char *[]){"convert", from, to, NULL});
    CHECK_INT(p.status, status);
    CHECK(strstr(p.text, words) != NULL);
    if (p.status != status || !strstr(p.text, words))
        fprintf(stderr, "wanted \"%s\" in:\n%s\n", words, p.text);
    process_finish(&p);
}

static void converts(void)
{
    char from[512], to[512], dotted[512], *data;
    size_t size;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(dotted, sizeof dotted, "%s", scratch("convert/in.v2"));
    CHECK_OK(graft_dir_make(dotted, &e), &e);
    snprintf(from, sizeof from, "%s", scratch("convert/in.v2/model.ckpt"));
    snprintf(to, sizeof to, "%s", scratch("convert/in.v2/model.safetensors"));
    CHECK_OK(graft_file_read(GOLDEN "checkpoint.ckpt", 1 << 20, &data, &size, &e), &e);
    CHECK_OK(graft_file_write(from, data, size, &e), &e);
    unlink(to);
    convert(from, NULL, 0,
            "17 tensors of \"state_dict\", 0.8 kB; 3 left out, of kinds that are not read: "
            "expanded, complex, i16");
    CHECK(graft_file_exists(to));
    convert(from, NULL, 1, "model.safetensors: there is such a file already; remove it, or name");
    unlink(to);
    convert(from, to, 0, to);
    /* Without a suffix the new one is added, and a point in a folder's name is no suffix. */
    snprintf(from, sizeof from, "%s", scratch("convert/in.v2/model"));
    CHECK_OK(graft_file_write(from, data, size, &e), &e);
    unlink(to);
    convert(from, NULL, 0, "model.safetensors");
    CHECK(graft_file_exists(to));
    /* What loaders advise for a PyTorch file of this name. */
    CHECK_OK(graft_file_write(to, data, size, &e), &e);
    snprintf(from, sizeof from, "%s", scratch("convert/in.v2/model-converted.safetensors"));
    unlink(from);
    convert(to, NULL, 0, "model-converted.safetensors");
    CHECK(graft_file_exists(from));
    graft_free(data);
}

/* What comes of parts is one file, whose name does not make it a part. */
static void joins_parts(void)
{
    const float one[2] = {1, 2};
    const graft_st_tensor t[2] = {
        {.name = "a", .dtype = GRAFT_F32, .rank = 1, .shape = {2}, .data = one, .bytes = 8},
        {.name = "b", .dtype = GRAFT_F32, .rank = 1, .shape = {2}, .data = one, .bytes = 8}};
    char stem[480], from[512], to[512];
    snprintf(stem, sizeof stem, "%s", scratch("convert/big"));
    snprintf(to, sizeof to, "%s.safetensors", stem);
    unlink(to);
    gguf_write_parts(stem, 2, "test", NULL, t, 2, NULL);
    convert(gguf_part_path(stem, 2, 2, from, sizeof from), NULL, 0, "big.safetensors: 2 tensors");
    CHECK(graft_file_exists(to));
    gguf_remove_parts(stem, 2);
}

/* A network in integers, for which other words of the command line are given. */
static void quantizes(void)
{
    char from[512], to[512];
    snprintf(from, sizeof from, "%s", scratch("convert/flux.safetensors"));
    snprintf(to, sizeof to, "%s", scratch("convert/flux_int8_convrot.safetensors"));
    char *data;
    size_t size;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors", 1 << 24, &data,
                             &size, &e),
             &e);
    CHECK_OK(graft_file_write(from, data, size, &e), &e);
    graft_free(data);
    unlink(to);
    const struct {
        const char *how, *words;
        int status;
    } cases[] = {{"int8_convrot", "flux_int8_convrot.safetensors: ", 0},
                 {"int8_convrot", "there is such a file already", 1},
                 {"int8", "layers in 8-bit integers", 0},
                 {"int4", "--quantize must be int8_convrot or int8, not \"int4\"", 2}};
    unlink(scratch("convert/flux_int8.safetensors"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        process p = {.output = "convert/out"};
        process_run(&p, (const char *[]){"convert", from, "--quantize", cases[i].how, NULL});
        CHECK_INT(p.status, cases[i].status);
        CHECK(strstr(p.text, cases[i].words) != NULL);
        process_finish(&p);
    }
    CHECK(graft_file_exists(to) && graft_file_exists(scratch("convert/flux_int8.safetensors")));
    convert(to, "elsewhere.safetensors", 1, "a safetensors file already");
}

static void refuses(void)
{
    convert(GOLDEN "none.ckpt", NULL, 1, "none.ckpt");
    convert(GOLDEN "script.pt", scratch("convert/x"), 1, "TorchScript");
    convert(GOLDEN "../noise.safetensors", scratch("convert/x"), 1, "nothing to convert");
    convert(GOLDEN "../noise.safetensors", NULL, 1, "a safetensors file already; there is nothing");
    convert(GRAFT_SOURCE_DIR "/README.md", scratch("convert/x"), 1, "torch.save");
    CHECK(!graft_file_exists(scratch("convert/x")));
    convert(GOLDEN "zip64.pt", scratch("convert/none/x"), 1, "convert/none/x");
}

int main(void)
{
    RUN(converts);
    RUN(joins_parts);
    RUN(quantizes);
    RUN(refuses);
    return test_end();
}
