/* Inputs that both samplers have, and the query() that offers their names. */
#ifndef GRAFT_NODES_SAMPLER_INPUTS_H
#define GRAFT_NODES_SAMPLER_INPUTS_H
#include "nodes/node.h"

#define IN_CFG()                                                                                   \
    IN_FLOAT("cfg", 8.0, 0.0, 100.0, 0.1,                                                          \
             "How closely to follow the prompt. High values burn colours in; 1 ignores the "       \
             "negative prompt and is twice as fast.",                                              \
             .round = 0.01)
#define IN_SAMPLER_NAME()                                                                          \
    IN_CHOICE("sampler_name", NULL,                                                                \
              "The method that steps from noise to picture. euler is a good start; "               \
              "those named ancestral or sde add noise on the way.")
#define IN_SCHEDULER()                                                                             \
    IN_CHOICE("scheduler", NULL,                                                                   \
              "How the noise goes down over the steps. karras spends more of them on fine "        \
              "detail.")
#define IN_POSITIVE() IN_OBJECT("positive", "CONDITIONING", "What the picture should show.")
#define IN_NEGATIVE() IN_OBJECT("negative", "CONDITIONING", "What the picture should not show.")

#define QUERY_SAMPLERS()                                                                           \
    static char **list(const graft_host *h, const char *input)                                     \
    {                                                                                              \
        (void)h;                                                                                   \
        bool sampler = strcmp(input, "sampler_name") == 0;                                         \
        return graft_files_copy_choices(sampler ? graft_sampler_names()                            \
                                                : graft_scheduler_names());                        \
    }                                                                                              \
    QUERY_CHOICES()
#endif
