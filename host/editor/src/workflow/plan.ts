// What a quantization plan says about its layers, and what other thresholds would choose.

export type Kind = "conv" | "linear" | "attention"

export interface PlanLayer {
  name: string
  kind: Kind
  shape: number[] // of attention: heads, elements of a head, queries, keys
  density: number // FLOP a byte at the calibrated shape
  mse: number // of the latent, caused by quantizing this layer alone; NaN when not measured
  flops: number
  bytes: number // of its weights as they are; 0 when the plan does not say, and of attention
  seconds: number // a step, as it is and quantized; 0 when it was not timed
  secondsQuantized: number
  chosen: boolean
  kept: boolean // it stays as it is whatever the thresholds are
  reason: string
}
export interface Plan {
  version: number
  bits: number
  layers: PlanLayer[]
  otherFlops: number // work that no layer of the plan does
  otherBytes: number
  otherSeconds: number // of a step, outside of the layers that were timed
  timed: boolean // layers have times, so that gains are not needed
  gain: Record<Kind, number>
  assumed: Kind[] // whose gain the plan does not say
  joint?: { mse?: number; psnr?: number; ssim?: number }
  measured: number // times as fast, as it was calibrated; 0 when that was not timed
  disturbed: boolean // what single layers took does not go with what was measured
  noise: "" | "little" | "unclear" // why what was measured tells nothing: see noiseOf
  limits: Record<string, unknown> | null // for which the plan was made
}
export interface Thresholds {
  conv: number
  linear: number
  density: number
  useConv: boolean
  useLinear: boolean
  attention?: number // absent: the node cannot quantize attention
  useAttention?: boolean
}
export interface Prediction {
  count: number
  share: number // of the work
  speedup: number
  size: number | null // of the weights, as a part of what they were; null when sizes are unknown
  error: number // the largest that a chosen layer causes alone
  blind: boolean // attention could be chosen, but none of it was measured
  lost: { error: number; density: number; off: number; unmeasured: number }
}

// Used until a plan brings times of its own: what 8-bit kernels gain over 16-bit ones in a layer that
// is limited by arithmetic. The page says that it is an assumption.
const ASSUMED: Record<Kind, number> = { conv: 1.6, linear: 1.7, attention: 1.7 }
const KINDS = Object.keys(ASSUMED) as Kind[]

const number = (value: unknown, fallback = 0): number => {
  const n = Number(value)
  return Number.isFinite(n) ? n : fallback
}

function weightBytes(raw: any): number {
  if (raw.kind === "attention") return 0
  const given = number(raw.weight_bytes ?? raw.bytes)
  if (given > 0) return given
  const params = number(raw.params ?? raw.weights)
  if (params > 0) return params * 2
  if (!Array.isArray(raw.weight_shape)) return 0
  return raw.weight_shape.reduce((a: number, b: unknown) => a * number(b, 1), 2)
}

// Some layers stay as they are: the plan's own reason says so, and attention is quantized to 8-bit
// integers or not at all.
function isKept(layer: any, plan: any): boolean {
  const integers = number(plan.bits, 8) === 8 && (plan.values ?? "int") === "int"
  if (layer.kind === "attention" && !integers) return true
  const telling = /first|last|embed|input|output|kept|pinned|never|unsupported/i
  return !layer.chosen && telling.test(String(layer.reason ?? ""))
}

function parseLayer(raw: any, plan: any): PlanLayer {
  return {
    name: String(raw.name),
    kind: raw.kind === "conv" || raw.kind === "attention" ? raw.kind : "linear",
    shape: Array.isArray(raw.shape) ? raw.shape.map((n: unknown) => number(n)) : [],
    density: Math.max(0, number(raw.density)),
    mse: raw.mse == null ? NaN : Math.max(0, number(raw.mse, NaN)),
    flops: Math.max(0, number(raw.flops)),
    bytes: weightBytes(raw),
    seconds: Math.max(0, number(raw.seconds)),
    secondsQuantized: Math.max(0, number(raw.seconds_quantized)),
    chosen: !!raw.chosen,
    kept: isKept(raw, plan),
    reason: String(raw.reason ?? ""),
  }
}

// Prediction and measurement of the plan's own choice differ by less on a quiet machine, as in
// engine/quant/plan.c.
const DISTURBED = 1.5

// How fast the plan's own choice is by the times of its layers; 0 where they say nothing.
function gainOf(step: number, layers: PlanLayer[]): number {
  const saved = layers
    .filter((layer) => layer.chosen && layer.secondsQuantized > 0)
    .reduce((sum, layer) => sum + layer.seconds - layer.secondsQuantized, 0)
  if (!(step > 0)) return 0
  return saved < step ? step / (step - saved) : 1
}

