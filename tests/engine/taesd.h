/* Tiny autoencoders in the layouts of their author and of diffusers, from golden/small/taesd_*. */
#ifndef GRAFT_TESTS_ENGINE_TAESD_H
#define GRAFT_TESTS_ENGINE_TAESD_H
#include <sys/stat.h>

#include "tests/engine/fixture.h"

#define TAESD(name)   GRAFT_SOURCE_DIR "/golden/small/taesd_" name ".safetensors"
#define TAESD_SCALE   0.18215
#define TAESDXL_SCALE 0.13025
#define TAESD3_SCALE  1.5305
#define TAESD3_SHIFT  0.0609
#define FLUX          GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors"
#define FLUX2         GRAFT_SOURCE_DIR "/golden/small/flux2_klein.safetensors"
#define MMDIT         GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"

static inline void taesd_drop(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
}

/* The network of a golden file, without the cases in it. */
static inline made_file *taesd_copy(const char *path)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, "");
    for (size_t i = m->n; i-- > 0;)
        if (strncmp(m->tensor[i].name, "case", 4) == 0) taesd_drop(m, m->tensor[i].name);
    graft_safetensors_close(f);
    return m;
}

/* Half of a golden file, in its author's names. */
static inline made_file *taesd_half(const char *golden, bool decoder)
{
    made_file *m = taesd_copy(golden);
    const char *other = decoder ? "encoder." : "decoder.";
    for (size_t i = m->n; i-- > 0;) {
        graft_st_tensor *t = &m->tensor[i];
        char name[64], rest[48];
        int number;
        if (strncmp(t->name, other, 8) == 0) {
            taesd_drop(m, t->name);
            continue;
        }
        CHECK_INT(sscanf(t->name + 8, "layers.%d.%47s", &number, rest), 2);
        snprintf(name, sizeof name, "%d.%s", number + decoder, rest);
        free((char *)t->name);
        t->name = strdup(name);
    }
    return m;
}

/* Writes the golden pair as FOLDER/NAME_encoder.safetensors and FOLDER/NAME_decoder.safetensors,
 * both removed by taesd_remove(). */
typedef struct taesd_files {
    char folder[256], encoder[512], decoder[512];
} taesd_files;

static inline taesd_files taesd_names(const char *folder, const char *name)
{
    taesd_files p;
    snprintf(p.folder, sizeof p.folder, "%s", temp_path(folder));
    mkdir(p.folder, 0777);
    snprintf(p.encoder, sizeof p.encoder, "%s/%s_encoder.safetensors", p.folder, name);
    snprintf(p.decoder, sizeof p.decoder, "%s/%s_decoder.safetensors", p.folder, name);
    return p;
}

static inline taesd_files taesd_write(const char *folder, const char *name, const char *config)
{
    taesd_files p = taesd_names(folder, name);
    write_file(taesd_copy(TAESD("pair_encoder")), p.encoder, config);
    write_file(taesd_copy(TAESD("pair_decoder")), p.decoder, config);
    return p;
}

/* The same of a golden file that has both halves, and of that for Stable Diffusion 3. */
static inline taesd_files taesd_write_halves(const char *golden, const char *folder,
                                             const char *name, const char *config)
{
    taesd_files p = taesd_names(folder, name);
    write_file(taesd_half(golden, false), p.encoder, config);
    write_file(taesd_half(golden, true), p.decoder, config);
    return p;
}

static inline taesd_files taesd3_write(const char *folder, const char *name, const char *config)
{
    return taesd_write_halves(TAESD("sd3"), folder, name, config);
}

static inline void taesd_remove(const taesd_files *p)
{
    unlink(p->encoder);
    unlink(p->decoder);
    rmdir(p->folder);
}

static inline graft_vae *taesd_load_pair(graft_engine *g, const char *encoder, const char *decoder)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load_pair(g, encoder, decoder, NULL, &v, &e), &e);
    return v;
}
#endif
