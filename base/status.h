/* Status codes shared by every layer and by both binary interfaces (plugin and kernels).
 *
 * Zero is success, failures are negative, everywhere. This header is part of the ABI: codes keep
 * their numbers for ever, new ones are appended. */
#ifndef GRAFT_BASE_STATUS_H
#define GRAFT_BASE_STATUS_H
#include <stdint.h>

typedef int32_t graft_status;

#define GRAFT_STATUS_MAP(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(E_ARG, -1, "invalid argument")                                                               \
    X(E_NOMEM, -2, "out of memory")                                                                \
    X(E_CANCEL, -3, "cancelled")                                                                   \
    X(E_UNSUPPORTED, -4, "not supported")                                                          \
    X(E_IO, -5, "input/output error")                                                              \
    X(E_FORMAT, -6, "malformed data")                                                              \
    X(E_NOTFOUND, -7, "not found")                                                                 \
    X(E_DEVICE, -8, "device error")                                                                \
    X(E_INTERNAL, -9, "internal error")                                                            \
    X(E_LIMIT, -10, "over a limit")

enum {
#define GRAFT_STATUS_ENUM(name, number, text) GRAFT_##name = (number),
    GRAFT_STATUS_MAP(GRAFT_STATUS_ENUM)
#undef GRAFT_STATUS_ENUM
};
#endif
