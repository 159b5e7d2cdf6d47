#include "nodes/loaders/text_encoders.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { MAX_FILES = 4 };

#define FOLDER "Put .safetensors and .gguf files into models/text_encoders."

const graft_input graft_text_encoders_one =
    INPUT_CHOICE("clip_name", NULL, "The text encoder's file. " FOLDER);
const graft_input graft_text_encoders_two[2] = {
    INPUT_CHOICE("clip_name1", NULL,
                 "One of the two encoder files; the order does not matter. " FOLDER),
    INPUT_CHOICE("clip_name2", NULL, "The other encoder file.")};
const graft_input graft_text_encoders_three[3] = {
    INPUT_CHOICE("clip_name1", NULL,
                 "One of the three encoder files: CLIP-L, CLIP-G and T5-XXL. The order does not "
                 "matter. " FOLDER),
    INPUT_CHOICE("clip_name2", NULL, "Another one."),
    INPUT_CHOICE("clip_name3", NULL, "The last one.")};
const graft_input graft_text_encoders_four[4] = {
    INPUT_CHOICE("clip_name1", NULL,
                 "One of the four encoder files: CLIP-L, CLIP-G, T5-XXL and Llama 3.1 8B. The "
                 "order does not matter. " FOLDER),
    INPUT_CHOICE("clip_name2", NULL, "The second one."),
    INPUT_CHOICE("clip_name3", NULL, "The third one."),
    INPUT_CHOICE("clip_name4", NULL, "The last one.")};
const graft_output graft_text_encoders_out =
    OUTPUT("CLIP", "CLIP", "The text encoders as one, for prompts.");

const graft_input graft_text_encoders_type_of_one = INPUT_CHOICE(
    "type",
    CHOICES("stable_diffusion", "stable_cascade", "sd3", "stable_audio", "mochi", "ltxv", "pixart",
            "cosmos", "lumina2", "wan", "hidream", "chroma", "ace", "omnigen2", "qwen_image",
            "hunyuan_image", "flux2", "ovis", "longcat_image", "krea2", "ideogram4"),
    "The family of models that the encoder is for. Graft runs stable_diffusion, also with Qwen 3 "
    "0.6B, for Anima, and with Pile-T5-XL, for AuraFlow, sd3, lumina2 (Qwen 3, for Z-Image, and "
    "Gemma 2, for "
    "Lumina-Image 2.0), flux2 (Qwen 3, for FLUX.2 klein, "
    "Mistral, for dev, and Ministral 3, for ERNIE-Image), chroma (T5), qwen_image (Qwen 2.5-VL, "
    "and for Qwen-Image 2.1 Qwen 3-VL-8B), ovis (Ovis 2.5's Qwen 3), longcat_image (Qwen 2.5-VL), "
    "omnigen2 (Qwen 2.5-VL-3B), krea2 (Qwen 3-VL-4B), ideogram4 (Qwen 3-VL-8B) and hidream "
    "(Llama 3.1, T5 or a CLIP alone); the others are listed so that workflows "
    "open.");
const graft_input graft_text_encoders_type_of_two = INPUT_CHOICE(
    "type", CHOICES("sdxl", "sd3", "flux", "hunyuan_video", "hidream", "hunyuan_image"),
    "The family of models that the pair is for. Graft runs sdxl, sd3, flux and hidream (any two "
    "of its four encoders); the others are listed so that workflows open.");

graft_status graft_text_encoders_run(graft_call *c, int n, const char *type)
{
    graft_engine *engine;
    graft_clip *clip = NULL;
    char *path[MAX_FILES] = {NULL};
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    for (int i = n - 1; i >= 0; i--) GRAFT_TRY(graft_arg_file(c, i, "text_encoders", &path[i]));
    st = graft_clip_load(engine, (const char *const *)path, (size_t)n, type, &c->task, &clip,
                         &c->err);
    if (st && n > 1) graft_call_blame_file(c, 0, path, n);
    if (st) goto out;
    GRAFT_TRY(graft_call_out_clip(c, 0, clip));
out:
    for (int i = 0; i < MAX_FILES; i++) graft_free(path[i]);
    return st;
}

graft_status graft_text_encoders_run_typed(graft_call *c, int n, int type)
{
    const char *name = graft_arg_text(c, type);
    bool known = graft_arg_is(c, type, "sd3") || graft_arg_is(c, type, "hidream");
    known =
        known ||
        (n == 1 ? graft_arg_is(c, type, "stable_diffusion") || graft_arg_is(c, type, "lumina2") ||
                      graft_arg_is(c, type, "flux2") || graft_arg_is(c, type, "chroma") ||
                      graft_arg_is(c, type, "qwen_image") || graft_arg_is(c, type, "ovis") ||
                      graft_arg_is(c, type, "longcat_image") || graft_arg_is(c, type, "krea2") ||
                      graft_arg_is(c, type, "ideogram4") || graft_arg_is(c, type, "omnigen2")
                : graft_arg_is(c, type, "sdxl") || graft_arg_is(c, type, "flux"));
    if (known) return graft_text_encoders_run(c, n, name);
    return n == 1 ? graft_call_fail(
                        c, type, GRAFT_E_UNSUPPORTED,
                        "text encoders of type %s are not supported, only "
                        "stable_diffusion, sd3, lumina2, flux2, chroma, "
                        "qwen_image, ovis, longcat_image, omnigen2, krea2, ideogram4 and hidream",
                        name)
                  : graft_call_fail(c, type, GRAFT_E_UNSUPPORTED,
                                    "pairs of text encoders of type %s are not supported, only "
                                    "sdxl, sd3, flux and hidream",
                                    name);
}
