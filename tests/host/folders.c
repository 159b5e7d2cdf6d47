#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "host/schema/object_info.h"
#include "tests/host/fixture.h"

static void reserve(const char *key, const char *prefix, const char *want_name,
                    const char *want_sub)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_reserved r;
    graft_status st = graft_folders_reserve(&fixture.folders, key, prefix, ".png", 640, 48, &r, &e);
    if (!want_name) {
        CHECK(st != GRAFT_OK && e.text[0]);
        CHECK(!r.path && !r.name && !r.subfolder);
        return;
    }
    CHECK_OK(st, &e);
    if (st) return;
    CHECK_STR(r.name, want_name);
    CHECK_STR(r.subfolder, want_sub);
    CHECK(graft_str_ends(r.path, want_name) && r.path[0] == '/');
    CHECK(!graft_file_exists(r.path));
    check_text(r.path, "x");
    graft_reserved_finish(&r);
}

static void numbers(void)
{
    reserve("output", "ComfyUI", "ComfyUI_00001_.png", "");
    reserve("output", "ComfyUI", "ComfyUI_00002_.png", "");
    check_text("output/ComfyUI_00041_.txt", "");
    check_text("output/ComfyUI_x_.png", "");
    check_text("output/ComfyUI_99999999999999999999_.png", "");
    check_text("output/ComfyUI2_00077_.png", "");
    reserve("output", "ComfyUI", "ComfyUI_00042_.png", "");
    check_text("output/ComfyUI_123456_.png", "");
    reserve("output", "ComfyUI", "ComfyUI_123457_.png", "");
    reserve("output", "a/b/c", "c_00001_.png", "a/b");
    reserve("output", "a//b/./c", "c_00002_.png", "a/b");
    reserve("output", "a/b/", "b_00001_.png", "a");
    reserve("temp", "p", "p_00001_.png", "");
    reserve("output", "s_%width%x%height%_%nothing%_100%", "s_640x48_%nothing%_100%_00001_.png",
            "");
    char want[64];
    time_t now = time(NULL);
    struct tm t;
    localtime_r(&now, &t);
    snprintf(want, sizeof want, "%04d-%02d_00001_.png", t.tm_year + 1900, t.tm_mon + 1);
    reserve("output", "%year%-%month%", want, "");
}

static void escapes(void)
{
    CHECK(mkdir("outside", 0777) == 0);
    CHECK(symlink("../outside", "output/link") == 0);
    reserve("output", "../x", NULL, NULL);
    reserve("output", "a/../../x", NULL, NULL);
    reserve("output", "/tmp/x", NULL, NULL);
    reserve("output", "link/x", NULL, NULL);
    reserve("output", "a\\..\\x", NULL, NULL);
    reserve("output", "..", NULL, NULL);
    reserve("output", "a\nb", NULL, NULL);
    reserve("input", "x", NULL, NULL);
    reserve("checkpoints", "x", NULL, NULL);
    reserve("nowhere", "x", NULL, NULL);
}

static graft_status resolve(const char *key, const char *name)
{
    char *path = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_folders_resolve(&fixture.folders, key, name, &path, &e);
    CHECK(st ? !path && e.text[0] : path && graft_file_exists(path));
    graft_free(path);
    return st;
}

/* The first part's name stands for all. */
static void models_in_parts(void)
{
    static const char *const kinds[][2] = {{"controlnet", "safetensors"},
                                           {"diffusion_models", "gguf"}};
    graft_err e = GRAFT_ERR_INIT;
    char **names, path[100];
    CHECK(system("mkdir -p models/controlnet models/diffusion_models") == 0);
    for (size_t i = 0; i < 2; i++) {
        for (int number = 1; number <= 2; number++) {
            snprintf(path, sizeof path, "models/%s/big-%05d-of-00002.%s", kinds[i][0], number,
                     kinds[i][1]);
            check_text(path, "");
        }
        CHECK_OK(graft_folders_list(&fixture.folders, kinds[i][0], &names, &e), &e);
        CHECK(names[0] && !names[1]);
        snprintf(path, sizeof path, "big-00001-of-00002.%s", kinds[i][1]);
        CHECK_STR(names[0], path);
        graft_folders_free_names(names);
    }
}

