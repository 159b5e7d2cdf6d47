// How nodes that do not run, and groups, look on the canvas.
import { LGraphCanvas, LGraphGroup, LiteGraph } from "@comfyorg/litegraph"
import { installHover } from "../page/hover"
import { inkOn } from "../page/ink"
import { drawLabel, isLabel } from "./labels"
import { drawFaults, type GraftNode } from "./nodes"
import { Router, runsBelow, type Box, type Point } from "../workflow/route"
import { theme, typeColor } from "../page/theme"
import { BYPASSED, MUTED } from "../workflow/virtual"
import { drawMark } from "./warnings"

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

const BEND = 10 // radius of a link's corners

interface Way {
  path: Path2D
  middle: Point
}

function rounded(corners: Point[]): Way {
  const path = new Path2D()
  path.moveTo(...corners[0])
  for (let i = 1; i < corners.length - 1; i++) {
    const [before, corner, after] = corners.slice(i - 1, i + 2)
    const half = (to: Point) => Math.hypot(to[0] - corner[0], to[1] - corner[1]) / 2
    path.arcTo(...corner, ...after, Math.min(BEND, half(before), half(after)))
  }
  path.lineTo(...corners[corners.length - 1])
  const middle = corners.length >> 1
  const [p, q] = [corners[middle - 1], corners[middle]]
  return { path, middle: [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2] }
}

const MANY = 20_000 // nodes times links: beyond that looking for ways would take too long

// The ways of all links, as long as nothing moves.
class Ways {
  private key = ""
  private router: Router | null = null
  private boxes = new Map<string, Box>()
  private readonly known = new Map<unknown, { ends: string; way: Way | null }>()

  look(canvas: LGraphCanvas) {
    const nodes = canvas.graph?.nodes ?? []
    const links = canvas.graph?.links ?? new Map()
    const many = nodes.length * links.size > MANY
    const boxes = new Map<string, Box>()
    if (!many)
      for (const {
        id,
        boundingRect: [x, y, width, height],
      } of nodes)
        boxes.set(String(id), [x, y, x + width, y + height])
    // A node that is touched comes to the top, last of all: nothing has moved by that.
    const sorted = [...boxes].sort(([a], [b]) => (a < b ? -1 : 1))
    const key = JSON.stringify([sorted, [...links.keys()].sort()])
    if (key === this.key) return
    this.key = key
    this.boxes = boxes
    this.router = many ? null : new Router([...boxes.values()])
    this.known.clear()
  }

  of(a: ArrayLike<number>, b: ArrayLike<number>, link: any): Way | null {
    const ends = `${a[0]} ${a[1]} ${b[0]} ${b[1]}`
    const known = this.known.get(link.id)
    if (known?.ends === ends) return known.way
    const way = this.find([a[0], a[1]], [b[0], b[1]], link)
    this.known.set(link.id, { ends, way })
    return way
  }

  // Null where the library's own curve will do. Of one that ends left of where it begins only a stroke
  // would show between its two nodes.
  private find(a: Point, b: Point, { origin_id, origin_slot, target_id }: any): Way | null {
    if (!this.router) return null
    const own = [String(origin_id), String(target_id)]
    const others = [...this.boxes].filter(([id]) => !own.includes(id)).map(([, box]) => box)
    if (b[0] > a[0] && !runsBelow(a, b, others)) return null
    const corners = this.router.route(a, b, `${origin_id} ${origin_slot}`)
    return corners && rounded(corners)
  }
}

// Of a link that carries any type: what really flows through it, from before the reroutes.
function sourceType(canvas: LGraphCanvas, link: any): string | number {
  const seen = new Set()
  while (link && !seen.has(link)) {
    seen.add(link)
    const origin = canvas.graph?.getNodeById(link.origin_id)
    const type = origin?.outputs?.[link.origin_slot]?.type
    if (type !== undefined && type !== "*") return type
    if (origin?.type !== "Reroute") break
    link = canvas.graph?.getLink(origin.inputs[0]?.link)
  }
  return link?.type ?? "*"
}

function installLinks(canvas: LGraphCanvas) {
  const ways = new Ways()
  const drawBackCanvas = canvas.drawBackCanvas.bind(canvas)
  canvas.drawBackCanvas = () => {
    ways.look(canvas)
    drawBackCanvas()
  }
  const renderLink: (...given: any[]) => void = canvas.renderLink.bind(canvas)
  canvas.renderLink = (ctx: CanvasRenderingContext2D, ...given: any[]) => {
    const [a, b, link, , , , , , more] = given
    if (link?.type === "*" && !link.color) given[5] ||= typeColor(sourceType(canvas, link))
    const color = given[5]
    const plain = !link || link.parentId !== undefined || more?.disabled
    const way = plain ? null : ways.of(a, b, link)
    if (!way) return renderLink(ctx, ...given)
    link.path = way.path // where it can be clicked
    ;[link._pos[0], link._pos[1]] = way.middle
    ctx.lineJoin = "round"
    ctx.lineWidth = canvas.connections_width
    ctx.strokeStyle = color || link.color || typeColor(link.type)
    ctx.stroke(way.path)
  }
}

// A title that leaves room for the word at its right end, while the node is drawn.
function shortened(node: GraftNode, ctx: CanvasRenderingContext2D, draw: () => void) {
  const word = WORDS[node.mode]
  if (!word || node.flags.collapsed) return draw()
  ctx.save()
  ctx.font = `12px ${LiteGraph.NODE_FONT}`
  const taken = ctx.measureText(word).width + 18
  ctx.font = node.titleFontStyle
  const room = node.renderingSize[0] - LiteGraph.NODE_TITLE_HEIGHT - taken
  let title = String(node.getTitle() ?? node.type)
  if (ctx.measureText(title).width > room) {
    while (title && ctx.measureText(`${title}…`).width > room) title = title.slice(0, -1)
    title = `${title.trimEnd()}…`
  }
  ctx.restore()
  node.getTitle = () => title
  draw()
  delete (node as Partial<GraftNode>).getTitle // the class's again
}

// Draws the node while the library, which has one colour for all texts, has those for this node.
function withInk(canvas: LGraphCanvas, node: GraftNode, draw: () => void) {
  const { node_title_color } = canvas
  const { NODE_SELECTED_TITLE_COLOR, NODE_TEXT_COLOR } = LiteGraph
  if (!node.color && !node.bgcolor) return draw()
  canvas.node_title_color = inkOn(node.color, node_title_color)
  LiteGraph.NODE_SELECTED_TITLE_COLOR = inkOn(node.color, NODE_SELECTED_TITLE_COLOR)
  LiteGraph.NODE_TEXT_COLOR = inkOn(node.bgcolor, NODE_TEXT_COLOR)
  draw()
  canvas.node_title_color = node_title_color
  Object.assign(LiteGraph, { NODE_SELECTED_TITLE_COLOR, NODE_TEXT_COLOR })
}

export function installDrawing(canvas: LGraphCanvas) {
  installLinks(canvas)
  installHover(canvas)
  const drawNode = canvas.drawNode.bind(canvas)
  canvas.drawNode = (node, ctx) => {
    if (isLabel(node)) return drawLabel(node, ctx)
    const draw = () => withInk(canvas, node as GraftNode, () => drawNode(node, ctx))
    shortened(node as GraftNode, ctx, draw)
    drawFaults(node as GraftNode, ctx) // now that the widgets have their places
    veil(node as GraftNode, ctx)
    drawMark(node as GraftNode, ctx)
  }
  LGraphGroup.prototype.draw = function (graphCanvas, ctx) {
    drawGroup(this, graphCanvas as LGraphCanvas, ctx)
  }
}
