#!/usr/bin/env python3
"""Trains the demo upscaler: the demo checkpoint's pictures, 64x64, four times as large.

Steps, each from files that the ones before left in --work:
  train_upscale.py data                 pictures of 256x256 and, in 64x64, what the network will see
  train_upscale.py train --minutes 12   resumes from --work
  train_upscale.py export               writes --file, in float16
  train_upscale.py eval                 PSNR on pictures that it was not trained on, a sheet of them

Data (npm, installed by the ordinary client, e.g. `npm pack NAME` + untar into --npm):
  @lobehub/fluent-emoji-3d  Fluent Emoji 3D webp of 256x256  (art: MIT, Microsoft)
  @iconify-json/noto        Noto Emoji as SVG                (art: Apache-2.0, Google)
Debian: python3-torch python3-numpy python3-pil; chromium, which draws the SVGs.
"""
import argparse
import base64
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import train_demo as td
from upscale import RRDBNet

SIZE, SCALE = 64, 4
BIG = SIZE * SCALE
NET = dict(features=16, growth=16, blocks=3)
SHEET = 8                   # pictures on a side of the page that chromium draws


# --------------------------------------------------------------------------
# data
# --------------------------------------------------------------------------
def wanted(code):
    """No skin tones and no sequences of several emoji: they are variants of others."""
    parts = code.split("-")
    return "200d" not in parts and not any(p.startswith("1f3f") and p[-1] in "bcdef" for p in parts)


def on_white(im):
    im = im.convert("RGBA").resize((BIG, BIG), Image.LANCZOS)
    white = Image.new("RGBA", im.size, (255, 255, 255, 255))
    white.alpha_composite(im)
    return np.asarray(white.convert("RGB"))


def draw(a, bodies):
    """SVGs of 128x128 as pictures, a page of many at a time."""
    cells = []
    for b in bodies:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 128">{b}</svg>'
        code = base64.b64encode(svg.encode()).decode()
        cells.append(f'<img width={BIG} height={BIG} src="data:image/svg+xml;base64,{code}">')
    page, shot = os.path.abspath(f"{a.work}/page.html"), os.path.abspath(f"{a.work}/page.png")
    with open(page, "w", encoding="utf-8") as f:
        f.write("<style>*{margin:0;padding:0;background:#fff}body{font-size:0;width:"
                f"{SHEET * BIG}px}}</style>" + "".join(cells))
    subprocess.run([a.chromium, "--headless", "--no-sandbox", "--disable-gpu",
                    "--hide-scrollbars", "--force-device-scale-factor=1",
                    f"--window-size={SHEET * BIG},{SHEET * BIG}", f"--screenshot={shot}",
                    f"file://{page}"], check=True, stderr=subprocess.DEVNULL)
    sheet = np.asarray(Image.open(shot).convert("RGB"))
    return [sheet[y * BIG:(y + 1) * BIG, x * BIG:(x + 1) * BIG]
            for y in range(SHEET) for x in range(SHEET)][:len(bodies)]


def pictures(a):
    """(N,256,256,3): each 3d emoji, and the flat ones of the same code."""
    folder = f"{a.npm}/lobehub-fluent-emoji-3d/assets"
    codes = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".webp") and wanted(f[:-5]))
    out = [on_white(Image.open(f"{folder}/{c}.webp")) for c in codes]
    with open(f"{a.npm}/iconify-json-noto/icons.json", encoding="utf-8") as f:
        icons = json.load(f)["icons"]
    with open(f"{a.npm}/iconify-json-noto/chars.json", encoding="utf-8") as f:
        chars = json.load(f)
    names = [chars.get(c) or chars.get(c.replace("-fe0f", "")) for c in codes]
    bodies = [icons[n]["body"] for n in names if n in icons]
    for i in range(0, len(bodies), SHEET * SHEET):
        out += draw(a, bodies[i:i + SHEET * SHEET])
        print(f"flat: {i} of {len(bodies)}", flush=True)
    return np.stack([p for p in out if p.min() < 250])


