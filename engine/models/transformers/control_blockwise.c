#include "engine/models/transformers/control_blockwise.h"

#include "engine/models/parts/stream.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* What the ControlNet whose names begin so adds behind block i, but for the strength. */
static graft_vid block(const graft_build *b, const char *called, int i, graft_vid x, graft_vid y)
{
    const graft_name name = NAME("%scontrolnet_blocks.%d", called, i);
    const int32_t hidden = (int32_t)graft_build_dim(b, x, 2);
    x = graft_stream_head_normed(b, NAME("%s.x_rms.weight", name.text), x, 1);
    y = graft_stream_head_normed(b, NAME("%s.y_rms.weight", name.text), y, 1);
    x = graft_build_add(b, x, y);
    x = graft_build_linear(b, NAME("%s.input_proj", name.text), x, hidden, true);
    x = graft_build_act(b, x, GRAFT_ACT_GELU);
    return graft_build_linear(b, NAME("%s.output_proj", name.text), x, hidden, true);
}

void graft_control_blockwise(const graft_control_arch *a, const graft_control_shape *s,
                             const graft_build *b)
{
    const graft_qwen_image_arch *q = &a->qwen_image;
    const int64_t dim[3] = {s->batch, s->height / q->patch * (s->width / q->patch), q->hidden};
    graft_vid x = graft_graph_input(b->g, s->act_dtype, 3, dim);
    const graft_vid y = graft_graph_input(b->g, s->act_dtype, 3, dim);
    for (int i = 0; i < q->depth; i++) x = graft_build_add(b, x, block(b, "", i, x, y));
    graft_graph_output(b->g, x);
}

/* ------------------------------------------------------------------ within a network */

graft_name graft_control_within_called(int k)
{
    return NAME("within.%d.", k);
}

void graft_control_within_take(graft_control_within *w, const graft_build *b, int n, int64_t batch,
                               const int64_t features[4])
{
    const int64_t tokens[3] = {features[0], features[1] * features[2], features[3]};
    *w = (graft_control_within){.n = n};
    for (int k = 0; k < n; k++) {
        graft_vid v = graft_graph_input(b->g, b->act_dtype, 4, features);
        v = graft_graph_reshape(b->g, v, 3, tokens);
        w->hint[k] = graft_control_wide(b, v, batch);
        v = graft_graph_input(b->g, GRAFT_F32, 1, (int64_t[]){1});
        w->strength[k] = graft_graph_reshape(b->g, v, 3, (int64_t[]){1, 1, 1});
    }
}

graft_vid graft_control_within_block(const graft_control_within *w, const graft_build *b, int i,
                                     graft_vid x)
{
    graft_vid sum = GRAFT_NO_VALUE;
    for (int k = 0; k < w->n; k++) {
        graft_vid v = block(b, graft_control_within_called(k).text, i, x, w->hint[k]);
        v = graft_build_mul(b, v, w->strength[k]);
        sum = k ? graft_build_add(b, sum, v) : v;
    }
    return sum;
}
