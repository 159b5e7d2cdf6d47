/* The store from the inside, for what changes it (store.c) and what answers from it (store_read.c).
 */
#ifndef GRAFT_HOST_SERVE_STORE_INSIDE_H
#define GRAFT_HOST_SERVE_STORE_INSIDE_H
#include <pthread.h>

#include "host/serve/store.h"
#include "host/serve/store_sql.h"

struct graft_store {
    pthread_mutex_t lock;
    pthread_mutex_t read_lock; /* of sql.reader, which nothing else needs */
    graft_sql sql;
    graft_store_limits limits;
    int64_t count[3], bytes[3]; /* by state */
    int64_t counter, finished;  /* largest seq ever; largest place in the history */
};
#endif
