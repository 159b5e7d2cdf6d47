// Inputs that come and go: the next one of a series once the one before it is linked, and those
// that count only while a choice is this or that.
import { LiteGraph } from "@comfyorg/litegraph"
import { alignValues, counts, defaultValue, widgetPlaces, type NodeSpec } from "../workflow/schema"
import type { GraftNode } from "./nodes"

const WIDGET_GAP = 4 // pixels that the canvas library puts between widgets

export const isShownAtFirst = ({ options, widget }: NodeSpec["inputs"][number]) =>
  !options.series && (widget || !options.when)

const isVaried = (spec: NodeSpec) =>
  spec.inputs.some(({ options }) => options.series || options.when)

const slotOf = (node: GraftNode, name: string) =>
  (node.inputs ?? []).findIndex((slot) => slot.name === name)

function add(node: GraftNode, { name, type, optional, options }: NodeSpec["inputs"][number]) {
  const slot = node.addInput(name, type)
  if (optional) slot.shape = LiteGraph.CIRCLE_SHAPE + 4 // a hollow circle
  if (options.tooltip) Object.assign(slot, { tooltip: options.tooltip })
}

// Names of the sockets that are to be seen: of a series up to the first behind the last that is
// linked.
function wanted(node: GraftNode, spec: NodeSpec): Set<string> {
  const names = new Set<string>()
  const linked = (name: string) => node.inputs?.[slotOf(node, name)]?.link != null
  const valueOf = (name: string) => node.widgets?.find((widget) => widget.name === name)?.value
  spec.inputs.forEach((input, i) => {
    if (input.widget) return
    let end = i // of the series that this is in
    while (spec.inputs[end + 1]?.options.series) end++
    const later = spec.inputs.slice(i, end + 1).some(({ name }) => linked(name))
    if (input.options.series && !later && !linked(spec.inputs[i - 1].name)) return
    if (input.options.when && !linked(input.name) && !counts(spec, input, valueOf)) return
    names.add(input.name)
  })
  return names
}

// "resize_type.width" is width where resize_type is seen above it.
const partOf = (name: string) => name.slice(name.lastIndexOf(".") + 1)

// The canvas library leaves room for hidden widgets: such a one asks for none, with the gap below it.
function hide(widget: any, hidden: boolean) {
  if (hidden && !widget.hidden) {
    widget.sizeWhenSeen = widget.computeSize
    widget.computeSize = () => [0, -WIDGET_GAP]
  } else if (!hidden && widget.hidden) {
    widget.computeSize = widget.sizeWhenSeen
  }
  widget.hidden = hidden
}

// Shows what is to be seen now, and says whether that changed anything.
function settle(node: GraftNode, spec: NodeSpec): boolean {
  const names = wanted(node, spec)
  const valueOf = (name: string) => node.widgets?.find((widget) => widget.name === name)?.value
  let changed = false
  for (const input of spec.inputs) {
    const { series, when } = input.options
    const widget = input.widget && when && node.widgets?.find(({ name }) => name === input.name)
    if (widget) {
      const hidden = !counts(spec, input, valueOf)
      changed ||= !!widget.hidden !== hidden
      hide(widget, hidden)
    } else if (!input.widget && (series || when)) {
      const at = slotOf(node, input.name)
      if (names.has(input.name) === at >= 0) continue
      changed = true
      if (at >= 0) node.removeInput(at)
      else add(node, input)
    }
  }
  for (const slot of node.inputs ?? []) if (!slot.widget) slot.label ??= partOf(slot.name)
  return changed
}

// A value for each widget, of values for those that count.
function complete(spec: NodeSpec, values: unknown): unknown[] {
  const places = widgetPlaces(spec, values ?? null)
  const given = alignValues(places, values)
  return widgetPlaces(spec).map(({ name, kind, input }) => {
    const value = given[places.findIndex((place) => place.name === name && place.kind === kind)]
    return value ?? (kind === "value" ? defaultValue(input) : kind === "control" ? "fixed" : "")
  })
}

// `changed`: what is seen of the node is other now, by what somebody did.
export function varyInputs(node: GraftNode, spec: NodeSpec, changed: () => void) {
  if (!isVaried(spec)) return
  const again = () => {
    if (!settle(node, spec)) return
    node.setSize([node.size[0], node.computeSize()[1]])
    changed()
  }
  for (const widget of node.widgets ?? []) widget.label ??= partOf(widget.name)
  const deciders = spec.inputs.flatMap(({ options }) => Object.keys(options.when ?? {}))
  for (const name of new Set(deciders)) {
    const widget = node.widgets?.find((candidate) => candidate.name === name)
    const before = widget?.callback
    if (widget)
      widget.callback = (...given: unknown[]) => {
        before?.apply(widget, given as any)
        again()
      }
  }
  const configure = node.configure.bind(node)
  node.configure = (data: any) => {
    const dynamic = spec.inputs.some(({ options }) => options.when)
    configure(dynamic ? { ...data, widgets_values: complete(spec, data.widgets_values) } : data)
    settle(node, spec)
  }
  const serialized = node.onSerialize
  node.onSerialize = (data: any) => {
    serialized?.call(node, data)
    if (!Array.isArray(data.widgets_values)) return
    const isSeen = (_: unknown, i: number) => !node.widgets?.[i]?.hidden
    data.widgets_values = data.widgets_values.filter(isSeen)
  }
  node.onConnectionsChange = () => queueMicrotask(() => node.graph && again())
  settle(node, spec)
}
