// Group nodes, which editors before ComfyUI's sub-graphs made of several nodes: `workflow>NAME` or
// `workflow/NAME`, defined in extra.groupNodes. They become sub-graphs; host/prompt/group_node.c does the
// same for `graft run`. A file says of an instance only what it shows: which of its inputs, outputs and
// values belongs to which node inside follows from their order, names and types.
import type { UiNode, UiSlot, UiSubgraph, UiWorkflow } from "./convert"
import { alignValues, CONTROLS, widgetPlaces, type Specs } from "./schema"
import { ROLES } from "./virtual"

type Part = UiNode & { index?: number }
interface Definition {
  nodes: Part[]
  links?: unknown[][]
  external?: unknown[][]
  config?: Record<string, any>
}
interface Inner {
  from: number // place of a node in the definition
  fromSlot: number
  to: number
  toSlot: number
  type: string | number
}
// An input or output of a node inside that the instance may show.
interface Offer {
  at: number // the node's place
  slot: number
  name: string // that the instance shows it by
  type: string | number
  widget?: string
}

const MOST = 1000 // sub-graphs made of them; each may hold others
const PREFIX = /^workflow[>/]/

export const isGroupNode = (type: string) => PREFIX.test(type)
export const groupNodeName = (type: string) => type.replace(PREFIX, "")
const isShown = (node: UiNode) => ROLES.get(node.type) !== "silent"

function innerLinks(definition: Definition): Inner[] {
  const { nodes } = definition
  const place = (index: unknown) =>
    typeof index === "number" ? nodes.findIndex((node, i) => (node.index ?? i) === index) : -1
  return (definition.links ?? [])
    .filter((link) => Array.isArray(link))
    .map(([from, fromSlot, to, toSlot, , type]) => ({
      from: place(from),
      fromSlot: Number(fromSlot),
      to: place(to),
      toSlot: Number(toSlot),
      type: type as string,
    }))
    .filter(({ from, to }) => from >= 0 && to >= 0)
}

// Names as an instance has them: the second of a name gets the title of its node.
class Names {
  private readonly used = new Set<string>()
  constructor(private readonly definition: Definition) {}
  of(at: number, kind: "input" | "output", key: string | number, name: string): string {
    const node = this.definition.nodes[at]
    const own = this.definition.config?.[node.index ?? at]?.[kind]?.[key]?.name
    let shown = String(own ?? name)
    if (this.used.has(shown)) shown = `${node.title ?? node.type} ${name}`
    for (let i = 1; this.used.has(shown); i++) shown = `${node.title ?? node.type} ${name} ${i}`
    this.used.add(shown)
    return shown
  }
}

const isHidden = (definition: Definition, at: number, kind: "input" | "output", key: unknown) => {
  const { nodes, config } = definition
  return config?.[nodes[at].index ?? at]?.[kind]?.[key as string]?.visible === false
}

class Group {
  readonly inner: Inner[]
  readonly inputs: Offer[] = []
  readonly outputs: Offer[] = []

  constructor(
    readonly definition: Definition,
    private readonly specs: Specs,
  ) {
    this.inner = innerLinks(definition)
    const inputs = new Names(definition)
    const outputs = new Names(definition)
    definition.nodes.forEach((node, at) => {
      if (!isShown(node)) return
      this.offerInputs(node, at, inputs)
      this.offerOutputs(node, at, outputs)
    })
  }

  // What a reroute carries is said by its links alone.
  private typeOf(node: UiNode, at: number, given: string | number): string | number {
    if (given !== "*" || ROLES.get(node.type) !== "pass") return given
    return this.inner.find(({ from, to }) => from === at || to === at)?.type ?? given
  }

  private offerInputs(node: UiNode, at: number, names: Names) {
    const slots = node.inputs ?? []
    slots.forEach((slot, i) => {
      if (this.inner.some(({ to, toSlot }) => to === at && toSlot === i)) return
      const type = this.typeOf(node, at, slot.type)
      const name = slot.name || String(type)
      if (isHidden(this.definition, at, "input", name)) return
      const shown = names.of(at, "input", name, name)
      this.inputs.push({ at, slot: i, name: shown, type, widget: slot.widget?.name })
    })
    // Widgets that an older editor does not list among the inputs.
    const spec = this.specs.get(node.type)
    for (const { name, type, widget } of spec?.inputs ?? [])
      if (widget && !slots.some((slot) => slot.name === name)) {
        const shown = names.of(at, "input", name, name)
        this.inputs.push({ at, slot: -1, name: shown, type, widget: name })
      }
  }

