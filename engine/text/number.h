/* A number as the weight of a prompt gives it. */
#ifndef GRAFT_TEXT_NUMBER_H
#define GRAFT_TEXT_NUMBER_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Reads all of text[0..n) as Python's float() reads a string: decimal digits of any script with '_'
 * between them, "." and exponent, "inf", "infinity", "nan", white space around; correctly rounded,
 * whatever the locale. *ok is false for anything else; the status is about memory only. Any
 * thread. */
graft_status graft_number_parse(const char *text, size_t n, double *value, bool *ok, graft_err *e);
#endif
