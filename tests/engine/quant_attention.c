/* Quantized attention: which nodes it is, plans that did not know it, files, and libraries that
 * compute it as it is. */
#include "base/alloc.h"
#include "base/file.h"
#include "engine/weights/quantized.h"
#include "tests/engine/calibrate.h"

#define FIRST "input_blocks.1.1.transformer_blocks.0.attn1"

static graft_quant_plan *plan_of(const graft_model *m)
{
    graft_quant_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_net_shape shape = {
        .batch = 2, .height = SIDE, .width = SIDE, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    return p;
}

static graft_model *with_plan(const graft_model *m, const graft_quant_plan *p)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_with_plan(m, p, &out, &e), &e);
    return out;
}

/* Only layers of these names (NULL: none) and, if so wanted, all that have weights. */
static graft_model *choose(const graft_model *m, const char *name, const char *other, bool weights)
{
    graft_quant_plan *p = plan_of(m);
    size_t found = 0;
    for (size_t i = 0; i < p->n; i++) {
        graft_quant_layer *l = &p->layer[i];
        bool named = (name && strcmp(l->name, name) == 0) || (other && strcmp(l->name, other) == 0);
        bool all = weights && l->kind != GRAFT_LAYER_ATTENTION;
        if (l->reason != GRAFT_QUANT_KEPT) l->reason = GRAFT_QUANT_ERROR;
        if (l->reason != GRAFT_QUANT_KEPT && (named || all)) l->reason = GRAFT_QUANT_CHOSEN;
        found += named;
    }
    CHECK_INT(found, (name != NULL) + (other != NULL));
    graft_model *out = with_plan(m, p);
    graft_quant_plan_destroy(p);
    return out;
}

/* ------------------------------------------------------------------ nodes */

/* The attentions of the compiled graph that are quantized; all must have that name, and all of that
 * name must be. The text of the graph says it, too. */
