/* Nodes that take and give lists: their own and those of other plugins, whole and spoilt. */
#include "tests/nodes/connected.h"

/* A list of another plugin, on the stack. */
typedef struct foreign {
    graft_value value;
    uint64_t n;
    graft_status fails; /* what at() answers behind the first */
    graft_arg item[3];
} foreign;

static void uncounted(graft_value *v)
{
    (void)v;
}
static uint64_t foreign_count(const graft_value *v)
{
    return ((const foreign *)v)->n;
}
static graft_status foreign_at(const graft_value *v, uint64_t i, graft_arg *out)
{
    const foreign *f = (const foreign *)v;
    if (i && f->fails) return f->fails;
    *out = f->item[i];
    return GRAFT_OK;
}
static const void *foreign_query(const graft_value *v, const char *id)
{
    static const graft_list_api api = {foreign_count, foreign_at};
    (void)v;
    return strcmp(id, GRAFT_LIST_ID) == 0 ? &api : NULL;
}
static const graft_value_ops foreign_ops = {"LIST", uncounted, uncounted, foreign_query};

static graft_arg arg_of(foreign *f)
{
    return (graft_arg){.kind = GRAFT_OBJECT, .u.v = &f->value};
}

/* The first side of each batch that a node makes of a list: "2 2 1". */
static void expect(const char *id, graft_arg list, int64_t size, const char *want)
{
    graft_arg in[24], out[4];
    char got[64] = "";
    fake_host_defaults(fake_host_node(id), in);
    in[0] = list;
    in[1].u.i = size;
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(host.fail_text, "");
    if (out[0].kind != GRAFT_OBJECT) return;
    const graft_value *made = out[0].u.v;
    const graft_list_api *api = made->ops->query(made, GRAFT_LIST_ID);
    CHECK_STR(made->ops->type, "LIST");
    CHECK(!made->ops->query(made, GRAFT_TENSOR_ID));
    for (uint64_t i = 0; i < api->count(made); i++) {
        graft_arg a = {0};
        size_t n = strlen(got);
        CHECK_INT(api->at(made, i, &a), GRAFT_OK);
        CHECK_STR(a.u.v->ops->type, fake_host_node(id)->outputs[0]->type);
        const graft_tensor *t = a.u.v->ops->query(a.u.v, GRAFT_TENSOR_ID);
        snprintf(got + n, sizeof got - n, "%s%d", i ? " " : "", (int)t->shape[0]);
    }
    graft_arg past = {0};
    CHECK_INT(api->at(made, api->count(made), &past), GRAFT_E_ARG);
    CHECK_STR(got, want);
    fake_host_release(out, 1);
}

/* Ours hold two batches each: of 1 picture, and of 2 samples. */
static void lists_become_lists(void)
{
    expect("RebatchImages", images[0], 1, "1 1");
    expect("RebatchImages", images[0], 2, "2");
    expect("RebatchLatents", latents[0], 3, "3 1");
    expect("RebatchLatents", latents[0], 4096, "4");
    foreign f = {{&foreign_ops}, 3, GRAFT_OK, {image[0], image[0], image[0]}};
    expect("RebatchImages", arg_of(&f), 2, "2 1");
    f.n = 0;
    expect("RebatchImages", arg_of(&f), 2, "");
    expect("RebatchLatents", arg_of(&f), 2, "");
}

/* What a node gave is a list of ours again. */
static void results_are_inputs(void)
{
    graft_arg in[24], out[4];
    fake_host_defaults(fake_host_node("RebatchLatents"), in);
    in[0] = latents[0];
    CHECK_INT(run_with("RebatchLatents", in, out), GRAFT_OK); /* one by one */
    expect("RebatchLatents", out[0], 3, "3 1");
    graft_value *list = out[0].u.v;
    list->ops->retain(list);
    fake_host_release(out, 1);
    list->ops->release(list);
}

static void refuse(graft_arg list, graft_status want, const char *text)
{
    graft_arg in[24], out[4];
    fake_host_defaults(fake_host_node("RebatchImages"), in);
    in[0] = list;
    CHECK_INT(run_with("RebatchImages", in, out), want);
    CHECK_STR(host.fail_input, "images");
    CHECK(strstr(host.fail_text, text) != NULL);
    CHECK_INT(out[0].kind, GRAFT_NONE);
}

static void spoilt_lists_are_refused(void)
{
    foreign f = {{&foreign_ops}, 2, GRAFT_E_NOMEM, {image[0], image[0], {0}}};
    refuse(arg_of(&f), GRAFT_E_NOMEM, "element 1");
    f.fails = GRAFT_OK;
    f.item[1] = latent[0];
    refuse(arg_of(&f), GRAFT_E_ARG, "LATENT");
    f.item[1] = (graft_arg){.kind = GRAFT_INT, .u.i = 7};
    refuse(arg_of(&f), GRAFT_E_ARG, "element 1");
    f.item[1] = (graft_arg){.kind = GRAFT_OBJECT};
    refuse(arg_of(&f), GRAFT_E_ARG, "element 1");
    f.n = UINT64_MAX;
    refuse(arg_of(&f), GRAFT_E_NOMEM, "memory");
    refuse(image[0], GRAFT_E_ARG, "not a list"); /* a host spreads lists, and makes them */
    refuse((graft_arg){.kind = GRAFT_NONE}, GRAFT_E_ARG, "missing");
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    make_inputs();
    RUN(lists_become_lists);
    RUN(results_are_inputs);
    RUN(spoilt_lists_are_refused);
    check_nothing_is_left();
    return test_end();
}
