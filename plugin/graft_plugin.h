/* The Graft plugin ABI, version 1.0: what a host needs to load node plugins, and a plugin to be
 * loaded by any host. A plugin includes this header only, and links nothing.
 *
 * Two growth rules, and no third:
 *   - Records of plain data begin with `size` (sizeof at the maker's build) and grow at the end
 *     only; a reader treats what lies beyond `size` as zero. Arrays of records cross as arrays of
 *     pointers, because an array of records would change its stride.
 *   - Tables of functions never change; a new function comes in a new table with a new id,
 *     "name/REVISION". graft_arg, graft_value, graft_tensor and graft_plugin are frozen as well.
 *
 * Thread tags: [main] the host's main thread; [exec] any thread, one call at a time per instance,
 * different instances at once; [any] any thread, at any time, concurrently. Static mutable data is
 * not allowed in a plugin, except what init() and deinit() count and own.
 *
 * Nothing may exit, abort, raise a signal, unwind across the boundary or keep a thread-local
 * promise between two calls. Text is UTF-8, terminated. Text and pixels given to the host are
 * copied by it before it returns. */
#ifndef GRAFT_PLUGIN_H
#define GRAFT_PLUGIN_H
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GRAFT_ABI_MAJOR 1u /* layout: must be equal on both sides */
#define GRAFT_ABI_MINOR 0u /* additions: the host's must be at least the plugin's */

/* ------------------------------------------------------------------ values */

typedef int32_t graft_kind;
enum {
    GRAFT_NONE = 0, /* an optional input that is not connected, an output that was not set */
    GRAFT_INT = 1,
    GRAFT_FLOAT = 2,
    GRAFT_BOOL = 3, /* payload i: 0 or 1 */
    GRAFT_STRING = 4,
    GRAFT_CHOICE = 5, /* payload s: one of the input's choices */
    GRAFT_OBJECT = 6  /* payload v */
};

/* An object that travels along a link: MODEL, CLIP, VAE, CONDITIONING, LATENT, IMAGE, MASK, LIST
 * and whatever else plugins agree on by its name. First member of the maker's own structure.
 * Immutable and reference-counted: once a value has been an output, nobody changes what can be seen
 * of it. The maker frees it, with its own allocator. */
typedef struct graft_value graft_value;
typedef struct graft_value_ops {
    const char *type;                /* for matching sockets; never a reason to cast */
    void (*retain)(graft_value *v);  /* [any] */
    void (*release)(graft_value *v); /* [any] the last one frees */
    /* [any] The table or record with this id, or NULL when the value has none. It lives as long as
     * the value. To reach inside one's own values, use a private id that no other build knows. */
    const void *(*query)(const graft_value *v, const char *id);
} graft_value_ops;
struct graft_value {
    const graft_value_ops *ops;
};

typedef union graft_payload {
    int64_t i; /* GRAFT_INPUT_U64 inputs: the bit pattern of a uint64_t */
    double f;
    const char *s;
    graft_value *v;
} graft_payload;
typedef struct graft_arg { /* 16 bytes, for ever */
    graft_kind kind;
    uint32_t zero;
    graft_payload u;
} graft_arg;

/* "graft.tensor/1": host memory that anyone may read. Answered by LATENT (N,C,H/8,W/8 float32; C is
 * 4, or 16 for Stable Diffusion 3), IMAGE (N,H,W,C float32 in 0..1), MASK (N,H,W float32, 1 =
 * selected) and SIGMAS (n float32). Numbers for dtype and
 * device are DLPack's (https://dmlc.github.io/dlpack), so that interchange copies fields. Device
 * memory would come in a table of its own. */
#define GRAFT_TENSOR_ID "graft.tensor/1"
typedef struct graft_tensor {
    void *data;
    int32_t ndim;       /* 0-6 */
    uint8_t dtype_code; /* 0 int, 1 unsigned int, 2 float, 4 bfloat */
    uint8_t dtype_bits;
    uint16_t dtype_lanes;        /* 1 */
    int32_t device_type;         /* 1: host memory, always in this table */
    int32_t device_id;           /* 0 */
    int64_t shape[6], stride[6]; /* strides count elements, not bytes */
} graft_tensor;

