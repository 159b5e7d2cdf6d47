// How nodes that do not run, and groups, look on the canvas.
import { LGraphCanvas, LGraphGroup, LiteGraph } from "@comfyorg/litegraph"
import { drawFaults, type GraftNode } from "./nodes"
import { theme, typeColor } from "./theme"
import { drawMark } from "./warnings"

export const MUTED = 2
export const BYPASSED = 4
const WORDS: Record<number, string> = { [MUTED]: "muted", [BYPASSED]: "bypassed" }

// Pale, and with a word that says why.
function veil(node: GraftNode, ctx: CanvasRenderingContext2D) {
  const word = WORDS[node.mode]
  if (!word) return
  const t = theme()
  const title = LiteGraph.NODE_TITLE_HEIGHT
  const [width, height] = node.renderingSize
  ctx.save()
  ctx.globalAlpha = 0.62
  ctx.fillStyle = t.background
  ctx.beginPath()
  ctx.roundRect(
    0,
    -title,
    width,
    node.flags.collapsed ? title : height + title,
    LiteGraph.ROUND_RADIUS,
  )
  ctx.fill()
  ctx.restore()
  if (node.flags.collapsed) return
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "right"
  ctx.fillStyle = t.titleText
  ctx.fillText(word, width - 10, -title / 2 + 4)
  ctx.textAlign = "left"
}

function drawGroup(group: LGraphGroup, canvas: LGraphCanvas, ctx: CanvasRenderingContext2D) {
  const t = theme()
  const [x, y] = group.pos
  const [width, height] = group.size
  const colour = group.color || LGraphGroup.defaultColour
  ctx.save()
  ctx.fillStyle = ctx.strokeStyle = colour
  ctx.beginPath()
  ctx.roundRect(x, y, width, height, LiteGraph.ROUND_RADIUS)
  ctx.globalAlpha = 0.14 * canvas.editor_alpha
  ctx.fill()
  ctx.globalAlpha = (group.selected ? 1 : 0.55) * canvas.editor_alpha
  ctx.lineWidth = group.selected ? 2 : 1
  ctx.stroke()
  ctx.beginPath() // the corner that sizes it
  ctx.moveTo(x + width - 4, y + height - 12)
  ctx.lineTo(x + width - 12, y + height - 4)
  ctx.stroke()
  ctx.globalAlpha = canvas.editor_alpha
  ctx.fillStyle = t.titleText
  ctx.font = `600 ${Math.round(group.titleHeight * 0.42)}px ${LiteGraph.NODE_FONT}`
  ctx.textAlign = "left"
  const name = group.title + (group.pinned ? " (pinned)" : "")
  ctx.fillText(name, x + 14, y + group.titleHeight * 0.68, width - 28)
  ctx.restore()
}

const ASIDE = 12 // how far from a node a link goes around it
const BEND = 10

// A link that ends left of where it begins would run below both of its nodes, and only a stroke of it
// would show between them: it goes around them instead, through the gap. Null where there is none.
function around(canvas: LGraphCanvas, a: ArrayLike<number>, b: ArrayLike<number>, link: any) {
  if (!link || link.parentId !== undefined || b[0] > a[0]) return null
  const [from, to] = [link.origin_id, link.target_id].map(
    (id) => canvas.graph?.getNodeById(id)?.boundingRect,
  )
  if (!from || !to) return null
  const below = from[1] + from[3] < to[1]
  const [upper, lower] = below ? [from, to] : [to, from]
  const room = lower[1] - upper[1] - upper[3]
  if (room < 8) return null
  const y = lower[1] - room / 2
  const right = Math.max(a[0], from[0] + from[2]) + ASIDE
  const left = Math.min(b[0], to[0]) - ASIDE
  const bend = Math.min(BEND, Math.abs(y - a[1]) / 2, Math.abs(b[1] - y) / 2)
  const path = new Path2D()
  path.moveTo(a[0], a[1])
  path.arcTo(right, a[1], right, y, bend)
  path.arcTo(right, y, left, y, bend)
  path.arcTo(left, y, left, b[1], bend)
  path.arcTo(left, b[1], b[0], b[1], bend)
  path.lineTo(b[0], b[1])
  return { path, middle: [(left + right) / 2, y] }
}

function installLinks(canvas: LGraphCanvas) {
  const renderLink: (...given: any[]) => void = canvas.renderLink.bind(canvas)
  canvas.renderLink = (ctx: CanvasRenderingContext2D, ...given: any[]) => {
    const [a, b, link, , , color, , , more] = given
    const way = more?.disabled ? null : around(canvas, a, b, link)
    if (!way) return renderLink(ctx, ...given)
    link.path = way.path // where it can be clicked
    ;[link._pos[0], link._pos[1]] = way.middle
    ctx.lineJoin = "round"
    ctx.lineWidth = canvas.connections_width
    ctx.strokeStyle = color || link.color || typeColor(link.type)
    ctx.stroke(way.path)
  }
}

export function installDrawing(canvas: LGraphCanvas) {
  installLinks(canvas)
  const drawNode = canvas.drawNode.bind(canvas)
  canvas.drawNode = (node, ctx) => {
    drawNode(node, ctx)
    drawFaults(node as GraftNode, ctx) // now that the widgets have their places
    veil(node as GraftNode, ctx)
    drawMark(node as GraftNode, ctx)
  }
  LGraphGroup.prototype.draw = function (graphCanvas, ctx) {
    drawGroup(this, graphCanvas as LGraphCanvas, ctx)
  }
}
