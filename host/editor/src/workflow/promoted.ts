// Values that an instance of a sub-graph shows for nodes inside it (`proxyWidgets`). The library knows
// only those of the instance's own inputs and would lose the others: they go into the nodes inside
// as a file is read, and beside the instance again as it is written.
import { parseLinks, SUBGRAPH_INPUT, type UiNode, type UiSlot, type UiSubgraph, type UiWorkflow } from "./convert"
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

// The values that a file has beside an instance. Where they are as many as what it shows they are
// those, else those of its own inputs alone; null when a file has none.
function valuesOf(instance: UiNode): [local: string, widget: string, value: unknown][] | null {
  const values = instance.widgets_values
  if (!values || typeof values !== "object") return null
  const own = ownNames(instance).map((name) => [OWN, name] as Shown)
  const shown = shownBy(instance)
  const pairs = Array.isArray(values)
    ? (shown.length === values.length ? shown : own).map(([local, name], i) => [local, name, values[i]])
    : own.map(([local, name]) => [local, name, (values as Record<string, unknown>)[name]])
  return pairs.filter(([, , value]) => value !== null && value !== undefined) as [
    string,
    string,
    unknown,
  ][]
}

// The first node inside that an input of a sub-graph leads to, and where; only widgets count.
function targetOf(definition: UiSubgraph, name: string): { node: UiNode; slot: UiSlot } | null {
  const at = (definition.inputs ?? []).findIndex((slot) => slot.name === name)
  for (const link of parseLinks(definition.links).values()) {
    if (Number(link.origin_id) !== SUBGRAPH_INPUT || link.origin_slot !== at) continue
    const node = definition.nodes.find(({ id }) => String(id) === String(link.target_id))
    const slot = node?.inputs?.find((input) => input.link === link.id)
    if (node && slot?.widget) return { node, slot }
  }
  return null
}

// Files name those inputs of an instance alone that were there when it was last looked at. The rest
// of the page goes by the places of the sub-graph's own.
function completeInputs(instance: UiNode, definition: UiSubgraph) {
  const given = instance.inputs ?? []
  const all = definition.inputs ?? []
  if (given.length >= all.length || given.some(({ name }) => !all.some((s) => s.name === name)))
    return
  instance.inputs = all.map(({ name, type }) => {
    const widget = targetOf(definition, name) ? { widget: { name } } : {}
    return given.find((slot) => slot.name === name) ?? { name, type, link: null, ...widget }
  })
}

// Links of a graph lead to the places that inputs have now.
function relink(nodes: UiNode[], links: unknown[] | undefined) {
  const places = new Map<number, number>()
  for (const { inputs } of nodes)
    inputs?.forEach(({ link }, place) => link != null && places.set(link, place))
  for (const link of (links ?? []) as any[]) {
    const place = places.get(Array.isArray(link) ? link[0] : link?.id)
    if (place === undefined) continue
    if (Array.isArray(link)) link[4] = place
    else link.target_slot = place
  }
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
    for (const { nodes, links } of [workflow, ...list]) relink(nodes, links)
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
    const definition = this.definitions.get(instance.type)!
    const given = valuesOf(instance)
    completeInputs(instance, definition)
    if (!given) return
    const own = new Map(given.filter(([local]) => local === OWN).map(([, name, v]) => [name, v]))
    if (own.size)
      instance.widgets_values = ownNames(instance).map(
        (name) => own.get(name) ?? this.inside(definition, name, 0) ?? null,
      )
    else delete instance.widgets_values
    const changed = structuredClone(definition)
    for (const [local, widget, value] of given) {
      const node = changed.nodes.find(({ id }) => String(id) === local)
      if (node) this.put(node, widget, value)
    }
    if (JSON.stringify(changed.nodes) === JSON.stringify(definition.nodes)) return
    if (this.uses.get(instance.type)! > 1) this.split(instance, changed)
    else definition.nodes = changed.nodes
  }

  // What the node has that an input of its sub-graph leads to.
  private inside(definition: UiSubgraph, name: string, depth: number): unknown {
    const found = targetOf(definition, name)
    const spec = found && this.specs.get(found.node.type)
    if (!found || depth > 16) return undefined
    if (spec) {
      const places = widgetPlaces(spec, found.node.widgets_values ?? null)
      const at = places.findIndex((place) => place.kind === "value" && place.name === found.slot.name)
      return alignValues(places, found.node.widgets_values)[at]
    }
    const given = valuesOf(found.node)?.find(([local, own]) => local === OWN && own === found.slot.name)
    const inner = this.definitions.get(found.node.type)
    return given?.[2] ?? (inner && this.inside(inner, found.slot.name, depth + 1))
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
      const places = widgetPlaces(spec, values ?? null)
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

// The places in the values of an instance, as the canvas has them, whose input leads to one that `asks`.
export function ownTexts(
  instance: UiNode,
  definitions: UiSubgraph[],
  asks: (type: string, input: string) => boolean,
): number[] {
  const leads = (type: string, name: string, depth: number): boolean => {
    const definition = definitions.find(({ id }) => id === type)
    const target = definition && targetOf(definition, name)
    if (!target || depth > 16) return !definition && asks(type, name)
    return leads(target.node.type, target.slot.name, depth + 1)
  }
  if (!definitions.some(({ id }) => id === instance.type)) return []
  return ownNames(instance).flatMap((name, i) => (leads(instance.type, name, 0) ? [i] : []))
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
    const places = widgetPlaces(spec, node.widgets_values ?? null)
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