static size_t marked(const graft_model *m, graft_variant variant, const char *name)
{
    graft_binding *b = NULL;
    graft_graph *again = NULL;
    graft_str text = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0, wrong = 0;
    CHECK_OK(graft_model_bind_variant(m, variant, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    const graft_graph *g = b->exe->graph;
    graft_graph_print(g, &text);
    CHECK_OK(graft_graph_parse(text.data, text.len, &again, &e), &e);
    for (size_t i = 0; i < g->n_nodes; i++) {
        char own[128] = "";
        bool is = g->node[i].attrs.quant == GRAFT_QUANT_INT8;
        if (g->node[i].op != GRAFT_OP_ATTENTION) continue;
        CHECK(graft_quant_node_layers(g, i) == 1 && graft_quant_node_layer(g, i, 0, own));
        CHECK_INT(again->node[i].attrs.quant, g->node[i].attrs.quant);
        wrong += is != (strcmp(own, name) == 0);
        n += is;
    }
    CHECK_INT(wrong, 0);
    graft_graph_destroy(again);
    graft_str_finish(&text);
    graft_binding_release(b);
    return n;
}

/* Whatever becomes of the linear layers around it: merged with others, apart, or quantized. */
static void the_chosen_one_is_marked(void)
{
    static const char *const names[] = {FIRST, "input_blocks.1.1.transformer_blocks.0.attn2",
                                        "middle_block.1.transformer_blocks.0.attn1"};
    const graft_deepcache_options cut = {3, 0, 1, 0, 1000, "uniform", 0, false};
    graft_model *m = load_model(engine, SD1);
    float plain[OUT], one[OUT];
    run_model(m, plain);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int how = 0; how < 4; how++) {
            static const char *const part[] = {NULL, NULL, ".to_k", ".to_q"};
            char other[160];
            snprintf(other, sizeof other, "%s%s", names[i], part[how] ? part[how] : "");
            graft_model *q = choose(m, names[i], part[how] ? other : NULL, how == 1), *d = NULL;
            graft_err e = GRAFT_ERR_INIT;
            CHECK_INT(marked(q, GRAFT_WHOLE, names[i]), 1);
            CHECK_OK(graft_model_deepcache(q, &cut, &d, &e), &e);
            CHECK_INT(marked(d, GRAFT_STORE, names[i]), 1);
            CHECK_INT(marked(d, GRAFT_FAST, names[i]), strstr(names[i], "middle") ? 0 : 1);
            run_model(q, one);
            CHECK(how || !on_ref || !same_bits(one, plain));
            CHECK(difference(one, plain, OUT) < 0.1);
            graft_model_release(d);
            graft_model_release(q);
        }
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ plans of before */

static size_t calibrations;
static bool thrice; /* there was a third sampling */
static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    thrice = thrice || (total == 1000 && done > 900 && done < 1000);
}
static void on_phase(void *ctx, const char *name)
{
    (void)ctx;
    calibrations += strcmp(name, "calibrate") == 0;
}

static graft_model *quantize_counted(const scene *s, const graft_quantize_options *o)
{
    const graft_task task = {.phase = on_phase, .progress = on_progress};
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    calibrations = 0;
    thrice = false;
    CHECK_OK(graft_model_quantize(s->model, o, &task, &q, NULL, &e), &e);
    return q;
}

static void cut_out(char *text, const char *from, const char *to)
{
    char *begin = strstr(text, from), *end = begin ? strstr(begin, to) : NULL;
    CHECK(begin && end);
    if (begin && end) memmove(begin, end, strlen(end) + 1);
}

/* Takes out of a plan's file what earlier releases did not write, to which attention was other
 * work.
 */
static void make_older(const char *path, double flops)
{
    char *text = NULL, *out = NULL;
    size_t n = 0, length = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(path, 1 << 24, &text, &n, &e), &e);
    cut_out(text, ", \"attention\": false", ", \"conv_mse\"");
    cut_out(text, ", \"attention_mse\"", ", \"density\"");
    cut_out(text, ", \"attention\": ", "},\n  \"other_flops\"");
    out = calloc(n + 40, 1);
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        const char *attention = strstr(line, "\"kind\": \"attention\"");
        if (attention && attention < end) continue;
        if (strncmp(line, "  \"other_flops\": 0,", 19) == 0) {
            length += (size_t)sprintf(out + length, "  \"other_flops\": %.0f,\n", flops);
            continue;
        }
        memcpy(out + length, line, (size_t)(end - line));
        length += (size_t)(end - line);
    }
    CHECK(!strstr(out, "attention\"") && !strstr(out, "\"other_flops\": 0"));
    CHECK_OK(graft_file_write(path, out, length, &e), &e);
    free(out);
    graft_free(text);
}

static void check_before(const graft_quant_plan *now, const graft_quant_plan *before,
                         graft_quant_reason reason)
{
    size_t differ = now->n != before->n, attentions = 0;
    for (size_t i = 0; i < now->n && i < before->n; i++) {
        const graft_quant_layer *a = &now->layer[i], *b = &before->layer[i];
        differ += strcmp(a->name, b->name) != 0 || a->flops != b->flops || a->kind != b->kind;
        if (a->kind != GRAFT_LAYER_ATTENTION) {
            differ += a->reason != b->reason;
            continue;
        }
        CHECK(isnan(a->mse) && isnan(a->seconds) && isnan(a->seconds_quantized));
        CHECK_INT(a->reason, reason);
        attentions++;
    }
    CHECK_INT(differ, 0);
    CHECK(attentions >= 8 && now->other_flops == before->other_flops);
}

