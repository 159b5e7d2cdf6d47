#!/usr/bin/env python3
"""Trains a tiny autoencoder (taesd.py) to do what the demo checkpoint's VAE does.

Steps, each from files that the ones before left in --work:
  train_upscale.py data                the pictures; the other script's first step
  train_taesd.py data                  what the VAE makes of them: latents and pictures
  train_taesd.py train --minutes 8     both halves; resumes from --work
  train_taesd.py export                writes --out_encoder.safetensors and --out_decoder.safetensors, in float16
  train_taesd.py eval                  PSNR on pictures that it was not trained on, a sheet of them

Debian: python3-torch python3-numpy python3-pil.
"""
import argparse
import json
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import taesd
import train_demo as td

CHANNELS, BLOCKS = 24, (2, 2, 1, 1)  # of the decoder, from the latent on


def networks():
    return taesd.encoder(CHANNELS, BLOCKS[::-1]), taesd.decoder(CHANNELS, BLOCKS)


def config(a):
    with open(a.checkpoint, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        return json.loads(json.loads(f.read(n))["__metadata__"]["config"])


# --------------------------------------------------------------------------
# data
# --------------------------------------------------------------------------
def teacher(a):
    conf, head = config(a)["vae"], "first_stage_model."
    vae = td.VAE(**{k: conf[k] for k in ("ch", "ch_mult", "num_res_blocks", "z_channels")})
    vae.load_state_dict({k[len(head):]: v.float() for k, v in td.st_load(a.checkpoint).items()
                         if k.startswith(head)})
    return vae.to(memory_format=torch.channels_last)


@torch.no_grad()
def data(a):
    """Of every picture its latent, in the UNet's scale, and what the VAE decodes from it."""
    vae, scale = teacher(a), config(a)["scale_factor"]
    small = np.load(f"{a.work}/upscale_small.npy", mmap_mode="r")[0]
    latents, decoded = [], []
    for i in range(0, len(small), 16):
        x = torch.from_numpy(np.array(small[i:i + 16])).permute(0, 3, 1, 2).float() / 127.5 - 1
        z = vae.moments(x.contiguous(memory_format=torch.channels_last))[0]
        y = (vae.decode(z).clamp(-1, 1) + 1) * 127.5
        latents.append((z * scale).numpy())
        decoded.append(y.round().byte().permute(0, 2, 3, 1).numpy())
        if i % 512 == 0:
            print(f"{i} of {len(small)}", flush=True)
    np.savez(f"{a.work}/taesd.npz", latent=np.concatenate(latents), decoded=np.concatenate(decoded),
             picture=small)


def load(a, held_out):
    d = np.load(f"{a.work}/taesd.npz")
    part = slice(None, a.held) if held_out else slice(a.held, None)
    return [torch.from_numpy(d[k][part]) for k in ("picture", "latent", "decoded")]


def planes(x):
    return x.permute(0, 3, 1, 2).float().div(255).contiguous(memory_format=torch.channels_last)


# --------------------------------------------------------------------------
# training
# --------------------------------------------------------------------------
def start(net):
    """Blocks that begin close to the identity, and convolutions that keep values' size."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if p.dim() == 1:
                p.zero_()
            else:
                p.normal_(0, (2 / p[0].numel()) ** 0.5 * (0.2 if ".conv.4." in name else 1.0))
    return net.to(memory_format=torch.channels_last)


def edges(x):
    return torch.cat([(x[..., 1:] - x[..., :-1]).flatten(), (x[..., 1:, :] - x[..., :-1, :]).flatten()])


def train(a):
    picture, latent, decoded = load(a, False)
    nets = [start(n) for n in networks()]
    params = [p for n in nets for p in n.parameters()]
    ema, opt = td.EMA(nets, a.ema), torch.optim.Adam(params, lr=a.lr, betas=(0.9, 0.99))
    step, spent, state = 0, 0.0, f"{a.work}/taesd_state.pt"
    if os.path.exists(state):
        st = torch.load(state)
        for n, s in zip(nets, st["nets"]):
            n.load_state_dict(s)
        opt.load_state_dict(st["opt"])
        ema.s, ema.n, step, spent = st["ema"], st["n"], st["step"], st["spent"]
    rng, clock, run, saved = np.random.default_rng(a.seed + step), td.Clock(a, spent), [], time.time()

    def save():
        torch.save(dict(nets=[n.state_dict() for n in nets], opt=opt.state_dict(), ema=ema.s, n=ema.n,
                        step=step, spent=clock.spent), state + ".tmp")
        os.replace(state + ".tmp", state)

    print(sum(p.numel() for p in params), "parameters; from step", step)
    while (done := clock.frac()) < 1:
        for group in opt.param_groups:
            group["lr"] = td.lr_at(done, a.lr)
        i = rng.integers(len(picture), size=a.batch)
        x, z, y = planes(picture[i]), latent[i], planes(decoded[i])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.bf16):
            code, out = nets[0](x).float(), nets[1](z).float()
        near = F.mse_loss(code, z)
        far = F.l1_loss(out, y) + F.mse_loss(out, y) + F.l1_loss(edges(out), edges(y))
        opt.zero_grad(set_to_none=True)
        (near + far).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        ema.step()
        step += 1
        run.append((near.item(), far.item()))
        if step % 100 == 0 or step == 10:
            print(f"step {step} {clock.spent:.0f}s {100 * done:.0f}% encoder {np.mean(run[-100:], 0)[0]:.4f} "
                  f"decoder {np.mean(run[-100:], 0)[1]:.4f}", flush=True)
        if time.time() - saved > 60:
            save()
            saved = time.time()
    save()


def export(a):
    nets, st, conf = networks(), torch.load(f"{a.work}/taesd_state.pt"), config(a)
    for p, s in zip((p for n in nets for p in n.parameters()), st["ema"]):
        p.data.copy_(s)
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    for half, net in zip(("encoder", "decoder"), nets):
        path = f"{a.out}_{half}.safetensors"
        # The scale and the colours say to which models' latents it belongs.
        meta = dict(name=f"{os.path.basename(a.out)}_{half}", license="Apache-2.0",
                    scale_factor=conf["scale_factor"], latent_rgb=conf["latent_rgb"],
                    trained=dict(steps=st["step"], seconds=int(st["spent"])))
        td.st_save(path, {k: v.half() for k, v in net.state_dict().items()},
                   {"format": "pt", "config": json.dumps(meta)})
        print(path, sum(p.numel() for p in net.parameters()), "values", os.path.getsize(path), "bytes")


# --------------------------------------------------------------------------
# what came of it
# --------------------------------------------------------------------------
def psnr(x, y):
    return (-10 * torch.log10(((x - y) ** 2).flatten(1).mean(1).clamp(min=1e-9))).mean().item()


@torch.no_grad()
def evaluate(a):
    nets = networks()
    for half, net in zip(("encoder", "decoder"), nets):
        net.load_state_dict({k: v.float() for k, v in td.st_load(f"{a.out}_{half}.safetensors").items()})
    picture, latent, decoded = load(a, True)
    x, y = planes(picture), planes(decoded)
    code, out = nets[0](x), nets[1](latent).clamp(0, 1)
    both = nets[1](code).clamp(0, 1)
    print(f"decoder beside the VAE's {psnr(out, y):.2f} dB; from the same latents beside the pictures "
          f"{psnr(out, x):.2f} dB, the VAE {psnr(y, x):.2f} dB")
    print(f"both halves beside the pictures {psnr(both, x):.2f} dB; latents: "
          f"{((code - latent) ** 2).mean().item() ** 0.5:.3f} off, of {latent.std().item():.3f}")
    rows = [torch.cat(list(v[:12]), 2) for v in (x, y, out, both)]
    sheet = (torch.cat(rows, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(sheet).save(f"{a.work}/taesd_eval.png")


COMMANDS = dict(data=data, train=train, export=export, eval=evaluate)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cmd", choices=list(COMMANDS))
    ap.add_argument("--checkpoint", default="models/checkpoints/emoji-64.safetensors")
    ap.add_argument("--out", default="models/vae_approx/emoji")
    ap.add_argument("--work", default="work")
    ap.add_argument("--minutes", type=float, default=8)
    ap.add_argument("--deadline", type=float, help="train: stop at this epoch second at the latest")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--bf16", action="store_true", help="train: faster where the processor has it")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--ema", type=float, default=0.995)
    ap.add_argument("--held", type=int, default=64, help="pictures kept for eval")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    a.device = "cpu"
    os.makedirs(a.work, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    torch.set_flush_denormal(True)
    COMMANDS[a.cmd](a)


if __name__ == "__main__":
    sys.exit(main())