/* Found among text encoders by their names, but no choices. */
static void tokenizers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char **names;
    CHECK(system("mkdir -p models/text_encoders") == 0);
    check_text("models/text_encoders/spiece.model", "");
    check_text("models/text_encoders/llama_tokenizer.json", "");
    check_text("models/text_encoders/config.json", "");
    CHECK_INT(resolve("text_encoders", "spiece.model"), GRAFT_OK);
    CHECK_INT(resolve("text_encoders", "llama_tokenizer.json"), GRAFT_OK);
    CHECK_INT(resolve("text_encoders", "tokenizer.json"), GRAFT_E_NOTFOUND);
    CHECK_INT(resolve("text_encoders", "config.json"), GRAFT_E_ARG);
    CHECK_INT(resolve("checkpoints", "tokenizer.json"), GRAFT_E_ARG);
    CHECK_OK(graft_folders_list(&fixture.folders, "clip", &names, &e), &e);
    for (size_t i = 0; names && names[i]; i++)
        CHECK(!strstr(names[i], "tokenizer") && !strstr(names[i], "spiece"));
    graft_folders_free_names(names);
}

static void models(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *path, **names;
    CHECK(system("mkdir -p models/text_encoders/sub models/clip models/loras input") == 0);
    check_text("models/text_encoders/b.safetensors", "");
    check_text("models/text_encoders/sub/c.sft", "");
    check_text("models/text_encoders/note.txt", "");
    check_text("models/clip/a.safetensors", "");
    check_text("models/clip/b.safetensors", "");
    check_text("secret.safetensors", "");
    const char *const keys[] = {"clip", "text_encoders"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_OK(graft_folders_list(&fixture.folders, keys[i], &names, &e), &e);
        CHECK(names[0] && names[1] && names[2] && !names[3]);
        CHECK_STR(names[0], "a.safetensors");
        CHECK_STR(names[1], "b.safetensors");
        CHECK_STR(names[2], "sub/c.sft");
        graft_folders_free_names(names);
        CHECK_OK(graft_folders_resolve(&fixture.folders, keys[i], "a.safetensors", &path, &e), &e);
        CHECK(graft_str_ends(path, "/models/clip/a.safetensors"));
        graft_free(path);
    }
    /* What a node saved is a model like any other; models of the user's own come first. */
    CHECK(system("mkdir -p output/checkpoints models/checkpoints") == 0);
    check_text("output/checkpoints/made.safetensors", "");
    check_text("output/checkpoints/made.png", "");
    check_text("output/checkpoints/own.safetensors", "");
    check_text("models/checkpoints/own.safetensors", "");
    CHECK_OK(graft_folders_list(&fixture.folders, "checkpoints", &names, &e), &e);
    CHECK(names[0] && names[1] && !names[2]);
    CHECK_STR(names[0], "made.safetensors");
    graft_folders_free_names(names);
    CHECK_OK(graft_folders_resolve(&fixture.folders, "checkpoints", "made.safetensors", &path, &e),
             &e);
    CHECK(path && graft_str_ends(path, "/output/checkpoints/made.safetensors"));
    graft_free(path);
    CHECK_OK(graft_folders_resolve(&fixture.folders, "checkpoints", "own.safetensors", &path, &e),
             &e);
    CHECK(path && graft_str_ends(path, "/models/checkpoints/own.safetensors"));
    graft_free(path);
    CHECK(symlink("../../secret.safetensors", "output/checkpoints/way.safetensors") == 0);
    CHECK(graft_folders_resolve(&fixture.folders, "checkpoints", "way.safetensors", &path, &e));
    CHECK(unlink("output/checkpoints/way.safetensors") == 0);
    CHECK(graft_folders_resolve(&fixture.folders, "clip", "none.safetensors", &path, &e) ==
          GRAFT_E_NOTFOUND);
    CHECK(strstr(e.text, "/models/text_encoders") != NULL);
    CHECK_OK(graft_folders_list(&fixture.folders, "unet", &names, &e), &e);
    CHECK(!names[0]);
    graft_folders_free_names(names);
    CHECK(system("mkdir -p models/clip_vision models/style_models models/ipadapter "
                 "models/hypernetworks") == 0);
    check_text("models/clip_vision/sees.safetensors", "");
    check_text("models/style_models/redux.safetensors", "");
    check_text("models/ipadapter/plus.safetensors", "");
    CHECK_INT(resolve("clip_vision", "sees.safetensors"), GRAFT_OK);
    CHECK_INT(resolve("style_models", "redux.safetensors"), GRAFT_OK);
    CHECK_INT(resolve("ipadapter", "plus.safetensors"), GRAFT_OK);
    check_text("models/hypernetworks/ink.safetensors", "");
    CHECK(system("mkdir -p models/model_patches") == 0);
    check_text("models/model_patches/union.safetensors", "");
    CHECK_INT(resolve("model_patches", "union.safetensors"), GRAFT_OK);
    CHECK_INT(resolve("hypernetworks", "ink.safetensors"), GRAFT_OK);
    CHECK_INT(resolve("clip_vision", "sees.gguf"), GRAFT_E_ARG);
    CHECK_INT(resolve("style_models", "sees.safetensors"), GRAFT_E_NOTFOUND);
    const char *const bad[] = {
        "note.txt", "none.safetensors", "../../secret.safetensors", "/etc/passwd", "", "sub", "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(graft_folders_resolve(&fixture.folders, "clip", bad[i], &path, &e) != GRAFT_OK);
        CHECK(path == NULL);
    }
    CHECK(graft_folders_resolve(&fixture.folders, "etc", "passwd", &path, &e) != GRAFT_OK);
}

