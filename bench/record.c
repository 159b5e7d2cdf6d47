#include "bench/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

void must(graft_status st, const graft_err *e)
{
    if (!st) return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, e->text);
    exit(1);
}

static void machine_name(char *out, size_t n)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, n, "unknown processor");
    int processors = 0;
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        processors += strncmp(line, "processor", 9) == 0;
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%.80s", colon + 2);
    }
    if (f) fclose(f);
    size_t len = strlen(out);
    snprintf(out + len, n - len, ", %d processors", processors);
}

void must_exist(const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    if (!graft_file_exists(path))
        must(graft_fail(&e, GRAFT_E_NOTFOUND, "there is no file %s", path), &e);
}

void record(const char *file, const char *name, double value, const char *unit, const char *how)
{
    printf("  %-28s %12.4g %s\n", name, value, unit);
    fflush(stdout);
    if (!file) return;
    char *text = NULL, date[32], machine[128];
    size_t n = 0;
    cJSON *root = NULL;
    graft_err e = GRAFT_ERR_INIT;
    time_t t = time(NULL);
    struct tm tm;
    if (graft_file_exists(file) && !graft_file_read(file, 1 << 24, &text, &n, &e))
        graft_json_parse(text, n, file, &root, &e);
    if (!root) root = cJSON_CreateObject();
    gmtime_r(&t, &tm);
    strftime(date, sizeof date, "%Y-%m-%d", &tm);
    machine_name(machine, sizeof machine);
    cJSON *k = cJSON_CreateObject();
    cJSON_AddNumberToObject(k, "value", value);
    cJSON_AddStringToObject(k, "unit", unit);
    cJSON_AddStringToObject(k, "how", how);
    cJSON_AddStringToObject(k, "machine", machine);
    cJSON_AddStringToObject(k, "date", date);
    cJSON_DeleteItemFromObjectCaseSensitive(root, name);
    cJSON_AddItemToObject(root, name, k);
    char *out = cJSON_Print(root);
    if (!out || graft_file_write(file, out, strlen(out), &e))
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, file, e.text);
    free(out);
    cJSON_Delete(root);
    graft_free(text);
}

static double status_mib(const char *field)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0) kib = strtod(line + strlen(field), NULL);
    if (f) fclose(f);
    return kib / 1024;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void record_sort(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
}

double record_median(double *v, int n)
{
    record_sort(v, n);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

double record_rss_mib(void)
{
    return status_mib("VmRSS:");
}

double record_peak_mib(void)
{
    return status_mib("VmHWM:");
}

void record_reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}
