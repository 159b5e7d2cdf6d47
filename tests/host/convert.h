/* What a graph of an editor becomes. */
#ifndef GRAFT_TESTS_HOST_CONVERT_H
#define GRAFT_TESTS_HOST_CONVERT_H
#include "tests/host/fixture.h"

static inline void expect(const char *graph, const char *want, int line)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *json = parse(graph), *prompt = NULL, *node;
    CHECK_OK(graft_workflow_from_ui(json, fixture.registry, &prompt, &e), &e);
    cJSON_ArrayForEach(node, prompt) cJSON_DeleteItemFromObject(node, "_meta");
    check_json(prompt, want, line);
    cJSON_Delete(prompt);
    cJSON_Delete(json);
}
#define EXPECT(graph, want) expect(graph, want, __LINE__)
#endif