/* Models are read through links, whatever is in their way; nothing else is, and no name leaves. */
/* The name of a file that is given by its path; no link leads out of what a name may reach. */
static void names_of_paths(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    char *name;
    CHECK(system("mkdir -p models/loras/sub elsewhere/in && touch elsewhere/in/x.safetensors "
                 "models/loras/sub/a.safetensors elsewhere/b.safetensors elsewhere/c.txt && "
                 "ln -s ../../elsewhere/b.safetensors models/loras/b.safetensors && "
                 "ln -s ../../elsewhere/in models/loras/in && ln -s models/loras way") == 0);
    static const struct {
        const char *path, *name;
    } c[] = {{"models/loras/sub/a.safetensors", "sub/a.safetensors"},
             {"./models/loras//sub/a.safetensors", "sub/a.safetensors"},
             {"way/sub/a.safetensors", "sub/a.safetensors"},
             {"models/loras/b.safetensors", "b.safetensors"},
             {"way/b.safetensors", "b.safetensors"},
             {"models/loras/in/x.safetensors", "in/x.safetensors"},
             {"elsewhere/b.safetensors", NULL},
             {"elsewhere/c.txt", NULL},
             {"models/loras/absent.safetensors", NULL},
             {"models/loras/../../elsewhere/b.safetensors", NULL},
             {"models/loras", NULL},
             {"/", NULL},
             {"", NULL}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        CHECK_OK(graft_folders_name_of(&fixture.folders, "loras", c[i].path, &name, &e), &e);
        CHECK(!name == !c[i].name);
        if (name && c[i].name) CHECK_STR(name, c[i].name);
        graft_free(name);
    }
    graft_alloc_stats_get(&before);
    for (int64_t n = 1; n < 30; n++) {
        graft_alloc_fail_at(n);
        graft_status st =
            graft_folders_name_of(&fixture.folders, "loras", "way/sub/a.safetensors", &name, &e);
        if (!st) st = graft_folders_writable(&fixture.folders, "output", "a/b", &e);
        graft_alloc_fail_at(0);
        graft_free(name);
        graft_alloc_stats_get(&after);
        CHECK_INT(after.live_blocks, before.live_blocks);
    }
    CHECK(system("rm -r models/loras/sub models/loras/in models/loras/b.safetensors "
                 "elsewhere way") == 0);
}

