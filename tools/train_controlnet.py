#!/usr/bin/env python3
"""Trains a ControlNet for the demo checkpoint: it makes the model follow an outline.

Steps, each from files that the ones before left in --work:
  train_controlnet.py data               pictures moved and turned: latents and outlines
  train_controlnet.py train --minutes 25 resumes from --work; the checkpoint stays as it is
  train_controlnet.py export             writes --file, in float16
  train_controlnet.py eval               does the exported file follow outlines it has not seen?
  train_controlnet.py golden             --golden: what the exported file computes in float32
  train_controlnet.py outline IN OUT     the outline of a picture on white, as hint() makes it

Needs the demo's pictures (--pack, see train_demo.py) and CLIP's merges (--bpe; a build has them in
generated/clip_merges.txt). Debian: python3-torch python3-numpy python3-pil.
"""
import argparse
import json
import os
import struct
import sys
import time

import numpy as np
import torch
from PIL import Image

import train_demo as td
from controlnet import CONTROL, UNET, ControlNet, UNet, total

SIZE = 64
STYLE = {"noto": "flat", "fluent": "3d"}
STEP, WHITE = 0.06, 240     # hint()'s two thresholds
SEEN_WHITE = 225            # what counts as white in a sampled picture: the VAE adds a little noise


# --------------------------------------------------------------------------
# outlines
# --------------------------------------------------------------------------
def background(rgb, white=WHITE):
    """Of pictures (N,H,W,3) in 0..255: pixels with no channel below `white` that a path of such
    pixels, sideways and up and down, joins to the border."""
    free = rgb.min(-1) >= white
    out = np.zeros_like(free)
    out[:, 0], out[:, -1], out[:, :, 0], out[:, :, -1] = True, True, True, True
    out &= free
    while True:
        grown = out.copy()
        grown[:, 1:] |= out[:, :-1]
        grown[:, :-1] |= out[:, 1:]
        grown[:, :, 1:] |= out[:, :, :-1]
        grown[:, :, :-1] |= out[:, :, 1:]
        grown &= free
        if (grown == out).all():
            return out
        out = grown


def hint(rgb, step=STEP, inner=True):
    """White lines of one pixel on black, as bool (N,H,W), of pictures (N,H,W,3) in 0..255 on white.

    A pixel is on a line when
    * it is no background and one of its four neighbours is; or
    * brightness Y = (0.299 R + 0.587 G + 0.114 B) / 255 changes there: with gx and gy half the
      difference of the two neighbours' Y in each direction (a missing neighbour counts as the
      pixel itself), m = sqrt(gx^2 + gy^2) is at least `step`, and no smaller than m of the
      neighbour before nor than or equal to m of the one behind it in the direction of the larger
      one of |gx| and |gy|.
    """
    back = np.pad(background(rgb), ((0, 0), (1, 1), (1, 1)))
    near = back[:, :-2, 1:-1] | back[:, 2:, 1:-1] | back[:, 1:-1, :-2] | back[:, 1:-1, 2:]
    line = near & ~back[:, 1:-1, 1:-1]
    if not inner:
        return line
    y = rgb.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    y = np.pad(y, ((0, 0), (1, 1), (1, 1)), mode="edge")
    gx, gy = (y[:, 1:-1, 2:] - y[:, 1:-1, :-2]) / 2, (y[:, 2:, 1:-1] - y[:, :-2, 1:-1]) / 2
    m = np.pad(np.sqrt(gx * gx + gy * gy), ((0, 0), (1, 1), (1, 1)))
    c = m[:, 1:-1, 1:-1]
    along_x = (c >= m[:, 1:-1, :-2]) & (c > m[:, 1:-1, 2:])
    along_y = (c >= m[:, :-2, 1:-1]) & (c > m[:, 2:, 1:-1])
    return line | ((c >= step) & np.where(np.abs(gx) >= np.abs(gy), along_x, along_y))


