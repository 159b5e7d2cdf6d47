// Whether what a refusal complained of has been mended since.
import type { Fault } from "../server/errors"
import type { Editor } from "./graph"
import { idleBehind } from "./idle"
import { isMissing } from "./nodes"

export interface Complaint {
  fault: Fault
  was: string // what stood there
}

// What a fault is about, as it is now: a value or a link, all of a node, or all of the workflow.
function stateOf(editor: Editor, { node: id, input }: Fault): string {
  const node = id ? editor.node(id) : null
  if (id && !node) return "gone"
  const nodes = node ? [node] : editor.nodes
  const widget = input && node?.widgets?.find((w) => w.name === input)
  const slot = input && node?.inputs?.find((slot) => slot.name === input)
  if (widget || slot)
    return JSON.stringify([
      widget ? [widget.value, isMissing(widget)] : null,
      (slot && slot.link) ?? null,
      node!.mode,
      idleBehind(node, input)?.mode ?? 0,
    ])
  return JSON.stringify(
    nodes.map((n) => [
      n.id,
      n.mode,
      n.inputs?.map((s) => s.link),
      n.outputs?.map((s) => s.links),
      n.widgets?.map((w) => w.serialize !== false && w.value),
    ]),
  )
}

export const complaintsOf = (editor: Editor, faults: Fault[]): Complaint[] =>
  faults.map((fault) => ({ fault, was: stateOf(editor, fault) }))

// Another value that the list does not have either mends nothing, nor does a link that was taken away, or
// one to a node that does not run.
export function isMended(editor: Editor, { fault, was }: Complaint): boolean {
  const now = stateOf(editor, fault)
  if (now === was) return false
  const node = fault.node ? editor.node(fault.node) : null
  if (!node || !fault.input || node.mode !== 0) return true
  const widget = node.widgets?.find((w) => w.name === fault.input)
  const slot = node.inputs?.find((slot) => slot.name === fault.input)
  if (slot?.link != null) return !idleBehind(node, fault.input)
  return !!widget && !isMissing(widget)
}
