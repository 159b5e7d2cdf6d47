// Two logarithmic axes: compute density to the right, error upwards.
import { svg } from "./dom"
import type { Kind } from "../workflow/plan"

export const WIDTH = 340
export const HEIGHT = 240
export const PAD = { left: 40, right: 10, top: 10, bottom: 30 }
const INNER = { width: WIDTH - PAD.left - PAD.right, height: HEIGHT - PAD.top - PAD.bottom }

// A value on a logarithmic axis, as a part of its length; zero and less stand at the start.
export function logPlace(value: number, low: number, high: number): number {
  if (value <= low) return 0
  return Math.min(1, Math.log(value / low) / Math.log(high / low))
}
export function logValue(place: number, low: number, high: number): number {
  return low * Math.pow(high / low, Math.min(1, Math.max(0, place)))
}

// What stands for a layer, and on a threshold's line for all of its kind. Attention is a diamond, of
// the area of the circles, so that it is told from them without its colour.
export function mark(
  kind: Kind | "density",
  r: number,
  more: Record<string, unknown>,
  ...children: SVGElement[]
): SVGElement {
  if (kind !== "attention") return svg("circle", { r: r.toFixed(2), ...more }, ...children)
  const half = (r * Math.sqrt(Math.PI / 2)).toFixed(2)
  return svg("path", { d: `M0-${half} ${half} 0 0 ${half}-${half} 0z`, ...more }, ...children)
}
export const translate = (x: number, y: number) => `translate(${x} ${y})`

// Whole decades that hold all values.
export function decades(values: number[], low: number, high: number): [number, number] {
  const positive = values.filter((v) => v > 0)
  const from = Math.min(low, ...positive)
  const to = Math.max(high, ...positive)
  return [10 ** Math.floor(Math.log10(from)), 10 ** Math.ceil(Math.log10(to) - 1e-9)]
}

export class Axes {
  constructor(
    private readonly x: [number, number],
    private readonly y: [number, number],
  ) {}

  px(density: number): number {
    return PAD.left + logPlace(density, ...this.x) * INNER.width
  }
  py(error: number): number {
    return PAD.top + (1 - logPlace(error, ...this.y)) * INNER.height
  }
  // The edge where an axis starts stands for zero: no threshold at all.
  densityAt(x: number): number {
    const place = (x - PAD.left) / INNER.width
    return place <= 0 ? 0 : logValue(place, ...this.x)
  }
  errorAt(y: number): number {
    const place = 1 - (y - PAD.top) / INNER.height
    return place <= 0 ? 0 : logValue(place, ...this.y)
  }

  draw(): SVGElement[] {
    const parts: SVGElement[] = []
    const text = (content: string, attributes: Record<string, unknown>) =>
      svg("text", { class: "plot-tick", "text-anchor": "middle", ...attributes }, content)
    const line = (attributes: Record<string, unknown>) =>
      svg("line", { class: "plot-grid", ...attributes })
    for (let v = this.x[0]; v <= this.x[1] * 1.01; v *= 10) {
      const x = this.px(v)
      parts.push(line({ x1: x, x2: x, y1: PAD.top, y2: PAD.top + INNER.height }))
      parts.push(text(v >= 1000 ? `${v / 1000}k` : String(v), { x, y: HEIGHT - 16 }))
    }
    for (let v = this.y[0]; v <= this.y[1] * 1.01; v *= 10) {
      const y = this.py(v)
      const tick = v >= 0.01 ? String(Number(v.toPrecision(1))) : `1e${Math.round(Math.log10(v))}`
      parts.push(line({ y1: y, y2: y, x1: PAD.left, x2: PAD.left + INNER.width }))
      parts.push(text(tick, { x: PAD.left - 5, y: y + 3, "text-anchor": "end" }))
    }
    const middle = PAD.top + INNER.height / 2
    const name = { class: "plot-label" }
    const x = PAD.left + INNER.width / 2
    parts.push(text("compute density, FLOP a byte", { ...name, x, y: HEIGHT - 3 }))
    const turned = { ...name, x: 11, y: middle, transform: `rotate(-90 11 ${middle})` }
    parts.push(text("error of the latent", turned))
    return parts
  }
}
