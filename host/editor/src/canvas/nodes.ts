// A class of the canvas library for each node that the server has.
import { LGraphNode, LiteGraph } from "@comfyorg/litegraph"
import { viewUrl } from "../server/api"
import { fileOf, isElsewhere } from "./chosen"
import { isShownAtFirst, varyInputs } from "./inputs"
import { buildLoras, isLoraWidget } from "./loras"
import { isLoras, loraFiles } from "../workflow/loras"
import { widgetPlaces, type NodeSpec, type Specs } from "../workflow/schema"
import { theme } from "../page/theme"
import { growNode } from "./room"
import { addWidget, changed, picturesOf, showPictures } from "./widgets"
import { registerVirtual } from "./virtual"

// What the page remembers about a node on the canvas, beside what the library does.
export interface GraftNode extends LGraphNode {
  spec?: NodeSpec
  faults?: { input: string; text: string }[]
  warnings?: string[] // of the last run
  run?: { state: string; value: number; max: number }
  result?: string // the text it gave when it last ran
  grown?: { from: [number, number]; to: [number, number] } // its size before it showed that, and since
}

const HEX_DIM = "66"

export function drawRunState(node: GraftNode, ctx: CanvasRenderingContext2D) {
  const { run } = node
  if (!run || run.state !== "running" || node.flags.collapsed) return
  const t = theme()
  const part = run.max > 0 ? Math.min(1, run.value / run.max) : 0
  ctx.fillStyle = t.accent + HEX_DIM
  ctx.fillRect(0, 0, node.size[0], 3)
  ctx.fillStyle = t.accent
  ctx.fillRect(0, 0, node.size[0] * part, 3)
}

// What an empty node that is large is so large for.
function drawEmpty(node: GraftNode, ctx: CanvasRenderingContext2D) {
  const { spec } = node
  if (!spec?.output || node.flags.collapsed || node.result) return
  if (!spec.inputs.some((input) => input.type === "IMAGE") || picturesOf(node).length) return
  const widgets = node.widgets ?? []
  // A first frame is drawn before anything has its place.
  if (widgets.some(({ computedHeight }) => computedHeight === undefined))
    return node.setDirtyCanvas(true)
  const top = Math.max(0, ...widgets.map((w) => w.y + w.computedHeight!))
  if (node.size[1] - top < 80) return
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "center"
  ctx.fillStyle = theme().muted
  ctx.fillText("The picture appears here.", node.size[0] / 2, (top + node.size[1]) / 2)
  ctx.textAlign = "left"
}

// The widgets that an error points to, or whose value is not there, get a red frame; sockets have a
// mark of their own.
export function drawFaults(node: GraftNode, ctx: CanvasRenderingContext2D) {
  if (node.flags.collapsed) return
  const t = theme()
  ctx.strokeStyle = t.danger
  ctx.lineWidth = 1.5
  for (const widget of node.widgets ?? []) {
    if (!isMissing(widget) && !node.faults?.some(({ input }) => input === widget.name)) continue
    const height = (widget.computedHeight ?? 24) - 4
    ctx.beginPath()
    ctx.roundRect(13, widget.y - 1, node.size[0] - 26, height + 1, height < 30 ? height / 2 : 7)
    ctx.stroke()
  }
}

const hasErrors = (node: GraftNode) =>
  !!node.faults?.length || !!node.has_errors || node.run?.state === "error"

// Frames around each other, so that none hides another: what is wrong, what runs, what is selected.
function strokes(node: GraftNode) {
  const frame = (color: string, lineWidth: number, inner: boolean[]) => ({
    color,
    lineWidth,
    padding: 3 + 4 * inner.filter((there) => there).length,
  })
  const runs = () => node.run?.state === "running"
  node.strokeStyles["error"] = () => (hasErrors(node) ? frame(theme().danger, 2, []) : undefined)
  node.strokeStyles["running"] = () =>
    runs() ? frame(theme().accent, 2, [hasErrors(node)]) : undefined
  node.strokeStyles["selected"] = () =>
    node.selected ? frame(theme().accent, 1.5, [hasErrors(node), runs()]) : undefined
}

export function dress(node: GraftNode) {
  strokes(node)
  // What it shows is kept nowhere: files, copies and Undo have it as large as it is without.
  node.onSerialize = (data) => {
    const { grown, size } = node
    if (grown && size[0] === grown.to[0] && size[1] === grown.to[1]) data.size = [...grown.from]
  }
  node.onDrawForeground = (ctx: CanvasRenderingContext2D) => {
    drawRunState(node, ctx)
    drawEmpty(node, ctx)
  }
}