def through_vae(a, small):
    """What the demo's VAE makes of pictures: the blur and the specks that its own will have."""
    with open(a.checkpoint, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        conf = json.loads(json.loads(f.read(n))["__metadata__"]["config"])["vae"]
    vae = td.VAE(**{k: conf[k] for k in ("ch", "ch_mult", "num_res_blocks", "z_channels")})
    head = "first_stage_model."
    vae.load_state_dict({k[len(head):]: v.float() for k, v in td.st_load(a.checkpoint).items()
                         if k.startswith(head)})
    out = []
    with torch.no_grad():
        for some in torch.from_numpy(small).split(32):
            x = some.permute(0, 3, 1, 2).float() / 127.5 - 1
            y = (vae.decode(vae.moments(x)[0]).clamp(-1, 1) + 1) * 127.5
            out.append(y.round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(out)


def data(a):
    big = pictures(a)
    big = big[np.random.default_rng(a.seed).permutation(len(big))]
    small = np.stack([np.asarray(Image.fromarray(p).resize((SIZE, SIZE), Image.LANCZOS))
                      for p in big])
    np.save(f"{a.work}/upscale_big.npy", big)
    np.save(f"{a.work}/upscale_small.npy", np.stack([small, through_vae(a, small)]))
    print(len(big), "pictures")


def load(a, held_out):
    big = np.load(f"{a.work}/upscale_big.npy", mmap_mode="r")
    small = np.load(f"{a.work}/upscale_small.npy")
    return (big[:a.held], small[:, :a.held]) if held_out else (big[a.held:], small[:, a.held:])


# --------------------------------------------------------------------------
# training
# --------------------------------------------------------------------------
def start(net):
    """Lets RGB through the first three channels, so that the network begins by repeating pixels
    and spends its time on learning what to change."""
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.0 if p.dim() == 1 else 0.3)
        net.conv_body.weight.zero_()
        for conv in (net.conv_first, net.conv_up1, net.conv_up2, net.conv_hr, net.conv_last):
            conv.weight[:3] = 0
            for c in range(3):
                conv.weight[c, c, 1, 1] = 1
    return net


def batch(a, big, small, rng):
    """Squares of --crop pixels, turned and mirrored; two thirds as the VAE leaves them."""
    x, y, s = [], [], a.crop
    while len(x) < a.batch:
        i, kind = rng.integers(len(big)), int(rng.random() < 2 / 3)
        r, c = rng.integers(SIZE - s + 1, size=2)
        low = small[kind, i, r:r + s, c:c + s]
        if low.min() > 250:
            continue                                    # nothing but background
        high = big[i, SCALE * r:SCALE * (r + s), SCALE * c:SCALE * (c + s)]
        turn, mirror = rng.integers(4), rng.random() < 0.5
        for out, part in ((x, low), (y, high)):
            part = np.rot90(part, turn)
            out.append(part[:, ::-1] if mirror else part)
    return (torch.from_numpy(np.stack(v)).permute(0, 3, 1, 2).float().div(255)
            .contiguous(memory_format=torch.channels_last) for v in (x, y))


def edges(x):
    return torch.cat([(x[..., 1:] - x[..., :-1]).flatten(), (x[..., 1:, :] - x[..., :-1, :]).flatten()])


def train(a):
    big, small = load(a, False)
    net = start(RRDBNet(**NET)).to(memory_format=torch.channels_last)
    ema = td.EMA([net], a.ema)
    opt = torch.optim.Adam(net.parameters(), lr=a.lr, betas=(0.9, 0.99))
    step, spent, state = 0, 0.0, f"{a.work}/upscale_state.pt"
    if os.path.exists(state):
        st = torch.load(state)
        net.load_state_dict(st["net"])
        opt.load_state_dict(st["opt"])
        ema.s, ema.n, step, spent = st["ema"], st["n"], st["step"], st["spent"]
    rng, clock, run, saved = np.random.default_rng(a.seed + step), td.Clock(a, spent), [], time.time()

    def save():
        torch.save(dict(net=net.state_dict(), opt=opt.state_dict(), ema=ema.s, n=ema.n, step=step,
                        spent=clock.spent), state + ".tmp")
        os.replace(state + ".tmp", state)

    print(sum(p.numel() for p in net.parameters()), "parameters; from step", step)
    while (done := clock.frac()) < 1:
        for group in opt.param_groups:
            group["lr"] = td.lr_at(done, a.lr)
        x, y = batch(a, big, small, rng)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.bf16):
            out = net(x).float()
        # Edges count apart: they are few, and they are what one looks at.
        loss = F.l1_loss(out, y) + F.l1_loss(edges(out), edges(y))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        ema.step()
        step += 1
        run.append(loss.item())
        if step % 100 == 0 or step == 10:
            print(f"step {step} {clock.spent:.0f}s {100 * done:.0f}% loss {np.mean(run[-100:]):.4f}",
                  flush=True)
        if time.time() - saved > 60:
            save()
            saved = time.time()
    save()


