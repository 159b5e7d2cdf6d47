// A workflow as editors save it → the prompt that the server runs.
import {
  alignValues,
  compatible,
  CONTROLS,
  widgetPlaces,
  type NodeSpec,
  type Specs,
} from "./schema"
import { linkEverywhere } from "./everywhere"
import { isLoras, rowInputs } from "./loras"
import { BYPASSED, MUTED, ROLES } from "./virtual"

export interface UiSlot {
  name: string
  type: string | number
  link?: number | null
  links?: number[] | null
  widget?: { name: string }
  slot_index?: number
}
export interface UiNode {
  id: number | string
  type: string
  title?: string
  pos?: unknown
  size?: unknown
  order?: number
  mode?: number
  inputs?: UiSlot[]
  outputs?: UiSlot[]
  properties?: Record<string, unknown>
  widgets_values?: unknown
}
export interface UiLink {
  id: number
  origin_id: number | string
  origin_slot: number
  target_id: number | string
  target_slot: number
  type: string | number
}
export interface UiSubgraph {
  id: string
  name?: string
  nodes: UiNode[]
  links: unknown[]
  inputs?: UiSlot[]
  outputs?: UiSlot[]
}
export interface UiWorkflow {
  nodes: UiNode[]
  links: unknown[]
  version?: number
  extra?: Record<string, unknown>
  definitions?: { subgraphs?: UiSubgraph[] }
  [other: string]: unknown
}
export interface ApiNode {
  class_type: string
  inputs: Record<string, unknown>
  _meta?: { title: string }
}
export type Prompt = Record<string, ApiNode>
// Values of a node that the server does not know, of which the file does not say what they are.
export interface Lost {
  title: string
  type: string
  values: unknown[]
}

export const SUBGRAPH_INPUT = -10 // in the place of a node inside: what the instance is given
const SUBGRAPH_OUTPUT = -20

const roleOf = (type: string) => ROLES.get(type)

function firstValue(node: UiNode): unknown {
  return Array.isArray(node.widgets_values) ? node.widgets_values[0] : undefined
}

export function parseLinks(links: unknown[] | undefined): Map<number, UiLink> {
  const map = new Map<number, UiLink>()
  for (const raw of links ?? []) {
    if (Array.isArray(raw)) {
      const [id, origin_id, origin_slot, target_id, target_slot, type] = raw
      map.set(id, { id, origin_id, origin_slot, target_id, target_slot, type })
    } else if (raw && typeof raw === "object") map.set((raw as UiLink).id, raw as UiLink)
  }
  return map
}

// One graph while it is walked: the workflow itself, or one instance of a sub-graph.
interface Scope {
  nodes: Map<string, UiNode>
  links: Map<number, UiLink>
  named: Map<unknown, UiNode> // those that give their link a name, by it
  picked: Map<UiNode, Source> // what switches give
  prefix: string
  parent?: Scope
  instance?: UiNode
}
type Source = { link: [string, number] } | { literal: unknown } | null

class Converter {
  readonly prompt: Prompt = {}
  readonly unknown = new Set<string>()
  readonly lost: Lost[] = []
  private readonly subgraphs: Map<string, UiSubgraph>

  constructor(
    given: UiWorkflow,
    private readonly specs: Specs,
  ) {
    const workflow = linkEverywhere(given, specs)
    const list = workflow.definitions?.subgraphs ?? []
    this.subgraphs = new Map(list.map((subgraph) => [subgraph.id, subgraph]))
    this.walk(this.scope(workflow.nodes, workflow.links, ""), 0)
    this.dropDangling()
  }

  private scope(nodes: UiNode[], links: unknown[], prefix: string): Scope {
    const byId = new Map((nodes ?? []).map((node) => [String(node.id), node]))
    const named = new Map<unknown, UiNode>()
    for (const node of byId.values()) {
      const name = roleOf(node.type) === "set" ? firstValue(node) : undefined
      if (typeof name === "string" && !named.has(name)) named.set(name, node)
    }
    return { nodes: byId, links: parseLinks(links), named, picked: new Map(), prefix }
  }

