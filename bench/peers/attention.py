"""Attention as the PyTorch at hand computes it fastest: a peer is timed at its best."""
import functools
import time

import torch
import torch.nn.functional as F


def written_out(q, k, v):
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    return scores.softmax(dim=-1) @ v


WAYS = {"written out": written_out}
if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2.0 on
    WAYS["fused"] = F.scaled_dot_product_attention
if hasattr(torch.library, "custom_op"):
    # Inductor leaves it alone: with what it makes of the formula a UNet's step takes 1.5 times as
    # long in float32 and 1.8 times in bfloat16.
    op = torch.library.custom_op("peers::attention", written_out, mutates_args=(),
                                 schema="(Tensor q, Tensor k, Tensor v) -> Tensor")
    op.register_fake(lambda q, k, v: torch.empty_like(written_out(q, k, v)))
    WAYS["written out"] = op


def seconds(way, dtype):
    q = torch.randn(1, 8, 2048, 40).to(dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        way(q, q, q)
        times.append(time.perf_counter() - start)
    return min(times[1:])


@functools.lru_cache(None)
def fastest(dtype):
    """Which of WAYS computes softmax(q k^T / sqrt(d)) v of (N,heads,tokens,d) fastest on the
    processor. With the fused one of a build without MKL a UNet's step in bfloat16 takes ten times
    as long."""
    return min(WAYS, key=lambda name: seconds(WAYS[name], dtype)) if len(WAYS) > 1 else min(WAYS)


def attend(q, k, v, name):
    """By what `fastest` named; on a GPU by the fused operator, which always is."""
    return WAYS["fused" if q.is_cuda else name](q, k, v)
