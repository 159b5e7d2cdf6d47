/* Text encoders that see pictures, Qwen 2.5-VL's and Qwen 3-VL's, in files made here: what holds
 * for both. */
#ifndef GRAFT_TESTS_ENGINE_SEEN_FILES_H
#define GRAFT_TESTS_ENGINE_SEEN_FILES_H
#include "tests/engine/llama_files.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define CLIP     GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"
#define BEHIND   "<|im_end|>\n<|im_start|>assistant\n"

static graft_engine *engine;
static graft_clip *clip; /* of whole_file() */

/* The file that includes this one says what they are. */
static made_file *whole_file(void);
static graft_clip *clip_of(made_file *f); /* f is finished */
static void encodes_alike(const graft_clip *other);

/* Of the part that looks at pictures; columns 0: a vector. */
static inline void add(made_file *f, const char *name, int64_t rows, int64_t columns)
{
    char full[200];
    snprintf(full, sizeof full, "visual.%s", name);
    add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, 0.3f);
}

static inline bool same_latent(const graft_latent *a, const graft_latent *b)
{
    int64_t s[4], t[4];
    const float *x = graft_latent_data(a, s), *y = graft_latent_data(b, t);
    return memcmp(s, t, sizeof s) == 0 && memcmp(x, y, (size_t)shape_count(s, 4) * sizeof *x) == 0;
}

/* Saved alone and in a checkpoint, from either of the places that transformers has had for it. */
static inline void saved(void)
{
    made_file *f = whole_file();
    for (size_t i = 0; i < f->n; i++) {
        char name[200];
        const char *was = f->tensor[i].name;
        const bool sees = strncmp(was, "visual.", 7) == 0;
        const char *part = strncmp(was, "model.", 6) == 0 ? was + 6 : was;
        snprintf(name, sizeof name, "%s%s", sees ? "model." : "model.language_model.", part);
        if (strcmp(was, "merges_txt") == 0) snprintf(name, sizeof name, "model.language_%s", was);
        call_tensor(&f->tensor[i], name);
    }
    graft_clip *moved = clip_of(f);
    encodes_alike(moved);
    for (int i = 0; i < 4; i++) {
        const graft_checkpoint what = {.clip = i & 1 ? moved : clip, .encoder = i / 2};
        const char *to = temp_path("saved.safetensors");
        graft_clip *again = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        CHECK_OK(graft_clip_load(engine, &to, 1, "qwen_image", NULL, &again, &e), &e);
        if (again) encodes_alike(again);
        if (again) graft_clip_release(again);
        unlink(to);
    }
    graft_clip_release(moved);
}
#endif
