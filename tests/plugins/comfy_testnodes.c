/* The plugin around the test nodes. */
#include "tests/plugins/comfy_testnodes.h"

const graft_job_api *job_api;
const graft_dynamic_api *dynamic_api;
const graft_ui_api *ui_api;
const graft_expand_api *expand_api;
const graft_prompt_api *prompt_api;

static const graft_node *node(uint32_t i)
{
    static node_list *const lists[] = {constant_nodes, condition_nodes, list_nodes,
                                       check_nodes,    expand_nodes,    async_nodes};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        uint32_t n = 0;
        while (lists[k](n)) n++;
        if (i < n) return lists[k](i);
        i -= n;
    }
    return NULL;
}

static graft_status init(const graft_host *h, const char *dir)
{
    (void)dir;
    job_api = h->query(h, GRAFT_JOB_ID);
    dynamic_api = h->query(h, GRAFT_DYNAMIC_ID);
    ui_api = h->query(h, GRAFT_UI_ID);
    expand_api = h->query(h, GRAFT_EXPAND_ID);
    prompt_api = h->query(h, GRAFT_PROMPT_ID);
    return job_api && dynamic_api && ui_api && expand_api && prompt_api ? GRAFT_OK
                                                                        : GRAFT_E_UNSUPPORTED;
}
static void deinit(void) {}

const graft_plugin graft_plugin_entry = {
    GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR, "comfy-testnodes", "1.0", init, deinit, node, NULL};
