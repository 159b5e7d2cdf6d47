/* Python's pickle format, protocols 2 to 5 (https://docs.python.org/3/library/pickletools.html),
 * read as data. A pickle is a program that names functions and calls them; here a name stays a
 * name and a call is noted as "this, of these arguments". Nothing is looked up, imported or run,
 * so that a file can do no more than be wrong.
 *
 * Values may be shared and may contain themselves: who walks them must count. */
#ifndef GRAFT_WEIGHTS_PICKLE_H
#define GRAFT_WEIGHTS_PICKLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_PICKLE_MOST_VALUES ((size_t)1 << 22)

typedef enum graft_pickle_kind {
    GRAFT_PICKLE_NONE,
    GRAFT_PICKLE_BOOL,  /* number */
    GRAFT_PICKLE_INT,   /* number */
    GRAFT_PICKLE_FLOAT, /* real */
    GRAFT_PICKLE_BIG,   /* an integer beyond 64 bits: text, least significant byte first */
    GRAFT_PICKLE_TEXT,  /* text: UTF-8 as the file has it, unchecked; also protocol 2's bytes */
    GRAFT_PICKLE_BYTES, /* text */
    GRAFT_PICKLE_NAME,  /* what would be imported: module and text, both unchecked */
    GRAFT_PICKLE_LIST,  /* item: the elements; also sets */
    GRAFT_PICKLE_TUPLE, /* item: the elements */
    GRAFT_PICKLE_DICT,  /* item: key, value, key, value, … */
    /* What would be made by calling `callee` with `args`, then given `state`; item: what was put
     * into it as into a dictionary. Elements appended to it are dropped. */
    GRAFT_PICKLE_OBJECT,
    GRAFT_PICKLE_PERSISTENT /* what its maker keeps elsewhere, by the name `args` */
} graft_pickle_kind;

typedef struct graft_pickle_text {
    const char *at; /* inside the file; not terminated */
    size_t n;
} graft_pickle_text;

typedef struct graft_pickle_value graft_pickle_value;
struct graft_pickle_value {
    graft_pickle_kind kind;
    int64_t number;
    double real;
    graft_pickle_text text, module;
    graft_pickle_value **item;
    size_t n, cap;
    const graft_pickle_value *callee, *args, *state; /* NULL: not given */
};

/* Immutable once read; any thread. */
typedef struct graft_pickle graft_pickle;

/* Reads one pickle, which may be followed by other bytes; *used: its length. The bytes must outlive
 * it. GRAFT_E_FORMAT: no pickle, cut short, or one that Python would not read;
 * GRAFT_E_UNSUPPORTED: opcodes of protocols 0 and 1; GRAFT_E_LIMIT: more than
 * GRAFT_PICKLE_MOST_VALUES. `what` names the file in messages. */
graft_status graft_pickle_read(const void *data, size_t size, const char *what, graft_pickle **out,
                               size_t *used, graft_err *e);
void graft_pickle_free(graft_pickle *k);
const graft_pickle_value *graft_pickle_root(const graft_pickle *k);
/* All values that were made, in that order; NULL past the end. */
const graft_pickle_value *graft_pickle_at(const graft_pickle *k, size_t i);

/* Whether v (NULL: no) is this text. */
bool graft_pickle_is_text(const graft_pickle_value *v, const char *text);
/* Whether v (NULL: no) is a name of that module. */
bool graft_pickle_is_name(const graft_pickle_value *v, const char *module, const char *name);
/* Whether v (NULL: no) is any name of that module. */
bool graft_pickle_in_module(const graft_pickle_value *v, const char *module);
/* The value under a text in a dictionary, or in what is filled like one; NULL when absent. */
const graft_pickle_value *graft_pickle_get(const graft_pickle_value *v, const char *key);
#endif
