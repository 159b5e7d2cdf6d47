/* What would fail only once a model has computed for minutes, found before anything runs. */
#ifndef GRAFT_HOST_SESSION_AHEAD_H
#define GRAFT_HOST_SESSION_AHEAD_H
#include "host/prompt/prompt.h"
#include "host/session/session.h"

/* Whether the device that --device or GRAFT_BACKEND names can be computed on; fine without one. */
graft_status graft_ahead_device(const graft_session *s, const graft_options *o, graft_err *e);
/* Whether the files that this prompt's nodes write could be written. */
graft_status graft_ahead_output(const graft_folders *f, const graft_prompt *p, graft_err *e);
#endif