  private offerOutputs(node: Part, at: number, names: Names) {
    const outside = (slot: number) =>
      (this.definition.external ?? []).some((entry) => {
        const index = typeof entry?.[0] === "object" ? (entry[0] as any)?.index : entry?.[0]
        return index === (node.index ?? at) && Number(entry?.[1]) === slot
      })
    const slots = node.outputs ?? []
    slots.forEach((slot, i) => {
      const used = this.inner.some(({ from, fromSlot }) => from === at && fromSlot === i)
      if ((used && !outside(i)) || isHidden(this.definition, at, "output", i)) return
      const type = this.typeOf(node, at, slot.type)
      const name = names.of(at, "output", i, String(slot.name || type))
      this.outputs.push({ at, slot: i, name, type })
    })
  }
}

const alike = (a: string | number, b: string | number) => a === b || a === "*" || b === "*"

// Which offer each slot of the instance is: the one of its name and type, else the next of its type.
function match(slots: UiSlot[], offers: Offer[]): (Offer | null)[] {
  const left = new Set(offers)
  const take = (offer: Offer | undefined) => {
    if (offer) left.delete(offer)
    return offer ?? null
  }
  const named = slots.map((slot) =>
    take([...left].find(({ name, type }) => name === slot.name && alike(type, slot.type))),
  )
  return slots.map(
    (slot, i) =>
      named[i] ??
      take([...left].find((offer) => offer.type === slot.type && !offer.widget === !slot.widget)),
  )
}

// The entries of a node's values that belong to the widget of this name: the value, and what stands
// behind it for the editor alone.
function entriesOf(node: UiNode, name: string, specs: Specs): number[] {
  const spec = specs.get(node.type)
  const values = node.widgets_values
  if (!spec || !Array.isArray(values)) return []
  const places = widgetPlaces(spec, values)
  const taken = alignValues(places, values) // one entry after the other, if not for every place
  let next = 0
  const at = taken.map((value) => (value === undefined ? -1 : next++))
  return places.flatMap(({ input }, i) => (input.name === name && at[i] >= 0 ? [at[i]] : []))
}

class Expander {
  readonly subgraphs: UiSubgraph[]
  private made = 0

  constructor(
    private readonly workflow: UiWorkflow,
    private readonly specs: Specs,
    private readonly notes: string[],
  ) {
    this.subgraphs = [...(workflow.definitions?.subgraphs ?? [])]
  }

  private definitionOf(type: string): Definition | null {
    const known = (this.workflow.extra?.groupNodes as any)?.[groupNodeName(type)]
    return isGroupNode(type) && Array.isArray(known?.nodes) ? known : null
  }

  // The same graph with sub-graphs for its group nodes.
  expand<G extends { nodes: UiNode[]; links: unknown[] }>(graph: G): G {
    if (!graph.nodes?.some(({ type }) => this.definitionOf(type))) return graph
    let { links } = graph
    const nodes = graph.nodes.map((node) => {
      const definition = this.definitionOf(node.type)
      if (!definition) return node
      const { instance, places } = this.instance(node, definition)
      links = links.map((link) => moved(link, node, places)).filter((link) => link !== null)
      return instance
    })
    return { ...graph, nodes, links }
  }

