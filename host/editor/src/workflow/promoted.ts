// Values that an instance of a sub-graph shows for nodes inside it (`proxyWidgets`). The library knows
// only those of the instance's own inputs and would lose the others: they go into the nodes inside
// as a file is read, and beside the instance again as it is written.
import type { UiNode, UiSubgraph, UiWorkflow } from "./convert"
import { alignValues, widgetPlaces, type Specs } from "./schema"

type Shown = [local: string, widget: string]
const OWN = "-1" // in the place of a node: an input of the instance
const MOST = 1000 // copies of sub-graphs; a file could ask for any number

function shownBy(node: UiNode): Shown[] {
  const list = node.properties?.proxyWidgets
  return Array.isArray(list)
    ? list.map((entry) => [String(entry?.[0]), String(entry?.[1])] as Shown)
    : []
}

const ownNames = (instance: UiNode) =>
  (instance.inputs ?? []).filter((slot) => slot.widget).map(({ name }) => name)

// The names of its values in a file; without a list of what it shows these are its own inputs.
function namesOf(instance: UiNode): string[] {
  const shown = shownBy(instance)
  return shown.length ? shown.map(([, name]) => name) : ownNames(instance)
}

// ComfyUI takes nothing but a UUID for a sub-graph's id, so its last digits count on.
function idAfter(id: string, n: number) {
  const [, first, last] = /^(.*-)([0-9a-f]{12})$/i.exec(id) ?? []
  if (!last) return `${id}-${n}`
  return first + ((parseInt(last, 16) + n) % 2 ** 48).toString(16).padStart(12, "0")
}

class Settler {
  private readonly definitions: Map<string, UiSubgraph>
  private readonly uses = new Map<string, number>()
  private copies = 0

  constructor(
    private readonly workflow: UiWorkflow,
    private readonly specs: Specs,
  ) {
    const list = (workflow.definitions!.subgraphs ??= [])
    this.definitions = new Map(list.map((definition) => [definition.id, definition]))
    for (const { nodes } of [workflow, ...list]) this.count(nodes)
    this.settle(workflow.nodes, new Set(), new Set())
  }

  private count(nodes: UiNode[]) {
    for (const { type } of nodes) this.uses.set(type, (this.uses.get(type) ?? 0) + 1)
  }

  // From the outside in: what an instance shows may be what one inside it shows.
  private settle(nodes: UiNode[], path: Set<string>, done: Set<string>) {
    for (const node of nodes) {
      if (!this.definitions.has(node.type) || path.has(node.type)) continue
      this.take(node)
      if (done.has(node.type)) continue
      done.add(node.type)
      const inner = this.definitions.get(node.type)!.nodes
      this.settle(inner, new Set([...path, node.type]), done)
    }
  }

  private take(instance: UiNode) {
    const shown = shownBy(instance)
    const values = instance.widgets_values
    if (!shown.length || !Array.isArray(values) || values.length !== shown.length) return
    const given = shown
      .map(([local, widget], i) => [local, widget, values[i]] as const)
      .filter(([, , value]) => value !== null && value !== undefined)
    const own = new Map(given.filter(([local]) => local === OWN).map(([, name, v]) => [name, v]))
    if (own.size) instance.widgets_values = ownNames(instance).map((name) => own.get(name) ?? null)
    else delete instance.widgets_values
    const definition = this.definitions.get(instance.type)!
    const changed = structuredClone(definition)
    for (const [local, widget, value] of given) {
      const node = changed.nodes.find(({ id }) => String(id) === local)
      if (node) this.put(node, widget, value)
    }
    if (JSON.stringify(changed.nodes) === JSON.stringify(definition.nodes)) return
    if (this.uses.get(instance.type)! > 1) this.split(instance, changed)
    else definition.nodes = changed.nodes
  }

  // Instances with values of their own become sub-graphs of their own.
  private split(instance: UiNode, changed: UiSubgraph) {
    if (this.copies >= MOST) throw new Error("This file has too many different sub-graphs.")
    this.uses.set(instance.type, this.uses.get(instance.type)! - 1)
    do changed.id = idAfter(instance.type, ++this.copies)
    while (this.definitions.has(changed.id))
    instance.type = changed.id
    this.uses.set(changed.id, 1)
    this.count(changed.nodes)
    this.definitions.set(changed.id, changed)
    this.workflow.definitions!.subgraphs!.push(changed)
  }

  private put(node: UiNode, widget: string, value: unknown) {
    const values = node.widgets_values
    const spec = this.specs.get(node.type)
    if (spec) {
      const places = widgetPlaces(spec)
      const at = places.findIndex(({ kind, name }) => kind === "value" && name === widget)
      const all = alignValues(places, values)
      if (at >= 0) all[at] = value
      if (at >= 0) node.widgets_values = Object.fromEntries(places.map((p, i) => [p.name, all[i]]))
    } else if (this.definitions.has(node.type)) {
      const names = namesOf(node)
      const at = names.indexOf(widget)
      const list = Array.isArray(values) && values.length === names.length ? [...values] : []
      while (list.length < names.length) list.push(null)
      if (at >= 0) list[at] = value
      if (at >= 0) node.widgets_values = list
    } else if (node.type === "PrimitiveNode" && Array.isArray(values)) {
      if (widget === "value") node.widgets_values = [value, ...values.slice(1)]
    } else if (values && !Array.isArray(values)) node.widgets_values = { ...values, [widget]: value }
  }
}

// The same workflow with these values in the nodes themselves; the one given stays as it is.
export function settlePromoted(workflow: UiWorkflow, specs: Specs): UiWorkflow {
  if (!workflow.definitions?.subgraphs?.length) return workflow
  const copy = structuredClone(workflow)
  new Settler(copy, specs)
  return copy
}

// The reverse, in place, for a file: what each instance shows, in the order of `proxyWidgets`.
export function showPromoted(workflow: UiWorkflow, specs: Specs) {
  const list = workflow.definitions?.subgraphs ?? []
  const definitions = new Map(list.map((definition) => [definition.id, definition]))
  const read = (node: UiNode | undefined, widget: string, depth: number): unknown => {
    const spec = node && specs.get(node.type)
    if (!node || depth > 16) return undefined
    if (!spec) {
      const shown = shownBy(node)
      const own = shown.length ? -1 : ownNames(node).indexOf(widget)
      if (own >= 0) return (node.widgets_values as unknown[] | undefined)?.[own]
      const inner = shown.find(([local, name]) => local !== OWN && name === widget)
      return inner && read(inside(node, inner[0]), widget, depth + 1)
    }
    const places = widgetPlaces(spec)
    const at = places.findIndex(({ kind, name }) => kind === "value" && name === widget)
    return alignValues(places, node.widgets_values)[at]
  }
  const inside = (instance: UiNode, local: string) =>
    definitions.get(instance.type)?.nodes.find(({ id }) => String(id) === local)
  for (const { nodes } of [workflow, ...list])
    for (const node of nodes) {
      const shown = shownBy(node)
      if (!shown.length || !definitions.has(node.type)) continue
      const values = (Array.isArray(node.widgets_values) ? node.widgets_values : []) as unknown[]
      const names = ownNames(node)
      node.widgets_values = shown.map(([local, widget]) => {
        const value =
          local === OWN ? values[names.indexOf(widget)] : read(inside(node, local), widget, 0)
        return value ?? null
      })
    }
}