/* "graft.list/1": answered by values of type LIST. A list output is spread by the host: the nodes
 * behind it run once per element. */
#define GRAFT_LIST_ID "graft.list/1"
typedef struct graft_list_api {
    uint64_t (*count)(const graft_value *list); /* [any] */
    /* [any] Borrowed: strings and objects live as long as the list. */
    graft_status (*at)(const graft_value *list, uint64_t i, graft_arg *out);
} graft_list_api;

/* "graft.block/1": answered by values of type BLOCK, which stand for "nothing, on purpose". Any
 * output may be one. A node that gets one does not run, and all its outputs are blocked in turn;
 * the rest of the prompt runs, and succeeds. */
#define GRAFT_BLOCK_ID "graft.block/1"
typedef struct graft_block_api {
    /* [any] What the user is told, once, for each node that is held up; NULL: nothing. Borrowed. */
    const char *(*message)(const graft_value *block);
} graft_block_api;

/* ------------------------------------------------------------------ host */

typedef struct graft_host { /* valid from init() until deinit() returns */
    uint32_t size;
    uint32_t abi_major, abi_minor, zero;
    const char *name, *version;
    /* [any] A table, or NULL when this host has none with that id. */
    const void *(*query)(const struct graft_host *h, const char *id);
} graft_host;

typedef struct graft_job graft_job; /* one execute() call; dead when that returns */

#define GRAFT_JOB_ID "graft.job/1"
typedef struct graft_job_api { /* all [any] while the job lives */
    void (*progress)(graft_job *j, uint64_t done, uint64_t total); /* steps of this node */
    int32_t (*cancelled)(graft_job *j); /* 1: stop soon; ask at least once per sampling step */
    void (*log)(graft_job *j, int32_t level, const char *text); /* 0 debug 1 info 2 warn 3 error */
    /* Says why execute() is about to return `why`: a sentence, and the input's name when one is at
     * fault. The first call counts. */
    void (*fail)(graft_job *j, graft_status why, const char *input_or_null, const char *text);
    void (*preview)(graft_job *j, const graft_tensor *rgb8); /* (H,W,3) uint8 */
} graft_job_api;

/* What this node does from now on, for progress and for the table of phases at the end: "load",
 * "compile", "tune", "calibrate", "encode", "sample", "decode", "upscale", "save". */
#define GRAFT_PHASE_ID "graft.phase/1"
typedef struct graft_phase_api {
    void (*begin)(graft_job *j, const char *phase); /* [any] ends the phase before it */
} graft_phase_api;

/* What a host that compares runs looks at. */
#define GRAFT_TRACE_ID "graft.trace/1"
typedef struct graft_trace_api {
    /* [any] A sampler's latent after a step, (N,C,h,w) float32 in the model's own scale. */
    void (*latent)(graft_job *j, const graft_tensor *latent);
} graft_trace_api;

/* Pictures for whoever asked for this run, in place of files. */
#define GRAFT_PICTURE_ID "graft.picture/1"
typedef struct graft_picture_api {
    /* [any] A whole PNG file of n bytes, copied. 0: nobody receives it. */
    int32_t (*send)(graft_job *j, const void *png, uint64_t n);
} graft_picture_api;

/* Which previews the host shows. */
#define GRAFT_PREVIEW_ID "graft.preview/1"
enum { /* kinds of previews */
       GRAFT_PREVIEW_NONE = 0,
       GRAFT_PREVIEW_LATENT = 1,  /* what costs next to nothing */
       GRAFT_PREVIEW_DECODED = 2, /* by a small decoder; a warning where there is none */
       GRAFT_PREVIEW_BEST = 3     /* the same without the warning */
};
typedef struct graft_preview_api {
    int32_t (*kind)(graft_job *j); /* [any] the same all through a job */
    /* [any] 0: what preview() got now would be thrown away; ask before one is made. */
    int32_t (*wanted)(graft_job *j);
} graft_preview_api;

/* What the host wants of this run. */
#define GRAFT_MODE_ID "graft.mode/1"
typedef struct graft_mode_api {
    /* [any] 1: prepare caches for this job, compute nothing. Outputs must have the right types and
     * sizes, their content does not matter; output nodes write no files. */
    int32_t (*prepare_only)(graft_job *j);
} graft_mode_api;