  private instance(node: UiNode, definition: Definition) {
    if (++this.made > MOST) throw new Error("This file has too many group nodes.")
    const name = groupNodeName(node.type)
    const group = new Group(definition, this.specs)
    const filled = this.values(node, group)
    if (!filled)
      this.notes.push(
        `The values of “${node.title ?? name}” could not be told; those of its definition are shown.`,
      )
    const nodes = filled ?? definition.nodes.map((inner) => ({ ...inner }))
    const inputs = node.inputs ?? []
    const matched = match(inputs, group.inputs)
    // Its widgets are shown without inputs, but for those that a link gives.
    const kept = inputs.flatMap((slot, i) =>
      slot.link == null && (slot.widget || matched[i]?.widget) ? [] : [i],
    )
    const places = new Map(kept.map((from, to) => [from, to]))
    const outputs = node.outputs ?? []
    const out =
      outputs.length === group.outputs.length ? group.outputs : match(outputs, group.outputs)
    const subgraph = build(
      name,
      idOf(name, this.made),
      group,
      nodes,
      kept.map((i) => [inputs[i], matched[i]]),
      outputs.map((slot, i) => [slot, out[i]]),
    )
    this.subgraphs.push(this.expand(subgraph))
    const proxyWidgets = nodes.flatMap((inner, at) =>
      widgetPlaces(this.specs.get(inner.type) ?? NOTHING)
        .filter(({ kind, name }) => kind === "value" && !isLinkedInside(subgraph, at + 1, name))
        .map(({ name }) => [String(at + 1), name]),
    )
    const { widgets_values: _, ...rest } = node
    const instance: UiNode = {
      ...rest,
      type: subgraph.id,
      title: node.title ?? name,
      inputs: kept.map((i) => inputs[i]),
      outputs,
      properties: { ...node.properties, proxyWidgets },
    }
    return { instance, places }
  }

  // The nodes inside with the values that the instance has for them, null where these do not come out
  // even. Which widgets of nodes inside are linked, and so have none, depends on the editor's version: it
  // listed either linked ones alone among the inputs, or all.
  private values(node: UiNode, { definition, inner }: Group): UiNode[] | null {
    const values = node.widgets_values
    if (!Array.isArray(values) || !values.length) return definition.nodes.map((one) => ({ ...one }))
    const linked = (at: number, slot: number) =>
      inner.some(({ to, toSlot }) => to === at && toSlot === slot)
    const shown = (name: string) =>
      (node.inputs ?? []).some((slot) => slot.widget && slot.name === name && slot.link != null)
    const ways: ((at: number, slot: number, name: string) => boolean)[] = [
      linked,
      () => true, // all that are listed
      (at, slot, name) => linked(at, slot) || shown(name),
    ]
    for (const without of ways) {
      let next = 0
      const nodes = definition.nodes.map((one, at) => {
        const own = one.widgets_values
        if (!isShown(one) || !Array.isArray(own)) return { ...one }
        const gone = new Set(
          (one.inputs ?? []).flatMap((slot, i) =>
            slot.widget && without(at, i, slot.name)
              ? entriesOf(one, slot.widget.name, this.specs)
              : [],
          ),
        )
        const widgets_values = own.map((value, i) => {
          // What becomes of a seed after a run is not always there.
          const control =
            CONTROLS.includes(value as string) && !CONTROLS.includes(values[next] as string)
          return gone.has(i) || control ? value : values[next++]
        })
        return { ...one, widgets_values }
      })
      if (next === values.length) return nodes
    }
    return null
  }
}

const NOTHING: any = { inputs: [] }

const isLinkedInside = ({ nodes }: UiSubgraph, id: number, name: string) =>
  !!nodes
    .find((node) => node.id === id)
    ?.inputs?.some((slot) => slot.widget?.name === name && slot.link != null)

// A link of the graph around, to the place that an input of the instance has now.
function moved(raw: any, node: UiNode, places: Map<number, number>): unknown {
  const list = Array.isArray(raw)
  const [target, slot] = list ? [raw[3], raw[4]] : [raw?.target_id, raw?.target_slot]
  if (String(target) !== String(node.id)) return raw
  const place = places.get(Number(slot))
  if (place === undefined) return null
  return list ? raw.with(4, place) : { ...raw, target_slot: place }
}

// A UUID that is the same whenever the file is read.
function idOf(name: string, n: number): string {
  let sum = 0x811c9dc5 // FNV-1a
  for (const byte of new TextEncoder().encode(name)) sum = Math.imul(sum ^ byte, 0x01000193) >>> 0
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, "0")
  return `${hex(sum, 8)}-6772-4f75-a000-${hex(n, 12)}`
}