// As wide as the longest name of a widget and its value need, within reason.
function roomFor(node: GraftNode): number {
  const lengths = (node.widgets ?? [])
    .filter((widget) => /^(combo|number|text)$/.test(widget.type) && !widget.hidden)
    .map((widget) => (widget.label ?? widget.name).length + String(widget.value ?? "").length)
  return Math.min(400, 104 + 6.6 * Math.max(0, ...lengths))
}

// Wide enough for the values that it has now.
export function widen(node: GraftNode) {
  const width = node.spec ? roomFor(node) : 0
  if (width > node.size[0]) node.setSize([width, node.size[1]])
}

// High enough for its widgets, which another editor may have drawn lower. Pictures make room for
// themselves.
export function heighten(node: GraftNode) {
  const height = node.spec && !node.flags.collapsed && !node.grown ? node.computeSize()[1]! : 0
  if (height > node.size[1]) growNode(node, [node.size[0], height])
}

// A value that its list does not have: a model that this server lacks, say.
export function isMissing(widget: any): boolean {
  if (isLoraWidget(widget)) return widget.isMissing()
  const values = widget.options?.values
  return (
    widget.type === "combo" &&
    !widget.computedDisabled &&
    Array.isArray(values) &&
    !values.includes(widget.value) &&
    !(widget.anyFolder && isElsewhere(widget.value))
  )
}

function build(node: GraftNode, spec: NodeSpec, specs: Specs) {
  node.spec = spec
  node.serialize_widgets = true
  node.properties["Node name for S&R"] = spec.name
  for (const input of spec.inputs) {
    if (input.widget || !isShownAtFirst(input)) continue
    const slot = node.addInput(input.name, input.type)
    if (input.optional) slot.shape = LiteGraph.CIRCLE_SHAPE + 4 // a hollow circle
    if (input.options.tooltip) Object.assign(slot, { tooltip: input.options.tooltip })
  }
  for (const place of widgetPlaces(spec)) {
    const widget = addWidget(node, place)
    if (place.kind !== "value") continue
    widget.tooltip = place.input.options.tooltip
    widget.advanced = place.input.options.advanced
    if (!place.input.options.socketless)
      node.addInput(place.name, place.input.type, { widget: { name: place.name } })
  }
  for (const output of spec.outputs) node.addOutput(output.name, output.type)
  if (isLoras(spec.name)) buildLoras(node, loraFiles(specs))
  watchUpload(node, spec)
  dress(node)
  varyInputs(node, spec, () => changed(node))
  const [width, height] = node.computeSize()
  const texts = spec.inputs.filter((input) => input.widget && input.options.multiline).length
  const title = 2 * LiteGraph.NODE_TITLE_HEIGHT + 7.6 * spec.title.length
  const least = Math.max(width, texts ? 320 : 240, Math.min(400, title))
  node.setSize([Math.max(least, roomFor(node)), height + (texts ? 40 : 0)])
}

// Files and Undo have a node as large as it is without its picture. The canvas library makes room
// for that by itself, but then it would count as a size that somebody has given the node.
function holdPicture(node: GraftNode) {
  const from: [number, number] = [node.size[0], node.size[1]]
  const least = node.computeSize()
  const to: [number, number] = [Math.max(from[0], least[0]), Math.max(from[1], least[1])]
  node.grown = undefined
  if (to[0] === from[0] && to[1] === from[1]) return
  node.setSize(to)
  node.grown = { from, to }
}

// A node that loads a picture shows the one chosen.
function watchUpload(node: GraftNode, spec: NodeSpec) {
  const input = spec.inputs.find((candidate) => candidate.options.image_upload)
  const widget: any = node.widgets?.find((w) => w.name === input?.name)
  if (!input || !widget) return
  const folder = input.options.image_folder ?? "input"
  widget.anyFolder = true
  const show = () => {
    const file = fileOf(widget.value, folder)
    if (file) showPictures(node, [viewUrl(file)])
  }
  const before = widget.callback
  widget.callback = (...given: unknown[]) => {
    before?.apply(widget, given)
    show()
  }
  node.onConfigure = () => {
    show()
    holdPicture(node)
  }
  if (widget.value) show()
}

export function registerNodes(specs: Specs) {
  LiteGraph.clearRegisteredTypes()
  for (const spec of specs.values()) {
    class Node extends LGraphNode {
      static title = spec.title
      constructor(title: string) {
        super(title || spec.title, spec.name)
        build(this as GraftNode, spec, specs)
      }
    }
    LiteGraph.registerNodeType(spec.name, Node as any)
    Object.assign(Node, { category: spec.category, title: spec.title })
  }
  registerVirtual()
}
