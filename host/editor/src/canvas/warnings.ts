// The mark on a node that was warned of, or that is at fault, and the text behind it.
import { LiteGraph } from "@comfyorg/litegraph"
import type { GraftNode } from "./nodes"
import { theme } from "../page/theme"

const SIZE = 16
const RIGHT = 12 // from the node's edge

// What is to be read behind a node's mark, "" for a node without one.
export function markText(node: GraftNode): string {
  return [...(node.faults ?? []).map((fault) => fault.text), ...(node.warnings ?? [])].join("\n")
}

function placeOf(node: GraftNode): [number, number] {
  const x = node.renderingSize[0] - RIGHT - SIZE
  return [x, -LiteGraph.NODE_TITLE_HEIGHT / 2 - SIZE / 2]
}

export function drawMark(node: GraftNode, ctx: CanvasRenderingContext2D) {
  if (!markText(node)) return
  const t = theme()
  const [x, y] = placeOf(node)
  ctx.save()
  ctx.fillStyle = t.title // a long name would run into it
  ctx.fillRect(x - 6, y - 2, SIZE + 10, SIZE + 4)
  ctx.beginPath()
  ctx.moveTo(x + SIZE / 2, y + 1)
  ctx.lineTo(x + SIZE, y + SIZE - 1)
  ctx.lineTo(x, y + SIZE - 1)
  ctx.closePath()
  ctx.fillStyle = node.faults?.length ? t.danger : t.warning
  ctx.lineJoin = "round"
  ctx.fill()
  ctx.strokeStyle = t.title
  ctx.lineWidth = 1.8
  ctx.lineCap = "round"
  ctx.beginPath()
  ctx.moveTo(x + SIZE / 2, y + 6)
  ctx.lineTo(x + SIZE / 2, y + 9.5)
  ctx.moveTo(x + SIZE / 2, y + 12.4)
  ctx.lineTo(x + SIZE / 2, y + 12.5)
  ctx.stroke()
  ctx.restore()
}

// Whether a point of the canvas is on a node's mark, or next to it: it is small.
export function isOnMark(node: GraftNode, x: number, y: number): boolean {
  const [left, top] = placeOf(node)
  const [right, down] = [x - node.pos[0] - left, y - node.pos[1] - top]
  return right >= -6 && down >= -6 && right <= SIZE + 6 && down <= SIZE + 6
}
