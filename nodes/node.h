/* What a node's file includes, and the few macros that let it read like a table:
 *
 *     enum { SAMPLES, AMOUNT };
 *     static const graft_input *const inputs[] = {
 *         [SAMPLES] = IN_OBJECT("samples", "LATENT", "The batch to repeat."),
 *         [AMOUNT] = IN_INT("amount", 1, 1, 64, 0, "How many copies to make."),
 *         NULL};
 *     static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The batch."), NULL};
 *     static graft_status run(graft_call *c) { … }
 *     GRAFT_NODE(repeat_latent_batch, .id = "RepeatLatentBatch", …);
 *
 * A line in nodes.def adds the file to the build and the node to the plugin. */
#ifndef GRAFT_NODES_NODE_H
#define GRAFT_NODES_NODE_H
#include <string.h>

#include "nodes/call/args.h"
#include "nodes/call/call.h"
#include "nodes/call/embeddings.h"
#include "nodes/call/files.h"
#include "nodes/call/instance.h"

/* INPUT_… is one input, IN_… its address. Further members may follow the tooltip:
 * .flags = GRAFT_INPUT_OPTIONAL. */
#define INPUT_(name_, type_, kind_, tooltip_, ...)                                                 \
    {                                                                                              \
        .size = sizeof(graft_input), .name = (name_), .type = (type_), .kind = (kind_),            \
        .tooltip = (tooltip_), __VA_ARGS__                                                         \
    }
#define INPUT_OBJECT(name_, type_, tooltip_, ...)                                                  \
    INPUT_(name_, type_, GRAFT_OBJECT, tooltip_, __VA_ARGS__)
/* A step of 0 leaves the choice to the editor. */
#define INPUT_INT(name_, initial_, min_, max_, step_, tooltip_, ...)                               \
    INPUT_(name_, "INT", GRAFT_INT, tooltip_, .initial.i = (initial_), .min = (min_),              \
           .max = (max_), .step = (step_), __VA_ARGS__)
/* `list_`: CHOICES("a", "b"), or NULL for choices that the node's `list` gives. */
#define INPUT_CHOICE(name_, list_, tooltip_, ...)                                                  \
    INPUT_(name_, "COMBO", GRAFT_CHOICE, tooltip_, .choices = (list_), __VA_ARGS__)

#define IN_OBJECT(...) &(const graft_input)INPUT_OBJECT(__VA_ARGS__)
#define IN_INT(...)    &(const graft_input)INPUT_INT(__VA_ARGS__)
#define IN_CHOICE(...) &(const graft_input)INPUT_CHOICE(__VA_ARGS__)
#define INPUT_FLOAT(name_, initial_, min_, max_, step_, tooltip_, ...)                             \
    INPUT_(name_, "FLOAT", GRAFT_FLOAT, tooltip_, .initial.f = (initial_), .min = (min_),          \
           .max = (max_), .step = (step_), __VA_ARGS__)
#define IN_FLOAT(...) &(const graft_input)INPUT_FLOAT(__VA_ARGS__)
#define IN_SEED(name_, tooltip_)                                                                   \
    IN_INT(name_, 0, 0, 18446744073709551616.0, 0, tooltip_,                                       \
           .flags = GRAFT_INPUT_SEED | GRAFT_INPUT_U64)
#define IN_BOOL(name_, initial_, tooltip_, ...)                                                    \
    &(const graft_input)INPUT_(name_, "BOOLEAN", GRAFT_BOOL, tooltip_, .initial.i = (initial_),    \
                               __VA_ARGS__)
#define IN_TEXT(name_, initial_, tooltip_, ...)                                                    \
    &(const graft_input)INPUT_(name_, "STRING", GRAFT_STRING, tooltip_, .initial.s = (initial_),   \
                               __VA_ARGS__)
#define IN_PROMPT(name_, tooltip_)                                                                 \
    IN_TEXT(name_, NULL, tooltip_, .flags = GRAFT_INPUT_MULTILINE | GRAFT_INPUT_DYNAMIC_PROMPTS)
#define CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define OUTPUT(name_, type_, tooltip_)                                                             \
    {                                                                                              \
        .size = sizeof(graft_output), .name = (name_), .type = (type_), .tooltip = (tooltip_)      \
    }
#define OUT(...) &(const graft_output)OUTPUT(__VA_ARGS__)
/* A list (list.h) of such values. */
#define OUT_LIST(name_, type_, tooltip_)                                                           \
    &(const graft_output)                                                                          \
    {                                                                                              \
        .size = sizeof(graft_output), .flags = GRAFT_OUTPUT_LIST, .name = (name_),                 \
        .type = (type_), .tooltip = (tooltip_)                                                     \
    }

/* A query() that offers choices only, from `static char **list(const graft_host *, const char *)`.
 */
#define QUERY_CHOICES()                                                                            \
    static const void *query(const char *id)                                                       \
    {                                                                                              \
        static const graft_choices_api choices = {list, graft_files_free_choices};                 \
        return strcmp(id, GRAFT_CHOICES_ID) == 0 ? &choices : NULL;                                \
    }