/* Inputs that a user does not set: the workflow that runs, for metadata. JSON, borrowed for the
 * job; NULL when there is none. */
#define GRAFT_PROMPT_ID "graft.prompt/1"
typedef struct graft_prompt_api {
    const char *(*prompt)(graft_job *j);        /* [any] the whole API-format prompt */
    const char *(*node_id)(graft_job *j);       /* [any] */
    const char *(*extra_pnginfo)(graft_job *j); /* [any] an object: name -> any value */
} graft_prompt_api;

/* Links to a GRAFT_NODE_DYNAMIC node at inputs that it does not declare. Their values follow those
 * of the declared inputs in `in`, in this order. Literals that it does not declare are left out. */
#define GRAFT_DYNAMIC_ID "graft.dynamic/1"
typedef struct graft_dynamic_api {
    uint64_t (*count)(graft_job *j); /* [any] */
    const char *(*name)(graft_job *j,
                        uint64_t i); /* [any] borrowed for the job; NULL past the end */
} graft_dynamic_api;

/* A GRAFT_NODE_EXPANDS node may give, in place of values, the nodes that make them: a part of a
 * prompt, which is checked, run and cached like the rest, before anything that waits for the node.
 * Parts may expand in turn, so a loop is a node that expands into its body and itself. What the
 * node gives may depend on its inputs and on what lies upstream of it only. */
#define GRAFT_EXPAND_ID "graft.expand/1"
typedef struct graft_expand_api {
    /* [any] At most once in an execute(), which then returns GRAFT_OK. `prompt`: the API form, as
     * JSON. Its ids are local: the host makes "PARENT.CALL.0.ID" of them, and a link to an id
     * that the part lacks leads to a node of the prompt that runs, or may still run. A node may
     * have "override_display_id": the id of the present prompt's node under which clients show it,
     * if not the parent. `results`: a JSON array with one entry for each output, ["id", slot], or
     * null where `out` has the value. GRAFT_E_FORMAT: not such texts, which fails the node. */
    graft_status (*expand)(graft_job *j, const char *prompt, const char *results);
    /* [any] A node of what runs, also one that came by expansion, as JSON: {"class_type",
     * "inputs", …}. Borrowed for the job; NULL when there is none with this id. */
    const char *(*node)(graft_job *j, const char *id);
} graft_expand_api;

/* What belongs to no job, such as a library that cannot be loaded. */
#define GRAFT_LOG_ID "graft.log/1"
typedef struct graft_log_api {
    /* [any] Levels as graft_job_api.log's; `text` is copied. */
    void (*line)(const graft_host *h, int32_t level, const char *text);
} graft_log_api;

/* Files by folder key. Keys: "checkpoints", "loras", "vae", "text_encoders", "diffusion_models",
 * "embeddings", … (read-only model folders), "input", "output", "temp". Every name is checked by
 * the host: nothing outside the folder can be named. */
#define GRAFT_FOLDERS_ID "graft.folders/1"
typedef struct graft_folders_api {
    /* [any] Absolute path of an existing file. *path is freed with free_text. A bad or unknown name
     * fails; `text` (size `n`) says why. */
    graft_status (*resolve)(const graft_host *h, const char *folder, const char *name, char **path,
                            char *text, uint64_t n);
    /* [any] NULL-terminated sorted names with '/', freed with free_names; NULL when out of
     * memory. */
    char **(*list)(const graft_host *h, const char *folder);
    /* [any] A new, not yet existing path PREFIX_NNNNN_SUFFIX below "output" or "temp", with its
     * folder made and the number one above the highest there. `prefix` may hold sub-folders and
     * %width% %height% %year% %month% %day% %hour% %minute% %second%. *name is the file name alone,
     * *subfolder the folder below the root; all three freed with free_text. */
    graft_status (*reserve)(const graft_host *h, const char *folder, const char *prefix,
                            const char *suffix, int64_t width, int64_t height, char **path,
                            char **name, char **subfolder, char *text, uint64_t n);
    void (*free_text)(const graft_host *h, char *text);
    void (*free_names)(const graft_host *h, char **names);
} graft_folders_api;