  private inner(scope: Scope, instance: UiNode): Scope {
    const subgraph = this.subgraphs.get(instance.type)!
    const prefix = `${scope.prefix}${instance.id}:`
    return { ...this.scope(subgraph.nodes, subgraph.links, prefix), parent: scope, instance }
  }

  private walk(scope: Scope, depth: number) {
    if (depth > 32)
      throw new Error("Sub-graphs are nested more than 32 deep, or contain themselves.")
    const nodes = [...scope.nodes.values()].sort((a, b) => (a.order ?? 0) - (b.order ?? 0))
    for (const node of nodes) {
      if (node.mode === MUTED || node.mode === BYPASSED || roleOf(node.type)) continue
      if (this.subgraphs.has(node.type)) this.walk(this.inner(scope, node), depth + 1)
      else this.emit(scope, node)
    }
  }

  private emit(scope: Scope, node: UiNode) {
    const spec = this.specs.get(node.type)
    if (!spec) this.unknown.add(node.type)
    const title = node.title || spec?.title || node.type
    const named = isLoras(node.type)
      ? rowInputs(node.widgets_values)
      : spec
        ? this.literals(spec, node)
        : namedValues(node)
    const inputs: Record<string, unknown> = named ?? {}
    if (!named) this.lost.push({ title, type: node.type, values: node.widgets_values as unknown[] })
    for (const slot of node.inputs ?? []) {
      if (slot.link == null) continue
      const source = this.resolve(scope, slot.link, slot.type, 0)
      if (!source) {
        // A link that leads nowhere leaves the input empty; a widget goes on holding its own value.
        if (!slot.widget) delete inputs[slot.name]
      } else if ("link" in source) inputs[slot.name] = source.link
      else inputs[slot.name] = wrap(source.literal)
    }
    this.prompt[scope.prefix + node.id] = { class_type: node.type, inputs, _meta: { title } }
  }

  private literals(spec: NodeSpec, node: UiNode): Record<string, unknown> {
    const places = widgetPlaces(spec, node.widgets_values ?? null)
    const values = alignValues(places, node.widgets_values)
    const inputs: Record<string, unknown> = {}
    places.forEach((place, i) => {
      if (place.kind === "value" && values[i] !== undefined) inputs[place.name] = wrap(values[i])
    })
    return inputs
  }

  // Follows a link back to the output that a running node feeds it from.
  private resolve(scope: Scope, linkId: number, type: string | number, depth: number): Source {
    const link = scope.links.get(linkId)
    if (!link || depth > 1000) return null
    if (Number(link.origin_id) === SUBGRAPH_INPUT) return this.outside(scope, link, type, depth)
    const node = scope.nodes.get(String(link.origin_id))
    if (!node || node.mode === MUTED) return null
    const role = roleOf(node.type)
    if (role === "pass") return this.through(scope, node.inputs?.[0], type, depth)
    if (node.mode === BYPASSED)
      return this.through(scope, bypassInput(node, link.origin_slot, type), type, depth)
    if (role === "value") {
      const value = firstValue(node)
      return value === undefined ? null : { literal: value }
    }
    if (role === "first") return this.pick(scope, node, type, depth)
    if (role === "set") return this.through(scope, node.inputs?.[0], type, depth)
    if (role === "get") return this.byName(scope, firstValue(node), type, depth)
    if (role) return null
    if (this.subgraphs.has(node.type)) {
      const inner = this.inner(scope, node)
      for (const candidate of inner.links.values())
        if (
          Number(candidate.target_id) === SUBGRAPH_OUTPUT &&
          candidate.target_slot === link.origin_slot
        )
          return this.resolve(inner, candidate.id, type, depth + 1)
      return null
    }
    return { link: [scope.prefix + node.id, link.origin_slot] }
  }

  // What a switch gives: of its inputs the first that gets anything. One that feeds itself gives nothing.
  private pick(scope: Scope, node: UiNode, type: string | number, depth: number): Source {
    const known = scope.picked.get(node)
    if (known !== undefined) return known
    scope.picked.set(node, null)
    for (const slot of node.inputs ?? []) {
      const source = this.through(scope, slot, type, depth)
      if (source) {
        scope.picked.set(node, source)
        break
      }
    }
    return scope.picked.get(node)!
  }

