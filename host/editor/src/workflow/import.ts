// The prompt that a server runs → a workflow for the canvas, without positions: layout.ts places the
// nodes once their sizes are known.
import {
  isLink,
  type ApiNode,
  type Prompt,
  type UiNode,
  type UiSlot,
  type UiWorkflow,
} from "./convert"
import { isLoras, rowsOf } from "./loras"
import { widgetPlaces, type NodeSpec, type Specs } from "./schema"

class Importer {
  readonly nodes: UiNode[] = []
  readonly links: unknown[] = []
  private readonly givers: UiNode[] = [] // of values to sockets
  private last: number // id of a node
  private readonly ids: Map<string, number>
  private readonly outgoing = new Map<string, Map<number, number[]>>() // id -> slot -> links

  constructor(
    private readonly prompt: Prompt,
    private readonly specs: Specs,
    private readonly notes: string[],
  ) {
    this.ids = numberIds(Object.keys(prompt))
    this.last = Math.max(0, ...this.ids.values())
    for (const [key, node] of Object.entries(prompt)) this.nodes.push(this.node(key, node))
    Object.entries(prompt).forEach(([key, node], i) => {
      this.nodes[i].outputs = this.outputs(key, specs.get(node.class_type))
    })
    this.nodes.push(...this.givers)
  }

  private node(key: string, node: ApiNode): UiNode {
    const spec = this.specs.get(node.class_type)
    const literals: Record<string, unknown> = {}
    const inputs: UiSlot[] = []
    const known = spec?.inputs.map((input) => input.name) ?? []
    for (const name of new Set([...known, ...Object.keys(node.inputs ?? {})])) {
      const input = spec?.inputs.find((candidate) => candidate.name === name)
      const value = node.inputs?.[name]
      const linked = isLink(value) && value[0] in this.prompt
      const type = input?.type ?? "*"
      const link = linked
        ? this.link(value, key, inputs.length, type)
        : input && !input.widget && isPlain(value)
          ? this.give(value, name, key, inputs.length, type)
          : null
      if (isLink(value) && !linked && !input?.widget)
        this.notes.push(
          `Node ${key} takes “${name}” from node ${value[0]}, which the file does not have.`,
        )
      if (!linked && value !== undefined) literals[name] = unwrap(value)
      if (!input && !linked) continue
      inputs.push({ name, type, link, ...(input?.widget ? { widget: { name } } : {}) })
    }
    const title = node._meta?.title
    return {
      id: this.ids.get(key)!,
      type: node.class_type,
      ...(title ? { title } : {}),
      mode: 0,
      inputs,
      properties: { "Node name for S&R": node.class_type },
      widgets_values: isLoras(node.class_type)
        ? rowsOf(literals)
        : spec
          ? valuesOf(spec, literals)
          : literals, // by name
    }
  }

  private link([origin, slot]: [string, number], key: string, index: number, type: string): number {
    const id = this.links.length + 1
    const made = this.specs.get(this.prompt[origin].class_type)?.outputs[slot]?.type ?? type
    this.links.push([id, this.ids.get(origin), slot, this.ids.get(key), index, made])
    const slots = this.outgoing.get(origin) ?? new Map<number, number[]>()
    slots.set(slot, [...(slots.get(slot) ?? []), id])
    this.outgoing.set(origin, slots)
    return id
  }

  // A value at a socket, which shows none, comes from a node of its own.
  private give(value: unknown, name: string, key: string, index: number, type: string): number {
    const id = this.links.length + 1
    this.links.push([id, ++this.last, 0, this.ids.get(key), index, type])
    this.givers.push({
      id: this.last,
      type: "PrimitiveNode",
      title: name,
      mode: 0,
      inputs: [],
      outputs: [{ name: type, type, links: [id], slot_index: 0 }],
      properties: {},
      widgets_values: [value],
    })
    return id
  }

  private outputs(key: string, spec: NodeSpec | undefined): UiSlot[] {
    const slots = this.outgoing.get(key) ?? new Map<number, number[]>()
    const used = [...slots.keys()].map((slot) => slot + 1)
    return Array.from({ length: Math.max(spec?.outputs.length ?? 0, ...used) }, (_, i) => ({
      name: spec?.outputs[i]?.name ?? "*",
      type: spec?.outputs[i]?.type ?? "*",
      links: slots.get(i) ?? null,
      slot_index: i,
    }))
  }
}

function valuesOf(spec: NodeSpec, literals: Record<string, unknown>): unknown[] {
  return widgetPlaces(spec, literals).map((place) => {
    if (place.kind === "control") return "fixed"
    if (place.kind === "upload") return "image"
    return place.kind === "filter" ? "" : literals[place.name]
  })
}

// `notes` gets a line about each link that leads nowhere.
export function fromPrompt(prompt: Prompt, specs: Specs, notes: string[] = []): UiWorkflow {
  const { nodes, links } = new Importer(prompt, specs, notes)
  const last = Math.max(0, ...nodes.map((node) => Number(node.id)))
  const rest = { groups: [], config: {}, extra: {}, version: 0.4 }
  return { last_node_id: last, last_link_id: links.length, nodes, links, ...rest }
}

const isPlain = (value: unknown) => ["string", "number", "boolean"].includes(typeof value)

function unwrap(value: unknown): unknown {
  const inner = (value as { __value__?: unknown } | null)?.__value__
  return Array.isArray(inner) ? inner : value
}

// Ids of prompts may be any text; those of an editor's nodes are numbers.
function numberIds(keys: string[]): Map<string, number> {
  const ids = new Map<string, number>()
  for (const key of keys) if (/^[1-9]\d{0,8}$/.test(key)) ids.set(key, Number(key))
  const used = new Set(ids.values())
  let next = 1
  for (const key of keys) {
    if (ids.has(key)) continue
    while (used.has(next)) next++
    ids.set(key, next)
    used.add(next)
  }
  return ids
}
