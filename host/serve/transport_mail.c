/* Events for a client whose socket is not there: it posted a prompt before its handshake was done,
 * or its connection broke, perhaps with some still unsent. They wait a while, so that a run's end
 * is not missed. */
#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/transport_inside.h"

#define MAIL_SECONDS 10.0
#define MAIL_BYTES   ((size_t)4 << 20)
#define MAIL_COUNT   4096

static void drop_first(graft_mail *mail)
{
    graft_mail_item *item = mail->first;
    mail->first = item->next;
    if (!mail->first) mail->last = &mail->first;
    mail->bytes -= item->message->plain_size;
    mail->count--;
    graft_hub_release(item->message);
    graft_free(item);
}

void graft_mail__init(graft_mail *mail)
{
    *mail = (graft_mail){.last = &mail->first};
}

void graft_mail__finish(graft_mail *mail)
{
    while (mail->first) drop_first(mail);
}

void graft_mail__keep(graft_mail *mail, graft_hub_message *m)
{
    double now = graft_clock_now();
    while (mail->first && now - mail->first->time > MAIL_SECONDS) drop_first(mail);
    if (m->binary || m->log || m->plain_size > MAIL_BYTES) return;
    graft_mail_item *item = graft_malloc(sizeof *item);
    if (!item) return;
    *item = (graft_mail_item){NULL, m, now};
    m->refs++;
    *mail->last = item;
    mail->last = &item->next;
    mail->bytes += m->plain_size;
    mail->count++;
    while (mail->bytes > MAIL_BYTES || mail->count > MAIL_COUNT) drop_first(mail);
}

void graft_mail__hand_over(graft_transport *t, graft_ws *w)
{
    graft_mail *mail = &t->mail;
    double now = graft_clock_now();
    graft_mail_item **at = &mail->first, *item;
    while ((item = *at) != NULL) {
        if (strcmp(item->message->client, w->id) != 0) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        if (now - item->time <= MAIL_SECONDS) graft_ws__queue(t, w, item->message);
        mail->bytes -= item->message->plain_size;
        mail->count--;
        graft_hub_release(item->message);
        graft_free(item);
    }
    mail->last = at;
}
