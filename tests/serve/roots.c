#include "host/serve/roots.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/test.h"

static char base[64];
static graft_folders folders;
static char text[6][160];

static char *below(int i, const char *name)
{
    snprintf(text[i], sizeof text[i], "%s/%s", base, name);
    return text[i];
}

static void hidden(const graft_roots *r, const char *before, const char *after)
{
    graft_str s = GRAFT_STR_INIT;
    char with[600] = "", *to = with;
    for (; *before; before++) /* '@' stands for the folder of this test */
        to += snprintf(to, sizeof with - (size_t)(to - with), *before == '@' ? "%s" : "%.1s",
                       *before == '@' ? base : before);
    graft_roots_hide(r, with, &s);
    CHECK_STR(s.data ? s.data : "", after);
    graft_str_finish(&s);
}

static void paths_become_names(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_roots r;
    CHECK_OK(graft_roots_init(&r, &folders, below(4, "state"), &e), &e);
    hidden(&r, "", "");
    hidden(&r, "no path in it, and/or one / two", "no path in it, and/or one / two");
    hidden(&r, "@/out/a/b.png: cannot write", "output/a/b.png: cannot write");
    hidden(&r, "cannot read \"@/in/x y.png\" (@/in)", "cannot read \"input/x y.png\" (input)");
    hidden(&r, "@/models/vae/v.sft:@/out/x", "models/vae/v.sft:output/x");
    hidden(&r, "@/state/temp/x @/state/x", "temp/x state/x"); /* one lies in the other */
    hidden(&r, "@/real/x", "output/x");                       /* "out" is a link to it */
    hidden(&r, "@/in", "input");
    graft_roots_finish(&r);
    hidden(NULL, "/a/b", "/a/b");
}

static void others_stay(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_roots r;
    const graft_folders fixed = {(char *)("/aa/m"), (char *)("/aa/i/"), (char *)("/"),
                                 (char *)("/aa/t")};
    CHECK_OK(graft_roots_init(&r, &fixed, "/aa", &e), &e);
    hidden(&r, "/aa/mm /aa/m-1 /aab /x/aa/m", "state/mm state/m-1 /aab /x/aa/m");
    hidden(&r, "/aa/i/x /usr/lib/x", "input/x /usr/lib/x");
    graft_roots_finish(&r);
}

static void memory_runs_out(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int i = 1; i < 20; i++) {
        graft_roots r;
        graft_alloc_fail_at(i);
        graft_status st = graft_roots_init(&r, &folders, below(4, "state"), &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        graft_roots_finish(&r);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    snprintf(base, sizeof base, "/tmp/graft-roots-XXXXXX");
    CHECK(mkdtemp(base));
    folders = (graft_folders){below(0, "models"), below(1, "in"), below(2, "out"),
                              below(3, "state/temp")};
    CHECK(mkdir(below(5, "real"), 0700) == 0 && symlink(text[5], text[2]) == 0);
    RUN(paths_become_names);
    RUN(others_stay);
    RUN(memory_runs_out);
    CHECK(unlink(text[2]) == 0 && rmdir(text[5]) == 0 && rmdir(base) == 0);
    return test_end();
}
