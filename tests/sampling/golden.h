/* Runs one comparison on the committed file and on the bigger one beside the project, if there. */
#ifndef GRAFT_TESTS_SAMPLING_GOLDEN_H
#define GRAFT_TESTS_SAMPLING_GOLDEN_H
#include "base/file.h"
#include "tests/golden/golden_sampling.h"
#include "tests/test.h"

typedef graft_status golden_fn(const graft_safetensors *, golden_case_fn *, void *, graft_err *);

static void golden_check(void *ctx, const char *name, double error, double tolerance)
{
    (*(int *)ctx)++;
    CHECK(error <= tolerance);
    if (!(error <= tolerance)) fprintf(stderr, "  %s: %.3g > %.3g\n", name, error, tolerance);
}

static void golden_compare(golden_fn *compare, const char *file)
{
    static const char *const folders[] = {"golden/small", "../shared/golden"};
    for (int i = 0; i < 2; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s/%s", GRAFT_SOURCE_DIR, folders[i], file);
        if (i > 0 && !graft_file_exists(path)) {
            printf("skipped: no %s/%s\n", folders[i], file);
            continue;
        }
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f = NULL;
        int cases = 0;
        CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
        if (!f) continue;
        CHECK_OK(compare(f, golden_check, &cases, &e), &e);
        CHECK(cases > 0);
        printf("%s: %d cases\n", path, cases);
        graft_safetensors_close(f);
    }
}
#endif
