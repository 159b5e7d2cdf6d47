/* What every node instance holds: its host, the host's tables, and the text it handed out last.
 * One call at a time per instance, as the plugin ABI says. */
#ifndef GRAFT_NODES_INSTANCE_H
#define GRAFT_NODES_INSTANCE_H
#include "plugin/graft_plugin.h"

typedef struct graft_instance {
    const graft_host *host;
    const graft_job_api *job;     /* never NULL */
    const graft_phase_api *phase; /* NULL when this host has none; so are those below */
    const graft_prompt_api *prompt;
    const graft_ui_api *ui;
    const graft_mode_api *mode;
    const graft_trace_api *trace;
    const graft_picture_api *picture;
    const graft_preview_api *preview;
    char *text;           /* a string output, which must live until the next call */
    char temp_prefix[24]; /* of previews; chosen at random once per instance */
} graft_instance;

/* graft_node.create and graft_node.destroy of every node here. */
graft_status graft_instance_create(const graft_host *h, void **self);
void graft_instance_destroy(void *self);
/* Another number each time; where the system has none at hand, of the time and an address. */
uint64_t graft_instance_random(const void *salt);
#endif
