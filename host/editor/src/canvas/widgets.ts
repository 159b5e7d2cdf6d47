// What stands on a node and lets its values be set.
import { LiteGraph, type LGraphCanvas, type LGraphNode } from "@comfyorg/litegraph"
import * as api from "../server/api"
import { h, toast } from "../page/dom"
import { openEditor } from "./inline"
import { isLinked } from "./linked"
import type { GraftNode } from "./nodes"
import { openPicker } from "./picker"
import { growNode } from "./room"
import { CONTROLS, defaultValue, type InputSpec, type WidgetPlace } from "../workflow/schema"
import { theme } from "../page/theme"
import { addTo, clampNumber, notTaken, showNumber, tidyFloat, wrapText } from "../workflow/values"

const MARGIN = 15
const LINE = 15

export interface Hooks {
  changed(node: LGraphNode): void
  moved(): void // by no hand: a node grew
  hint(text: string): void // of what was typed not all was taken
}
let hooks: Hooks = { changed() {}, moved() {}, hint() {} }
export function setHooks(given: Hooks) {
  hooks = given
}
export const changed = (node: LGraphNode) => hooks.changed(node)

function addNumber(node: LGraphNode, input: InputSpec) {
  const { options } = input
  const step = options.step ?? (input.type === "INT" ? 1 : 0.1)
  const kind = options.display === "slider" ? "slider" : "number"
  const widget: any = node.addWidget(
    kind as "number",
    input.name,
    defaultValue(input) as number,
    () => hooks.changed(node),
    {
      min: options.min === undefined ? undefined : Number(options.min),
      max: options.max === undefined ? undefined : Number(options.max),
      step2: step,
      step: step * 10,
      precision: input.type === "INT" ? 0 : Math.max(1, Math.ceil(-Math.log10(step))),
    },
  )
  Object.defineProperty(widget, "_displayValue", {
    get: () => (widget.computedDisabled ? "" : showNumber(widget.value, input)),
  })
  const set = widget.setValue.bind(widget)
  widget.setValue = (value: any, where: any) => {
    const clean = clampNumber(value, input)
    if (clean === null || clean === widget.value) return
    if (typeof clean === "string") {
      widget.value = clean // the library would make it a number, which has not all of its digits
      widget.callback?.(clean)
      return
    }
    const { round } = options
    const grain = round === false ? 1e-9 : round || step // false: every digit counts
    const tidy =
      typeof clean === "number" && input.type === "FLOAT" ? tidyFloat(clean, grain) : clean
    set(tidy as number, where)
  }
  if (kind === "number") exactly(node, widget, input, step)
  return widget
}

// Arrows, dragging and typing as the library has them, but with every digit.
function exactly(node: LGraphNode, widget: any, input: InputSpec, step: number) {
  const side = (e: any) => {
    const x = e.canvasX - node.pos[0]
    return x < 40 ? -1 : x > (widget.width || node.size[0]) - 40 ? 1 : 0
  }
  const add = (steps: number, where: any) => {
    const sum = addTo(widget.value, steps * step, input)
    if (sum !== null) widget.setValue(sum, where)
  }
  widget.onClick = (where: any) => {
    const way = side(where.e)
    if (way) add(way, where)
    else
      where.canvas.prompt(
        "Value",
        widget.value,
        (text: string) => {
          widget.setValue(text, where)
          hooks.hint(notTaken(text, input))
        },
        where.e,
      )
  }
  widget.onDrag = (where: any) => {
    const x = where.e.canvasX - node.pos[0]
    const inside = x > -3 && x < (widget.width || node.size[0]) + 3
    if (!side(where.e) || !inside) add(where.e.deltaX ?? 0, where)
  }
}

function addCombo(node: LGraphNode, input: InputSpec) {
  return choiceWidget(node, input.name, defaultValue(input) as string, input.choices ?? [])
}

// A combo with a list of our own: the library's has no filter, and does not show what is chosen.
function choiceWidget(
  node: LGraphNode,
  name: string,
  value: string,
  values: (string | number)[],
): any {
  const widget: any = node.addWidget("combo", name, value, () => hooks.changed(node), {
    values: values as string[],
  })
  const arrows = widget.onClick.bind(widget)
  widget.onClick = (where: any) => {
    const x = where.e.canvasX - node.pos[0]
    if (x < 40 || x > (widget.width || node.size[0]) - 40) return arrows(where)
    const pick = (chosen: string | number) => widget.setValue(chosen, where)
    const at = { x: where.e.clientX - 24, y: where.e.clientY + 8 }
    openPicker({ label: name, values: widget.options.values, value: widget.value, at, pick })
  }
  return widget
}