/* What an output node shows: "images" with {filename, subfolder, type}, "text" with a string, …
 * Kept in the history, sent to clients and, for files, listed when the run ends. */
#define GRAFT_UI_ID "graft.ui/1"
typedef struct graft_ui_api {
    /* [any] Appends one JSON value to the list named `key`. */
    void (*add)(graft_job *j, const char *key, const char *json);
} graft_ui_api;

/* ------------------------------------------------------------------ nodes */

enum { /* graft_input.flags */
       GRAFT_INPUT_OPTIONAL = 1,
       GRAFT_INPUT_LAZY = 2,      /* computed only when the node's "graft.lazy/1" asks */
       GRAFT_INPUT_MULTILINE = 4, /* strings */
       GRAFT_INPUT_SOCKET = 8,    /* a link only, no widget */
       GRAFT_INPUT_SEED = 16,     /* editors offer fixed, increment, randomize */
       GRAFT_INPUT_U64 = 32,      /* 0 … 2^64-1, in the bits of payload i */
       GRAFT_INPUT_DYNAMIC_PROMPTS = 64,
       GRAFT_INPUT_IMAGE_UPLOAD = 128,
       GRAFT_INPUT_COLOR = 256, /* 0xRRGGBB */
       GRAFT_INPUT_SLIDER = 512,
       GRAFT_INPUT_ADVANCED = 1024, /* folded away at first */
       GRAFT_INPUT_LIST = 2048,     /* wants the whole LIST, not its elements */
       /* Wants to know where the link comes from, not what comes along it: a string, JSON,
        * ["id", slot]. The origin runs before the node all the same. */
       GRAFT_INPUT_RAW_LINK = 4096,
       GRAFT_INPUT_EXACT = 8192, /* a FLOAT that editors must not round, not to its step either */
       GRAFT_INPUT_IMAGE_OUTPUT = 16384, /* beside IMAGE_UPLOAD: pictures of the output folder */
       /* An optional STRING that stands for any number of inputs, whose names are its own and
        * something behind it ("lora_": "lora_1", "lora_2", …), and whose values no other type has,
        * such as objects: the node gets those that the prompt has as JSON, an object of them by
        * name. Links and null do not count. Editors' files have the values one after the other. */
       GRAFT_INPUT_MANY = 32768,
       /* An optional input behind one that is like it: editors show it once that one is linked. */
       GRAFT_INPUT_SERIES = 65536
};
typedef struct graft_input {
    uint32_t size, flags;
    const char *name;
    const char *type; /* "INT" "FLOAT" "STRING" "BOOLEAN" "COMBO" or an object's type; "*": any */
    const char *tooltip;
    graft_kind kind;
    uint32_t zero;
    graft_payload initial;      /* s NULL: the first choice, the empty string */
    double min, max, step;      /* min == max: no range. Ends of a U64 range: 0 and 2^64 */
    const char *const *choices; /* NULL-terminated; NULL: ask the node's "graft.choices/1" */
    double round;               /* editors round to this; 0: not */
    /* "NAME=choice|choice": it counts, and editors show it, while the COMBO of this name is one
     * of these; that stands before it and has fixed choices. Else the node gets its initial value,
     * and none in place of an object. NULL: it always counts. Not for optional inputs. */
    const char *when;
} graft_input;

enum { GRAFT_OUTPUT_LIST = 1 }; /* graft_output.flags: always a LIST, to be spread */
typedef struct graft_output {
    uint32_t size, flags;
    const char *name, *type, *tooltip;
} graft_output;

