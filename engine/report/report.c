/* ModelReport: what is compiled and resident, and where time went. */
#include "engine/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "engine/calibrate/quantize.h"
#include "engine/objects/control.h"
#include "engine/objects/sight.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"
#include "engine/quant/kept.h"

void graft_text_free(char *text)
{
    graft_free(text);
}

/* ------------------------------------------------------------------ gathering */

typedef struct pack_entry {
    graft_hash key;
    uint64_t bytes;
} pack_entry;

typedef struct pack_list {
    pack_entry *entry;
    size_t n, cap;
} pack_list;

static int by_key(const void *a, const void *b)
{
    return memcmp(&((const pack_entry *)a)->key, &((const pack_entry *)b)->key, sizeof(graft_hash));
}

/* Bytes of the list's packs, each counted once. */
static uint64_t distinct_bytes(pack_list *l)
{
    uint64_t bytes = 0;
    if (l->n) qsort(l->entry, l->n, sizeof *l->entry, by_key);
    for (size_t i = 0; i < l->n; i++)
        if (!i || !graft_hash_equal(l->entry[i].key, l->entry[i - 1].key))
            bytes += l->entry[i].bytes;
    return bytes;
}

static graft_status add_packs(pack_list *l, const graft_exe *x, const graft_weights *w,
                              graft_packs *packs, graft_err *e)
{
    if (graft_grow(&l->entry, &l->cap, l->n + x->n_uses, sizeof *l->entry))
        return graft_fail_nomem(e, "report");
    for (size_t i = 0; i < x->n_uses; i++) {
        graft_pack_name name;
        int32_t slot = x->use[i].slot;
        if (slot >= 0 && !graft_weights_slot_hashed(w, &x->graph->slot[slot])) continue;
        graft_status st = graft_exe_pack_name(x, i, w, &name, e);
        if (st) return st;
        uint64_t bytes = graft_packs_resident(packs, x->backend, name);
        if (bytes) l->entry[l->n++] = (pack_entry){name.content, bytes};
    }
    return GRAFT_OK;
}

/* Kinds of compiled graphs begin with these names, and their architectures tell them apart. */
static bool belongs(const graft_exe *x, const graft_report_part *p)
{
    return graft_str_starts(x->kind, p->kind) && graft_hash_equal(x->arch, p->arch);
}

static bool is_strip(const graft_exe *x)
{
    return strcmp(x->kind, "vae_part") == 0;
}

/* Of two graphs the one whose memory a report shows: one that ran, then the one with more. */
static const graft_exe *larger(const graft_exe *a, const graft_exe *b)
{
    bool a_ran = a && atomic_load(&a->times.runs) > 0, b_ran = atomic_load(&b->times.runs) > 0;
    if (!a || a_ran != b_ran) return a_ran ? a : b;
    return b->arena_bytes > a->arena_bytes ? b : a;
}

static graft_status gather_part(graft_report *r, graft_report_part *p, pack_list *all, graft_err *e)
{
    pack_list own = {0};
    graft_status st = GRAFT_OK;
    p->stored = graft_weights_stored_bytes(p->weights);
    if (p->more) p->stored += graft_weights_stored_bytes(p->more);
    for (size_t i = 0; i < r->n_exes && !st; i++) {
        graft_exe *x = r->exe[i];
        if (!belongs(x, p)) continue;
        if (!is_strip(x)) p->n_graphs++;
        p->runs += atomic_load(&x->times.runs);
        for (int op = 0; op < GRAFT_OP_END; op++) p->ns[op] += atomic_load(&x->times.ns[op]);
        p->largest = larger(p->largest, x);
        for (int k = 0; k < 2 && !st; k++) {
            const graft_weights *w = k ? p->more : p->weights;
            if (!w) break;
            st = add_packs(&own, x, w, r->engine->packs, e);
            if (!st) st = add_packs(all, x, w, r->engine->packs, e);
        }
    }
    p->resident = distinct_bytes(&own);
    graft_free(own.entry);
    return st;
}