  // What goes into the first node that gives its link this name, here or around this sub-graph.
  private byName(
    scope: Scope | undefined,
    name: unknown,
    type: string | number,
    depth: number,
  ): Source {
    for (; scope; scope = scope.parent) {
      const found = scope.named.get(name)
      if (found?.mode === MUTED) return null
      if (found) return this.through(scope, found.inputs?.[0], type, depth)
    }
    return null
  }

  private through(
    scope: Scope,
    slot: UiSlot | undefined,
    type: string | number,
    depth: number,
  ): Source {
    return slot?.link == null ? null : this.resolve(scope, slot.link, type, depth + 1)
  }

  // A link from a sub-graph's own input: what its instance is given there.
  private outside(scope: Scope, link: UiLink, type: string | number, depth: number): Source {
    const { parent, instance } = scope
    const slot = instance?.inputs?.[link.origin_slot]
    if (!parent || !instance || !slot) return null
    if (slot.link != null) return this.resolve(parent, slot.link, type, depth + 1)
    if (!slot.widget) return null
    const values = instance.widgets_values
    if (values && !Array.isArray(values)) {
      const value = (values as Record<string, unknown>)[slot.name]
      return value === undefined ? null : { literal: value }
    }
    const promoted = instance.inputs!.filter((input) => input.widget)
    const value = (values as unknown[] | undefined)?.[promoted.indexOf(slot)]
    return value === undefined || value === null ? null : { literal: value }
  }

  private dropDangling() {
    for (const node of Object.values(this.prompt))
      for (const [name, value] of Object.entries(node.inputs))
        if (isLink(value) && !(value[0] in this.prompt)) delete node.inputs[name]
  }
}

// The input that a bypassed node passes on to one of its outputs.
function bypassInput(node: UiNode, slot: number, wanted: string | number): UiSlot | undefined {
  const inputs = node.inputs ?? []
  const type = node.outputs?.[slot]?.type ?? wanted
  const same = inputs[slot]
  if (same && same.link != null && same.type === type) return same
  return (
    inputs.find((input) => input.type === type && input.link != null) ??
    inputs.find((input) => input.type === type) ??
    inputs.find((input) => input.link != null && compatible(type, input.type))
  )
}

// The values of a node that is known from its file alone: by the names that stand beside them, or
// by those of its inputs that are widgets, in their order. Null when that does not come out even.
function namedValues(node: UiNode): Record<string, unknown> | null {
  const values = node.widgets_values
  if (!values || typeof values !== "object" || !Object.keys(values).length) return {}
  const pairs: [string, unknown][] = []
  if (!Array.isArray(values)) pairs.push(...Object.entries(values))
  else {
    const names = (node.inputs ?? []).filter((slot) => slot.widget).map((slot) => slot.name)
    let spare = values.length - names.length
    let next = 0
    for (const name of names) {
      pairs.push([name, values[next++]])
      // What moves a seed on after a run is not for the server.
      if (spare > 0 && /seed/.test(name) && CONTROLS.includes(values[next] as string)) {
        next++
        spare--
      }
    }
    if (spare) return null
  }
  return Object.fromEntries(
    pairs.filter(([, value]) => value !== undefined).map(([name, value]) => [name, wrap(value)]),
  )
}

function wrap(value: unknown): unknown {
  return Array.isArray(value) ? { __value__: value } : value
}

export function isLink(value: unknown): value is [string, number] {
  return (
    Array.isArray(value) &&
    value.length === 2 &&
    typeof value[0] === "string" &&
    typeof value[1] === "number"
  )
}

export function toPrompt(
  workflow: UiWorkflow,
  specs: Specs,
): { prompt: Prompt; unknown: string[]; lost: Lost[] } {
  const { prompt, unknown, lost } = new Converter(workflow, specs)
  return { prompt, unknown: [...unknown], lost }
}

export function isUiWorkflow(data: any): data is UiWorkflow {
  return !!data && typeof data === "object" && Array.isArray(data.nodes)
}

export function isPrompt(data: any): data is Prompt {
  if (!data || typeof data !== "object" || Array.isArray(data)) return false
  const nodes = Object.values(data)
  return nodes.length > 0 && nodes.every((node: any) => typeof node?.class_type === "string")
}
