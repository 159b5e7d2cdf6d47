// What a node gave when it ran, shown on it: texts. Pictures are in widgets.ts.
import type { LGraphNode } from "@comfyorg/litegraph"
import type { FileRef } from "../server/api"
import type { GraftNode } from "./nodes"
import { theme } from "../page/theme"
import { wrapText } from "../workflow/values"
import { grow } from "./widgets"

const MARGIN = 15
const LINE = 14
const LONGEST = 20_000 // characters that are kept of a text

function textWidget(node: LGraphNode): any {
  const known = node.widgets?.find((w) => w.name === "$text")
  if (known) return known
  return node.addCustomWidget({
    type: "result",
    name: "$text",
    value: null,
    serialize: false,
    options: { socketless: true },
    y: 0,
    computeLayoutSize: () => ({ minHeight: 120, minWidth: 220 }),
    draw(ctx: CanvasRenderingContext2D, on: GraftNode, width: number, y: number) {
      drawResult(ctx, on.result ?? "", width, y, (this as any).computedHeight - 6)
    },
    disabled: true, // takes no clicks: a double click is the node's, and opens its panel
  } as any)
}

function drawResult(
  ctx: CanvasRenderingContext2D,
  text: string,
  width: number,
  y: number,
  height: number,
) {
  if (height < LINE) return
  const t = theme()
  ctx.save()
  ctx.globalAlpha = 1 // the library draws what takes no clicks paler
  ctx.beginPath()
  ctx.roundRect(MARGIN, y, width - 2 * MARGIN, height, 6)
  ctx.fillStyle = t.field
  ctx.fill()
  ctx.clip()
  ctx.font = `10.5px ui-monospace, "DejaVu Sans Mono", monospace`
  ctx.textAlign = "left"
  ctx.fillStyle = t.text
  const lines = wrapText(ctx, text, width - 2 * MARGIN - 18, Math.ceil(height / LINE))
  lines.forEach((line, i) => ctx.fillText(line, MARGIN + 9, y + 16 + i * LINE))
  ctx.restore()
}

// Where the files are that a node wrote and that are no pictures: models, latents.
export function writtenBy(output: Record<string, unknown>): string[] {
  return Object.entries(output)
    .filter(([key]) => key !== "images" && key !== "gifs")
    .flatMap(([, files]) => (Array.isArray(files) ? (files as Partial<FileRef>[]) : []))
    .filter((file) => typeof file?.filename === "string")
    .map(({ type, subfolder, filename }) => [type, subfolder, filename].filter(Boolean).join("/"))
}

// The whole text is in the Node panel. A node that shows a picture has no room for it beside that.
export function showText(node: GraftNode, text: string, alone: boolean) {
  node.result = text.slice(0, LONGEST)
  if (alone && !node.widgets?.some((w) => w.name === "$text")) {
    textWidget(node)
    const least = node.computeSize()
    grow(node, [Math.max(node.size[0], least[0], 340), Math.max(node.size[1], least[1])])
  }
  node.setDirtyCanvas(true, true)
}