static graft_status set_part(graft_report_part *p, const char *title, const char *kind,
                             graft_engine *engine, const graft_weights *w,
                             const graft_build_options *options, graft_hash arch, graft_err *e)
{
    graft_backend *backend;
    graft_dtype act;
    graft_status st = graft_options_resolve(engine, options, &backend, &act, e);
    if (st) return st;
    *p = (graft_report_part){.title = title,
                             .kind = kind,
                             .weights = w,
                             .options = options,
                             .arch = arch,
                             .backend = backend->name,
                             .precision = act == GRAFT_BF16  ? "bf16"
                                          : act == GRAFT_F16 ? "f16"
                                                             : "f32"};
    return GRAFT_OK;
}

static graft_status gather(graft_report *r, const graft_vae *v, const graft_clip *c, graft_err *e)
{
    static const char *const encoders[2] = {"Text encoder 1", "Text encoder 2"};
    const graft_model *m = r->model;
    const bool unet = graft_net_is_unet(&m->arch);
    pack_list all = {0};
    graft_status st = GRAFT_OK;
    GRAFT_TRY(graft_compiled_list(m->engine->compiled, &r->exe, &r->n_exes, e));
    GRAFT_TRY(set_part(&r->part[0], unet ? "UNet" : "Transformer", graft_net_kind_name(&m->arch),
                       m->engine, m->weights, &m->options,
                       graft_compiled_arch(&m->arch, sizeof m->arch), e));
    for (size_t i = 0; c && i < c->n_encoders; i++) {
        const graft_text_arch *a = &c->encoder[i].arch;
        GRAFT_TRY(set_part(&r->part[1 + i], c->n_encoders == 1 ? "Text encoder" : encoders[i],
                           "text_encoder", c->engine, c->encoder[i].weights, &c->options,
                           graft_compiled_arch(a, sizeof *a), e));
    }
    if (v) {
        GRAFT_TRY(set_part(&r->part[3], "VAE", "vae_", v->engine, v->weights, &v->options,
                           graft_compiled_arch(&v->arch, sizeof v->arch), e));
        r->part[3].more = v->encoder_weights;
    }
    if (c && c->t5)
        GRAFT_TRY(set_part(&r->part[4], "T5", "text_encoder_t5", c->engine, c->t5->weights,
                           &c->t5_options, graft_compiled_arch(&c->t5->arch, sizeof c->t5->arch),
                           e));
    if (c && c->qwen3)
        GRAFT_TRY(set_part(&r->part[5], graft_qwen3_family(&c->qwen3->arch), "text_encoder_qwen3",
                           c->engine, c->qwen3->weights, &c->t5_options,
                           graft_compiled_arch(&c->qwen3->arch, sizeof c->qwen3->arch), e));
    for (int i = 0; i < GRAFT_REPORT_PARTS; i++) {
        graft_report_part *p = &r->part[i];
        if (!p->title) continue;
        GRAFT_TRY(gather_part(r, p, &all, e));
        for (int op = 0; op < GRAFT_OP_END; op++) {
            r->ns[op] += p->ns[op];
            r->all_ns += p->ns[op];
        }
        r->runs += p->runs;
    }
    graft_packs_stats_get(m->engine->packs, &r->packs);
    graft_packs_stats_get(m->engine->offloaded, &r->offloaded);
    graft_compiled_stats_get(m->engine->compiled, &r->compiled);
    r->arena_bytes = graft_arenas_bytes(m->engine->arenas) + graft_arenas_bytes(m->engine->kept);
    uint64_t known = distinct_bytes(&all);
    r->other_resident = r->packs.bytes > known ? r->packs.bytes - known : 0;
out:
    graft_free(all.entry);
    return st;
}

/* ------------------------------------------------------------------ text */

