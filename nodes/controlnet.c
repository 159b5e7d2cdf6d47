#include "nodes/controlnet.h"

#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

const graft_input graft_controlnet_name =
    INPUT_CHOICE("control_net_name", NULL,
                 "The ControlNet's file. Put .safetensors files into models/controlnet.");
const graft_output graft_controlnet_out =
    OUTPUT("CONTROL_NET", "CONTROL_NET", "Steers sampling by a picture; for Apply ControlNet.");

QUERY_MODEL_FILE("controlnet", GRAFT_CONTROLNET_NAME)

const void *graft_controlnet_query(const char *id)
{
    return query(id);
}

graft_status graft_controlnet_run(graft_call *c, int name, const graft_model *m)
{
    graft_engine *engine;
    graft_controlnet *net = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, name, "controlnet", &path));
    st = m ? graft_controlnet_load_diff(engine, path, m, &c->task, &net, &c->err)
           : graft_controlnet_load(engine, path, &c->task, &net, &c->err);
    if (st) goto out;
    GRAFT_TRY(graft_call_out_controlnet(c, 0, net));
out:
    graft_free(path);
    return st;
}

graft_status graft_controlnet_apply(graft_call *c, int positive, int negative,
                                    const graft_control_options *options)
{
    graft_cond *p = NULL, *n = NULL;
    graft_status st = graft_cond_control(graft_arg_cond(c, positive), graft_arg_cond(c, negative),
                                         options, &p, &n, &c->err);
    if (st != GRAFT_OK) return st;
    st = graft_call_out_cond(c, 0, p);
    if (st != GRAFT_OK)
        graft_cond_release(n);
    else
        st = graft_call_out_cond(c, 1, n);
    return st;
}
