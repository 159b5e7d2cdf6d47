// What is to be known of what the pointer is on: a mark says at once what is wrong, a widget or a socket
// what it is for when the pointer stays. With the keyboard both are read in the Node panel.
import type { LGraphCanvas } from "@comfyorg/litegraph"
import { h } from "../page/dom"
import type { GraftNode } from "./nodes"
import { isOnMark, markText } from "./warnings"

const PATIENCE = 500 // ms
const BELOW = 18 // pixels from the pointer

interface Tip {
  head: string
  text: string
  wait: boolean
}

function ofSocket(node: GraftNode, x: number, y: number): Tip | null {
  const input = node.getInputOnPos([x, y])
  const output = input ? undefined : node.getOutputOnPos([x, y])
  const slot = input ?? output
  if (!slot) return null
  const known = input
    ? node.spec?.inputs.find(({ name }) => name === slot.name)?.options.tooltip
    : node.spec?.outputs[node.outputs.indexOf(output!)]?.tooltip
  return { head: `${slot.label ?? slot.name} · ${slot.type}`, text: known ?? "", wait: true }
}

function ofWidget(node: GraftNode, x: number, y: number): Tip | null {
  const widget: any = node.getWidgetOnPos(x, y, true)
  if (!widget?.tooltip) return null
  return { head: widget.label ?? widget.name, text: widget.tooltip, wait: true }
}

function tipAt(canvas: LGraphCanvas, x: number, y: number): Tip | null {
  const nodes = (canvas.graph?.nodes ?? []) as GraftNode[]
  const marked = nodes.findLast((node) => markText(node) && isOnMark(node, x, y))
  if (marked) return { head: "", text: markText(marked), wait: false }
  const node = canvas.graph?.getNodeOnPos(x, y) as GraftNode | null | undefined
  if (!node || node.flags.collapsed) return null
  return ofSocket(node, x, y) ?? ofWidget(node, x, y)
}

export function installTips(canvas: LGraphCanvas) {
  const stage = canvas.canvas
  const box = h("div", { class: "tip", role: "tooltip", id: "tip", hidden: true })
  stage.parentElement!.append(box)
  let timer = 0
  const hide = () => {
    clearTimeout(timer)
    box.hidden = true
  }
  const show = ({ head, text }: Tip, x: number, y: number) => {
    const lines = [head && h("b", {}, head), text && h("span", {}, text)]
    box.replaceChildren(...lines.filter((line) => line !== ""))
    box.hidden = false
    const { clientWidth: width, clientHeight: height } = stage
    box.style.left = `${Math.max(8, Math.min(x + 12, width - box.offsetWidth - 8))}px`
    const below = y + BELOW + box.offsetHeight < height
    box.style.top = `${below ? y + BELOW : Math.max(8, y - box.offsetHeight - 12)}px`
  }
  stage.addEventListener("pointermove", (event) => {
    hide()
    if (event.buttons || event.pointerType === "touch") return
    const { left, top } = stage.getBoundingClientRect()
    const at: [number, number] = [event.clientX - left, event.clientY - top]
    const [x, y] = canvas.ds.convertCanvasToOffset(at)
    const tip = tipAt(canvas, x, y)
    if (!tip) return
    if (!tip.wait) show(tip, ...at)
    else timer = window.setTimeout(() => show(tip, ...at), PATIENCE)
  })
  for (const type of ["pointerleave", "pointerdown", "wheel", "keydown"])
    stage.addEventListener(type, hide, { passive: true })
}
