// Links that Use Everywhere's nodes stand for, drawn for the nodes that are selected.
import type { LGraph, LGraphCanvas } from "@comfyorg/litegraph"
import { linkEverywhere, type SentLink } from "../workflow/everywhere"
import { parseLinks, type UiWorkflow } from "../workflow/convert"
import type { Specs } from "../workflow/schema"
import { typeColor } from "../page/theme"

const FRESH_MS = 300 // found again after that: they follow what is changed

function find(graph: LGraph, specs: Specs): SentLink[] {
  const workflow = graph.serialize() as unknown as UiWorkflow
  const linked = linkEverywhere(
    { ...workflow, extra: { ...workflow.extra, frontendVersion: "graft" } },
    specs,
  )
  const known = parseLinks(workflow.links)
  const all = [...parseLinks(linked.links).values()] as SentLink[]
  return all.filter(({ id }) => !known.has(id))
}

function draw(ctx: CanvasRenderingContext2D, graph: LGraph, link: SentLink) {
  const origin = graph.getNodeById(link.origin_id)
  const target = graph.getNodeById(link.target_id)
  const ends = [origin, target, graph.getNodeById(link.sender)]
  if (!origin || !target || !ends.some((node) => node?.selected)) return
  const [from, to] = [origin.getOutputPos(link.origin_slot), target.getInputPos(link.target_slot)]
  const bend = Math.max(30, Math.abs(to[0] - from[0]) / 2)
  ctx.strokeStyle = typeColor(String(link.type))
  ctx.beginPath()
  ctx.moveTo(from[0], from[1])
  ctx.bezierCurveTo(from[0] + bend, from[1], to[0] - bend, to[1], to[0], to[1])
  ctx.stroke()
}

export function installBroadcasts(canvas: LGraphCanvas, graph: LGraph, specs: () => Specs) {
  let links: SentLink[] = []
  let found = 0
  const before = canvas.onDrawForeground?.bind(canvas)
  canvas.onDrawForeground = (ctx, area) => {
    before?.(ctx, area)
    if (!canvas.selectedItems.size || canvas.graph !== graph) return
    if (performance.now() - found > FRESH_MS) {
      links = find(graph, specs())
      found = performance.now()
    }
    ctx.save()
    ctx.globalAlpha = 0.75
    ctx.lineWidth = 2
    ctx.setLineDash([6, 6])
    for (const link of links) draw(ctx, graph, link)
    ctx.restore()
  }
}