def as_input(lines):
    """bool (N,H,W) as a hint for ControlNet: (N,3,H,W), 0 or 1."""
    return torch.from_numpy(lines.astype(np.float32))[:, None].repeat(1, 3, 1, 1)


# --------------------------------------------------------------------------
# data
# --------------------------------------------------------------------------
def load_pictures(a):
    """The pictures that the demo checkpoint knows, and their prompts."""
    z = np.load(a.pack)
    recs = json.loads(str(z["recs"]))
    keep = [i for i, r in enumerate(recs) if r["name"] in td.SUBSET]
    pictures = z["images"]
    images = [Image.fromarray(pictures[i]) for i in keep]
    return images, [f"{recs[i]['name']}, {STYLE[recs[i]['style']]}" for i in keep]


def move(im, scale, angle, dx, dy, mirror):
    """`im` scaled, turned by `angle` degrees, moved by (dx, dy) pixels of the result, on white."""
    if mirror:
        im = im.transpose(Image.FLIP_LEFT_RIGHT)
    side, room = im.size[0], 3 * im.size[0]
    canvas = Image.new("RGB", (room, room), (255, 255, 255))
    canvas.paste(im, (side, side))
    canvas = canvas.rotate(angle, Image.BICUBIC, fillcolor=(255, 255, 255))
    part = side / scale
    left, top = (room - part) / 2 - dx * part / SIZE, (room - part) / 2 - dy * part / SIZE
    return canvas.resize((SIZE, SIZE), Image.LANCZOS, box=(left, top, left + part, top + part))


def random_move(im, rng):
    scale = rng.uniform(0.6, 1.0)
    room = SIZE * (1 - scale) / 2 + 3
    return move(im, scale, rng.uniform(-25, 25), rng.uniform(-room, room), rng.uniform(-room, room),
                rng.random() < 0.5)


def encode(vae, rgb):
    x = torch.from_numpy(rgb).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        return vae.moments(x)[0].float() * td.SCALE_FACTOR


def random_hints(rgb, rng):
    """Users' outlines are not all alike: some have more lines inside, some none."""
    out = np.empty(rgb.shape[:3], bool)
    for i in range(len(rgb)):
        out[i] = hint(rgb[i:i + 1], rng.uniform(0.04, 0.12), rng.random() < 0.8)[0]
    return out


def data(a):
    model, (images, prompts) = Demo(a), load_pictures(a)
    model.vae = model.vae.to(memory_format=torch.channels_last)
    rng = np.random.default_rng(a.seed)
    latents, lines, t0 = [], [], time.time()
    for k in range(a.copies):
        rgb = np.stack([np.asarray(random_move(im, rng)) for im in images])
        lines.append(np.packbits(random_hints(rgb, rng), axis=-1))
        latents.append(torch.cat([encode(model.vae, rgb[i:i + 42])
                                  for i in range(0, len(rgb), 42)]).half().numpy())
        print(f"{k + 1} of {a.copies}, {time.time() - t0:.0f} s", flush=True)
    np.savez(f"{a.work}/control_data.npz", latents=np.stack(latents), lines=np.stack(lines))
    np.save(f"{a.work}/control_contexts.npy", model.ctx(prompts + [""]).numpy())


# --------------------------------------------------------------------------
# training
# --------------------------------------------------------------------------
class Demo(td.Demo):
    """The checkpoint, and a ControlNet for it where --file names one that is there."""

    def __init__(self, a):
        self.conf, t = load_file(a.checkpoint)
        self.unet = UNet(self.conf["unet"])
        self.unet.load_state_dict(part(t, UNET))
        v, x = self.conf["vae"], self.conf["text"]
        self.vae = td.VAE(**{k: v[k] for k in ("ch", "ch_mult", "num_res_blocks", "z_channels")})
        self.vae.load_state_dict(part(t, "first_stage_model."))
        self.text = td.TextModel(**{k: x[k] for k in ("hidden", "layers", "heads", "intermediate",
                                                      "vocab", "positions")})
        text = part(t, "cond_stage_model.transformer.text_model.")
        text.pop("embeddings.position_ids")
        self.text.load_state_dict(text)
        self.tok, self.ac = td.Tokenizer(a.bpe), t["alphas_cumprod"]
        self.plain = self.unet
        for m in (self.unet, self.vae, self.text):
            m.requires_grad_(False)

    def control(self, net, hints, strength=1.0):
        """From now on `net` acts on what sample() computes, on both halves of guidance; or None."""
        self.unet = self.plain
        if net is None:
            return

        def unet(x, t, context):
            return self.plain(x, t, context, None, total((net(x, t, context, hints), strength)))
        self.unet = unet