def export(a):
    net, st = RRDBNet(**NET), torch.load(f"{a.work}/upscale_state.pt")
    for p, s in zip(net.parameters(), st["ema"]):
        p.data.copy_(s)
    conf = dict(name=os.path.basename(a.file).split(".")[0], license="Apache-2.0", scale=SCALE,
                **NET, trained=dict(steps=st["step"], seconds=int(st["spent"])))
    os.makedirs(os.path.dirname(a.file) or ".", exist_ok=True)
    td.st_save(a.file, {k: v.half() for k, v in net.state_dict().items()},
               {"format": "pt", "config": json.dumps(conf)})
    print(sum(p.numel() for p in net.parameters()), "values", os.path.getsize(a.file), "bytes")


# --------------------------------------------------------------------------
# what came of it
# --------------------------------------------------------------------------
def psnr(a, b):
    error = (a.astype(float) - b).reshape(len(a), -1)
    return (10 * np.log10(255 ** 2 / np.maximum((error ** 2).mean(1), 1e-9))).mean()


def enlarge(net, small):
    with torch.no_grad():
        x = torch.from_numpy(np.ascontiguousarray(small)).permute(0, 3, 1, 2).float() / 255
        y = torch.cat([net(p) for p in x.split(8)])
    return (y.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()


def evaluate(a):
    net = RRDBNet(**NET)
    net.load_state_dict({k: v.float() for k, v in td.st_load(a.file).items()})
    big, small = load(a, True)
    for kind, name in enumerate(("scaled down", "scaled down, through the VAE")):
        out = dict(model=enlarge(net, small[kind]))
        for method in ("NEAREST", "BICUBIC", "LANCZOS"):
            how = getattr(Image, method)
            out[method] = np.stack([np.asarray(Image.fromarray(p).resize((BIG, BIG), how))
                                    for p in small[kind]])
        print(name + ":", ", ".join(f"{k} {psnr(v, big):.2f} dB" for k, v in out.items()))
        rows = [np.concatenate(list(v[:8]), 1) for v in (out["LANCZOS"], out["model"], big)]
        Image.fromarray(np.concatenate(rows)).save(f"{a.work}/upscale_eval{kind}.png")


COMMANDS = dict(data=data, train=train, export=export, eval=evaluate)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cmd", choices=list(COMMANDS))
    ap.add_argument("--npm", default="npm")
    ap.add_argument("--chromium", default="chromium")
    ap.add_argument("--checkpoint", default="models/checkpoints/emoji-64.safetensors")
    ap.add_argument("--file", default="models/upscale_models/emoji-x4.safetensors")
    ap.add_argument("--work", default="work")
    ap.add_argument("--minutes", type=float, default=12)
    ap.add_argument("--deadline", type=float, help="train: stop at this epoch second at the latest")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--crop", type=int, default=24)
    ap.add_argument("--bf16", action="store_true", help="train: faster where the processor has it")
    ap.add_argument("--lr", type=float, default=1.5e-3)
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
