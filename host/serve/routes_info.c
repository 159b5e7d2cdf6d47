#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/resident.h"
#include "host/services/device.h"
#include "host/schema/object_info.h"
#include "host/serve/routes.h"
#include "base/tree.h"

#define INFO_SECONDS 0.5 /* how long a new model file may stay unseen */
static const char json_type[] = "application/json; charset=utf-8";

void graft_serve_forget_info(graft_serve *s)
{
    atomic_store(&s->info_stale, true);
}

/* A gzip member with the text; NULL when that fails, which costs only bytes on the wire. */
static graft_http_blob *compress_blob(const graft_http_blob *plain)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return NULL;
    uLong room = deflateBound(&z, plain->size);
    uint8_t *out = graft_malloc(room);
    z.next_in = plain->data;
    z.avail_in = (uInt)plain->size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    bool ok = out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    size_t size = z.total_out;
    deflateEnd(&z);
    if (ok) return graft_http_blob_create(out, size);
    graft_free(out);
    return NULL;
}

static graft_status render(graft_serve *s, graft_err *e)
{
    cJSON *all = NULL;
    double now = graft_clock_now();
    const graft_host *host = &s->session.services.host;
    graft_hash choices;
    bool stale = atomic_exchange(&s->info_stale, false);
    if (s->info && !stale && now - s->info_at < INFO_SECONDS) return GRAFT_OK;
    /* All else of it is constant, and printing it takes much longer than listing files. */
    graft_status st = graft_object_info_hash(host, s->session.registry, &choices, e);
    if (st) return st;
    if (s->info && graft_hash_equal(choices, s->info_choices)) {
        s->info_at = now;
        return GRAFT_OK;
    }
    st = graft_object_info_all(host, s->session.registry, &all, e);
    if (st) return st;
    char *text = graft_json_print(all);
    cJSON_Delete(all);
    if (!text) return graft_fail_nomem(e, "the node schemas");
    graft_http_blob *fresh = graft_http_blob_create(text, strlen(text));
    if (!fresh) return graft_fail_nomem(e, "the node schemas");
    graft_http_blob_release(s->info);
    graft_http_blob_release(s->info_gzip);
    s->info = fresh;
    s->info_gzip = NULL;
    s->info_choices = choices;
    s->info_at = now;
    return GRAFT_OK;
}

graft_status graft_route_object_info(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    (void)rest;
    graft_status st = render(s, e);
    if (st) return st;
    if (q->accept_encoding && graft_http_has_word(q->accept_encoding, "gzip")) {
        if (!s->info_gzip) s->info_gzip = compress_blob(s->info);
        if (s->info_gzip) {
            graft_http_blob_answer(r, q, s->info_gzip, json_type);
            if (r->status == 200) graft_http_header(r, "content-encoding:", "gzip");
            graft_http_header(r, "vary:", "Accept-Encoding");
            return GRAFT_OK;
        }
    }
    graft_http_blob_answer(r, q, s->info, json_type);
    graft_http_header(r, "vary:", "Accept-Encoding");
    return GRAFT_OK;
}

graft_status graft_route_object_info_one(graft_serve *s, const graft_http_request *q,
                                         const char *rest, graft_http_response *r, graft_err *e)
{
    const graft_registry_node *node = graft_registry_find(s->session.registry, rest);
    cJSON *info = NULL, *all = cJSON_CreateObject();
    graft_status st = GRAFT_OK;
    (void)q;
    if (node) GRAFT_TRY(graft_object_info_node(&s->session.services.host, node, &info, e));
    if (node && !graft_tree_put(all, node->node->id, info)) {
        st = graft_fail_nomem(e, "a node's schema");
        goto out;
    }
    st = graft_http_tree(r, 200, all, e);
out:
    cJSON_Delete(all);
    return st;
}

void graft_serve_features(const graft_serve *s, graft_str *out)
{
    graft_str_printf(out,
                     "{\"supports_preview_metadata\":true,\"max_upload_size\":%lld,"
                     "\"assets\":false,\"node_replacements\":false}",
                     (long long)s->max_upload);
}

graft_status graft_route_features(graft_serve *s, const graft_http_request *q, const char *rest,
                                  graft_http_response *r, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_serve_features(s, &text);
    return graft_http_str(r, 200, &text, e);
}

/* Bytes of memory that could still be used; 0 when the system does not tell. */
static long long free_memory(void)
{
    char line[200];
    long long kb = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1) break;
    if (f) fclose(f);
    return kb * 1024;
}

/* What nodes compute on: a card as "cuda:0 NVIDIA …", with its own memory, the rest as "cpu …". */
static void put_device(const graft_serve *s, long long total, long long left, graft_str *t)
{
    graft_device_facts d;
    graft_str name = GRAFT_STR_INIT;
    bool known = !graft_device_describe(s->session.registry, &d), card = known && d.own_memory;
    if (card) {
        total = (long long)d.memory_total;
        left = (long long)d.memory_free;
    }
    graft_str_printf(&name, "%s%s%s%s", card ? d.backend : "cpu", card ? ":0" : "",
                     known && *d.name ? " " : "", known ? d.name : "");
    graft_str_puts(t, "\"devices\":[{\"name\":");
    graft_str_json(t, name.data ? name.data : "");
    graft_str_puts(t, ",\"type\":");
    graft_str_json(t, card ? d.backend : "cpu");
    graft_str_printf(t,
                     ",\"index\":%s,\"vram_total\":%lld,\"vram_free\":%lld,"
                     "\"torch_vram_total\":%lld,\"torch_vram_free\":%lld}]}",
                     card ? "0" : "null", total, left, total, left);
    graft_str_finish(&name);
}

graft_status graft_route_system_stats(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    long long total = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    long long left = free_memory();
    (void)q, (void)rest;
    /* Clients compare comfyui_version with what they need, so it names the protocol's version. */
    graft_str_printf(&t,
                     "{\"system\":{\"os\":\"posix\",\"ram_total\":%lld,\"ram_free\":%lld,"
                     "\"comfyui_version\":\"0.3.64\",\"required_frontend_version\":\"1.27.10\","
                     "\"installed_templates_version\":null,\"required_templates_version\":"
                     "\"0.1.95\",\"python_version\":\"none\",\"pytorch_version\":\"none\","
                     "\"embedded_python\":false,\"argv\":[\"graft\",\"serve\"],"
                     "\"graft_version\":\"" GRAFT_VERSION "\",\"graft_memory\":%lld},",
                     total, left, (long long)graft_resident_now());
    put_device(s, total, left, &t);
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_empty_object(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)s, (void)q, (void)rest;
    graft_str_puts(&t, "{}");
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_bad_request(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    (void)s, (void)q, (void)rest, (void)e;
    graft_http_empty(r, 400);
    return GRAFT_OK;
}
