/* One execute() call as the plugin sees it, and the tables that a job answers. */
#ifndef GRAFT_HOST_RUN_JOB_H
#define GRAFT_HOST_RUN_JOB_H
#include <pthread.h>
#include <stdatomic.h>

#include "host/run/events.h"
#include "host/services/services.h"

struct graft_agenda;

struct graft_job {
    const graft_where *where;
    struct graft_agenda *agenda; /* of the run, for nodes by id */
    const char *prompt;          /* JSON text; NULL when there is none */
    const char *extra_pnginfo;   /* JSON text; NULL when there is none */
    const graft_events *events;
    const atomic_int *cancel; /* NULL: cannot be cancelled */
    const atomic_int *stop;   /* likewise: the run has failed already */
    const atomic_int *beside; /* likewise: a call of the same node, on the same list, has failed */
    bool prepare_only;
    const graft_input *const *dynamic; /* inputs that the node does not declare */
    size_t n_dynamic;
    pthread_mutex_t lock;   /* guards what follows */
    graft_status fail_code; /* GRAFT_OK until fail() is called */
    char fail_input[128];
    graft_err fail;
    cJSON *ui; /* object of arrays; NULL until something is shown */
    bool ui_lost;
    cJSON *warnings;          /* array of texts, each once; NULL until there is one */
    bool may_expand, refused; /* refused: expand() failed, and with it the node */
    cJSON *part, *links;      /* expand() of the present call; NULL */
    char **text;              /* what node() gave */
    size_t n_text, cap_text;
};

void graft_job_init(graft_job *j);
void graft_job_finish(graft_job *j);
/* Another call of the same node, with nothing said or shown yet. */
void graft_job_init_like(graft_job *j, const graft_job *other);
/* Appends what `from` showed and warned of to what `j` did. */
void graft_job_show_all(graft_job *j, graft_job *from);
bool graft_job_cancelled(const graft_job *j);

/* What plugins may ask of it: a list for graft_services_init(). */
extern const graft_service graft_job_services[];
#endif