static void plans_of_before(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    float one[LATENT], two[LATENT];
    o.conv_mse_threshold = o.linear_mse_threshold = 3e-3;
    o.attention = false;
    o.plan_path = temp_path("before.json");
    unlink(o.plan_path);
    graft_model *first = quantize_counted(&s, &o), *q;
    const graft_quant_plan *before = first->quantizer->plan;
    CHECK(calibrations == 1 && graft_quant_plan_count(before, GRAFT_QUANT_BACKED_OFF) > 0);
    double flops = 0;
    for (size_t i = 0; i < before->n; i++)
        if (before->layer[i].kind == GRAFT_LAYER_ATTENTION) flops += before->layer[i].flops;
    make_older(o.plan_path, flops);
    /* What was sampled holds, whether attention is asked for or not. */
    sampled(first, &s, one);
    for (int i = 0; i < 3; i++) {
        bool on = o.attention = i == 2;
        o.attention_mse_threshold = i ? 0.1 : 0;
        q = quantize_counted(&s, &o);
        CHECK_INT(calibrations, 0);
        check_before(q->quantizer->plan, before, on ? GRAFT_QUANT_UNKNOWN : GRAFT_QUANT_KIND);
        CHECK_NEAR(q->quantizer->plan->joint_mse, before->joint_mse, 1e-6);
        sampled(q, &s, two);
        CHECK(same_latent(one, two));
        CHECK(report_has(q, on ? "not measured" : "of a kind that is turned off"));
        graft_model_release(q);
    }
    /* All attention, measured or not, and other thresholds for the others: both as ever. */
    o.attention_mse_threshold = 1;
    q = quantize_counted(&s, &o);
    size_t attentions = graft_quant_plan_count(before, GRAFT_QUANT_KIND);
    CHECK(calibrations == 0 && isnan(q->quantizer->plan->joint_mse));
    CHECK(graft_quant_plan_count(q->quantizer->plan, GRAFT_QUANT_UNKNOWN) == 0 && attentions >= 8);
    CHECK(report_has(q, "not measured"));
    graft_model_release(q);
    o.attention_mse_threshold = 0.1;
    o.conv_mse_threshold = o.linear_mse_threshold = 0;
    q = quantize_counted(&s, &o);
    CHECK(calibrations == 0 && !q->quant.bits);
    CHECK(report_has(q, "were not measured"));
    graft_model_release(q);
    o.recalibrate = true;
    q = quantize_counted(&s, &o);
    CHECK_INT(calibrations, 1);
    CHECK(!on_ref || !graft_quant_plan_count(q->quantizer->plan, GRAFT_QUANT_UNKNOWN));
    graft_model_release(q);
    graft_model_release(first);
    unlink(o.plan_path);
    close_scene(&s);
}

/* Layers that are not the architecture's do not become so; neither does memory that ends. */
static void completing(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_err e = GRAFT_ERR_INIT;
    for (int how = 0; how < 5; how++) {
        graft_quant_plan *p = plan_of(m);
        size_t n = 0, all = p->n;
        bool fits = how == 0 || how == 4;
        for (size_t i = 0; i < p->n; i++)
            if (p->layer[i].kind != GRAFT_LAYER_ATTENTION) p->layer[n++] = p->layer[i];
        p->n = n;
        if (how == 1) p->layer[n - 1].name[0]++;
        if (how == 2) p->n--;
        if (how == 3) p->layer[2].dim[0]++;
        if (how == 4)
            p->batch = p->height = p->width = p->tokens = 65536; /* the most there may be */
        for (int64_t at = 1; at < 200; at += 13) {
            graft_alloc_fail_at(at);
            graft_status st = graft_quant_plan_complete(p, &m->arch, &e);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_E_NOMEM || st == (fits ? GRAFT_OK : GRAFT_E_ARG));
        }
        CHECK_INT(graft_quant_plan_complete(p, &m->arch, &e), fits ? GRAFT_OK : GRAFT_E_ARG);
        CHECK_INT(p->n, fits ? all : n - (how == 2));
        graft_quant_plan_destroy(p);
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ limits */

/* The joint error stays below what was set for layers with weights, though attention alone may
 * cause more. */
static void attention_loosens_nothing(void)
{
    static const double limits[] = {0.01, 1e-3};
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    for (size_t i = 0; i < 2; i++) {
        o.conv_mse_threshold = o.linear_mse_threshold = limits[i];
        graft_model *q = quantize(s.model, &o);
        CHECK(!q->quant.bits || q->quantizer->plan->joint_mse <= limits[i]);
        graft_model_release(q);
    }
    o.conv = o.linear = false;
    graft_model *q = quantize(s.model, &o);
    const graft_quant_plan *p = q->quantizer->plan;
    CHECK(!on_ref || (p->joint_mse > 0 && p->joint_mse <= 0.1));
    CHECK(!on_ref || graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN) > 0);
    graft_model_release(q);
    close_scene(&s);
}

