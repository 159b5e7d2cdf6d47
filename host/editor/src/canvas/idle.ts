// Nodes that do not run, where something waits for what they would give.
import type { LGraph } from "@comfyorg/litegraph"
import { BYPASSED, MUTED } from "../workflow/virtual"
import type { Fault } from "../server/errors"
import type { Editor } from "./graph"
import type { GraftNode } from "./nodes"

const MOST = 100 // reroutes in a row, which may be a loop

// The node from which the link into this input comes, if it is muted or bypassed.
export function idleBehind(node: GraftNode | null, input: string): GraftNode | null {
  const graph = node?.graph as LGraph | null | undefined
  let link = node?.inputs?.find((slot) => slot.name === input)?.link
  for (let i = 0; i < MOST && link != null; i++) {
    const origin = graph?.getNodeById(graph.getLink(link)?.origin_id) as GraftNode | null
    if (origin?.mode === MUTED || origin?.mode === BYPASSED) return origin
    link = origin?.type === "Reroute" ? origin.inputs?.[0]?.link : null
  }
  return null
}

// Who sees a link cannot make anything of being told that one is needed.
export function withReasons(editor: Editor, faults: Fault[]): Fault[] {
  return faults.map((fault) => {
    if (fault.kind !== "required_input_missing") return fault
    const origin = idleBehind(editor.node(fault.node), fault.input)
    if (!origin) return fault
    const is = origin.mode === MUTED ? "muted" : "bypassed"
    return { ...fault, text: `“${fault.input}” is linked to “${origin.title}”, which is ${is}.` }
  })
}
