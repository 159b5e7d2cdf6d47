// Puts QuantizeModel into a workflow: between a sampler and its model, with the sampler's own
// prompts, so that it can calibrate at once.
import type { Editor } from "./graph"
import type { GraftNode } from "./nodes"
import { QUANTIZE } from "../workflow/subject"

const GAP = 40
const INPUTS = ["model", "positive", "negative", "latent_image"]

const slotOf = (node: GraftNode, name: string) => node.inputs.findIndex((i) => i.name === name)

// Without a sampler that has a model it is added alone.
export function insertQuantize(editor: Editor): GraftNode | null {
  const { graph } = editor
  const sampler = editor.nodes.find(
    (node) => slotOf(node, "positive") >= 0 && node.inputs[slotOf(node, "model")]?.link != null,
  )
  const place: [number, number] = sampler ? [sampler.pos[0], sampler.pos[1]] : editor.middle()
  const node = editor.add(QUANTIZE, place)
  if (!node || !sampler) return node
  const model = graph.getLink(sampler.inputs[slotOf(sampler, "model")].link)!
  for (const other of editor.nodes)
    if (other !== node && other.pos[0] >= place[0])
      other.pos = [other.pos[0] + node.size[0] + GAP, other.pos[1]]
  for (const name of INPUTS) {
    const link = graph.getLink(sampler.inputs[slotOf(sampler, name)]?.link)
    const to = slotOf(node, name)
    if (link && to >= 0) graph.getNodeById(link.origin_id)?.connect(link.origin_slot, node, to)
  }
  // Every sampler of the same model samples with the quantized one.
  for (const other of editor.nodes) {
    const at = slotOf(other, "model")
    const link =
      at >= 0 && slotOf(other, "positive") >= 0 ? graph.getLink(other.inputs[at].link) : null
    if (other === node || link?.origin_id !== model.origin_id) continue
    if (link.origin_slot === model.origin_slot) node.connect(0, other, at)
  }
  const widget = (of: GraftNode, name: string) => of.widgets?.find((w) => w.name === name)
  for (const name of ["steps", "cfg"]) {
    const [from, to] = [widget(sampler, name), widget(node, name)]
    if (from && to) to.value = from.value
  }
  const control = widget(node, "control_after_generate")
  if (control) control.value = "fixed" // another seed would calibrate anew in every run
  editor.frame()
  return node
}
