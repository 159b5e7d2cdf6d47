/* The node that tells a union ControlNet a type and the one that loads differences, with
 * ControlNets that only write down how they were called. */
#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg net[4];

static graft_status tell(const char *type, graft_arg *out)
{
    const graft_node *n = fake_host_node("SetUnionControlNetType");
    graft_arg in[24];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "control_net")] = net[0];
    if (type) in[fake_host_input(n, "type")].u.s = type;
    fake_host_clear(&host);
    return fake_host_run(&host, n, in, out, NULL, 0);
}

static void make_net(void)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("ControlNetLoader"), in);
    CHECK_INT(fake_host_run(&host, fake_host_node("ControlNetLoader"), in, net, NULL, 0), GRAFT_OK);
}

static void types_are_passed_on(void)
{
    graft_arg out[4];
    int live = fake_live;
    fake_engine_reset();
    CHECK_INT(tell(NULL, out), GRAFT_OK);
    CHECK_STR(fake_trace, "controlnet type auto\n"); /* the first is what a new node has */
    CHECK_STR(out[0].u.v->ops->type, "CONTROL_NET");
    fake_host_release(out, 4);
    fake_engine_reset();
    CHECK_INT(tell("hed/pidi/scribble/ted", out), GRAFT_OK);
    CHECK_STR(fake_trace, "controlnet type hed/pidi/scribble/ted\n");
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void differences_are_loaded(void)
{
    const graft_node *n = fake_host_node("DiffControlNetLoader");
    graft_arg in[24], model[4], out[4];
    int live = fake_live;
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(fake_host_run(&host, fake_host_node("CheckpointLoaderSimple"), in, model, NULL, 0),
              GRAFT_OK);
    fake_host_defaults(n, in);
    in[fake_host_input(n, "model")] = model[0];
    fake_engine_reset();
    fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, n, in, out, NULL, 0), GRAFT_OK);
    CHECK_STR(fake_trace, "controlnet diff file.safetensors\n");
    CHECK_STR(host.phases, "load ");
    CHECK_STR(out[0].u.v->ops->type, "CONTROL_NET");
    fake_host_release(out, 4);
    fake_host_release(model, 4);
    CHECK_INT(fake_live, live);
}

static void a_refused_type_is_named(void)
{
    graft_arg out[4];
    int live = fake_live;
    fake_engine_reset();
    fake_fail = GRAFT_E_ARG;
    CHECK_INT(tell("tile", out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "type");
    CHECK_STR(host.fail_text, "planned failure");
    CHECK_INT(fake_live, live);
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(make_net);
    if (test_failures == 0) {
        RUN(types_are_passed_on);
        RUN(differences_are_loaded);
        RUN(a_refused_type_is_named);
    }
    fake_host_release(net, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
    return test_end();
}