function addToggle(node: LGraphNode, input: InputSpec) {
  return node.addWidget("toggle", input.name, !!defaultValue(input), () => hooks.changed(node), {
    on: input.options.label_on ?? "yes",
    off: input.options.label_off ?? "no",
  })
}

// In the lower right corner of a field, whose text says what it holds but not what for.
function drawName(ctx: CanvasRenderingContext2D, name: string, right: number, bottom: number) {
  ctx.font = `10px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "right"
  ctx.fillStyle = theme().muted
  ctx.fillText(name, right - 8, bottom - 7)
}

function drawText(
  ctx: CanvasRenderingContext2D,
  widget: any,
  width: number,
  y: number,
  hint: string,
  name: string, // "" where there is only one such field
) {
  const t = theme()
  const height = widget.computedHeight - 6
  ctx.beginPath()
  ctx.roundRect(MARGIN, y, width - 2 * MARGIN, height, 6)
  ctx.fillStyle = t.field
  ctx.fill()
  ctx.strokeStyle = t.fieldLine
  ctx.lineWidth = 1
  ctx.stroke()
  if (widget.editing) return
  if (name) drawName(ctx, name, width - MARGIN, y + height)
  ctx.save()
  ctx.clip()
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "left"
  const text = String(widget.value ?? "")
  ctx.fillStyle = text ? t.titleText : t.muted
  const room = width - 2 * MARGIN - 18
  const lines = wrapText(ctx, text || hint, room, Math.ceil(height / LINE))
  lines.forEach((line, i) => ctx.fillText(line, MARGIN + 9, y + 18 + i * LINE))
  ctx.restore()
}

function addText(node: LGraphNode, input: InputSpec) {
  const written = () => hooks.changed(node)
  if (!input.options.multiline)
    return node.addWidget("text", input.name, String(defaultValue(input)), written, {})
  const hint = input.options.placeholder ?? input.name
  const widget: any = {
    type: "multiline",
    name: input.name,
    value: String(defaultValue(input)),
    options: {},
    y: 0,
    computeLayoutSize: () => ({ minHeight: 64, minWidth: 220 }),
    draw(ctx: CanvasRenderingContext2D, on: LGraphNode, width: number, y: number) {
      const several =
        (on.widgets ?? []).filter((w) => (w.type as string) === "multiline").length > 1
      drawText(ctx, this, width, y, hint, several && this.value ? input.name : "")
    },
    onPointerDown(pointer: any, on: LGraphNode, canvas: LGraphCanvas) {
      pointer.onClick = (event: PointerEvent) =>
        openEditor(canvas, on, widget, { multiline: true, done: written, at: event })
      return true
    },
  }
  return node.addCustomWidget(widget)
}

function addControl(node: LGraphNode, of: string) {
  const widget = choiceWidget(node, "control_after_generate", "randomize", CONTROLS)
  widget.tooltip = "What becomes of the value above once a run was queued."
  const get = () => isLinked(node, of) // it has the say then
  Object.defineProperty(widget, "disabled", { get, set() {} })
  return widget
}

function addUpload(node: LGraphNode, target: any) {
  const widget: any = node.addWidget("button", "upload", "image", () => pickFile(node, target), {})
  widget.label = "Choose a picture…"
  roundButton(widget)
  return widget
}

// As round as the other widgets, which the library's own is not.
export function roundButton(widget: any) {
  widget.drawWidget = (ctx: CanvasRenderingContext2D, { width }: { width: number }) => {
    const { height, y } = widget
    ctx.beginPath()
    ctx.roundRect(MARGIN, y, width - 2 * MARGIN, height, height / 2)
    ctx.fillStyle = theme().field
    ctx.fill()
    ctx.strokeStyle = theme().fieldLine
    ctx.stroke()
    widget.drawLabel(ctx, width / 2)
    ctx.textAlign = "left"
  }
}

function pickFile(node: LGraphNode, target: any) {
  const input = h("input", { type: "file", accept: "image/*" })
  input.onchange = () => {
    if (input.files?.[0]) void uploadTo(node, target, input.files[0])
  }
  input.click()
}

// False when the server would not have it.
export async function uploadTo(node: LGraphNode, widget: any, file: File): Promise<boolean> {
  try {
    const uploaded = await api.uploadImage(file)
    const spec = (node as GraftNode).spec?.inputs.find((input) => input.name === widget.name)
    const folder = spec?.options.image_folder ?? "input"
    const name = folder === "input" ? uploaded : `${uploaded} [input]`
    if (!widget.options.values.includes(name)) widget.options.values.push(name)
    widget.value = name
    widget.callback?.(name)
    node.setDirtyCanvas(true)
    return true
  } catch (error) {
    toast((error as Error).message, "error")
    return false
  }
}

// Adds the widgets that `place` asks for; returns it.
export function addWidget(node: LGraphNode, place: WidgetPlace): any {
  const { input } = place
  if (place.kind === "control") return addControl(node, input.name)
  if (place.kind === "filter")
    return node.addWidget("text", place.name, "", () => hooks.changed(node), {})
  if (place.kind === "upload")
    return addUpload(
      node,
      node.widgets?.find((w) => w.name === input.name),
    )
  switch (input.type) {
    case "INT":
    case "FLOAT":
      return addNumber(node, input)
    case "BOOLEAN":
      return addToggle(node, input)
    case "COMBO":
      return addCombo(node, input)
    default:
      return addText(node, input)
  }
}

// For what a node shows: nothing else is hidden by it.
export function grow(node: GraftNode, size: [number, number]) {
  const from: [number, number] = node.grown?.from ?? [node.size[0], node.size[1]]
  if (growNode(node, size)) hooks.moved()
  const to: [number, number] = [node.size[0], node.size[1]]
  if (to[0] !== from[0] || to[1] !== from[1]) node.grown = { from, to }
}

// The pictures of a node, below its other widgets; without pictures it takes no room.
export function pictureWidget(node: LGraphNode): any {
  const known = node.widgets?.find((w) => w.name === "$pictures")
  if (known) return known
  const widget: any = {
    type: "pictures",
    name: "$pictures",
    value: null,
    serialize: false,
    options: { socketless: true },
    y: 0,
    pictures: [] as HTMLImageElement[],
    drawn: [] as HTMLImageElement[], // until all of them are loaded, the ones before
    words: "", // in place of pictures that could not be read at this size
    computeLayoutSize() {
      const height = !this.pictures.length ? 0 : this.words ? 44 : 180
      return { minHeight: height, maxHeight: height === 180 ? undefined : height, minWidth: 160 }
    },
    draw(ctx: CanvasRenderingContext2D, _node: LGraphNode, width: number, y: number) {
      if (this.words) return drawWords(ctx, this.words, width, y + 4, this.computedHeight - 12)
      const ready = this.pictures.filter((picture: HTMLImageElement) => isLoaded(picture))
      const settled = this.pictures.every((picture: HTMLImageElement) => picture.complete)
      if (settled || !this.drawn.length) this.drawn = ready
      if (settled && !ready.length && this.pictures.length)
        return drawWords(ctx, "damaged, or not a picture", width, y + 4, 36)
      drawPictures(ctx, this.drawn, 10, y + 4, width - 20, this.computedHeight - 12)
    },
    disabled: true, // takes no clicks: the node is moved by its pictures, too
  }
  node.addCustomWidget(widget)
  return widget
}

function drawWords(
  ctx: CanvasRenderingContext2D,
  words: string,
  width: number,
  y: number,
  height: number,
) {
  ctx.globalAlpha = 1 // the library draws what takes no clicks paler
  ctx.beginPath()
  ctx.roundRect(MARGIN, y, width - 2 * MARGIN, height, 6)
  ctx.fillStyle = theme().field
  ctx.fill()
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "center"
  ctx.fillStyle = theme().text
  ctx.fillText(words, width / 2, y + height / 2 + 4, width - 2 * MARGIN - 12)
  ctx.textAlign = "left"
}

// So that square pictures are as large as they can be.
function columnsOf(count: number, width: number, height: number): number {
  const side = (columns: number) => Math.min(width / columns, height / Math.ceil(count / columns))
  let best = 1
  for (let columns = 2; columns <= count; columns++) if (side(columns) > side(best)) best = columns
  return best
}

// The addresses of what a node shows.
export function picturesOf(node: LGraphNode): string[] {
  const widget: any = node.widgets?.find((w) => w.name === "$pictures")
  return (widget?.pictures ?? []).map((picture: HTMLImageElement) => picture.src)
}

// Which of them is at a point of the canvas; -1 when none is.
export function pictureAt(node: LGraphNode, x: number, y: number): number {
  const widget: any = node.widgets?.find((w) => w.name === "$pictures")
  const count = widget?.pictures.length ?? 0
  const [width, height] = [node.size[0] - 20, (widget?.computedHeight ?? 0) - 12]
  const [right, down] = [x - node.pos[0] - 10, y - node.pos[1] - (widget?.y ?? 0) - 4]
  if (!count || node.flags.collapsed || right < 0 || down < 0 || right >= width || down >= height)
    return -1
  const columns = columnsOf(count, width, height)
  const rows = Math.ceil(count / columns)
  const at = Math.floor((down / height) * rows) * columns + Math.floor((right / width) * columns)
  return at < count ? at : -1
}

const isLoaded = (picture: HTMLImageElement) => picture.complete && picture.naturalWidth > 0

function drawPictures(
  ctx: CanvasRenderingContext2D,
  ready: HTMLImageElement[],
  x: number,
  y: number,
  width: number,
  height: number,
) {
  if (!ready.length || height < 8) return
  ctx.globalAlpha = 1 // the library draws what takes no clicks paler
  const columns = columnsOf(ready.length, width, height)
  const rows = Math.ceil(ready.length / columns)
  const cell = { width: width / columns, height: height / rows }
  ready.forEach((picture, i) => {
    const gap = ready.length > 1 ? 4 : 0
    const scale = Math.min(
      (cell.width - gap) / picture.naturalWidth,
      (cell.height - gap) / picture.naturalHeight,
    )
    const w = picture.naturalWidth * scale
    const tall = picture.naturalHeight * scale
    const left = x + (i % columns) * cell.width + (cell.width - w) / 2
    const top = y + Math.floor(i / columns) * cell.height + (cell.height - tall) / 2
    // Small pictures grow by whole pixels: a 64-pixel picture should look crisp, not smeared. Not so
    // a preview, whose few pixels are the latent's: it is a sketch of what comes.
    ctx.imageSmoothingEnabled = scale < 2 || picture.src.startsWith("blob:")
    ctx.imageSmoothingQuality = "high"
    ctx.save()
    ctx.beginPath()
    ctx.roundRect(left, top, w, tall, 5)
    ctx.clip()
    ctx.drawImage(picture, left, top, w, tall)
    ctx.restore()
    ctx.strokeStyle = theme().fieldLine // white ones end somewhere, too
    ctx.lineWidth = 1
    ctx.stroke()
    if (picture.src.startsWith("blob:")) drawCaption(ctx, "preview", left + w, top + tall)
  })
  ctx.imageSmoothingEnabled = true
}

// In the lower right corner of a picture that is not the result.
function drawCaption(ctx: CanvasRenderingContext2D, text: string, right: number, bottom: number) {
  ctx.font = `10px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "center"
  const width = ctx.measureText(text).width + 12
  ctx.fillStyle = "rgb(16 19 22 / 70%)"
  ctx.beginPath()
  ctx.roundRect(right - width - 5, bottom - 21, width, 16, 8)
  ctx.fill()
  ctx.fillStyle = "#e6eaed"
  ctx.fillText(text, right - width / 2 - 5, bottom - 9.5)
  ctx.textAlign = "left"
}

export const wordsOf = (node: LGraphNode): string =>
  (node.widgets?.find((w) => w.name === "$pictures") as any)?.words ?? ""

export function showPictures(node: LGraphNode, urls: string[], words = "") {
  const widget = pictureWidget(node)
  const had = widget.pictures.length > 0 && widget.words === words
  widget.words = words
  widget.pictures = urls.map((url) => {
    const picture = new Image()
    picture.onload = picture.onerror = () => node.setDirtyCanvas(true)
    picture.src = url
    return picture
  })
  if (urls.length && !had) {
    const least = node.computeSize()
    grow(node as GraftNode, [Math.max(node.size[0], least[0]), Math.max(node.size[1], least[1])])
  }
  if (!urls.length || !had) node.setDirtyCanvas(true, true) // else once they are loaded
}