function isDisturbed(step: number, layers: PlanLayer[], measured: number): boolean {
  const gain = gainOf(step, layers)
  if (!(gain > 0 && measured > 0)) return false
  return !(measured / gain > 1 / DISTURBED && measured / gain < DISTURBED)
}

// Where so little of the work is quantized, whatever other programs do changes the time more.
const LITTLE = 0.1

// A sampling was timed as it is, and one with the chosen layers. That says nothing where the two do
// nearly the same, nor where they differ by little, and by less than from what single layers took.
function noiseOf(plan: Plan, step: number): Plan["noise"] {
  const { layers, measured, otherFlops } = plan
  if (!(measured > 0)) return ""
  const work = (some: PlanLayer[]) => some.reduce((sum, layer) => sum + layer.flops, 0)
  const all = work(layers) + otherFlops
  if (all > 0 && work(layers.filter((layer) => layer.chosen)) < LITTLE * all) return "little"
  const gain = gainOf(step, layers)
  const [own, off] = [measured, measured / gain].map((n) => Math.abs(Math.log(n)))
  return gain > 0 && own < Math.log(DISTURBED) && own <= off ? "unclear" : ""
}

// Reads a plan that came from a node, as JSON text or as an object; null when it is none.
export function parsePlan(source: unknown): Plan | null {
  let raw: any = source
  if (typeof source === "string") {
    try {
      raw = JSON.parse(source)
    } catch {
      return null
    }
  }
  if (!raw || typeof raw !== "object" || !Array.isArray(raw.layers)) return null
  const layers: PlanLayer[] = raw.layers
    .filter((layer: any) => layer && typeof layer === "object" && layer.name !== undefined)
    .map((layer: any) => parseLayer(layer, raw))
  const gain = raw.gain ?? raw.speedup
  const measured =
    number(raw.time?.sampled_quantized) > 0
      ? number(raw.time.sampled) / number(raw.time.sampled_quantized)
      : 0
  const plan: Plan = {
    version: number(raw.version, 1),
    bits: number(raw.bits, 8),
    layers,
    otherFlops: Math.max(0, number(raw.other_flops)),
    otherBytes: Math.max(0, number(raw.other_bytes)),
    otherSeconds: Math.max(
      0,
      number(raw.time?.step) - layers.reduce((sum, layer) => sum + layer.seconds, 0),
    ),
    timed: layers.some((layer) => layer.secondsQuantized > 0),
    gain: Object.fromEntries(
      KINDS.map((kind) => [kind, number(gain?.[kind]) || ASSUMED[kind]]),
    ) as Record<Kind, number>,
    assumed: KINDS.filter((kind) => !(number(gain?.[kind]) > 0)),
    measured,
    disturbed: isDisturbed(number(raw.time?.step), layers, measured),
    noise: "",
    limits: raw.limits && typeof raw.limits === "object" ? raw.limits : null,
    joint: raw.joint && typeof raw.joint === "object" ? raw.joint : undefined,
  }
  plan.noise = noiseOf(plan, number(raw.time?.step))
  return plan
}

export type Fate = "chosen" | "error" | "density" | "off" | "unmeasured" | "kept"

// Attention may be out of reach of all thresholds: for a plan of other bits, or a node without such
// inputs. The page then shows two kinds of layers, as for plans that name no attention.
const reachable = (layer: PlanLayer, t: Thresholds) =>
  layer.kind !== "attention" || (!layer.kept && t.attention !== undefined)

export const hasAttention = (plan: Plan, t: Thresholds) =>
  plan.layers.some((layer) => layer.kind === "attention" && reachable(layer, t))

// Plans of before list attention without having measured it, and so do those of devices that
// compute it as it is: then there is nothing to plot or to predict, only something to say.
export const seesAttention = (plan: Plan, t: Thresholds) =>
  plan.layers.some(
    (layer) => layer.kind === "attention" && reachable(layer, t) && !Number.isNaN(layer.mse),
  )

export function fate(layer: PlanLayer, t: Thresholds): Fate {
  if (!reachable(layer, t)) return "kept"
  const used = { conv: t.useConv, linear: t.useLinear, attention: t.useAttention }
  if (!used[layer.kind]) return "off"
  if (layer.kept) return "kept"
  if (layer.density < t.density) return "density"
  if (Number.isNaN(layer.mse)) return "unmeasured"
  return layer.mse > (t[layer.kind] ?? 0) ? "error" : "chosen"
}

