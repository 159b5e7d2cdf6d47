/* IP-Adapters (Ye et al. 2023, arXiv:2308.06721) as graphs: from what an encoder of pictures saw to
 * the keys and values that a UNet's cross-attentions attend to beside the prompt's (attended.h).
 *
 * First a picture becomes tokens. The plain kind takes CLIP's projected vector through a layer that
 * gives all tokens at once, and a norm. "Plus" is a resampler (Flamingo's: Alayrac et al. 2022,
 * arXiv:2204.14198): `tokens` learned queries, in each block
 *
 *     h = h + attention of norm(h) to norm(x) and norm(h)
 *     h = h + MLP(norm(h))
 *
 * where x are CLIP's tokens before its last layer, projected. Then each cross-attention has a
 * matrix for keys and one for values. */
#ifndef GRAFT_MODELS_IP_ADAPTER_H
#define GRAFT_MODELS_IP_ADAPTER_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

/* Inputs, float32: the plain kind's (1,seen), a resampler's (1,seen_tokens,seen) and its queries
 * (1,tokens,hidden), which graft_ip_adapter_queries() names. Outputs, float32: keys, then values of
 * each of a->n_layers cross-attentions in turn, (1,tokens,channels) each. */
graft_status graft_ip_adapter_build(const graft_ip_adapter_arch *a, int64_t seen_tokens,
                                    graft_dtype act_dtype, graft_graph **out, graft_err *e);
/* The name of a tensor (1,tokens,hidden); NULL of the plain kind. Static. */
const char *graft_ip_adapter_queries(const graft_ip_adapter_arch *a);
#endif
