// The rows of rgthree's loader of LoRAs: a switch, the file, how strong it is, a cross to remove it.
// A value is never changed in place: what was saved before shares it.
import { LiteGraph, type LGraphCanvas, type LGraphNode } from "@comfyorg/litegraph"
import { theme } from "../page/theme"
import { rowName, rowsOf, type LoraRow } from "../workflow/loras"
import { openEditor } from "./inline"
import { openPicker } from "./picker"
import { changed, roundButton } from "./widgets"

const MARGIN = 15
const HEIGHT = 20
const STEP = 0.05
const NONE = "None"

// Widths from the right edge of a row.
const CROSS = 22
const ARROW = 14
const NUMBER = 40
const STRENGTH = 2 * ARROW + NUMBER

export const isLoraWidget = (widget: any): boolean => widget.type === "lora"

// By its name alone, as the server looks for it, too.
const stem = (name: unknown) =>
  String(name)
    .split(/[\\/]/)
    .at(-1)!
    .replace(/\.safetensors$|\.sft$/, "")

export const strengthsOf = ({ value }: { value: LoraRow }): number[] =>
  typeof value.strengthTwo === "number"
    ? [value.strength ?? 1, value.strengthTwo]
    : [value.strength ?? 1]

// The node's files are one list, which follows what the server has.
export function buildLoras(node: LGraphNode, files: (string | number)[]) {
  const configure = node.configure.bind(node)
  const add = node.addWidget("button", "add", "", () => {}, {}) as any
  Object.assign(add, { label: "Add LoRA…", serialize: false, files })
  const chosen = (lora: string) => addLora(node, lora)
  add.onClick = ({ e }: { e: PointerEvent }) => pick(node, add, e, NONE, chosen)
  roundButton(add)
  node.configure = (info: any) => {
    node.widgets = [add]
    for (const row of rowsOf(info.widgets_values)) addRow(node, add, row)
    configure(info)
    fit(node)
  }
}

const addOf = (node: LGraphNode): any => node.widgets?.find((w) => w.name === "add")
export const loraChoices = (node: LGraphNode): (string | number)[] => [NONE, ...addOf(node).files]
export const lorasOf = (node: LGraphNode): any[] => (node.widgets ?? []).filter(isLoraWidget)

function fit(node: LGraphNode) {
  const [width, height] = node.computeSize()
  node.setSize([Math.max(width, node.size[0]), Math.max(height, node.size[1])])
  node.setDirtyCanvas(true, true)
}

export function addLora(node: LGraphNode, lora: string) {
  const two = node.properties?.["Show Strengths"] === "Separate Model & Clip" ? 1 : null
  addRow(node, addOf(node), { on: true, lora, strength: 1, strengthTwo: two })
  fit(node)
  changed(node)
}

export function removeLora(node: LGraphNode, widget: any) {
  node.widgets = node.widgets!.filter((w) => w !== widget)
  lorasOf(node).forEach((row, i) => (row.name = rowName(i)))
  node.setSize([node.size[0], node.computeSize()[1]])
  node.setDirtyCanvas(true, true)
  changed(node)
}

export function setLora(node: LGraphNode, widget: any, more: Partial<LoraRow>) {
  widget.value = { ...widget.value, ...more }
  node.setDirtyCanvas(true)
  changed(node)
}

function pick(
  node: LGraphNode,
  widget: any,
  at: { clientX: number; clientY: number },
  value: unknown,
  done: (lora: string) => void,
) {
  const place = { x: at.clientX - 24, y: at.clientY + 8 }
  const values = loraChoices(node)
  openPicker({ label: widget.name, values, value, at: place, pick: (lora) => done(String(lora)) })
}