static const char *file_name(const graft_weights *w)
{
    return graft_path_name(graft_safetensors_path(graft_weights_file(w)));
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_graph(graft_str *s, const graft_exe *x)
{
    char arena[16], bound[16], weights[16], each[16];
    uint64_t ns = 0, runs = atomic_load(&x->times.runs);
    for (int op = 0; op < GRAFT_OP_END; op++) ns += atomic_load(&x->times.ns[op]);
    const bool timed = ns || !runs;
    graft_bytes_text((uint64_t)x->arena_bytes, arena);
    graft_bytes_text((uint64_t)x->arena_bound, bound);
    graft_bytes_text(x->weight_bytes, weights);
    graft_seconds_text(runs ? 1e-9 * (double)ns / (double)runs : 0, each);
    graft_str_printf(s, "    %s", x->kind);
    for (size_t i = 0; i < x->graph->n_inputs; i++) {
        const graft_gvalue *v = &x->graph->value[x->graph->input[i]];
        graft_str_puts(s, i ? " (" : " of (");
        for (int k = 0; k < v->rank; k++)
            graft_str_printf(s, k ? ",%lld" : "%lld", (long long)v->dim[k]);
        graft_str_puts(s, ")");
    }
    graft_str_printf(s,
                     ": %zu operator%s, arena %s (no plan needs less than %s), weights %s, "
                     "%llu run%s%s%s\n",
                     x->graph->n_nodes, plural(x->graph->n_nodes), arena, bound, weights,
                     (unsigned long long)runs, plural(runs), timed ? " of " : "",
                     timed ? each : "");
}

/* Graphs of one kind that are too many and too small for a line each: parts of a VAE in strips.
 * Only those that ran: others were made to see what they would take. */
static void print_strips(graft_str *s, const graft_report *r, const graft_report_part *p)
{
    char arena[16], time[16];
    uint64_t n = 0, runs = 0, ns = 0;
    int64_t most = 0;
    for (size_t i = 0; i < r->n_exes; i++) {
        const graft_exe *x = r->exe[i];
        uint64_t own = atomic_load(&x->times.runs);
        if (!belongs(x, p) || !is_strip(x) || !own) continue;
        n++;
        runs += own;
        if (x->arena_bytes > most) most = x->arena_bytes;
        for (int op = 0; op < GRAFT_OP_END; op++) ns += atomic_load(&x->times.ns[op]);
    }
    if (!n) return;
    graft_bytes_text((uint64_t)most, arena);
    graft_seconds_text(1e-9 * (double)ns, time);
    graft_str_printf(s,
                     "    in strips, to keep the limit: %llu part%s, largest arena %s, "
                     "%llu run%s%s%s%s\n",
                     (unsigned long long)n, plural(n), arena, (unsigned long long)runs,
                     plural(runs), ns ? ", " : "", ns ? time : "", ns ? " in all" : "");
}

/* One number where all are the same, or one each for input, middle and output blocks, where these
 * have one, else from which to which. */
static void print_regions(graft_str *s, const graft_span v[GRAFT_REGIONS])
{
    graft_span all = v[0];
    bool flat = true;
    for (int r = 0; r < GRAFT_REGIONS; r++) {
        flat = flat && v[r].least == v[r].most;
        if (v[r].least < all.least) all.least = v[r].least;
        if (v[r].most > all.most) all.most = v[r].most;
    }
    if (!flat) {
        graft_str_printf(s, "%.4g to %.4g", all.least, all.most);
        return;
    }
    for (int r = 0; r < (all.least == all.most ? 1 : GRAFT_REGIONS); r++)
        graft_str_printf(s, "%s%.4g", r ? "/" : "", v[r].least);
}

static void print_loras(graft_str *s, const graft_weights *w)
{
    size_t tensors, patches, shown = 0;
    graft_span v[GRAFT_REGIONS];
    const graft_weights *owner;
    graft_weights_patch_count(w, &tensors, &patches);
    if (!patches) return;
    graft_str_puts(s, "  LoRAs        ");
    for (size_t i = 0; (owner = graft_weights_owner(w, i, v)); i++) {
        bool any = false;
        for (int r = 0; r < GRAFT_REGIONS; r++) any |= v[r].least != 0 || v[r].most != 0;
        if (!any) continue; /* two that a merge made cancel out */
        graft_str_printf(s, "%s%s at ", shown++ ? ", " : "", file_name(owner));
        print_regions(s, v);
    }
    graft_str_printf(s, ": %zu patch%s on %zu tensor%s\n", patches, patches == 1 ? "" : "es",
                     tensors, plural(tensors));
}

static void print_files(graft_str *s, const graft_weights *w, const char *stored)
{
    graft_span factor[GRAFT_REGIONS];
    const graft_safetensors *f;
    if (!graft_weights_is_sum(w)) {
        graft_str_printf(s, "  file         %s, %s of weights\n", file_name(w), stored);
        return;
    }
    graft_str_puts(s, "  merged from  ");
    for (size_t i = 0; (f = graft_weights_summand(w, i, factor)); i++) {
        graft_str_printf(s, "%s%s times ", i ? ", " : "",
                         graft_path_name(graft_safetensors_path(f)));
        print_regions(s, factor);
    }
    graft_str_printf(s, "%s, %s of weights\n",
                     graft_weights_summand(w, 0, factor) ? "" : "nothing that is left", stored);
}

/* What stays as the file has it; of what cannot be told nothing is. */
static void print_kept(graft_str *s, const graft_model *m)
{
    graft_backend *b;
    graft_dtype act;
    graft_str types = GRAFT_STR_INIT;
    /* Which layers a quantizer takes is told by its own report. */
    if (m->quantizer || graft_options_resolve(m->engine, &m->options, &b, &act, NULL) ||
        !graft_model_keeps(m, b, act, m->weights))
        return;
    graft_kept_print(m->weights, &types);
    if (types.len) graft_str_printf(s, "  linear       weights stay %s in memory\n", types.data);
    graft_str_finish(&types);
}

static void print_freeu(graft_str *s, const graft_model *m)
{
    const float *f = m->freeu.factor;
    if (!m->freeu.version) return;
    graft_str_printf(s, "  FreeU        version %d, b1 %.4g, b2 %.4g, s1 %.4g, s2 %.4g%s\n",
                     (int)m->freeu.version, (double)f[GRAFT_FREEU_B1], (double)f[GRAFT_FREEU_B2],
                     (double)f[GRAFT_FREEU_S1], (double)f[GRAFT_FREEU_S2],
                     graft_model_freeu_factors(m, GRAFT_WHOLE)
                         ? ""
                         : "; nothing in this model has the widths that it scales");
}

static void print_hypertile(graft_str *s, const graft_model *m)
{
    const graft_hypertile *t = &m->hypertile;
    int sizes = t->swap < GRAFT_HYPERTILE_TURNS ? t->swap : GRAFT_HYPERTILE_TURNS;
    if (!t->tile) return;
    graft_str_printf(s, "  HyperTile    tiles of %d pixels and more, %d size%s by turns, level",
                     8 * t->tile, sizes, plural((size_t)sizes));
    graft_str_printf(s, t->depth ? "s 0 to %d\n" : " 0\n", t->depth);
}

static void print_merged(graft_str *s, const graft_model *m)
{
    if (m->merged)
        graft_str_printf(s, "  merged       %.4g %% of the tokens of self-attention, level 0\n",
                         100.0 * m->merged / GRAFT_MERGED_UNIT);
}

static void print_easycache(graft_str *s, const graft_model *m)
{
    const graft_easycache *k = &m->easycache;
    if (k->threshold > 0)
        graft_str_printf(s,
                         "  EasyCache    leaves evaluations out while they are thought to change "
                         "by less than %.4g, from %.4g %% to %.4g %% of the schedule\n",
                         k->threshold, 100 * k->start, 100 * k->end);
}

static void print_downscale(graft_str *s, const graft_model *m)
{
    const graft_shrink *k = &m->downscale.shrink;
    if (k->block)
        graft_str_printf(s,
                         "  Deep Shrink  input block %d by %.4g, from %.4g %% to %.4g %% of the "
                         "schedule\n",
                         k->block, k->thousandths / 1000.0, 100 * m->downscale.start,
                         100 * m->downscale.end);
}

static void print_perturbed(graft_str *s, const graft_model *m)
{
    if (m->skip_negative.blocks)
        graft_str_printf(s,
                         "  guidance     negative prompts without %d of the network's blocks, from "
                         "%.4g %% to %.4g %% of the schedule\n",
                         __builtin_popcountll(m->skip_negative.blocks),
                         100 * m->skip_negative.start, 100 * m->skip_negative.end);
    if (!(m->perturbed > 0)) return;
    if (m->skip.blocks) {
        graft_str_printf(
            s, "  guidance     away from the network without %d of its blocks, scale %.4g\n",
            __builtin_popcountll(m->skip.blocks), m->perturbed);
        return;
    }
    graft_str_printf(s, "  guidance     away from perturbed attention, scale %.4g%s\n",
                     m->perturbed,
                     graft_model_perturbs(m) ? "" : "; the middle of this model has no attention");
}

static void print_self(graft_str *s, const graft_model *m)
{
    if (m->self.scale == 0) return;
    graft_str_printf(
        s,
        "  guidance     by its own attention, scale %.4g, blurred by %.4g cells of the latent%s\n",
        m->self.scale, m->self.blur,
        graft_model_guides_itself(m) ? "" : "; the middle of this model has no attention");
}

static void print_hyper(graft_str *s, const graft_model *m)
{
    if (m->hyper.net)
        graft_str_printf(s, "  hypernetwork %s, strength %.4g\n",
                         graft_safetensors_path(graft_weights_file(m->hyper.net->weights)),
                         (double)m->hyper.strength);
}

static void print_controls(graft_str *s, const graft_control *k)
{
    if (!k) return;
    print_controls(s, k->before);
    graft_str_printf(s, "  ControlNet   %s, strength %.4g\n",
                     graft_safetensors_path(graft_weights_file(k->net->weights)), k->strength);
}

static void print_seen(graft_str *s, const graft_model *m)
{
    for (int i = 0; i < m->n_seen; i++)
        graft_str_printf(s,
                         "  pictures     %d tokens beside the prompt, weight %.4g, from %.4g %% to "
                         "%.4g %% of the schedule%s\n",
                         m->seen[i].sight->tokens, m->seen[i].weight, 100 * m->seen[i].start,
                         100 * m->seen[i].end, m->seen[i].mask ? ", masked" : "");
}

/* Transformers of blocks that are all alike. streams: how many, in words. */
static void print_alike(graft_str *s, const char *streams, int depth, int hidden, int context_dim,
                        int heads)
{
    graft_str_printf(s, "  architecture %d blocks of %s, %d channels wide, context %d, heads %d\n",
                     depth, streams, hidden, context_dim, heads);
}

/* Those whose streams become one after some blocks. */
static void print_joined(graft_str *s, int depth, int single_depth, int hidden, int context_dim,
                         int heads, const char *more)
{
    graft_str_printf(s,
                     "  architecture %d blocks of two streams, %d of one, %d channels wide, "
                     "context %d, heads %d%s\n",
                     depth, single_depth, hidden, context_dim, heads, more);
}

static void print_unet(graft_str *s, const graft_unet_arch *a)
{
    graft_str_printf(s, "  architecture %d + 1 + %d blocks, %d channels wide, context %d, %s %d\n",
                     a->n_input, a->n_output, a->model_channels, a->context_dim,
                     a->num_heads ? "heads" : "head size",
                     a->num_heads ? a->num_heads : a->head_dim);
}

static void print_zimage(graft_str *s, const graft_zimage_arch *z)
{
    graft_str_printf(s,
                     "  architecture %d + %d blocks of picture and prompt apart, %d of both, %d "
                     "channels wide, context %d, heads %d\n",
                     z->noise_depth, z->context_depth, z->depth, z->hidden, z->context_dim,
                     z->heads);
}

static void print_omnigen2(graft_str *s, const graft_omnigen2_arch *o)
{
    graft_str_printf(s,
                     "  architecture %d + %d + %d blocks of picture, prompt and shown pictures "
                     "apart, %d of all, %d channels wide, context %d, heads %d\n",
                     o->noise_depth, o->context_depth, o->picture_depth, o->depth, o->hidden,
                     o->context_dim, o->heads);
}

static void print_architecture(graft_str *s, const graft_net_arch *net)
{
    const graft_mmdit_arch *t = &net->mmdit;
    const graft_flux_arch *x = &net->flux;
    const graft_flux2_arch *f = &net->flux2;
    const graft_qwen_image_arch *q = &net->qwen_image;
    const graft_qwen_image21_arch *o = &net->qwen_image21;
    const graft_krea2_arch *k = &net->krea2;
    const graft_anima_arch *n = &net->anima;
    const graft_ideogram4_arch *i = &net->ideogram4;
    const graft_ernie_image_arch *e = &net->ernie_image;
    const graft_auraflow_arch *u = &net->auraflow;
    const graft_hidream_arch *h = &net->hidream;
    switch (net->kind) {
    case GRAFT_NET_MMDIT:
        print_alike(s, "two streams", t->depth, t->hidden, t->context_dim, t->heads);
        return;
    case GRAFT_NET_FLUX:
        print_joined(s, x->depth, x->single_depth, x->hidden, x->context_dim, x->heads,
                     x->guidance       ? ", told the guidance"
                     : x->approximator ? ", with Chroma's approximator"
                                       : "");
        return;
    case GRAFT_NET_ZIMAGE:
        print_zimage(s, &net->zimage);
        return;
    case GRAFT_NET_OMNIGEN2:
        print_omnigen2(s, &net->omnigen2);
        return;
    case GRAFT_NET_FLUX2:
        print_joined(s, f->depth, f->single_depth, f->hidden, f->context_dim, f->heads,
                     f->guidance ? ", told the guidance" : "");
        return;
    case GRAFT_NET_QWEN_IMAGE:
        print_alike(s, "two streams", q->depth, q->hidden, q->context_dim, q->heads);
        return;
    case GRAFT_NET_QWEN_IMAGE21:
        print_alike(s, "one stream", o->depth, o->hidden, o->context_dim, o->heads);
        return;
    case GRAFT_NET_KREA2:
        graft_str_printf(
            s,
            "  architecture %d + %d blocks of the prompt, %d of one stream, %d channels "
            "wide, context %d, heads %d\n",
            k->layer_depth, k->token_depth, k->depth, k->hidden, net->context_dim, k->heads);
        return;
    case GRAFT_NET_IDEOGRAM4:
        print_alike(s, "one stream", i->depth, i->hidden, i->context_dim, i->heads);
        return;
    case GRAFT_NET_ERNIE_IMAGE:
        print_alike(s, "one stream", e->depth, e->hidden, e->context_dim, e->heads);
        return;
    case GRAFT_NET_AURAFLOW:
        print_joined(s, u->depth, u->single_depth, u->hidden, u->context_dim, u->heads, "");
        return;
    case GRAFT_NET_HIDREAM:
        print_joined(s, h->depth, h->single_depth, h->hidden, net->context_dim, h->heads,
                     ", with experts");
        return;
    case GRAFT_NET_ANIMA:
        graft_str_printf(s,
                         "  architecture %d blocks, %d of the prompts' adapter, %d channels wide, "
                         "context %d, heads %d\n",
                         n->depth, n->adapter_depth, n->hidden, n->context_dim, n->heads);
        return;
    default:
        print_unet(s, &net->unet);
    }
}

static void print_part(graft_str *s, const graft_report *r, const graft_report_part *p)
{
    char stored[16], resident[16], limit[16];
    graft_bytes_text((uint64_t)p->options->max_bytes, limit);
    graft_bytes_text(p->stored, stored);
    graft_bytes_text(p->resident, resident);
    graft_str_printf(s, "%s\n", p->title);
    if (p == &r->part[0]) {
        print_architecture(s, &r->model->arch);
    }
    print_files(s, p->weights, stored);
    graft_str_printf(s, "  runs on      %s in %s\n", p->backend, p->precision);
    graft_str_printf(s, "  resident     %s of weights as kernels want them\n", resident);
    print_loras(s, p->weights);
    if (p == &r->part[0]) {
        print_kept(s, r->model);
        print_freeu(s, r->model);
        print_hypertile(s, r->model);
        print_merged(s, r->model);
        print_perturbed(s, r->model);
        print_self(s, r->model);
        print_hyper(s, r->model);
        print_controls(s, r->model->control);
        print_controls(s, r->model->within);
        print_easycache(s, r->model);
        print_downscale(s, r->model);
        print_seen(s, r->model);
    }
    if (p->options->max_bytes)
        graft_str_printf(s, "  limit        %s (max_memory_mb is %lld)\n", limit,
                         (long long)(p->options->max_bytes >> 20));
    graft_str_printf(s, "  compiled     %zu graph%s\n", p->n_graphs, plural(p->n_graphs));
    for (size_t i = 0; i < r->n_exes; i++)
        if (belongs(r->exe[i], p) && !is_strip(r->exe[i])) print_graph(s, r->exe[i]);
    print_strips(s, r, p);
}

int graft_report_next_op(const graft_report *r, const bool done[GRAFT_OP_END])
{
    int most = -1;
    for (int op = 0; op < GRAFT_OP_END; op++)
        if (!done[op] && r->ns[op] && (most < 0 || r->ns[op] > r->ns[most])) most = op;
    return most;
}

static void print_times(graft_str *s, const graft_report *r)
{
    bool done[GRAFT_OP_END] = {false};
    graft_str_puts(s, r->all_ns ? "Time by operator kind, all runs so far\n"
                      : r->runs ? "Time by operator kind is not measured on devices\n"
                                : "Nothing has run yet\n");
    for (int most; (most = graft_report_next_op(r, done)) >= 0;) {
        char text[16];
        done[most] = true;
        graft_seconds_text(1e-9 * (double)r->ns[most], text);
        graft_str_printf(s, "  %-18s %10s %5.1f %%\n", graft_op_name(most), text,
                         100.0 * (double)r->ns[most] / (double)r->all_ns);
    }
}

static void print_engine(graft_str *s, const graft_report *r)
{
    char all[16], used[16], other[16], arena[16], built[16];
    graft_bytes_text(r->packs.bytes, all);
    graft_bytes_text(r->packs.used_bytes, used);
    graft_bytes_text(r->other_resident, other);
    graft_bytes_text(r->arena_bytes, arena);
    graft_seconds_text(r->compiled.build_seconds, built);
    graft_str_printf(s,
                     "Engine\n"
                     "  compiled     %llu graph%s in memory; %llu built and %llu read from disk "
                     "in %s; found again %llu time%s\n",
                     (unsigned long long)r->compiled.in_memory, plural(r->compiled.in_memory),
                     (unsigned long long)r->compiled.built,
                     (unsigned long long)r->compiled.from_disk, built,
                     (unsigned long long)r->compiled.hits, plural(r->compiled.hits));
    graft_str_printf(s,
                     "  weights      %s in %llu piece%s, %s in a run just now, %s of other models; "
                     "%llu made, %llu shared\n"
                     "  activations  %s in arenas\n",
                     all, (unsigned long long)r->packs.count, plural(r->packs.count), used, other,
                     (unsigned long long)r->packs.made, (unsigned long long)r->packs.shared, arena);
    if (!r->offloaded.count) return;
    graft_bytes_text(r->offloaded.bytes, all);
    graft_bytes_text(r->offloaded.used_bytes, used);
    graft_str_printf(s,
                     "  offloaded    %s in the host's memory, or files, for lack of room, "
                     "%s in a run just now: these come anew in each run\n",
                     all, used);
}

static graft_status write_text(const graft_report *r, char **out, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    for (int i = 0; i < GRAFT_REPORT_PARTS; i++)
        if (r->part[i].title) print_part(&s, r, &r->part[i]);
    graft_status st = graft_quantizer_report(r->model, &s, e);
    print_times(&s, r);
    print_engine(&s, r);
    *out = st ? NULL : graft_str_take(&s);
    graft_str_finish(&s);
    return st ? st : *out ? GRAFT_OK : graft_fail_nomem(e, "report");
}

graft_status graft_model_report(const graft_model *m, const graft_vae *v, const graft_clip *c,
                                char **text, graft_image **picture, graft_err *e)
{
    graft_report r = {.engine = m->engine, .model = m};
    char *words = NULL;
    graft_status st = gather(&r, v, c, e);
    if (!st) st = write_text(&r, &words, e);
    if (!st && picture) st = graft_report_draw(&r, picture, e);
    graft_compiled_list_free(r.exe, r.n_exes);
    if (!st && text) {
        *text = words;
        words = NULL;
    }
    graft_free(words);
    return st;
}