/* A query() for a node that opens model files, which `count` inputs from number `first` on name, in
 * that folder: offers what is there, and loads again when a file is another or was written to. */
#define QUERY_MODEL_FILES(folder, first, count)                                                    \
    static char **list(const graft_host *h, const char *input)                                     \
    {                                                                                              \
        (void)input;                                                                               \
        return graft_files_choices(h, folder);                                                     \
    }                                                                                              \
    static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text,          \
                                    uint64_t n)                                                    \
    {                                                                                              \
        return graft_files_stamp(h, folder, &in[first], count, text, n);                           \
    }                                                                                              \
    static const void *query(const char *id)                                                       \
    {                                                                                              \
        static const graft_choices_api choices = {list, graft_files_free_choices};                 \
        static const graft_fingerprint_api fingerprints = {fingerprint};                           \
        if (strcmp(id, GRAFT_CHOICES_ID) == 0) return &choices;                                    \
        return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;                       \
    }
#define QUERY_MODEL_FILE(folder, index) QUERY_MODEL_FILES(folder, index, 1)

/* A query() for a node that encodes `count` prompts, from input number `first` on: encodes again
 * when the file of an embedding in them is another or was written to. */
#define QUERY_PROMPTS(first, count)                                                                \
    static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text,          \
                                    uint64_t n)                                                    \
    {                                                                                              \
        return graft_embeddings_stamp(h, &in[first], count, text, n);                              \
    }                                                                                              \
    static const void *query(const char *id)                                                       \
    {                                                                                              \
        static const graft_fingerprint_api fingerprints = {fingerprint};                           \
        return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;                       \
    }

/* A query() with `check` only. */
#define QUERY_CHECK()                                                                              \
    static const void *query(const char *id)                                                       \
    {                                                                                              \
        static const graft_validate_api validates = {check};                                       \
        return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &validates : NULL;                             \
    }

/* A query() for a node that writes files: FILENAME_PREFIX is looked at before anything runs. */
#define QUERY_PREFIX()                                                                             \
    static graft_status check(const graft_host *h, const graft_arg *in, const char **input,        \
                              char *text, uint64_t n)                                              \
    {                                                                                              \
        (void)h;                                                                                   \
        *input = inputs[FILENAME_PREFIX]->name;                                                    \
        return graft_output_validate(&in[FILENAME_PREFIX], text, n);                               \
    }                                                                                              \
    QUERY_CHECK()

/* A query() for a node that reads the file in `folder` that input `index` names: offers those with
 * these endings, knows when the content changes, and has `validate` tell of one that is missing or
 * cannot be read, in a text that `what` begins, before anything runs. */
#define QUERY_FILE_IN(folder, index, suffixes, validate, what)                                     \
    static char **list(const graft_host *h, const char *input)                                     \
    {                                                                                              \
        (void)input;                                                                               \
        return graft_files_choices_of(h, folder, suffixes);                                        \
    }                                                                                              \
    static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text,          \
                                    uint64_t n)                                                    \
    {                                                                                              \
        return graft_files_fingerprint(h, folder, &in[index], text, n);                            \
    }                                                                                              \
    static graft_status check(const graft_host *h, const graft_arg *in, const char **input,        \
                              char *text, uint64_t n)                                              \
    {                                                                                              \
        *input = inputs[index]->name;                                                              \
        return validate(h, folder, &in[index], what, text, n);                                     \
    }                                                                                              \
    static const void *query(const char *id)                                                       \
    {                                                                                              \
        static const graft_choices_api choices = {list, graft_files_free_choices};                 \
        static const graft_fingerprint_api fingerprints = {fingerprint};                           \
        static const graft_validate_api validates = {check};                                       \
        if (strcmp(id, GRAFT_CHOICES_ID) == 0) return &choices;                                    \
        if (strcmp(id, GRAFT_FINGERPRINT_ID) == 0) return &fingerprints;                           \
        return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &validates : NULL;                             \
    }
#define QUERY_INPUT_FILE(index, suffixes, what)                                                    \
    QUERY_FILE_IN("input", index, suffixes, graft_files_validate, what)
#define QUERY_PICTURE_IN(folder, index)                                                            \
    QUERY_FILE_IN(folder, index, graft_files_picture_suffixes, graft_files_validate_picture,       \
                  "Invalid image file")

/* Uses the file's `inputs`, `outputs` and `run`. */
#define GRAFT_NODE(name_, ...)                                                                     \
    static graft_status execute(void *self, graft_job *job, const graft_arg *in, graft_arg *out)   \
    {                                                                                              \
        return graft_call_run(self, job, inputs, in, out, run);                                    \
    }                                                                                              \
    const graft_node graft_node_##name_ = {                                                        \
        .size = sizeof(graft_node),                                                                \
        .inputs = inputs,                                                                          \
        .outputs = outputs,                                                                        \
        .create = graft_instance_create,                                                           \
        .destroy = graft_instance_destroy,                                                         \
        .execute = execute,                                                                        \
        __VA_ARGS__,                                                                               \
    }

#define NODE(folder_, name_) extern const graft_node graft_node_##name_;
#include "nodes/nodes.def"
#undef NODE
#endif