def load_file(path):
    """The config of a checkpoint, and its tensors in float32."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        conf = json.loads(json.loads(f.read(n))["__metadata__"]["config"])
    return conf, {k: v.float() if v.dtype == torch.float16 else v
                  for k, v in td.st_load(path).items()}


def part(tensors, prefix):
    return {k[len(prefix):]: v for k, v in tensors.items() if k.startswith(prefix)}


def load_control(a, unet):
    net = ControlNet(unet)
    net.load_state_dict(part(load_file(a.file)[1], CONTROL))
    return net.requires_grad_(False)


def batch(a, z, contexts, ac, g):
    """One batch: noised latents, times, contexts, hints, and the noise to be found. Every picture
    is in it twice, at two times, since the hint block is a third of the work. Times lean towards
    the noisy end, where it is decided what goes where."""
    copies, n = z["latents"].shape[:2]
    i = torch.randint(copies * n, (a.batch // 2,), generator=g)
    x0 = torch.from_numpy(z["latents"].reshape(-1, *z["latents"].shape[2:])[i.numpy()]).float()
    packed = z["lines"].reshape(-1, *z["lines"].shape[2:])[i.numpy()]
    lines = as_input(np.unpackbits(packed, axis=-1).astype(bool))
    x0, who = x0.repeat(2, 1, 1, 1), (i % n).repeat(2)
    who[torch.rand(len(who), generator=g) < 0.1] = n        # the empty prompt is the last one
    t = (1000 * torch.rand(len(who), generator=g).sqrt()).long().clamp(max=999)
    noise = torch.randn(x0.shape, generator=g)
    at = ac[t][:, None, None, None]
    return at.sqrt() * x0 + (1 - at).sqrt() * noise, t, contexts[who], lines, noise


def train(a):
    model = Demo(a)
    unet = model.plain.to(memory_format=torch.channels_last)
    net = ControlNet(unet).requires_grad_(True).to(memory_format=torch.channels_last)
    ema = td.EMA([net], a.ema)
    fresh = ("zero_convs", "middle_block_out", "input_hint_block")
    groups = [dict(params=[p for n, p in net.named_parameters() if n.startswith(fresh) == f],
                   scale=2.0 if f else 1.0) for f in (False, True)]
    opt = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.99), weight_decay=1e-3)
    step, spent, state = 0, 0.0, f"{a.work}/control_state.pt"
    if os.path.exists(state):
        st = torch.load(state)
        net.load_state_dict(st["net"])
        opt.load_state_dict(st["opt"])
        ema.s, ema.n, step, spent = st["ema"], st["n"], st["step"], st["spent"]
    z = dict(np.load(f"{a.work}/control_data.npz"))
    contexts = torch.from_numpy(np.load(f"{a.work}/control_contexts.npy"))
    g = torch.Generator().manual_seed(a.seed + step)
    clock, run, saved, t0, first = td.Clock(a, spent), [], time.time(), time.time(), step

    def save():
        torch.save(dict(net=net.state_dict(), opt=opt.state_dict(), ema=ema.s, n=ema.n, step=step,
                        spent=clock.spent), state + ".tmp")
        os.replace(state + ".tmp", state)

    print("ControlNet:", sum(p.numel() for p in net.parameters()), "parameters; from step", step)
    while (done := clock.frac()) < 1:
        for group in opt.param_groups:
            group["lr"] = td.lr_at(done, a.lr) * group["scale"]
        x, t, context, lines, noise = batch(a, z, contexts, model.ac, g)
        x, lines = (v.contiguous(memory_format=torch.channels_last) for v in (x, lines))
        eps = unet(x, t, context, None, net(x, t, context, lines))
        loss = (eps - noise).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        ema.step()
        step += 1
        run.append(loss.item())
        if step % 50 == 0 or step == 10:
            print(f"step {step} {clock.spent:.0f}s {100 * done:.0f}% "
                  f"{(step - first) / (time.time() - t0):.2f} it/s loss {np.mean(run[-50:]):.4f}",
                  flush=True)
        if time.time() - saved > 120:
            save()
            saved = time.time()
    save()


def export(a):
    model = Demo(a)
    net, st = ControlNet(model.plain), torch.load(f"{a.work}/control_state.pt")
    for p, s in zip(net.parameters(), st["ema"]):
        p.data.copy_(s)
    conf = dict(format="cldm", name=os.path.basename(a.file).split(".")[0], license="Apache-2.0",
                vae_factor=8, hint="white lines on black, RGB in 0..1", unet=model.conf["unet"],
                trained=dict(steps=st["step"], seconds=int(st["spent"])))
    os.makedirs(os.path.dirname(a.file) or ".", exist_ok=True)
    td.st_save(a.file, {CONTROL + k: v.half() for k, v in net.state_dict().items()},
               {"format": "pt", "config": json.dumps(conf)})
    print(sum(p.numel() for p in net.parameters()), "values", os.path.getsize(a.file), "bytes")


# --------------------------------------------------------------------------
# what came of it
# --------------------------------------------------------------------------
def as_bytes(images):
    """Pictures (N,3,H,W) in -1..1 as bytes (N,H,W,3)."""
    return ((images.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def overlap(a, b):
    """Intersection over union of masks (N,H,W), for each."""
    return (a & b).sum((1, 2)) / np.maximum((a | b).sum((1, 2)), 1)


def evaluate(a):
    """Outlines of pictures moved as none in training was: how far the silhouettes of sampled and
    wanted picture agree, with and without the ControlNet, and at best, with the VAE as it is."""
    model, (images, prompts) = Demo(a), load_pictures(a)
    net = load_control(a, model.plain)
    rng = np.random.default_rng(a.seed + 1000003)
    pick = np.arange(0, len(images), max(1, len(images) // a.pictures))[:a.pictures]
    rgb = np.stack([np.asarray(random_move(images[i], rng)) for i in pick])
    wanted, out = torch.from_numpy(rgb).permute(0, 3, 1, 2) / 127.5 - 1, {}
    lines = dict(control=hint(rgb), outer=hint(rgb, inner=False), plain=None)
    for name, drawn in lines.items():
        out[name] = []
        for i in range(0, len(pick), 42):
            model.control(*(None, None) if drawn is None else (net, as_input(drawn[i:i + 42])),
                          a.strength)
            some = [prompts[k] for k in pick[i:i + 42]]
            out[name].append(model.sample(some, 20, 4.0, seed=a.seed + i)[1])
        out[name] = torch.cat(out[name])
        compare(name, out[name], rgb)
    with torch.no_grad():
        back = [model.vae.decode(model.vae.moments(w)[0]) for w in wanted.split(42)]
    compare("wanted, through the VAE", torch.cat(back), rgb)
    show(a, [as_input(lines["control"]) * 2 - 1, wanted, *out.values()])


def compare(name, pictures, rgb):
    seen, want = as_bytes(pictures), ~background(rgb)
    iou = overlap(~background(seen, SEEN_WHITE), want)
    far = np.abs(seen.astype(float) - rgb).mean() / 255
    print(f"{name}: IoU mean {iou.mean():.3f} median {np.median(iou):.3f} worst {iou.min():.3f}, "
          f"above 0.8: {100 * (iou > 0.8).mean():.0f} %, "
          f"mean difference from the wanted picture {far:.3f}", flush=True)


def show(a, rows):
    """Rows of outlines, wanted pictures, with control, with the outer line only, without."""
    n = len(rows[0])
    pick = list(range(0, n, max(1, n // 36)))[:36]
    tiles = [row[k] for i in range(0, len(pick), 18) for row in rows for k in pick[i:i + 18]]
    td.grid(tiles, 18, f"{a.work}/control_eval.png", 1)


def example():
    """What the golden file and input/outline.png show: a pear, turned and moved."""
    return "pear, 3d", dict(scale=0.7, angle=20, dx=7, dy=5, mirror=False)


def golden(a):
    model, (images, prompts) = Demo(a), load_pictures(a)
    prompt, how = example()
    rgb = np.asarray(move(images[prompts.index(prompt)], **how))[None]
    lines = hint(rgb)
    Image.fromarray(np.repeat(lines[0, :, :, None] * np.uint8(255), 3, -1)).save(a.outline)
    hints, net = as_input(lines), load_control(a, model.plain)
    noise = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(7))
    plain, controlled = [], []
    model.control(None, None)
    model.sample([prompt], 20, 4.0, noise=noise, trace=plain)
    model.control(net, hints, 1.0)
    latent, image = model.sample([prompt], 20, 4.0, noise=noise, trace=controlled)
    tensors = dict(tokens=torch.tensor([model.tok.encode(prompt)], dtype=torch.int32), hint=hints,
                   context_cond=model.ctx([prompt]), context_uncond=model.ctx([""]), noise=noise,
                   timesteps=torch.tensor([q[0] for q in controlled], dtype=torch.int32),
                   latent=latent, image=image)
    for name, trace in (("plain", plain), ("control", controlled)):
        tensors.update({f"{name}.eps_uncond.0": trace[0][1], f"{name}.eps_cond.0": trace[0][2]})
    td.st_save(a.golden, tensors, dict(prompt=prompt, steps=20, cfg=4.0, strength=1.0,
               sampler="ddim eta 0, fp32 math on the fp16 weights"))
    iou = overlap(~background(as_bytes(image), SEEN_WHITE), ~background(rgb))
    print(f"IoU {iou[0]:.3f};", {k: list(v.shape) for k, v in tensors.items()})


def outline(a):
    if len(a.paths) != 2:
        sys.exit("outline takes two paths: the picture to read, the one to write")
    source, target = a.paths
    rgb = np.asarray(Image.open(source).convert("RGB"))[None]
    Image.fromarray(np.repeat(hint(rgb)[0, :, :, None] * np.uint8(255), 3, -1)).save(target)


COMMANDS = dict(data=data, train=train, export=export, eval=evaluate, golden=golden,
                outline=outline)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cmd", choices=list(COMMANDS))
    ap.add_argument("paths", nargs="*", help="outline: the picture to read, the one to write")
    ap.add_argument("--checkpoint", default="models/checkpoints/emoji-64.safetensors")
    ap.add_argument("--file", default="models/controlnet/emoji-64-outline.safetensors")
    ap.add_argument("--golden", default="golden/demo/emoji-64-outline.golden.safetensors")
    ap.add_argument("--outline", default="input/outline.png")
    ap.add_argument("--pack", default="emoji_pack128.npz")
    ap.add_argument("--bpe", default="build/generated/clip_merges.txt")
    ap.add_argument("--work", default="work")
    ap.add_argument("--copies", type=int, default=60, help="data: moved copies of each picture")
    ap.add_argument("--minutes", type=float, default=25)
    ap.add_argument("--deadline", type=float, help="train: stop at this epoch second at the latest")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=6e-4)
    ap.add_argument("--ema", type=float, default=0.998)
    ap.add_argument("--pictures", type=int, default=252, help="eval: how many")
    ap.add_argument("--strength", type=float, default=1.0)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    a.device = "cpu"
    if a.cmd != "outline":
        os.makedirs(a.work, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    torch.set_flush_denormal(True)
    COMMANDS[a.cmd](a)


if __name__ == "__main__":
    sys.exit(main())
