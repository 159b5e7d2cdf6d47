/* A host with the test plugin loaded, in an empty folder of its own. */
#ifndef GRAFT_TESTS_HOST_FIXTURE_H
#define GRAFT_TESTS_HOST_FIXTURE_H
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "host/session/session.h"
#include "base/tree.h"
#include "host/prompt/validate.h"
#include "host/prompt/workflow.h"
#include "tests/test.h"

static graft_session fixture;
static char fixture_folder[64];

static inline void fixture_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "%s\n", text);
}

static inline void fixture_open(void)
{
    graft_err e = GRAFT_ERR_INIT;
    snprintf(fixture_folder, sizeof fixture_folder, "/tmp/graft-host-XXXXXX");
    CHECK(mkdtemp(fixture_folder) != NULL);
    CHECK(chdir(fixture_folder) == 0);
    const graft_log log = {NULL, fixture_line};
    graft_options o = {.models = (char *)"models",
                       .input = (char *)"input",
                       .output = (char *)"output",
                       .temp = (char *)"temp",
                       .plugins = (char *)HOST_TEST_PLUGINS};
    CHECK_OK(graft_session_init(&fixture, &o, &log, &e), &e);
    CHECK_INT(fixture.plugins, 1);
}

static inline void fixture_close(void)
{
    char command[128];
    graft_session_finish(&fixture);
    snprintf(command, sizeof command, "rm -rf %s", fixture_folder);
    CHECK(chdir("/") == 0);
    CHECK(system(command) == 0);
}

/* JSON with ' in place of ", so that tests can be read. */
static inline cJSON *parse(const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *json = NULL;
    char *copy = graft_strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    CHECK_OK(graft_json_parse(copy, strlen(copy), "test", &json, &e), &e);
    graft_free(copy);
    return json;
}

/* Compares values; members of objects in any order, as `parse` reads them. */
static inline void check_json(const cJSON *got, const char *want, int line)
{
    cJSON *json = parse(want);
    test_checks++;
    if (!cJSON_Compare(got, json, 1)) {
        char *text = got ? graft_json_print(got) : NULL;
        test_failures++;
        fprintf(stderr, "line %d: got  %s\n     not %s\n", line, text ? text : "nothing", want);
        graft_free(text);
    }
    cJSON_Delete(json);
}
#define CHECK_JSON(got, want) check_json(got, want, __LINE__)

static inline void check_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0);
    if (f) fclose(f);
}
#endif
