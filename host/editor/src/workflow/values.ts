// Values of widgets: how they are shown, kept in range, and moved on after a run.
import type { InputSpec } from "./schema"
import { calculate } from "./sum"

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

// The ends of what the server takes as a whole number, of either sign.
const MOST = 2n ** 64n - 1n
const LEAST = -(2n ** 63n)

interface Ends {
  min?: number | string
  max?: number | string
}

function end(given: number | string | undefined, least: bigint, most: bigint, open: bigint) {
  if (given === undefined || !Number.isFinite(Number(given))) return open
  const whole = BigInt(typeof given === "string" ? given : Math.round(given))
  return whole < least ? least : whole > most ? most : whole
}

// As a number where a JavaScript number holds it.
function clampWhole(value: bigint, { min, max }: Ends): number | string {
  const [low, high] = [end(min, LEAST, MOST, LEAST), end(max, LEAST, MOST, MOST)]
  const kept = value < low ? low : value > high ? high : value
  const number = Number(kept)
  return Number.isSafeInteger(number) ? number : String(kept)
}

export function clampNumber(text: string | number, input: InputSpec): number | string | null {
  const { min, max } = input.options
  if (input.type === "INT" && /^\s*-?\d{16,20}\s*$/.test(String(text))) {
    const big = BigInt(text)
    return big < LEAST || big > MOST ? null : clampWhole(big, { min, max })
  }
  const read = Number.isFinite(Number(text)) ? Number(text) : calculate(String(text))
  if (read === null || String(text).trim() === "") return null
  let value = read
  if (min !== undefined) value = Math.max(Number(min), value)
  if (max !== undefined) value = Math.min(Number(max), value)
  if (input.type !== "INT") return value
  const whole = Math.round(value)
  return Number.isSafeInteger(whole) ? whole : clampWhole(BigInt(whole), { min, max })
}

// What was not taken of a text that was typed, and why; "" when all was.
export function notTaken(text: string, input: InputSpec): string {
  const { name, type, options } = input
  const { min, max } = options
  const kept = clampNumber(text, input)
  if (kept === null) return `“${text}” is not a number, which “${name}” takes: nothing was changed.`
  const typed = Number.isFinite(Number(text)) ? Number(text) : calculate(text)!
  if (min !== undefined && typed < Number(min))
    return `“${name}” takes no less than ${min}: ${text.trim()} became ${kept}.`
  if (max !== undefined && typed > Number(max))
    return `“${name}” takes no more than ${max}: ${text.trim()} became ${kept}.`
  if (type === "INT" && !Number.isInteger(typed))
    return `“${name}” takes whole numbers: ${text.trim()} became ${kept}.`
  return ""
}

// So many more; of an INT every digit counts.
export function addTo(value: unknown, more: number, input: InputSpec): number | string | null {
  if (input.type !== "INT") return clampNumber(Number(value) + more, input)
  const now = typeof value === "string" ? value.trim() : Math.round(Number(value))
  if (!/^-?\d+$/.test(String(now)) || !Number.isFinite(more)) return null
  return clampWhole(BigInt(now) + BigInt(Math.round(more)), input.options)
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
  const now = /^-?\d+$/.test(String(value)) ? BigInt(value) : 0n
  return clampWhole(now + (control === "increment" ? 1n : -1n), { min: 0, ...options })
}