enum { /* graft_node.flags */
       GRAFT_NODE_OUTPUT = 1,
       GRAFT_NODE_EXPERIMENTAL = 2,
       GRAFT_NODE_DEPRECATED = 4,
       GRAFT_NODE_NOT_IDEMPOTENT = 8, /* equal inputs may give another result: never cached */
       GRAFT_NODE_DYNAMIC = 16, /* takes inputs that it does not declare: see "graft.dynamic/1" */
       GRAFT_NODE_EXPANDS = 32, /* may give nodes in place of values: see "graft.expand/1" */
       /* Mostly waits: may run beside other nodes, in a thread of its own. So may its calls over a
        * list, each on an instance that makes no other call meanwhile. */
       GRAFT_NODE_ASYNC = 64,
       /* Uses its own id (graft_prompt_api.node_id): what it gave is kept for that id only. */
       GRAFT_NODE_OWN_ID = 128
};
typedef struct graft_node {
    uint32_t size, flags;
    const char *id;                     /* class name in workflow files */
    const char *title;                  /* what an editor shows */
    const char *category;               /* "sampling", "latent/batch" */
    const char *description;            /* one or two sentences */
    const graft_input *const *inputs;   /* NULL-terminated; execute() gets them in this order */
    const graft_output *const *outputs; /* NULL-terminated; likewise */
    graft_status (*create)(const graft_host *h, void **self); /* [any] */
    void (*destroy)(void *self); /* [any] never during execute(); NULL is fine */
    /* [exec] `in`: borrowed; retain an object to keep it; a string lasts for the call. `out`:
     * zeroed by the host; on GRAFT_OK every object in it carries one reference for the host, and a
     * string lasts until the next call on this instance (the host copies it at once). On failure
     * the node has called graft_job_api.fail(), released what it made and left `out` as it was. */
    graft_status (*execute)(void *self, graft_job *j, const graft_arg *in, graft_arg *out);
    const void *(*query)(const char *id); /* [any] one of the tables below, or NULL; may be NULL */
} graft_node;

/* "graft.choices/1": choices that depend on the machine, such as files. */
#define GRAFT_CHOICES_ID "graft.choices/1"
typedef struct graft_choices_api {
    /* [any] NULL-terminated, freed with `free`; NULL when out of memory. */
    char **(*list)(const graft_host *h, const char *input);
    void (*free)(char **names);
} graft_choices_api;

/* "graft.fingerprint/1": changes when the node would give another result for equal inputs, for
 * example because a file changed. Linked inputs are GRAFT_NONE. Writes at most n bytes of text. */
#define GRAFT_FINGERPRINT_ID "graft.fingerprint/1"
typedef struct graft_fingerprint_api {
    graft_status (*get)(const graft_host *h, const graft_arg *in, char *text,
                        uint64_t n); /* [any] */
} graft_fingerprint_api;

/* "graft.validate/1": checks literal inputs before anything runs, beyond type and range. Linked
 * inputs are GRAFT_NONE. On failure *input names the one at fault and `text` says why. The name
 * lasts, or stands in `text`, behind the end of what it says. */
#define GRAFT_VALIDATE_ID "graft.validate/1"
typedef struct graft_validate_api {
    graft_status (*check)(const graft_host *h, const graft_arg *in, const char **input, char *text,
                          uint64_t n); /* [any] */
} graft_validate_api;

/* "graft.validate/2", where a node has both, goes before the first: a check that says what it
 * takes. Range and choices of the inputs that it takes are left to it, and at sockets it also gets
 * literals of types that they do not name, as they are written: 5 is INT, 5.0 FLOAT. Those that it
 * lets pass come to execute(). A failure counts at each input that it takes and that the prompt
 * has. */
#define GRAFT_VALIDATE2_ID "graft.validate/2"
enum {                          /* graft_validate2_api.flags */
       GRAFT_VALIDATE_ALL = 1,  /* takes every input; `inputs` is not looked at */
       GRAFT_VALIDATE_TYPES = 2 /* and the types of links, which the host then does not compare */
};
typedef struct graft_validate2_api {
    uint32_t flags, zero;
    const char *const *inputs; /* names of declared ones, NULL-terminated; NULL: none */
    /* [any] `in` as for the first. `types`: by input, what the linked output says that it is; NULL
     * where there is no link. With TYPES only, else NULL. */
    graft_status (*check)(const graft_host *h, const graft_arg *in, const char *const *types,
                          char *text, uint64_t n);
} graft_validate2_api;

/* "graft.lazy/1": which unset lazy inputs are still needed; bit i of *needed is input i, so
 * lazy inputs are among the first 64. */
#define GRAFT_LAZY_ID "graft.lazy/1"
typedef struct graft_lazy_api {
    graft_status (*needed)(void *self, const graft_arg *in, uint64_t *needed); /* [exec] */
} graft_lazy_api;

/* ------------------------------------------------------------------ the plugin */

