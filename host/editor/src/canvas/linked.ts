// Which values a link gives.
import type { LGraphNode } from "@comfyorg/litegraph"

// Whether a link gives the value of the widget of this name.
export const isLinked = (node: LGraphNode, name?: string): boolean =>
  !!node.inputs?.some((slot) => slot.widget?.name === name && slot.link != null)
