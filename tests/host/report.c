/* What a run tells its user: the lines of progress, and the table of phases. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/session/phases.h"
#include "host/session/progress.h"
#include "tests/test.h"

static char text[8000];

static void read_back(FILE *f)
{
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
}

static int count(const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++) n++;
    return n;
}

static void lines(void)
{
    graft_progress p;
    FILE *f = tmpfile();
    graft_progress_init(&p, f, false);
    graft_progress_nodes(&p, 2);
    graft_progress_node(&p, "Sampler", "3");
    graft_progress_phase(&p, "sample");
    for (uint64_t i = 0; i <= 1000; i++) graft_progress_step(&p, i, 1000);
    graft_progress_say(&p, "a word");
    graft_progress_node(&p, "Save", "4");
    graft_progress_step(&p, 7, 3); /* a node's mistake does no harm */
    graft_progress_step(&p, 0, 0);
    graft_progress_finish(&p);
    read_back(f);
    CHECK(count("\n") <= 14);
    CHECK_INT(count("[1/2] Sampler (3): sample 1000/1000"), 1);
    CHECK_INT(count("a word\n"), 1);
    CHECK(strchr(text, '\r') == NULL && strchr(text, '\033') == NULL);
    fclose(f);
}

/* Calibration counts shares of itself; nobody wants so many of those a second. */
static void shares(void)
{
    graft_progress p;
    FILE *f = tmpfile();
    graft_progress_init(&p, f, false);
    graft_progress_nodes(&p, 1);
    graft_progress_node(&p, "Quantize", "8");
    graft_progress_phase(&p, "calibrate");
    graft_progress_step(&p, 0, 1000);
    p.begun -= 10;
    p.drawn -= 10;
    graft_progress_step(&p, 250, 1000);
    graft_progress_phase(&p, "save");
    graft_progress_step(&p, 0, 8);
    p.begun -= 10;
    p.drawn -= 10;
    graft_progress_step(&p, 2, 8);
    graft_progress_finish(&p);
    read_back(f);
    CHECK_INT(count("[1/1] Quantize (8): calibrate 25 %  ETA 0:30\n"), 1);
    CHECK_INT(count("[1/1] Quantize (8): save 2/8  ETA 0:30\n"), 1);
    CHECK_INT(count("it"), 0);
    fclose(f);
}

/* A step may take many seconds: the first is told as soon as it is done, with what it took. */
static void first_step(void)
{
    graft_progress p;
    FILE *f = tmpfile();
    graft_progress_init(&p, f, false);
    graft_progress_nodes(&p, 1);
    graft_progress_node(&p, "Sampler", "3");
    graft_progress_phase(&p, "sample");
    p.begun -= 10;
    p.drawn -= 10;
    graft_progress_step(&p, 1, 8);
    p.begun -= 6;
    p.drawn -= 6;
    graft_progress_step(&p, 2, 8);
    graft_progress_finish(&p);
    read_back(f);
    CHECK_INT(count("[1/1] Sampler (3): sample 1/8  10.00 s/it  ETA 1:10\n"), 1);
    CHECK_INT(count("[1/1] Sampler (3): sample 2/8  8.00 s/it  ETA 0:48\n"), 1);
    fclose(f);
}

static void quiet(void)
{
    graft_progress p;
    FILE *f = tmpfile();
    graft_progress_init(&p, f, true);
    graft_progress_node(&p, "Sampler", "3");
    graft_progress_step(&p, 1, 1);
    graft_progress_finish(&p);
    read_back(f);
    CHECK_STR(text, "");
    fclose(f);
}

/* 64 MiB in one phase show in that phase and in the total, not in the others. */
static void memory(void)
{
    const size_t bytes = (size_t)64 << 20;
    graft_phases p;
    graft_phases_init(&p);
    graft_phases_begin(&p, "load");
    graft_phases_begin(&p, "sample");
    /* Mapped, because sanitizers hold back what is freed. */
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    for (size_t i = 0; block != MAP_FAILED && i < bytes; i += 4096) ((volatile char *)block)[i] = 1;
    graft_phases_sample(&p);
    if (block != MAP_FAILED) munmap(block, bytes);
    graft_phases_begin(&p, "decode");
    usleep(20000);
    graft_phases_begin(&p, "load");
    graft_phases_end(&p);
    CHECK_INT(p.count, 3);
    CHECK_STR(p.row[1].name, "sample");
    CHECK(p.row[2].seconds >= 0.02 && p.row[2].seconds < 5);
    if (p.row[1].peak > 0) {
        CHECK(p.row[1].peak > p.row[0].peak + (60 << 20));
        if (p.resets) CHECK(p.row[1].peak > p.row[2].peak + (60 << 20));
        CHECK(p.all_peak >= p.row[1].peak);
    } else {
        printf("skipped: the system does not tell this process its memory\n");
    }
    for (int i = 0; i < 2 * GRAFT_PHASES_MAX; i++) {
        char name[64];
        snprintf(name, sizeof name, "a phase with a very long name %d", i);
        graft_phases_begin(&p, name + (i & 7));
        snprintf(name, sizeof name, "p%d", i);
        graft_phases_begin(&p, name);
    }
    CHECK_INT(p.count, GRAFT_PHASES_MAX);
    FILE *f = tmpfile();
    graft_phases_print(&p, f);
    read_back(f);
    CHECK(count("\nload ") == 1 && count("\ntotal ") == 1 && count("\nmore ") == 1);
    fclose(f);
    graft_phases_finish(&p);
}

int main(void)
{
    RUN(lines);
    RUN(shares);
    RUN(first_step);
    RUN(quiet);
    RUN(memory);
    return test_end();
}
