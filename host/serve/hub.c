#include "host/serve/hub.h"

#include <string.h>

#include "base/alloc.h"

void graft_hub_init(graft_hub *h)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->last = &h->first;
}

void graft_hub_finish(graft_hub *h)
{
    for (graft_hub_message *m = graft_hub_take(h), *next; m; m = next) {
        next = m->next;
        graft_hub_release(m);
    }
    pthread_mutex_destroy(&h->lock);
}

void graft_hub_set_wake(graft_hub *h, void (*wake)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&h->lock);
    h->wake = wake;
    h->wake_ctx = ctx;
    pthread_mutex_unlock(&h->lock);
}

static uint8_t *with_headroom(const void *data, size_t n)
{
    uint8_t *p = graft_malloc(GRAFT_HUB_HEADROOM + n);
    if (p && n) memcpy(p + GRAFT_HUB_HEADROOM, data, n);
    return p;
}

void graft_hub_release(graft_hub_message *m)
{
    if (!m || --m->refs) return;
    graft_free(m->client);
    graft_free(m->plain);
    graft_free(m->rich);
    graft_free(m);
}

static graft_hub_message *message(const char *client, const void *plain, size_t n)
{
    graft_hub_message *m = graft_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->refs = 1;
    m->plain = with_headroom(plain, n);
    m->plain_size = n;
    if (client) m->client = graft_strdup(client);
    if (m->plain && (m->client || !client)) return m;
    graft_hub_release(m);
    return NULL;
}

static graft_hub_message *text_message(const char *client, graft_str *s)
{
    graft_hub_message *m = s->failed || !s->data ? NULL : message(client, s->data, s->len);
    graft_str_finish(s);
    return m;
}

graft_hub_message *graft_hub_message_create(graft_str *s)
{
    return text_message(NULL, s);
}

static void push(graft_hub *h, graft_hub_message *m)
{
    if (!m) return;
    pthread_mutex_lock(&h->lock);
    *h->last = m;
    h->last = &m->next;
    if (h->wake) h->wake(h->wake_ctx);
    pthread_mutex_unlock(&h->lock);
}

void graft_hub_text(graft_hub *h, const char *client, graft_str *s)
{
    push(h, text_message(client, s));
}

void graft_hub_tell_all(graft_hub *h, const char *client, graft_str *s)
{
    graft_hub_message *m = text_message(client, s);
    if (m) m->everybody = true;
    push(h, m);
}

void graft_hub_log(graft_hub *h, graft_str *s)
{
    graft_hub_message *m = text_message(NULL, s);
    if (m) m->log = true;
    push(h, m);
}

void graft_hub_binary(graft_hub *h, const char *client, const void *plain, size_t plain_size,
                      const void *rich, size_t rich_size)
{
    graft_hub_message *m = message(client, plain, plain_size);
    if (!m) return;
    m->binary = true;
    if (rich_size) {
        m->rich = with_headroom(rich, rich_size);
        m->rich_size = m->rich ? rich_size : 0;
    }
    push(h, m);
}

graft_hub_message *graft_hub_take(graft_hub *h)
{
    pthread_mutex_lock(&h->lock);
    graft_hub_message *m = h->first;
    h->first = NULL;
    h->last = &h->first;
    pthread_mutex_unlock(&h->lock);
    return m;
}
