/* JSON through cJSON, with the integers that a double cannot hold kept exactly.
 *
 * cJSON reads every number as a double, so a 64-bit seed loses its low bits. graft_json_parse()
 * returns an ordinary cJSON tree in which integers beyond 2^53 are cJSON_Raw items holding their
 * digits; printing gives the same digits back. Read integers with graft_json_i64/u64, which know
 * both forms. A whole number that was written with a point or an exponent (5.0, 1e3) is a number
 * item like any other, whose valuestring has that text; copies made by cJSON_Duplicate() keep it,
 * and it is printed with a point. Trees are freed with cJSON_Delete(). One thread at a time per
 * tree. */
#ifndef GRAFT_BASE_JSON_H
#define GRAFT_BASE_JSON_H
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_JSON_MAX_BYTES ((size_t)256 << 20)
#define GRAFT_JSON_MAX_DEPTH 256

/* Parses exactly one value with nothing but white space around it. NaN and Infinity are refused; so
 * is text deeper than GRAFT_JSON_MAX_DEPTH. `what` names the source in the message, which gives
 * line and column. */
graft_status graft_json_parse(const char *text, size_t n, const char *what, cJSON **out,
                              graft_err *e);
/* The same for prompts and workflows, which Python programs write: NaN, Infinity and -Infinity, as
 * its json module puts them, are null. */
graft_status graft_json_parse_python(const char *text, size_t n, const char *what, cJSON **out,
                                     graft_err *e);
/* The first object in a text that has other things around it, read as by graft_json_parse_python();
 * *out NULL: there is none. */
graft_status graft_json_find_object(const char *text, size_t n, const char *what, cJSON **out,
                                    graft_err *e);
/* True when the item is a whole number in range; *out is set. Doubles with a fraction: false. */
bool graft_json_i64(const cJSON *item, int64_t *out);
bool graft_json_u64(const cJSON *item, uint64_t *out);
/* Any number, also a big integer. */
bool graft_json_f64(const cJSON *item, double *out);
/* A number item that prints exactly; NULL when out of memory. */
cJSON *graft_json_new_i64(int64_t v);
cJSON *graft_json_new_u64(uint64_t v);
bool graft_json_is_number(const cJSON *item);
/* True for a number that is not whole, or was written as one that need not be (5.0, 1e3). */
bool graft_json_is_fraction(const cJSON *item);
/* A finite number that stays one with a fraction when it is printed and parsed; NULL when out of
 * memory. */
cJSON *graft_json_new_fraction(double v);
/* Compact text (graft_free); NULL when out of memory. */
char *graft_json_print(const cJSON *item);
/* Members of an object; 0/NULL/fallback when absent or of another type. */
const char *graft_json_str(const cJSON *object, const char *name, const char *fallback);
int64_t graft_json_int(const cJSON *object, const char *name, int64_t fallback);
double graft_json_num(const cJSON *object, const char *name, double fallback);
#endif