/* ------------------------------------------------------------------ files */

/* Writes `entry` into the metadata of the file. */
static void add_metadata(const char *path, const char *entry)
{
    char *data = NULL;
    size_t n = 0, length = strlen(entry), padded = (length + 7) / 8 * 8;
    uint64_t header;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(path, (size_t)1 << 30, &data, &n, &e), &e);
    memcpy(&header, data, sizeof header);
    char *at = strstr(data + 8, "\"__metadata__\":{"), *out = calloc(n + padded, 1);
    CHECK(at);
    size_t before = at ? (size_t)(at - data) + strlen("\"__metadata__\":{") : 8;
    header += padded;
    memcpy(out, data, before);
    memcpy(out, &header, sizeof header);
    memset(out + before, ' ', padded);
    memcpy(out + before, entry, length);
    memcpy(out + before + padded, data + before, n - before);
    CHECK_OK(graft_file_write(path, out, n + padded, &e), &e);
    free(out);
    graft_free(data);
}

static void refused_file(graft_model *q, const char *entry, const char *words)
{
    char path[256];
    graft_model *never = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s", temp_path("attention-bad"));
    CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
    add_metadata(path, entry);
    CHECK_INT(graft_model_load(engine, path, NULL, &never, &e), GRAFT_E_FORMAT);
    CHECK(!never && strstr(e.text, words) && strstr(e.text, "attention-bad"));
    unlink(path);
}

static void files_name_attention(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_err e = GRAFT_ERR_INIT;
    float plain[OUT], one[OUT], two[OUT];
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path("attention"));
    run_model(m, plain);
    for (int weights = 0; weights < 2; weights++) { /* attention alone, too */
        graft_model *q = choose(m, FIRST, "middle_block.1.transformer_blocks.0.attn2", weights);
        CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
        graft_safetensors *f = open_file(path);
        CHECK_STR(graft_safetensors_metadata(f, GRAFT_QUANTIZED_ATTENTION),
                  FIRST ",middle_block.1.transformer_blocks.0.attn2");
        graft_safetensors_close(f);
        graft_model *loaded = load_model(engine, path), *back = NULL;
        CHECK(memcmp(&loaded->quant, &q->quant, sizeof q->quant) == 0);
        run_model(q, one);
        run_model(loaded, two);
        CHECK(same_bits(one, two));
        CHECK((!on_ref && !weights) || !same_bits(one, plain));
        /* Other weights keep the choice, and weights without a choice stay without. */
        CHECK_OK(graft_model_swap(loaded, SD1, false, NULL, &back, &e), &e);
        run_model(back, two);
        CHECK(same_bits(one, two));
        graft_model_release(back);
        CHECK_OK(graft_model_swap(m, path, false, NULL, &back, &e), &e);
        CHECK_INT(back->quant.bits, 0);
        graft_model *all[] = {q, loaded, back};
        for (int i = 0; i < 3; i++) graft_model_release(all[i]);
        unlink(path);
    }
    graft_model *q = choose(m, NULL, NULL, true);
    CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
    graft_safetensors *f = open_file(path);
    CHECK(!graft_safetensors_metadata(f, GRAFT_QUANTIZED_ATTENTION));
    graft_safetensors_close(f);
    unlink(path);
    refused_file(q, "\"" GRAFT_QUANTIZED_ATTENTION "\":\"" FIRST ",input_blocks.1.1.attn9\",",
                 "no attention of this model is called input_blocks.1.1.attn9");
    refused_file(q, "\"" GRAFT_QUANTIZED_ATTENTION "\":\"" FIRST ".to_q\",", "is called " FIRST);
    refused_file(q, "\"" GRAFT_QUANTIZED_ATTENTION "\":\"" FIRST ",,\",", "no attention");
    graft_model_release(q);
    graft_quant_plan *p = plan_of(m);
    const graft_quant_limits everything = {{true, true, true}, {1, 1, 1}, 0};
    p->bits = 4;
    graft_quant_plan_select(p, &everything);
    q = with_plan(m, p);
    refused_file(q, "\"" GRAFT_QUANTIZED_ATTENTION "\":\"" FIRST "\",",
                 "attention in integers beside weights of 4 bits");
    graft_quant_plan_destroy(p);
    graft_model_release(q);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ permission */

