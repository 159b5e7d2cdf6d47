// How nodes that do not run, and groups, look on the canvas.
import { LGraphCanvas, LGraphGroup, LiteGraph } from "@comfyorg/litegraph"
import { drawFaults, type GraftNode } from "./nodes"
import { theme } from "./theme"
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

export function installDrawing(canvas: LGraphCanvas) {
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