static void links(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char **names;
    CHECK(system("mkdir -p models/loras models/vae input temp store/deep") == 0);
    check_text("store/big.safetensors", "");
    check_text("store/blob", "");
    check_text("store/deep/d.safetensors", "");
    CHECK(symlink("../../store/big.safetensors", "models/loras/big.safetensors") == 0);
    CHECK(symlink("../../store/blob", "models/loras/blob.safetensors") == 0);
    CHECK(symlink("../../store", "models/loras/more") == 0);
    CHECK(symlink("../../store/nothing", "models/loras/broken.safetensors") == 0);
    CHECK(symlink("loop.safetensors", "models/loras/loop.safetensors") == 0);
    CHECK(symlink("../../store/deep", "models/loras/folder.safetensors") == 0);
    static const char *const good[] = {"big.safetensors", "blob.safetensors",
                                       "more/big.safetensors", "more/deep/d.safetensors"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_INT(resolve("loras", good[i]), GRAFT_OK);
    CHECK_OK(graft_folders_list(&fixture.folders, "loras", &names, &e), &e);
    for (size_t i = 0; names[i]; i++) CHECK_INT(resolve("loras", names[i]), GRAFT_OK);
    graft_folders_free_names(names);
    CHECK_INT(resolve("loras", "broken.safetensors"), GRAFT_E_NOTFOUND);
    CHECK_INT(resolve("loras", "loop.safetensors"), GRAFT_E_NOTFOUND);
    CHECK_INT(resolve("loras", "folder.safetensors"), GRAFT_E_NOTFOUND);
    static const char *const bad[] = {"more/../big.safetensors",        "../loras/big.safetensors",
                                      "../../store/big.safetensors",    "more/blob",
                                      "more/./big.safetensors",         "./big.safetensors",
                                      "more//big.safetensors",          "more\\big.safetensors",
                                      "/tmp/graft-none/big.safetensors"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(resolve("loras", bad[i]), GRAFT_E_ARG);
    static const char *const keys[] = {"input", "output", "temp"};
    for (size_t i = 0; i < 3; i++) {
        char link[64];
        snprintf(link, sizeof link, "%s/out.safetensors", keys[i]);
        CHECK(symlink("../store/big.safetensors", link) == 0);
        snprintf(link, sizeof link, "%s/more", keys[i]);
        CHECK(symlink("../store", link) == 0);
        CHECK_INT(resolve(keys[i], "out.safetensors"), GRAFT_E_ARG);
        CHECK_INT(resolve(keys[i], "more/big.safetensors"), GRAFT_E_ARG);
    }
    reserve("output", "more/x", NULL, NULL);
    reserve("temp", "more/x", NULL, NULL);
}

/* What plugins see of it: the tables of the host. */
static void tables(void)
{
    const graft_host *h = &fixture.services.host;
    CHECK(h->query(h, "graft.nothing/1") == NULL);
    CHECK(h->query(h, GRAFT_JOB_ID) && h->query(h, GRAFT_PHASE_ID) && h->query(h, GRAFT_UI_ID) &&
          h->query(h, GRAFT_PROMPT_ID));
    const graft_folders_api *api = h->query(h, GRAFT_FOLDERS_ID);
    char *path, text[20];
    CHECK(api->resolve(h, "clip", "../x", &path, text, sizeof text) != GRAFT_OK);
    CHECK(strlen(text) > 0 && strlen(text) < sizeof text);
    CHECK(api->resolve(h, "clip", "../x", &path, NULL, 0) != GRAFT_OK);
    char **names = api->list(h, "clip");
    CHECK(names && names[0]);
    api->free_names(h, names);
}

static void object_info(void)
{
    cJSON *info = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_host *h = &fixture.services.host;
    CHECK_OK(graft_object_info_all(h, fixture.registry, &info, &e), &e);
    CHECK_JSON(graft_tree_get(info, "TestSeed"),
               "{'input':{'required':{'seed':['INT',{'tooltip':'tip','default':0,'min':0,'max':"
               "18446744073709551615,'control_after_generate':true}],'mode':[['a','b','it\\u0027s']"
               ",{'tooltip':'tip','default':'a'}]},'optional':{'strength':['FLOAT',{'tooltip':'tip'"
               ",'default':0.5,'min':0,'max':1,'step':0.01,'round':false}]}},'input_order':{'"
               "required':['seed',"
               "'mode'],'optional':['strength']},'output':['STRING'],'output_is_list':[false],"
               "'output_name':['STRING'],'output_tooltips':[''],'name':'TestSeed','display_name':"
               "'TestSeed title','description':'A node for tests.','python_module':"
               "'custom_nodes.test','category':'test','output_node':false}");
    CHECK_JSON(graft_tree_get(graft_tree_get(info, "TestShow"), "output"), "[]");
    CHECK_JSON(graft_tree_get(graft_tree_get(info, "TestCount"), "input"), "{'required':{}}");
    CHECK_JSON(graft_tree_get(graft_tree_get(info, "TestRange"), "output_is_list"), "[true]");
    CHECK_JSON(graft_tree_get(graft_tree_get(info, "TestSum"), "input"),
               "{'required':{'values':['INT',{'tooltip':'tip','default':0,'forceInput':true}]}}");
    char *text = graft_json_print(info);
    CHECK(text && strstr(text, "\"max\":18446744073709551615,"));
    graft_free(text);
    cJSON_Delete(info);
}

int main(void)
{
    fixture_open();
    RUN(numbers);
    RUN(escapes);
    RUN(models);
    RUN(tokenizers);
    RUN(models_in_parts);
    RUN(names_of_paths);
    RUN(links);
    RUN(tables);
    RUN(object_info);
    fixture_close();
    return test_end();
}