/* The plain code of `cpu` has no attention in integers: nothing is measured of it, nothing is
 * chosen, and a plan on file says so without calibrating again. */
static void libraries_may_leave_it(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    float plain[LATENT], with[LATENT];
    o.plan_path = temp_path("left.json");
    o.conv_mse_threshold = o.linear_mse_threshold = 0.9;
    for (int weights = 0; weights < 2; weights++) {
        o.conv = o.linear = weights == 1;
        unlink(o.plan_path);
        for (int turn = 0; turn < 2; turn++) {
            graft_model *q = quantize_counted(&s, &o);
            const graft_quant_plan *p = q->quantizer->plan;
            CHECK_INT(calibrations, turn == 0);
            CHECK(!thrice); /* it was no candidate, so no choice has changed */
            CHECK((graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN) > 0) == (weights == 1));
            for (size_t i = 0; i < p->n; i++) {
                if (p->layer[i].kind != GRAFT_LAYER_ATTENTION) continue;
                CHECK(isnan(p->layer[i].mse) && isnan(p->layer[i].seconds_quantized));
                CHECK_INT(p->layer[i].reason, GRAFT_QUANT_UNKNOWN);
            }
            CHECK(report_has(q, weights ? "not measured" : "were not measured"));
            graft_model_release(q);
        }
    }
    /* Where attention was all there was to measure, nothing is known of other layers. */
    o.conv = o.linear = false;
    o.recalibrate = true;
    graft_model *q = quantize_counted(&s, &o);
    CHECK(!graft_quant_plan_measured(q->quantizer->plan));
    graft_model_release(q);
    o.conv = o.linear = true;
    o.recalibrate = false;
    o.conv_mse_threshold = o.linear_mse_threshold = 1e-12;
    q = quantize_counted(&s, &o);
    CHECK(calibrations == 1 && !q->quant.bits);
    CHECK(graft_quant_plan_count(q->quantizer->plan, GRAFT_QUANT_ERROR) > 0);
    graft_model_release(q);
    /* Chosen all the same, it changes nothing. */
    q = choose(s.model, FIRST, NULL, false);
    sampled(s.model, &s, plain);
    sampled(q, &s, with);
    CHECK(q->quant.bits == 8 && same_latent(plain, with));
    graft_model_release(q);
    unlink(o.plan_path);
    close_scene(&s);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        on_ref = i == 0;
        RUN(the_chosen_one_is_marked);
        RUN(plans_of_before);
        if (on_ref) RUN(completing);
        RUN(attention_loosens_nothing);
        RUN(files_name_attention);
        graft_engine_destroy(engine);
    }
    setenv("GRAFT_CPU_ISA", "plain", 1);
    engine = make_engine("cpu");
    printf("backend cpu, plain\n");
    RUN(libraries_may_leave_it);
    graft_engine_destroy(engine);
    return test_end();
}
