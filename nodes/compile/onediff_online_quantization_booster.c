/* OneDiffOnlineQuantizationBooster: options of quantization for OneDiff's other nodes. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum { CONV_SHARE, LINEAR_SHARE, CONV_DENSITY, LINEAR_DENSITY };
static const graft_input *const inputs[] = {
    [CONV_SHARE] = IN_INT("quantized_conv_percentage", 100, 0, 100, 1,
                          "0 leaves convolutions as they are; with any other value those whose "
                          "error is small are quantized.",
                          .flags = GRAFT_INPUT_SLIDER),
    [LINEAR_SHARE] = IN_INT("quantized_linear_percentage", 100, 0, 100, 1,
                            "0 leaves linear layers as they are; with any other value those "
                            "whose error is small are quantized.",
                            .flags = GRAFT_INPUT_SLIDER),
    [CONV_DENSITY] = IN_INT("conv_compute_density_threshold", 100, 0, 2000, 10,
                            "Layers with less arithmetic per byte stay as they are. The larger of "
                            "the two thresholds counts for both kinds."),
    [LINEAR_DENSITY] = IN_INT("linear_compute_density_threshold", 300, 0, 2000, 10,
                              "The same for linear layers, when these are quantized."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("QuantizationBooster", "QuantizationBooster", "For Apply Model Booster."), NULL};

static graft_status run(graft_call *c)
{
    bool conv = graft_arg_i64(c, CONV_SHARE) > 0, linear = graft_arg_i64(c, LINEAR_SHARE) > 0;
    int64_t a = conv ? graft_arg_i64(c, CONV_DENSITY) : 0;
    int64_t b = linear ? graft_arg_i64(c, LINEAR_DENSITY) : 0;
    const graft_quantize_options options = graft_booster_quantize(conv, linear, a > b ? a : b);
    graft_booster *made = NULL;
    graft_status st = graft_booster_create(NULL, &options, &made, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_booster(c, 0, "QuantizationBooster", made);
}

GRAFT_NODE(onediff_online_quantization_booster, .id = "OneDiffOnlineQuantizationBooster",
           .title = "Online OneFlow Quantizer - OneDiff", .category = "OneDiff/Booster",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Quantize Model, which "
                          "shows its plan and lets the thresholds be tuned.");
