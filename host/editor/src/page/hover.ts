// Which link the pointer is on. It is drawn wider, so that it can be followed among others.
import type { LGraphCanvas } from "@comfyorg/litegraph"

const NEAR = 10 // pixels around a link
const MANY = 2000 // links: beyond that looking at each for every move would be felt

export function linkAt(canvas: LGraphCanvas, x: number, y: number) {
  const { ctx } = canvas
  const ratio = window.devicePixelRatio || 1
  const { lineWidth } = ctx
  ctx.lineWidth = NEAR
  const on = [...canvas.renderedPaths].findLast(
    ({ path }) => path && ctx.isPointInStroke(path, x * ratio, y * ratio),
  )
  ctx.lineWidth = lineWidth
  return on
}

export function installHover(canvas: LGraphCanvas) {
  let hovered: unknown
  const hover = (link: unknown) => {
    if (link === hovered) return
    hovered = link
    canvas.setDirty(false, true)
  }
  const stage = canvas.canvas
  stage.addEventListener("pointermove", (event) => {
    if (event.buttons || event.pointerType === "touch") return hover(undefined)
    if (canvas.renderedPaths.size > MANY) return
    const [x, y] = canvas.graph_mouse
    hover(canvas.graph?.getNodeOnPos(x, y) ? undefined : linkAt(canvas, x, y))
  })
  stage.addEventListener("pointerleave", () => hover(undefined))

  const renderLink: (...given: any[]) => void = canvas.renderLink.bind(canvas)
  canvas.renderLink = (ctx: CanvasRenderingContext2D, ...given: any[]) => {
    const width = canvas.connections_width
    if (hovered && given[2] === hovered) canvas.connections_width = 2 * width
    renderLink(ctx, ...given)
    canvas.connections_width = width
  }
}
