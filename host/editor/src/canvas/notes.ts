// Texts of notes, laid over their nodes: links can be followed, and a double click writes. Everything
// else that the pointer does there is the canvas's.
import { LiteGraph, type LGraphCanvas, type LGraphNode } from "@comfyorg/litegraph"
import { h } from "../page/dom"
import { inkOn } from "../page/ink"
import { markdown, plain } from "../page/markdown"
import { theme } from "../page/theme"
import { openEditor } from "./inline"

const MARGIN = 8

interface Shown {
  body: HTMLElement
  text: string | null
}
const shown = new WeakMap<LGraphNode, Shown>()
const layers = new WeakMap<LGraphCanvas, HTMLElement>()

const noteOf = (node: LGraphNode): any => node.widgets?.find((widget: any) => widget.note)

// The text of a note, which it has below its title.
export function addNote(node: LGraphNode, form: "plain" | "markdown", changed: () => void) {
  const widget: any = {
    type: "multiline",
    name: "text",
    note: form,
    value: "",
    options: {},
    y: 0,
    disabled: true, // takes no clicks: the node is moved by its text, too
    callback: changed,
    computeLayoutSize: () => ({ minHeight: 48, minWidth: 160 }),
    draw(ctx: CanvasRenderingContext2D, on: LGraphNode, _width: number, y: number) {
      if (this.value || this.editing) return
      ctx.globalAlpha = 1
      ctx.font = `12px ${LiteGraph.NODE_FONT}`
      ctx.textAlign = "left"
      ctx.fillStyle = inkOn(on.bgcolor, theme().muted)
      ctx.fillText("Double-click to write a note.", MARGIN + 4, y + 18)
    },
  }
  return node.addCustomWidget(widget)
}

// False where it is no note.
export function editNote(canvas: LGraphCanvas, node: LGraphNode, at?: MouseEvent): boolean {
  const widget = noteOf(node)
  if (!widget) return false
  openEditor(canvas, node, widget, { multiline: true, done: widget.callback, at })
  return true
}

function layerOf(canvas: LGraphCanvas): HTMLElement {
  const known = layers.get(canvas)
  if (known) return known
  const layer = h("div", { class: "notes" })
  canvas.canvas.after(layer)
  layers.set(canvas, layer)
  scrollNotes(canvas)
  return layer
}

// The wheel moves a selected note's text as long as there is more of it that way.
function scrollNotes(canvas: LGraphCanvas) {
  const scroll = (event: WheelEvent) => {
    const [x, y] = canvas.ds.convertCanvasToOffset([event.offsetX, event.offsetY])
    const node = event.ctrlKey ? null : canvas.graph?.getNodeOnPos(x, y)
    const body = node?.selected && shown.get(node)?.body
    if (!body) return
    const before = body.scrollTop
    body.scrollTop += event.deltaY
    if (body.scrollTop === before) return
    markEnds(body)
    event.preventDefault()
    event.stopImmediatePropagation()
  }
  canvas.canvas.addEventListener("wheel", scroll, { capture: true, passive: false })
}

function markEnds(body: HTMLElement) {
  const left = body.scrollHeight - body.clientHeight - body.scrollTop
  body.classList.toggle("goes-on", left > 1)
}

function set(element: HTMLElement, style: Record<string, string>) {
  for (const [name, value] of Object.entries(style))
    if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value)
}

// Nodes that lie over a note hide its text, as they hide all else of it.
function clipOf(box: number[], above: LGraphNode[]): string {
  const [left, top, width, height] = box
  const holes = above
    .map(({ boundingRect: [x, y, w, tall] }) => [x - left, y - top, w, tall])
    .filter(([x, y, w, tall]) => x < width && y < height && x + w > 0 && y + tall > 0)
  if (!holes.length) return "none"
  const rect = ([x, y, w, tall]: number[]) => `M${x} ${y}h${w}v${tall}h${-w}z`
  return `path(evenodd, "${[[0, 0, width, height], ...holes].map(rect).join("")}")`
}

function place(node: LGraphNode, widget: any, above: LGraphNode[]): HTMLElement {
  const entry = shown.get(node) ?? { body: h("div", { class: "note-text" }), text: null }
  shown.set(node, entry)
  const { body } = entry
  const text = String(widget.value ?? "")
  const fresh = entry.text !== text
  if (fresh) {
    body.replaceChildren(...(widget.note === "markdown" ? markdown(text) : [plain(text)]))
    entry.text = text
  }
  const [width, height] = [node.size[0] - 2 * MARGIN, node.size[1] - widget.y - MARGIN]
  const box = [node.pos[0] + MARGIN, node.pos[1] + widget.y, width, height]
  const size = `${width} ${height}`
  set(body, {
    transform: `translate(${box[0]}px, ${box[1]}px)`,
    width: `${width}px`,
    height: `${Math.max(0, height)}px`,
    color: inkOn(node.bgcolor, theme().titleText),
    opacity: node.mode === 0 ? "1" : "0.38", // as pale as the node
    "clip-path": clipOf(box, above),
  })
  if (fresh || body.dataset.size !== size) requestAnimationFrame(() => markEnds(body))
  body.dataset.size = size
  return body
}

// Puts all texts where their nodes are, whenever these are drawn.
export function placeNotes(canvas: LGraphCanvas) {
  const nodes = canvas.graph?.nodes ?? []
  const here = new Set<Element>()
  nodes.forEach((node, i) => {
    const widget = noteOf(node)
    if (widget && !widget.editing && !node.flags.collapsed)
      here.add(place(node, widget, nodes.slice(i + 1)))
  })
  if (!here.size && !layers.has(canvas)) return
  const layer = layerOf(canvas)
  for (const child of [...layer.children]) if (!here.has(child)) child.remove()
  for (const body of here) if (body.parentElement !== layer) layer.append(body)
  const { scale, offset } = canvas.ds
  set(layer, { transform: `scale(${scale}) translate(${offset[0]}px, ${offset[1]}px)` })
}