type Shown = [slot: UiSlot, offer: Offer | null]

function build(
  name: string,
  id: string,
  group: Group,
  given: UiNode[],
  inputs: Shown[],
  outputs: Shown[],
): UiSubgraph {
  const links: any[] = []
  const nodes: UiNode[] = given.map((node, at) => ({
    ...node,
    id: at + 1,
    inputs: (node.inputs ?? []).map((slot) => ({ ...slot, link: null })),
    outputs: (node.outputs ?? []).map((slot) => ({ ...slot, links: [] as number[] })),
  }))
  const link = (
    from: number,
    fromSlot: number,
    to: number,
    toSlot: number,
    type: string | number,
  ): number => {
    const made = {
      id: links.length + 1,
      origin_id: from,
      origin_slot: fromSlot,
      target_id: to,
      target_slot: toSlot,
      type,
    }
    links.push(made)
    nodes[from - 1]?.outputs![fromSlot]?.links!.push(made.id)
    const end = nodes[to - 1]?.inputs?.[toSlot]
    if (end) end.link = made.id
    return made.id
  }
  for (const { from, fromSlot, to, toSlot, type } of group.inner)
    link(from + 1, fromSlot, to + 1, toSlot, type)
  const place = (offer: Offer): number => {
    const slots = nodes[offer.at].inputs!
    if (offer.slot >= 0) return offer.slot
    return (
      slots.push({
        name: offer.widget!,
        type: offer.type,
        link: null,
        widget: { name: offer.widget! },
      }) - 1
    )
  }
  const ends = (slots: Shown[], connect: (offer: Offer, i: number) => number) =>
    slots.map(([slot, offer], i) => ({
      id: idOf(`${name} ${slot.name}`, i),
      name: slot.name,
      type: String(slot.type),
      linkIds: offer ? [connect(offer, i)] : [],
    }))
  const ins = ends(inputs, (offer, i) => link(-10, i, offer.at + 1, place(offer), offer.type))
  const outs = ends(outputs, (offer, i) => link(offer.at + 1, offer.slot, -20, i, offer.type))
  const box = boxOf(nodes)
  return {
    id,
    name,
    version: 1,
    revision: 0,
    state: { lastGroupId: 0, lastNodeId: nodes.length, lastLinkId: links.length, lastRerouteId: 0 },
    config: {},
    inputNode: { id: -10, bounding: [box[0] - 200, box[1], 120, 40 + 20 * ins.length] },
    outputNode: { id: -20, bounding: [box[2] + 80, box[1], 120, 40 + 20 * outs.length] },
    inputs: ins,
    outputs: outs,
    widgets: [],
    nodes,
    links,
    groups: [],
  } as unknown as UiSubgraph
}

function boxOf(nodes: UiNode[]): [number, number, number] {
  const at = (pair: any, i: number) => Number(pair?.[i]) || 0
  const least = (list: number[]) => (list.length ? Math.min(...list) : 0)
  const ends = nodes.map(({ pos, size }) => -at(pos, 0) - at(size, 0))
  return [
    least(nodes.map(({ pos }) => at(pos, 0))),
    least(nodes.map(({ pos }) => at(pos, 1))),
    -least(ends),
  ]
}

// The same workflow with sub-graphs for its group nodes; the one given stays as it is. `notes` gets a
// line about each whose values are not known.
export function expandGroupNodes(
  workflow: UiWorkflow,
  specs: Specs,
  notes: string[] = [],
): UiWorkflow {
  if (!workflow.extra?.groupNodes) return workflow
  const expander = new Expander(workflow, specs, notes)
  const root = expander.expand(workflow)
  const known = workflow.definitions?.subgraphs ?? []
  const subgraphs = [
    ...known.map((graph) => expander.expand(graph)),
    ...expander.subgraphs.slice(known.length),
  ]
  if (root === workflow && subgraphs.every((graph, i) => graph === known[i])) return workflow
  const { groupNodes: _, ...extra } = workflow.extra
  return { ...root, extra, definitions: { ...workflow.definitions, subgraphs } }
}