function addRow(node: LGraphNode, add: any, row: LoraRow) {
  const widget: any = {
    type: "lora",
    name: rowName(lorasOf(node).length),
    value: row,
    options: { socketless: true },
    y: 0,
    computeSize: () => [300, HEIGHT],
    isMissing: () => isMissing(widget.value, add.files),
    draw: (ctx: CanvasRenderingContext2D, _on: LGraphNode, width: number, y: number) =>
      drawRow(ctx, widget, width, y),
    onPointerDown(pointer: any, on: LGraphNode, canvas: LGraphCanvas) {
      pointer.onClick = (event: any) => press(on, widget, event, canvas)
      return true
    },
  }
  node.addCustomWidget(widget)
  node.widgets = [...node.widgets!.filter((w) => w !== add), add]
}

function isMissing({ on, lora }: LoraRow, files: (string | number)[]): boolean {
  if (!on || !lora || lora === NONE) return false
  return !files.includes(lora) && !files.some((file) => stem(file) === stem(lora))
}

// What is at this place of a row: of numbers also which, and on which side.
function partAt(widget: any, x: number, width: number): { part: string; at: number; way: number } {
  const count = strengthsOf(widget).length
  const right = width - MARGIN - CROSS
  if (x >= right) return { part: "cross", at: 0, way: 0 }
  if (x < MARGIN + 30) return { part: "switch", at: 0, way: 0 }
  const from = right - count * STRENGTH
  if (x < from) return { part: "file", at: 0, way: 0 }
  const at = Math.min(count - 1, Math.floor((x - from) / STRENGTH))
  const inside = x - from - at * STRENGTH
  return { part: "strength", at, way: inside < ARROW ? -1 : inside >= ARROW + NUMBER ? 1 : 0 }
}

function press(node: LGraphNode, widget: any, event: any, canvas: LGraphCanvas) {
  const { part, at, way } = partAt(widget, event.canvasX - node.pos[0], node.size[0])
  const row: LoraRow = widget.value
  if (part === "cross") return removeLora(node, widget)
  if (part === "switch") return setLora(node, widget, { on: !row.on })
  if (part === "file")
    return pick(node, widget, event, row.lora ?? NONE, (lora) => setLora(node, widget, { lora }))
  const key = at ? "strengthTwo" : "strength"
  const now = strengthsOf(widget)[at]
  const set = (value: number) => setLora(node, widget, { [key]: value })
  if (way) return set(Number((now + way * STEP).toFixed(6)))
  openEditor(canvas, node, widget, {
    value: String(now),
    done: (text) => {
      const value = Number(text)
      if (text.trim() && Number.isFinite(value)) set(value)
    },
  })
}

function drawRow(ctx: CanvasRenderingContext2D, widget: any, width: number, y: number) {
  const t = theme()
  const row: LoraRow = widget.value
  const strengths = strengthsOf(widget)
  ctx.save()
  ctx.beginPath()
  ctx.roundRect(MARGIN, y, width - 2 * MARGIN, HEIGHT, HEIGHT / 2)
  ctx.fillStyle = t.field
  ctx.fill()
  ctx.strokeStyle = t.fieldLine
  ctx.lineWidth = 1
  ctx.stroke()
  ctx.beginPath()
  ctx.arc(MARGIN + 12, y + HEIGHT / 2, 6, 0, 2 * Math.PI)
  ctx.fillStyle = row.on ? t.accent : t.fieldLine
  ctx.fill()
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  ctx.fillStyle = row.on ? t.titleText : t.muted
  const middle = y + HEIGHT / 2 + 4
  const right = width - MARGIN - CROSS
  const from = right - strengths.length * STRENGTH
  ctx.textAlign = "center"
  ctx.fillText("×", right + CROSS / 2 - 4, middle)
  strengths.forEach((strength, i) => {
    const left = from + i * STRENGTH
    ctx.fillText("◂", left + ARROW / 2, middle)
    ctx.fillText(strength.toFixed(2), left + ARROW + NUMBER / 2, middle, NUMBER)
    ctx.fillText("▸", left + ARROW + NUMBER + ARROW / 2, middle)
  })
  ctx.beginPath()
  ctx.rect(MARGIN + 26, y, Math.max(0, from - MARGIN - 30), HEIGHT)
  ctx.clip()
  ctx.textAlign = "left"
  ctx.fillText(String(row.lora ?? NONE), MARGIN + 26, middle)
  ctx.restore()
}