typedef struct graft_plugin { /* a constant: readable before any code of the plugin runs */
    uint32_t abi_major, abi_minor;
    const char *id, *version;
    /* [main] Counted: pairs may nest; one that failed has no deinit(). `dir`: the real
     * folder of this file, borrowed for the call. */
    graft_status (*init)(const graft_host *h, const char *dir);
    void (*deinit)(void);                  /* [main] after the last value was released */
    const graft_node *(*node)(uint32_t i); /* [any] NULL past the end; valid until deinit() */
    const void *(*query)(const char *id);  /* [any] plugin-wide tables, or NULL; may be NULL */
} graft_plugin;

/* "graft.memory/1", from graft_plugin.query: what the plugin holds between runs. */
#define GRAFT_MEMORY_ID "graft.memory/1"
typedef struct graft_memory_api {
    /* [any] Gives memory that no value and no run uses back to the system. What was in it is made
     * anew when it is needed. */
    void (*release)(void);
} graft_memory_api;

/* "graft.cache/1", from graft_plugin.query: what the plugin keeps on disk between runs. */
#define GRAFT_CACHE_ID "graft.cache/1"
typedef struct graft_cache_api {
    /* [any] The cache's folder (borrowed until deinit), or NULL when nothing is kept. */
    const char *(*folder)(void);
    /* [any] Calls `visit` for every entry; verify: 1 checks each, good is 0 for damaged ones. 2: of
     * another version, made anew when it is needed; good in all other ways. */
    graft_status (*list)(int32_t verify,
                         void (*visit)(void *ctx, const char *name, uint64_t bytes,
                                       int64_t modified, int32_t good),
                         void *ctx);
    /* [any] Removes all entries; *count says how many. */
    graft_status (*clear)(uint64_t *count);
} graft_cache_api;

/* "graft.convert/1", from graft_plugin.query: weights from files of other formats. */
#define GRAFT_CONVERT_ID "graft.convert/1"
typedef struct graft_convert_api {
    /* [any] Reads the weights in `from` and writes them as the safetensors file `to`, which must
     * not exist. Puts a sentence into text[0..n): what was written and what was left out, or what
     * is wrong. GRAFT_E_FORMAT: none of the formats that it reads. */
    graft_status (*convert)(const char *from, const char *to, char *text, uint64_t n);
} graft_convert_api;

/* "graft.convert-int8/1", likewise: networks in 8-bit integers. */
#define GRAFT_CONVERT_INT8_ID "graft.convert-int8/1"
typedef struct graft_convert_int8_api {
    /* [any] Writes the network in `from`, safetensors or GGUF, as the safetensors file `to`, which
     * must not exist, with its linear layers in ComfyUI's format int8_tensorwise; turned: 1 with
     * convrot. Puts a sentence into text[0..n), as above. */
    graft_status (*convert)(const char *from, const char *to, int32_t turned, char *text,
                            uint64_t n);
} graft_convert_int8_api;

/* "graft.device/1", from graft_plugin.query: what the plugin's nodes compute on. */
#define GRAFT_DEVICE_ID "graft.device/1"
typedef struct graft_device_facts {
    uint32_t size;                      /* of this record as the host knows it */
    uint32_t own_memory;                /* 1: it has memory of its own, as a card does */
    char backend[32];                   /* "cuda" */
    char name[128];                     /* "AMD EPYC (AVX-512, VNNI, BF16)" */
    uint64_t memory_total, memory_free; /* bytes, now; 0: not known */
} graft_device_facts;
typedef struct graft_device_api {
    /* [any] Whether they can compute on the device of this name here; a sentence in text[0..n)
     * says why not, and which they could. */
    graft_status (*check)(const char *name, char *text, uint64_t n);
    /* [any] What they compute on where a node does not say otherwise, which is opened if it was
     * not. */
    graft_status (*describe)(graft_device_facts *out);
} graft_device_api;

#if defined(__GNUC__)
#define GRAFT_EXPORT __attribute__((visibility("default")))
#else
#define GRAFT_EXPORT
#endif
/* The only symbol that a plugin exports. */
extern GRAFT_EXPORT const graft_plugin graft_plugin_entry;
#define GRAFT_PLUGIN_SYMBOL "graft_plugin_entry"

#ifdef __cplusplus
}
#endif
#endif
