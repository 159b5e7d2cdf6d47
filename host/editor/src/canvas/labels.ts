// rgthree's labels: a node's title as nothing but text on the canvas, drawn as its properties say.
import { LGraphNode, LiteGraph, type LGraphCanvas } from "@comfyorg/litegraph"
import { contrast } from "../page/ink"
import { theme } from "../page/theme"
import { openEditor } from "./inline"
import { changed } from "./widgets"

const TYPE = "Label (rgthree)"
const READABLE = 1.5 // contrast of a text that was chosen for a canvas of another colour

export class Label extends LGraphNode {
  static title_mode = LiteGraph.NO_TITLE
  constructor(title: string) {
    super(title || "Label", TYPE)
    this.resizable = false
    this.properties = {
      fontSize: 12,
      fontFamily: "Arial",
      fontColor: "#ffffff",
      textAlign: "left",
      backgroundColor: "transparent",
      padding: 0,
      borderRadius: 0,
    }
  }
}

const within = (value: unknown, least: number, most: number, otherwise: number) => {
  const number = Number(value)
  return Number.isFinite(number) ? Math.min(most, Math.max(least, number)) : otherwise
}

// A canvas takes no colour that it cannot read: the one before would stay.
function isColour(text: string): boolean {
  return CSS.supports("color", text)
}

function paper(ctx: CanvasRenderingContext2D, node: LGraphNode): boolean {
  const colour = String(node.properties.backgroundColor ?? "")
  if (!isColour(colour) || colour === "transparent") return false
  ctx.beginPath()
  ctx.roundRect(0, 0, node.size[0], node.size[1], within(node.properties.borderRadius, 0, 1e3, 0))
  ctx.fillStyle = colour
  ctx.fill()
  return true
}

// The author's colour, unless it cannot be seen on this canvas.
function ink(node: LGraphNode, onPaper: boolean): string {
  const colour = String(node.properties.fontColor ?? "")
  if (!isColour(colour)) return theme().titleText
  return !onPaper && contrast(colour, theme().background) < READABLE ? theme().titleText : colour
}

export function drawLabel(node: LGraphNode, ctx: CanvasRenderingContext2D) {
  const { properties } = node
  const size = within(properties.fontSize, 1, 1e3, 12)
  const padding = within(properties.padding, 0, 1e3, 0)
  const lines = String(node.title ?? "")
    .replace(/\n+$/, "")
    .split("\n")
  ctx.save()
  ctx.shadowColor = "transparent"
  ctx.font = `${size}px Arial`
  ctx.font = `${size}px ${properties.fontFamily ?? "Arial"}` // left as it was where this is no font
  const width = Math.max(...lines.map((line) => ctx.measureText(line).width))
  node.size = [width + 2 * padding, size * lines.length + 2 * padding]
  const align = ["center", "right"].includes(String(properties.textAlign))
    ? (properties.textAlign as "center" | "right")
    : "left"
  const x = { left: padding, center: node.size[0] / 2, right: node.size[0] - padding }[align]
  ctx.fillStyle = ink(node, paper(ctx, node))
  ctx.textAlign = align
  ctx.textBaseline = "top"
  lines.forEach((line, i) => ctx.fillText(line, x, padding + i * size))
  if (node.selected) {
    ctx.strokeStyle = theme().accent
    ctx.lineWidth = 1.5
    ctx.strokeRect(-3, -3, node.size[0] + 6, node.size[1] + 6)
  }
  ctx.restore()
}

// False where it is no label.
export function editLabel(canvas: LGraphCanvas, node: LGraphNode, at?: MouseEvent): boolean {
  if (node.type !== TYPE) return false
  const place: any = { name: "Text", y: 0, width: Math.max(240, node.size[0] + 60) }
  place.computedHeight = node.size[1] + 40
  const done = (text: string) => {
    node.title = text || TYPE
    changed(node)
  }
  openEditor(canvas, node, place, { multiline: true, value: node.title, done, at })
  return true
}

export const isLabel = (node: LGraphNode) => node.type === TYPE
