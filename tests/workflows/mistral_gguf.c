/* FLUX.2 dev with its text encoder as GGUF in parts, loaded by ComfyUI-GGUF's node, draws what it
 * does with the same values in transformers' names. */
#include "tests/test.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/tekken_gguf.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define ENCODER    WORKFLOW_MODELS "/text_encoders/tiny-mistral.safetensors"
#define VOCABULARY WORKFLOW_MODELS "/text_encoders/tekken.json"
#define WORKFLOW   GRAFT_SOURCE_DIR "/workflows/flux2-dev.json"

enum { HEAD = 8, VOCAB = 803, PARTS = 2 };

static char models[300];

static const char *in_models(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "mistral-gguf/models/%s", name);
    return scratch(path);
}

static void make_link(const char *name)
{
    char to[500];
    snprintf(to, sizeof to, "%s/%s", WORKFLOW_MODELS, name);
    unlink(in_models(name));
    CHECK_INT(symlink(to, in_models(name)), 0);
}

/* What llama.cpp calls a tensor of a Mistral. */
static void name_of(const char *name, char *out, size_t size)
{
    static const char *const words[][2] = {{"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"input_layernorm", "attn_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"}};
    unsigned layer;
    snprintf(out, size, "%s",
             strstr(name, "embed_tokens") ? "token_embd.weight" : "output_norm.weight");
    if (sscanf(name, "model.layers.%u.", &layer) != 1) return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i][0])) snprintf(out, size, "blk.%u.%s.weight", layer, words[i][1]);
}

/* Halves of each head's rows take turns. */
static void *turned(const graft_st_tensor *t)
{
    const size_t bytes = (size_t)t->bytes / (size_t)t->shape[0];
    uint8_t *to = malloc((size_t)t->bytes);
    if (!to) abort();
    for (size_t row = 0; row < (size_t)t->shape[0]; row++) {
        const size_t of_head = row % HEAD, half = HEAD / 2;
        const size_t place = row - of_head + 2 * (of_head % half) + of_head / half;
        memcpy(to + place * bytes, (const uint8_t *)t->data + row * bytes, bytes);
    }
    return to;
}

static void write_encoder(void)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    gguf_pairs pairs = {0};
    char *json = NULL;
    size_t bytes;
    CHECK_OK(graft_safetensors_open(ENCODER, &f, &e), &e);
    CHECK_OK(graft_file_read(VOCABULARY, 1 << 20, &json, &bytes, &e), &e);
    if (!f || !json) abort();
    const size_t n = graft_safetensors_count(f);
    graft_st_tensor *t = calloc(n, sizeof *t);
    char(*name)[100] = calloc(n, sizeof *name);
    if (!t || !name) abort();
    for (size_t i = 0; i < n; i++) {
        t[i] = *graft_safetensors_at(f, i);
        name_of(t[i].name, name[i], sizeof *name);
        t[i].name = name[i];
        if (strstr(name[i], "attn_q.") || strstr(name[i], "attn_k.")) t[i].data = turned(&t[i]);
    }
    gguf_add_u32(&pairs, "llama.rope.dimension_count", HEAD);
    add_tekken(&pairs, json, "tekken", VOCAB, NULL, 0);
    gguf_write_parts(in_models("text_encoders/mistral"), PARTS, "llama", NULL, t, n, &pairs);
    for (size_t i = 0; i < n; i++)
        if (strstr(name[i], "attn_q.") || strstr(name[i], "attn_k."))
            free((void *)(uintptr_t)t[i].data);
    free(t);
    free(name);
    free(pairs.bytes.data);
    graft_free(json);
    graft_safetensors_close(f);
}

static void make_models(void)
{
    static const char *const folders[] = {"diffusion_models", "text_encoders", "vae"};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < 3; i++) CHECK_OK(graft_dir_make(in_models(folders[i]), &e), &e);
    snprintf(models, sizeof models, "%s", scratch("mistral-gguf/models"));
    make_link("diffusion_models/tiny-flux2-dev.safetensors");
    make_link("vae/tiny-flux2-vae.safetensors");
    write_encoder();
}

/* The workflow with ComfyUI-GGUF's loader. */
static const char *with_its_loader(void)
{
    static const char usual[] = "\"CLIPLoader\"", device[] = ", \"device\": \"default\" }";
    char *text = NULL, whole[20000];
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(WORKFLOW, sizeof whole / 2, &text, &n, &e), &e);
    char *at = text ? strstr(text, usual) : NULL, *end = at ? strstr(at, device) : NULL;
    if (!end) abort();
    *at = *end = '\0';
    snprintf(whole, sizeof whole, "%s\"CLIPLoaderGGUF\"%s }%s", text, at + strlen(usual),
             end + strlen(device));
    CHECK(scratch_write("mistral-gguf/flux2-dev.json", whole));
    graft_free(text);
    return scratch("mistral-gguf/flux2-dev.json");
}

static void draw(process *p, const char *file, const char *encoder)
{
    char clip[100];
    snprintf(clip, sizeof clip, "2.clip_name=%s", encoder);
    process_workflow(p, file,
                     (const char *[]){"1.unet_name=tiny-flux2-dev.safetensors", clip,
                                      "3.vae_name=tiny-flux2-vae.safetensors", "7.steps=2",
                                      "7.width=80", "7.height=112", "6.width=80", "6.height=112",
                                      "8.width=80", "8.height=112", NULL});
    CHECK_INT(p->status, 0);
    CHECK_INT(output_count(p), 1);
    if (p->status) fprintf(stderr, "%s\n", p->text);
}

static void same_picture(void)
{
    process usual = {.output = "mistral-gguf/usual", .backend = "auto"};
    process gguf = {.output = "mistral-gguf/gguf", .backend = "auto", .models = models};
    draw(&usual, "workflows/flux2-dev.json", "tiny-mistral.safetensors");
    draw(&gguf, with_its_loader(), "mistral-00001-of-00002.gguf");
    CHECK(picture_psnr(output_file(&usual, 0), output_file(&gguf, 0)) > 200);
    process_finish(&usual);
    process_finish(&gguf);
}

int main(void)
{
    RUN(make_models);
    RUN(same_picture);
    return test_end();
}
