// What an instance of a sub-graph shows of the nodes inside it (`proxyWidgets`): widgets that have
// and set the values of theirs. A file has these values twice (workflow/promoted.ts).
import type { LGraph, LGraphNode } from "@comfyorg/litegraph"
import { isLinked } from "./linked"
import { addWidget } from "./widgets"
import type { GraftNode } from "./nodes"
import type { InputSpec } from "../workflow/schema"

type Instance = GraftNode & { subgraph?: LGraph }

// The widget that is shown, and what the server says of it; nothing where a link gives the value.
function found(instance: Instance, local: string, name: string): [any, InputSpec, string] | null {
  const graph = instance.subgraph!
  const node = (graph.getNodeById(local) ?? graph.getNodeById(Number(local))) as GraftNode | null
  const widget: any = node?.widgets?.find((candidate) => candidate.name === name)
  const input = node?.spec?.inputs.find((candidate) => candidate.name === name) ?? widget?.inside
  return node && widget && input && !isLinked(node, name) ? [widget, input, node.title] : null
}

function shownBy(instance: Instance): [any, InputSpec, string][] {
  const list = instance.properties?.proxyWidgets
  if (!Array.isArray(list)) return []
  return list
    .map((entry: any) => found(instance, String(entry?.[0]), String(entry?.[1])))
    .filter((entry) => entry !== null)
}

// Two of a name are told apart by the nodes that have them.
function nameOf(all: [any, InputSpec, string][], [, input, title]: [any, InputSpec, string]) {
  const several = all.filter(([, other]) => other.name === input.name).length > 1
  return several ? `${title}: ${input.name}` : input.name
}

export function showInsideOf(node: LGraphNode) {
  const instance = node as Instance
  if (!instance.subgraph) return
  const all = shownBy(instance)
  instance.widgets = (instance.widgets ?? []).filter((widget: any) => !widget.inside)
  if (!all.length) return
  for (const entry of all) {
    const [source, input] = entry
    const shown = { ...input, name: nameOf(all, entry) }
    const widget = addWidget(instance, { name: shown.name, kind: "value", input: shown })
    const changed = widget.callback
    Object.defineProperty(widget, "value", {
      get: () => source.value,
      set: (value) => (source.value = value),
    })
    widget.callback = (...given: unknown[]) => {
      changed?.apply(widget, given)
      source.callback?.apply(source, given)
    }
    Object.assign(widget, { inside: input, name: input.name, label: shown.name })
    Object.assign(widget, { serialize: false, tooltip: input.options.tooltip })
  }
  const [width, height] = instance.computeSize()
  instance.setSize([Math.max(width, instance.size[0]), Math.max(height, instance.size[1])])
}

// In all instances of a graph, those within them first: they may show what others show.
export function showInside(graph: LGraph, done = new Set<LGraph>()) {
  if (done.has(graph)) return
  done.add(graph)
  for (const node of graph.nodes as Instance[]) {
    if (!node.subgraph) continue
    showInside(node.subgraph, done)
    showInsideOf(node)
  }
}
