// Values of widgets: how they are shown, kept in range, and moved on after a run.
import type { InputSpec } from "./schema"

export const SEED_MAX = 2 ** 50 // as far as ComfyUI's page draws them, and exact in a JavaScript number

// An INT may be a string of digits when it is too large for a number (json.ts).
export function showNumber(value: unknown, input: InputSpec): string {
  if (typeof value === "string") return value
  const number = Number(value)
  if (input.type === "INT" || Number.isNaN(number)) return String(value)
  const step = input.options.step ?? 0.01
  const places = Math.min(6, Math.max(1, Math.ceil(-Math.log10(step) - 1e-9)))
  const rounded = number.toFixed(places)
  return Number(rounded) === number ? rounded : String(Number(number.toPrecision(6)))
}

export function clampNumber(text: string | number, input: InputSpec): number | string | null {
  if (typeof text === "string" && input.type === "INT" && /^\d{16,20}$/.test(text.trim())) {
    const big = BigInt(text.trim())
    if (big > BigInt(Number.MAX_SAFE_INTEGER))
      return big <= 0xffffffffffffffffn ? String(big) : null
  }
  let value = Number(text)
  if (!Number.isFinite(value) || String(text).trim() === "") return null
  const { min, max } = input.options
  if (min !== undefined) value = Math.max(min, value)
  if (max !== undefined) value = Math.min(max, value)
  return input.type === "INT" ? Math.round(value) : value
}

// Dragging adds steps; what it makes should read 0.3, not 0.30000000000000004.
export function tidyFloat(value: number, round: number): number {
  const grain = Math.min(round, 0.001) // typed values may be finer than the step
  return Number((Math.round(value / grain) * grain).toPrecision(12))
}

export function wrapText(
  ctx: Pick<CanvasRenderingContext2D, "measureText">,
  text: string,
  width: number,
  most: number,
): string[] {
  const lines: string[] = []
  for (const paragraph of text.split("\n")) {
    let line = ""
    for (const word of paragraph.split(/(?<=\s)/)) {
      if (lines.length >= most) return lines
      let rest = word
      if (line && ctx.measureText(line + rest.trimEnd()).width > width) {
        lines.push(line)
        line = ""
      }
      while (ctx.measureText(rest.trimEnd()).width > width && rest.length > 1) {
        let fit = rest.length - 1
        while (fit > 1 && ctx.measureText(rest.slice(0, fit)).width > width) fit--
        lines.push(rest.slice(0, fit))
        rest = rest.slice(fit)
        if (lines.length >= most) return lines
      }
      line += rest
    }
    lines.push(line)
  }
  return lines.slice(0, most)
}

export function nextValue(widget: any, control: string): unknown {
  const { value, options } = widget
  if (control === "fixed") return value
  if (Array.isArray(options?.values)) {
    const { values } = options
    const at = values.indexOf(value)
    if (control === "randomize") return values[Math.floor(Math.random() * values.length)]
    return values[Math.min(values.length - 1, Math.max(0, at + (control === "increment" ? 1 : -1)))]
  }
  const min = Math.max(options?.min ?? 0, -SEED_MAX)
  const max = Math.min(options?.max ?? SEED_MAX, SEED_MAX)
  if (control === "randomize") return Math.floor(min + Math.random() * (max - min))
  if (typeof value === "string") return String(BigInt(value) + (control === "increment" ? 1n : -1n))
  return Math.min(max, Math.max(min, Number(value) + (control === "increment" ? 1 : -1)))
}
