// What a quantization plan says about its layers, and what other thresholds would choose.

export interface PlanLayer {
  name: string
  kind: "conv" | "linear"
  density: number // FLOP a byte at the calibrated shape
  mse: number // of the latent, caused by quantizing this layer alone; NaN when not measured
  flops: number
  bytes: number // of its weights as they are; 0 when the plan does not say
  seconds: number // a step, as it is and quantized; 0 when it was not timed
  secondsQuantized: number
  chosen: boolean
  reason: string
}
export interface Plan {
  version: number
  bits: number
  layers: PlanLayer[]
  otherFlops: number // work that no layer of the plan does
  otherBytes: number
  otherSeconds: number // of a step, outside of the layers that were timed
  gain: { conv: number; linear: number; measured: boolean }
  joint?: { mse?: number; psnr?: number; ssim?: number }
  measured: number // times as fast, as it was calibrated; 0 when that was not timed
}
export interface Thresholds {
  conv: number
  linear: number
  density: number
  useConv: boolean
  useLinear: boolean
}
export interface Prediction {
  count: number
  share: number // of the work
  speedup: number
  size: number | null // of the weights, as a part of what they were; null when sizes are unknown
  error: number // the largest that a chosen layer causes alone
  lost: { error: number; density: number; off: number; unmeasured: number }
}

// Used until a plan brings times of its own: what 8-bit kernels gain over 16-bit ones in a layer that
// is limited by arithmetic. The page says that it is an assumption.
const ASSUMED = { conv: 1.6, linear: 1.7 }

const number = (value: unknown, fallback = 0): number => {
  const n = Number(value)
  return Number.isFinite(n) ? n : fallback
}

function weightBytes(raw: any): number {
  const given = number(raw.weight_bytes ?? raw.bytes)
  if (given > 0) return given
  const params = number(raw.params ?? raw.weights)
  if (params > 0) return params * 2
  if (!Array.isArray(raw.weight_shape)) return 0
  return raw.weight_shape.reduce((a: number, b: unknown) => a * number(b, 1), 2)
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
    .map((layer: any) => ({
      name: String(layer.name),
      kind: layer.kind === "conv" ? "conv" : "linear",
      density: Math.max(0, number(layer.density)),
      mse: layer.mse == null ? NaN : Math.max(0, number(layer.mse, NaN)),
      flops: Math.max(0, number(layer.flops)),
      bytes: weightBytes(layer),
      seconds: Math.max(0, number(layer.seconds)),
      secondsQuantized: Math.max(0, number(layer.seconds_quantized)),
      chosen: !!layer.chosen,
      reason: String(layer.reason ?? ""),
    }))
  const gain = raw.gain ?? raw.speedup
  const measured = number(gain?.conv) > 0 || number(gain?.linear) > 0
  return {
    version: number(raw.version, 1),
    bits: number(raw.bits, 8),
    layers,
    otherFlops: Math.max(0, number(raw.other_flops)),
    otherBytes: Math.max(0, number(raw.other_bytes)),
    otherSeconds: Math.max(
      0,
      number(raw.time?.step) - layers.reduce((sum, layer) => sum + layer.seconds, 0),
    ),
    gain: {
      conv: number(gain?.conv) || ASSUMED.conv,
      linear: number(gain?.linear) || ASSUMED.linear,
      measured,
    },
    measured:
      number(raw.time?.sampled_quantized) > 0
        ? number(raw.time.sampled) / number(raw.time.sampled_quantized)
        : 0,
    joint: raw.joint && typeof raw.joint === "object" ? raw.joint : undefined,
  }
}

// Some layers stay as they are whatever the thresholds are: the plan's own reason says so.
const pinned = (layer: PlanLayer) =>
  !layer.chosen && /first|last|embed|input|output|kept|pinned|never|unsupported/i.test(layer.reason)

export type Fate = "chosen" | "error" | "density" | "off" | "unmeasured" | "kept"

export function fate(layer: PlanLayer, t: Thresholds): Fate {
  if (layer.kind === "conv" ? !t.useConv : !t.useLinear) return "off"
  if (pinned(layer)) return "kept"
  if (layer.density < t.density) return "density"
  if (Number.isNaN(layer.mse)) return "unmeasured"
  return layer.mse > (layer.kind === "conv" ? t.conv : t.linear) ? "error" : "chosen"
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
  const timed = plan.layers.some((layer) => layer.secondsQuantized > 0)
  const shrink = plan.bits / 16
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
    } else if (what !== "kept") lost[what] += layer.flops
  }
  const part = (n: number) => (work > 0 ? n / work : 0)
  return {
    count,
    share: part(chosenWork),
    speedup: timed
      ? seconds > 0 && secondsAfter > 0
        ? seconds / secondsAfter
        : 1
      : time > 0
        ? work / time
        : 1,
    size: plan.layers.some((layer) => layer.bytes > 0) && before > 0 ? after / before : null,
    error,
    lost: {
      error: part(lost.error),
      density: part(lost.density),
      off: part(lost.off),
      unmeasured: part(lost.unmeasured),
    },
  }
}

// Why a plan says nothing: none of its layers was worth measuring. "" when it does say something.
export function unmeasured({ layers }: Plan, { density }: Thresholds): string {
  if (!layers.length || layers.some((layer) => !Number.isNaN(layer.mse))) return ""
  const densest = Math.floor(Math.max(...layers.map((layer) => layer.density)))
  return density > densest
    ? `Nothing was measured: no layer has a density of ${density} at this size, the densest has ${densest}. Lower it and run again.`
    : "Nothing was measured yet. Run again: layers reach the density now."
}

// Which threshold holds back most of the work, in a sentence; "" when nothing much is left.
export function advice({ lost }: Prediction): string {
  const most = Math.max(...Object.values(lost))
  if (most < 0.05) return ""
  const share = `${Math.round(most * 100)} % of the work`
  if (most === lost.unmeasured)
    return `${share} is in layers that were not measured: run again, with “recalibrate”.`
  if (most === lost.off) return `${share} is in layers whose kind is switched off.`
  if (most === lost.error)
    return `${share} is in layers above their error threshold: raise it for more speed.`
  return `${share} is in layers below the density threshold: lower it to try them.`
}
