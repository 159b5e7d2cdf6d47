/* Models, text encoders, VAEs and prompts that write down how they were called. */
#ifndef GRAFT_TESTS_NODES_FAKE_ENGINE_H
#define GRAFT_TESTS_NODES_FAKE_ENGINE_H
#include "engine/engine.h"

extern char fake_trace[4096];     /* one line a call: the function's name and its arguments */
extern int fake_live;             /* objects that are alive; the engine is none of them */
extern int fake_engines;          /* engines that are alive */
extern const char *fake_bad_clip; /* text encoders are refused where a path ends so, once */
extern graft_status fake_fail;    /* what the next model function returns, once */
extern bool fake_wait_for_cancel; /* graft_sample runs until the task is cancelled */

extern bool fake_vae_fits; /* what graft_vae_is_for says */

void fake_engine_reset(void);
#endif
