/* Mergers of two models by the parts of a network that they name. */
#ifndef GRAFT_NODES_MERGE_PARTS_H
#define GRAFT_NODES_MERGE_PARTS_H
#include "nodes/node.h"

#define PART(name)                                                                                 \
    IN_FLOAT(name, 1.0, 0.0, 1.0, 0.01,                                                            \
             "How much of model1 is in the weights whose names begin with " name                   \
             "; the rest is model2.")
/* Parts of which nine or ten are numbered behind the same: TEN_PARTS("blocks.", "1") is blocks.10.
 * to blocks.19. */
#define NINE_PARTS(stem, tens)                                                                     \
    PART(stem tens "0."), PART(stem tens "1."), PART(stem tens "2."), PART(stem tens "3."),        \
        PART(stem tens "4."), PART(stem tens "5."), PART(stem tens "6."), PART(stem tens "7."),    \
        PART(stem tens "8.")
#define TEN_PARTS(stem, tens) NINE_PARTS(stem, tens), PART(stem tens "9.")

/* Those of a UNet of twelve blocks a side: Stable Diffusion 1 and 2. */
#define UNET_OF_12_PARTS                                                                           \
    PART("time_embed."), PART("label_emb."), TEN_PARTS("input_blocks.", ""),                       \
        PART("input_blocks.10."), PART("input_blocks.11."), PART("middle_block.0."),               \
        PART("middle_block.1."), PART("middle_block.2."), TEN_PARTS("output_blocks.", ""),         \
        PART("output_blocks.10."), PART("output_blocks.11."), PART("out.")

/* Inputs 0 and 1 are the models; all others are called as the tensors of their part begin. */
#define MERGED_MODELS                                                                              \
    IN_OBJECT("model1", "MODEL", "The model that ratios of 1 give."),                              \
        IN_OBJECT("model2", "MODEL",                                                               \
                  "The model whose weights ratios of 0 give. It must have the same "               \
                  "architecture.")
graft_status graft_merge_parts_run(graft_call *c, const graft_input *const *inputs);
#endif