// Attention has no weights: that it has no bytes leaves nothing open.
function sizesKnown({ layers }: Plan): boolean {
  const weighted = layers.filter((layer) => layer.kind !== "attention")
  return weighted.length ? weighted.some((layer) => layer.bytes > 0) : layers.length > 0
}

export function predict(plan: Plan, t: Thresholds): Prediction {
  let [work, time, chosenWork, before, after, error, count] = [
    plan.otherFlops,
    plan.otherFlops,
    0,
    plan.otherBytes,
    plan.otherBytes,
    0,
    0,
  ]
  const lost = { error: 0, density: 0, off: 0, unmeasured: 0 }
  let [seconds, secondsAfter] = [plan.otherSeconds, plan.otherSeconds]
  const shrink = plan.bits / 16
  const seen = seesAttention(plan, t)
  let blind = false
  for (const layer of plan.layers) {
    const what = fate(layer, t)
    const chosen = what === "chosen"
    work += layer.flops
    time += chosen ? layer.flops / plan.gain[layer.kind] : layer.flops
    seconds += layer.seconds
    secondsAfter += chosen && layer.secondsQuantized > 0 ? layer.secondsQuantized : layer.seconds
    before += layer.bytes
    after += chosen ? layer.bytes * shrink : layer.bytes
    if (chosen) {
      count++
      chosenWork += layer.flops
      error = Math.max(error, layer.mse)
    } else if (what === "unmeasured" && layer.kind === "attention" && !seen) blind = true
    else if (what !== "kept") lost[what] += layer.flops
  }
  const part = (n: number) => (work > 0 ? n / work : 0)
  return {
    count,
    share: part(chosenWork),
    speedup: plan.timed
      ? seconds > 0 && secondsAfter > 0
        ? seconds / secondsAfter
        : 1
      : time > 0
        ? work / time
        : 1,
    size: sizesKnown(plan) ? (before > 0 ? after / before : 1) : null,
    error,
    blind,
    lost: {
      error: part(lost.error),
      density: part(lost.density),
      off: part(lost.off),
      unmeasured: part(lost.unmeasured),
    },
  }
}

// Whether the plan was made for these thresholds, so that what was measured holds for them.
export function isOf({ limits, layers }: Plan, t: Thresholds): boolean {
  if (!limits) return layers.every((layer) => layer.chosen === (fate(layer, t) === "chosen"))
  const used = { conv: t.useConv, linear: t.useLinear, attention: t.useAttention }
  const same = (a: unknown, b: number) => Math.abs(number(a, NaN) - b) <= 1e-6 * Math.max(b, 1e-9)
  return (
    same(limits.density, t.density) &&
    KINDS.every((kind) => {
      if (kind === "attention" && t.attention === undefined) return true
      if (!used[kind] || !limits[kind]) return !used[kind] === !limits[kind]
      return same(limits[`${kind}_mse`], t[kind] ?? 0)
    })
  )
}

const times = (n: number) => `${n.toFixed(2)}×`
const NOISE = "within the noise of measuring"
const CALM = "“recalibrate” on a quiet machine gives better ones."

// How fast the model is with these thresholds, where that is from, and what else was said of it.
export function speed(plan: Plan, t: Thresholds): { value: string; label: string; note: string } {
  const predicted = times(predict(plan, t).speedup)
  const measured = times(plan.measured)
  const said = (value: string, label: string, note: string) => ({ value, label, note })
  if (!(plan.measured > 0)) return said(predicted, "predicted speed", "")
  // Eight bits cannot be that much faster or slower.
  if (plan.measured > 8 || plan.measured < 1 / 8)
    return said(
      predicted,
      "predicted, uncertain",
      `Other programs disturbed the times of this plan; ${CALM}`,
    )
  const own = isOf(plan, t)
  if (own && plan.noise === "little")
    return said(
      "≈ 1×",
      NOISE,
      `So little of the work is quantized that the measured ${measured} is ${NOISE}.`,
    )
  if (own && plan.noise === "unclear")
    return said(
      "unclear",
      NOISE,
      `Measured were ${measured}, the times of single layers predict ${predicted}: what is between them is ${NOISE}; ${CALM}`,
    )
  if (plan.noise)
    return said(
      predicted,
      "predicted speed",
      `With the thresholds of the run the difference was ${NOISE}.`,
    )
  // Layers are chosen because they are faster: of two that contradict each other it is not this one.
  if (plan.disturbed && plan.measured < 1)
    return said(
      own ? "unclear" : predicted,
      own ? NOISE : "predicted, uncertain",
      `Measured were ${measured}${own ? `, the times of single layers predict ${predicted}` : " as the plan was made"}: other programs disturbed this plan; ${CALM}`,
    )
  if (plan.disturbed)
    return own
      ? said(
          measured,
          "measured speed",
          `Trust what was measured: the times of single layers, which predict ${predicted}, were disturbed by other programs; ${CALM}`,
        )
      : said(
          measured,
          "measured, as the plan was made",
          `For these thresholds the times of single layers predict ${predicted}. Do not trust that: other programs disturbed them; ${CALM}`,
        )
  return own
    ? said(measured, "measured speed", `The times of single layers predict ${predicted}.`)
    : said(
        predicted,
        "predicted speed",
        `Measured with the plan as it was made, with other thresholds: ${measured}.`,
      )
}

