/* One VAE in several files, a small one: under whatever names it is the same, what is wrong with it
 * is told, and no allocation is lost. */
#ifndef GRAFT_TESTS_ENGINE_VAE_FILES_H
#define GRAFT_TESTS_ENGINE_VAE_FILES_H
#include "tests/engine/damage.h"
#include "tests/engine/vae_run.h"

static inline graft_latent *small_latent(const graft_vae *v)
{
    return latent_of((int64_t[]){1, graft_vae_planes(&v->arch), 3, 4});
}

static inline graft_image *small_picture(const graft_vae *v)
{
    const int64_t scale = graft_vae_scale(&v->arch);
    return picture_of(1, 3 * scale, 4 * scale);
}

/* They decode and encode alike. */
static inline void same_pictures(const graft_vae *a, const graft_vae *b)
{
    CHECK(a && b);
    if (!a || !b) return;
    graft_latent *l = small_latent(a);
    graft_image *p = small_picture(a), *x = decoded(a, l, NULL), *y = decoded(b, l, NULL);
    graft_latent *z = encoded(a, p, NULL), *w = encoded(b, p, NULL);
    CHECK(images_apart(x, y) == 0 && latents_apart(z, w) == 0);
    graft_image_release(p), graft_image_release(x), graft_image_release(y);
    graft_latent_release(l), graft_latent_release(z), graft_latent_release(w);
}

static inline void same_vae(const graft_vae *a, const graft_vae *b)
{
    same_pictures(a, b);
    CHECK(a && b && memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
}

/* The file f is the VAE of the one at `path`. Takes f. */
static inline void same_vae_in(made_file *f, const char *path)
{
    const char *other = temp_path("vae.safetensors");
    graft_vae *a = load_vae(path), *b;
    write_file(f, other, NULL);
    b = load_vae(other);
    same_vae(a, b);
    graft_vae_release(a);
    graft_vae_release(b);
    unlink(other);
}

/* What VAESave writes is the same VAE, also below a checkpoint's prefix. */
static inline void saved_vae(const char *path)
{
    const char *to = temp_path("saved.safetensors");
    graft_vae *a = load_vae(path);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = a}, to, NULL, NULL, &e), &e);
    same_vae_in(part_of_file(to, ""), path);
    same_vae_in(renamed_tensors(part_of_file(to, ""), NULL, "vae."), path);
    graft_vae_release(a);
    unlink(to);
}

/* Alone, a decoder is a VAE. */
static inline void decoder_alone(const char *from)
{
    const char *path = temp_path("decoder.safetensors");
    made_file *f = golden_file(from);
    drop_tensors(f, "encoder.");
    write_file(f, path, NULL);
    graft_vae *whole = load_vae(from), *v = load_vae(path);
    CHECK(v && !v->arch.encoder && v->arch.residual == whole->arch.residual);
    CHECK(v && v->arch.in_channels == whole->arch.in_channels);
    graft_vae_release(whole);
    graft_vae_release(v);
    unlink(path);
}

/* Takes f. */
static inline void vae_refused(made_file *f, graft_status status, const char *words)
{
    const char *path = temp_path("damaged.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load(engine, path, NULL, &v, &e), status);
    CHECK(!v && strstr(e.text, words) && strstr(e.text, "damaged.safetensors"));
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
    unlink(path);
}

/* table: diffusers' names, for what is damaged in these. */
static inline void vaes_refused(const char *path, const renaming *table, const damage *list)
{
    for (const damage *d = list; d->status; d++) {
        made_file *f = golden_file(path);
        if (d->theirs) f = renamed_tensors(f, table, "");
        damage_file(f, d);
        vae_refused(f, d->status, words_of(d));
    }
    CHECK(list->status);
}

/* Any of these tensors, which is named. */
static inline void vae_lacks(const char *path, const char *const *gone, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        made_file *f = golden_file(path);
        drop_tensor(f, gone[i]);
        vae_refused(f, GRAFT_E_FORMAT, gone[i]);
    }
}

/* Whichever allocation fails: an error, nothing lost, and the same when none does. */
static inline void runs_short_of_memory(const char *path)
{
    graft_vae *v = load_vae(path);
    graft_latent *l = small_latent(v);
    graft_image *p = small_picture(v), *want = decoded(v, l, NULL);
    graft_latent *mean = encoded(v, p, NULL);
    const int64_t live = live_blocks();
    int failed = 0;
    for (bool done = false; !done && failed < 2000;) {
        graft_err e = GRAFT_ERR_INIT;
        graft_image *image = NULL;
        graft_latent *latent = NULL;
        graft_alloc_fail_at(failed + 1);
        graft_status st = graft_vae_decode(v, l, NULL, NULL, &image, &e);
        if (!st) st = graft_vae_encode(v, p, NULL, NULL, &latent, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        if (done)
            CHECK(images_apart(image, want) == 0 && latents_apart(latent, mean) == 0);
        else
            CHECK_INT(st, GRAFT_E_NOMEM);
        failed += !done;
        graft_image_release(image);
        graft_latent_release(latent);
    }
    CHECK(failed > 4 && failed < 2000);
    CHECK_INT(live_blocks(), live);
    graft_latent_release(l), graft_latent_release(mean);
    graft_image_release(p), graft_image_release(want);
    graft_vae_release(v);
}
#endif
