#include "nodes/controls/controlnet.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

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
    GRAFT_TRY(graft_arg_file(c, name, "controlnet", &path));
    st = m ? graft_controlnet_load_diff(engine, path, m, &c->task, &net, &c->err)
           : graft_controlnet_load(engine, path, &c->task, &net, &c->err);
    if (st) goto out;
    GRAFT_TRY(graft_call_out_controlnet(c, 0, net));
out:
    graft_free(path);
    return st;
}

/* ------------------------------------------------------------------ applying */

const graft_input graft_controlnet_positive =
    INPUT_OBJECT("positive", "CONDITIONING", "What the picture should show.");
const graft_input graft_controlnet_negative =
    INPUT_OBJECT("negative", "CONDITIONING", "What it should not show.");
const graft_input graft_controlnet_net =
    INPUT_OBJECT("control_net", "CONTROL_NET", "The ControlNet to follow.");
const graft_input graft_controlnet_image =
    INPUT_OBJECT("image", "IMAGE",
                 "The picture to follow, of the kind that the ControlNet was trained with: "
                 "outlines, depth, a pose. It is scaled and cut to the size of the latent.");
const graft_input graft_controlnet_strength =
    INPUT_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                "How closely to follow it. 0 switches it off. Changing it recompiles nothing.");
const graft_input graft_controlnet_start =
    INPUT_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                "Where in sampling it begins to count: 0 is the first step.");
const graft_input graft_controlnet_end =
    INPUT_FLOAT("end_percent", 1.0, 0.0, 1.0, 0.001,
                "Where it stops counting: 0.5 leaves the second half free.");
const graft_output graft_controlnet_out_positive =
    OUTPUT("positive", "CONDITIONING", "The positive prompt, steered.");
const graft_output graft_controlnet_out_negative =
    OUTPUT("negative", "CONDITIONING", "The negative prompt, steered.");

graft_status graft_controlnet_apply(graft_call *c, int vae, int image, int mask, int strength)
{
    const graft_control_options options = {.net = graft_arg_controlnet(c, GRAFT_CONTROLNET_NET),
                                           .hint = graft_arg_image(c, image),
                                           .vae = graft_arg_vae(c, vae),
                                           .mask = mask < 0 ? NULL : graft_arg_mask(c, mask),
                                           .strength = graft_arg_f64(c, strength),
                                           .start = graft_arg_f64(c, strength + 1),
                                           .end = graft_arg_f64(c, strength + 2)};
    graft_cond *p = NULL, *n = NULL;
    graft_status st =
        graft_cond_control(graft_arg_cond(c, GRAFT_CONTROLNET_POSITIVE),
                           graft_arg_cond(c, GRAFT_CONTROLNET_NEGATIVE), &options, &p, &n, &c->err);
    if (st != GRAFT_OK) return st;
    st = graft_call_out_cond(c, 0, p);
    if (st != GRAFT_OK)
        graft_cond_release(n);
    else
        st = graft_call_out_cond(c, 1, n);
    return st;
}