// Why a plan says nothing: none of its layers was worth measuring. "" when it does say something.
export function unmeasured(plan: Plan, t: Thresholds): string {
  const { density } = t
  if (seesAttention(plan, t)) return ""
  const layers = plan.layers.filter((layer) => layer.kind !== "attention")
  if (!layers.length || layers.some((layer) => !Number.isNaN(layer.mse))) return ""
  const densest = Math.floor(Math.max(...layers.map((layer) => layer.density)))
  return density > densest
    ? `Nothing was measured: no layer has a density of ${density} at this size, the densest has ${densest}. Lower it and run again.`
    : "Nothing was measured yet. Run again: layers reach the density now."
}

// What the prediction of speed takes for granted, in a sentence; "" when all of it was measured.
export function assumption(plan: Plan, t: Thresholds): string {
  const { conv, linear, attention } = plan.gain
  const assumed = (kind: Kind) => plan.assumed.includes(kind)
  const more = seesAttention(plan, t) && assumed("attention")
  if (assumed("conv") && assumed("linear"))
    return more
      ? `The speed assumes that an 8-bit layer is ${conv}× (convolution), ${linear}× (linear) or ${attention}× (attention) as fast.`
      : `The speed assumes that an 8-bit layer is ${conv}× (convolution) or ${linear}× (linear) as fast.`
  if (!more || plan.timed) return ""
  return `The speed assumes that 8-bit attention is ${attention}× as fast.`
}

const MOST = 0.8 // of the work that a lower density could take in

// Where hardly anything is quantized because of its density: a threshold that takes in most of the
// work, and what part of all work is quantized now. Null where it is another threshold's doing.
export function lowerDensity(plan: Plan, t: Thresholds): { density: number; share: number } | null {
  const { share } = predict(plan, t)
  if (share >= LITTLE) return null
  const free = plan.layers
    .filter((layer) => {
      const what = fate(layer, { ...t, density: 0 })
      return what === "chosen" || (what === "unmeasured" && layer.kind !== "attention")
    })
    .sort((a, b) => b.density - a.density)
  const work = free.reduce((sum, layer) => sum + layer.flops, 0)
  const all = plan.layers.reduce((sum, layer) => sum + layer.flops, plan.otherFlops)
  if (!(work > 2 * LITTLE * all)) return null
  let taken = 0
  const last = free.find((layer) => (taken += layer.flops) >= MOST * work)!
  const density = last.density < 10 ? Math.floor(last.density) : floor2(last.density)
  return density < t.density ? { density, share } : null
}

// With two digits, and not above.
function floor2(value: number): number {
  const grain = 10 ** (Math.floor(Math.log10(value)) - 1)
  return Math.floor(value / grain) * grain
}

// Which threshold holds back most of the work, in a sentence.
function hindrance(lost: Prediction["lost"], most: number): string {
  const share = `${Math.round(most * 100)} % of the work`
  if (most === lost.unmeasured)
    return `${share} is in layers that were not measured: run again, with “recalibrate”.`
  if (most === lost.off) return `${share} is in layers whose kind is switched off.`
  if (most === lost.error)
    return `${share} is in layers above their error threshold: raise it for more speed.`
  return `${share} is in layers below the density threshold: lower it to try them.`
}

// What to do for more speed; "" when nothing much is left.
export function advice({ lost, blind }: Prediction): string {
  const most = Math.max(...Object.values(lost))
  const told = most < 0.05 ? "" : hindrance(lost, most)
  if (!blind) return told
  return `${told} Attention was not measured: try “recalibrate”; not every device has it in 8 bits.`.trim()
}
