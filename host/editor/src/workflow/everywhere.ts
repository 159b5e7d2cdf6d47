// Links that nobody drew: what Use Everywhere's nodes get goes to every input of its type that has no
// link, as far as their rules let it. They become links like others before a prompt is made;
// host/prompt/everywhere.c has the same for `graft run`. The rules are the extension's (cg-use-everywhere,
// 4 to 7), which kept some of them in other places before its version 7.
import type { UiLink, UiNode, UiSlot, UiWorkflow } from "./convert"
import type { Specs } from "./schema"
import { MUTED } from "./virtual"

interface Graph {
  nodes: UiNode[]
  links: unknown[]
  groups?: { title?: string; bounding?: ArrayLike<number> }[]
  extra?: Record<string, any>
}

// A link that nobody drew, and the node that stands for it.
export interface SentLink extends UiLink {
  sender: number | string
}

interface Test {
  expression: RegExp
  invert: boolean
}

interface Broadcast {
  from: UiNode
  type: string | number
  origin: number | string
  slot: number
  priority: number
  title: Test | null
  input: Test | null
  only: Set<UiNode> | null // who may get it
  named: string | null // of several of a type in one node: the input's own name, and how it is compared
  rule: number
}

const SEED = "Seed Everywhere"
const PROMPTS = "Prompts Everywhere"
const PRIORITIES: Record<string, number> = {
  "Anything Everywhere?": 10,
  [SEED]: 5,
  [PROMPTS]: 5,
  "Anything Everywhere": 2,
  "Anything Everywhere3": 0,
}
const SEEDS = "seed|随机种"
const PROMPT_NAMES = ["(_|\\b)pos(itive|_|\\b)|^prompt|正面", "(_|\\b)neg(ative|_|\\b)|负面"]
const TITLE_HEIGHT = 30

export const isEverywhere = (type: string) => type in PRIORITIES
const rulesOf = ({ properties }: UiNode): Record<string, any> =>
  (properties?.ue_properties as Record<string, any> | undefined) ?? {}

// As they are read by the extension: of one that cannot be read nothing is restricted, but an old node
// sends nothing at all.
function testOf(text: unknown, invert: unknown): Test | null {
  if (typeof text !== "string" || !text || text === ".*") return null
  return { expression: new RegExp(text), invert: !!invert }
}
const holds = (test: Test | null, text: string) =>
  !test || test.expression.test(text) !== test.invert

function isInside({ bounding }: { bounding?: ArrayLike<number> }, node: UiNode): boolean {
  const [pos, size] = [node.pos, node.size].map((pair: any) => [
    Number(pair?.[0]),
    Number(pair?.[1]),
  ])
  const [left, top, width, height] = Array.from(bounding ?? [])
  const x = pos[0] + size[0] / 2
  const y = pos[1] + (size[1] - TITLE_HEIGHT) / 2
  return x >= left && x < left + width && y >= top && y < top + height
}

// A node's own settings as they are in files of version 7, whichever wrote them.
function settingsOf(node: UiNode) {
  const rules = rulesOf(node)
  const now = rules.version !== undefined
  const values = node.type === "Anything Everywhere?" && Array.isArray(node.widgets_values)
  const [title, input, group] = values ? (node.widgets_values as unknown[]) : []
  const properties = node.properties ?? {}
  return {
    title: testOf(now ? rules.title_regex : title, now && rules.title_regex_invert),
    input: testOf(now ? rules.input_regex : input, now && rules.input_regex_invert),
    group: testOf(now ? rules.group_regex : group, now && rules.group_regex_invert),
    groups: Number((now ? rules : properties).group_restricted) || 0,
    colours: Number((now ? rules : properties).color_restricted) || 0,
    boost: Number(properties.priority_boost) || 0,
    now,
  }
}
type Settings = ReturnType<typeof settingsOf>

function priorityOf(node: UiNode, { title, input, group, groups, colours, boost, now }: Settings) {
  if (!now) return PRIORITIES[node.type] + (groups ? 0.1 : 0) + (colours ? 0.3 : 0) + boost
  const special = node.type === SEED || node.type === PROMPTS ? 10 : 0
  const restricted = (title || input || group ? 20 : 0) + (groups ? 3 : 0) + (colours ? 6 : 0)
  return Number(rulesOf(node).priority) || 10 + special + restricted
}

class Everywhere {
  private readonly byId: Map<string, UiNode>
  private readonly links = new Map<unknown, UiLink>()
  private readonly broadcasts: Broadcast[] = []

  constructor(
    private readonly graph: Graph,
    private readonly specs: Specs,
    private readonly old: boolean, // a file of an editor that has only linked widgets among the inputs
    links: UiLink[],
    private readonly ownInputs: UiSlot[], // of the sub-graph that this graph is
  ) {
    this.byId = new Map(graph.nodes.map((node) => [String(node.id), node]))
    for (const link of links) this.links.set(link.id, link)
    for (const node of graph.nodes)
      if (isEverywhere(node.type) && (node.mode ?? 0) === 0) this.addNode(node)
  }

  private addNode(node: UiNode) {
    try {
      const settings = settingsOf(node)
      if (node.type === SEED) {
        const input = settings.input ?? testOf(SEEDS, false)
        this.add(node, settings, { type: "INT", origin: node.id, slot: 0 }, { ...settings, input })
      } else this.addInputs(node, settings)
    } catch {
      // an expression that nothing can read
    }
  }

  private addInputs(node: UiNode, settings: Settings) {
    const sources = (node.inputs ?? []).map((slot) => (slot.widget ? null : this.sourceOf(slot)))
    sources.forEach((source, i) => {
      if (!source) return
      const rules = rulesOf(node)
      const prompts = node.type === PROMPTS
      const own = ["prompt", "negative"][i]
      const input = prompts
        ? testOf(rules[`${own}_regex`] || PROMPT_NAMES[i], rules[`${own}_regex_invert`])
        : settings.input
      const again = sources.filter((other) => other?.type === source.type).length > 1
      const named = again && settings.now && !prompts ? labelOf(node.inputs![i], false) : null
      this.add(node, settings, source, { input, named })
    })
  }

  // Where a link into one of these nodes comes from.
  private sourceOf(slot: UiSlot) {
    const link = slot.link == null ? undefined : this.links.get(slot.link)
    if (!link) return null
    const origin = this.byId.get(String(link.origin_id))
    const inside = Number(link.origin_id) === -10
    if (!inside && (!origin || origin.mode === MUTED)) return null
    const made = (inside ? this.ownInputs : origin!.outputs)?.[link.origin_slot]?.type
    const type = made === undefined || made === "*" ? link.type : made
    return { type: type === "*" ? slot.name : type, origin: link.origin_id, slot: link.origin_slot }
  }

  private add(
    from: UiNode,
    settings: Settings,
    source: { type: string | number; origin: number | string; slot: number },
    { input, named = null }: { input: Test | null; named?: string | null },
  ) {
    const priority = priorityOf(from, settings)
    const { title } = settings
    const rule = Number(rulesOf(from).repeated_type_rule) || 0
    const only = this.receivers(from, settings)
    this.broadcasts.push({ from, ...source, priority, title, input, only, named, rule })
  }

  private receivers(from: UiNode, { groups, colours, group }: Settings): Set<UiNode> | null {
    const all = this.graph.groups ?? []
    const mine = all.filter((one) => isInside(one, from))
    const rest = (node: UiNode) =>
      (!groups || mine.some((one) => isInside(one, node)) === (groups === 1)) &&
      (!colours || ((node as any).color === (from as any).color) === (colours === 1)) &&
      (!group || all.some((one) => holds(group, one.title ?? "") && isInside(one, node)))
    return groups || colours || group ? new Set(this.graph.nodes.filter(rest)) : null
  }

  private matches(broadcast: Broadcast, node: UiNode, slot: UiSlot): boolean {
    const { from, type, origin, title, input, only, named, rule } = broadcast
    if (String(origin) === String(node.id) || (only && !only.has(node))) return false
    const combo = type === "STRING" && slot.type === "COMBO" && rulesOf(from).string_to_combo > 0
    if (type !== slot.type && !combo) return false
    const called = node.title || this.specs.get(node.type)?.title || node.type
    if (!holds(title, called) || !holds(input, labelOf(slot, true))) return false
    if (named === null) return true
    const other = rule === 3 ? called : labelOf(slot, false)
    const shared = Math.min(named.length, other.length)
    if (rule === 1) return named.slice(0, shared) === other.slice(0, shared)
    if (rule === 2) return named.slice(named.length - shared) === other.slice(other.length - shared)
    return named === other
  }

  private isOpen(node: UiNode, slot: UiSlot): boolean {
    if (slot.link != null) return false
    const rules = rulesOf(node)
    if (!slot.widget) return !rules.input_ue_unconnectable?.[slot.name]
    const marks: any = rules.widget_ue_connectable ?? node.properties?.widget_ue_connectable
    return marks && typeof marks === "object" ? !!marks[slot.name] : this.old
  }

  // What a newer version of the extension wrote down, as long as the node that sends still gets that.
  private written(node: UiNode, index: number): Pick<Broadcast, "from" | "origin" | "slot"> | null {
    for (const one of (this.graph.extra?.ue_links as any[]) ?? []) {
      if (String(one?.downstream) !== String(node.id)) continue
      if (Number(one.downstream_slot) !== index) continue
      const from = this.byId.get(String(one.controller))
      const [origin, slot] = [String(one.upstream), Number(one.upstream_slot)]
      const known = this.broadcasts.find(
        (b) => b.from === from && String(b.origin) === origin && b.slot === slot,
      )
      if (known) return known
      const sends = from && (from.mode ?? 0) === 0 && from.properties?.ue_convert
      if (sends && String(from.id) === origin) return { from, origin: from.id, slot }
    }
    return null
  }

  private best(node: UiNode, slot: UiSlot): Broadcast | null {
    const all = this.broadcasts.filter((broadcast) => this.matches(broadcast, node, slot))
    const top = Math.max(...all.map(({ priority }) => priority))
    const first = all.filter(({ priority }) => priority === top)
    return first.length === 1 ? first[0] : null // the extension, too, cannot tell which of two
  }

  // The links that there would be, for inputs by their node and place.
  *found(): Generator<
    [node: UiNode, index: number, source: Pick<Broadcast, "from" | "origin" | "slot">]
  > {
    for (const node of this.graph.nodes) {
      if (isEverywhere(node.type) || node.mode === MUTED || node.properties?.rejects_ue_links)
        continue
      for (const [index, slot] of (node.inputs ?? []).entries()) {
        if (!this.isOpen(node, slot)) continue
        const source = this.written(node, index) ?? this.best(node, slot)
        if (source) yield [node, index, source]
      }
    }
  }
}

function labelOf(slot: any, local: boolean): string {
  return String(slot.label || (local && slot.localized_name) || slot.name)
}

const sends = (node: UiNode) => isEverywhere(node.type) || !!node.properties?.ue_convert

function linked<G extends Graph>(graph: G, specs: Specs, old: boolean, ownInputs: UiSlot[]): G {
  if (!graph.nodes?.some(sends)) return graph
  const links: (UiLink | SentLink)[] = (graph.links ?? []).map((raw: any) => {
    if (!Array.isArray(raw)) return raw as UiLink
    const [id, origin_id, origin_slot, target_id, target_slot, type] = raw
    return { id, origin_id, origin_slot, target_id, target_slot, type }
  })
  const nodes = graph.nodes.map((node) => ({ ...node }))
  let id = Math.max(0, ...links.map((link) => Number(link?.id) || 0))
  const all = new Everywhere({ ...graph, nodes }, specs, old, links, ownInputs)
  for (const [node, index, { from, origin, slot }] of [...all.found()]) {
    const input = { ...node.inputs![index], link: ++id }
    node.inputs = node.inputs!.map((other, i) => (i === index ? input : other))
    const end = { target_id: node.id, target_slot: index, type: input.type }
    links.push({ id, origin_id: origin, origin_slot: slot, ...end, sender: from.id })
  }
  return { ...graph, nodes, links }
}

// An editor before ComfyUI's 1.16 lists no widget among a node's inputs that could not be linked.
function isOld(workflow: UiWorkflow): boolean {
  const version = workflow.extra?.frontendVersion
  if (typeof version !== "string") return true
  const [major, minor] = version.split(".").map(Number)
  return major < 1 || (major === 1 && minor < 16)
}

// The same workflow with these links; the one given stays as it is.
export function linkEverywhere(workflow: UiWorkflow, specs: Specs): UiWorkflow {
  const old = isOld(workflow)
  const { definitions } = workflow
  const subgraphs = definitions?.subgraphs?.map((graph) =>
    linked(graph as typeof graph & Graph, specs, old, graph.inputs ?? []),
  )
  return {
    ...linked(workflow as UiWorkflow & Graph, specs, old, []),
    ...(subgraphs ? { definitions: { ...definitions, subgraphs } } : {}),
  }
}

// The page lists every widget among the inputs: which of them an old file had there is kept in the
// place that newer versions of the extension have for it.
export function keepConnectable(workflow: UiWorkflow): UiWorkflow {
  if (!isOld(workflow)) return workflow
  const keep = (nodes: UiNode[]) => {
    if (!nodes?.some(sends)) return nodes
    return nodes.map((node) => {
      const rules = rulesOf(node)
      if (sends(node) || rules.widget_ue_connectable || node.properties?.widget_ue_connectable)
        return node
      const names = (node.inputs ?? [])
        .filter((slot) => slot.widget)
        .map(({ name }) => [name, true])
      const ue_properties = { ...rules, widget_ue_connectable: Object.fromEntries(names) }
      return { ...node, properties: { ...node.properties, ue_properties } }
    })
  }
  const definitions = workflow.definitions && {
    ...workflow.definitions,
    subgraphs: workflow.definitions.subgraphs?.map((s) => ({ ...s, nodes: keep(s.nodes) })),
  }
  return { ...workflow, nodes: keep(workflow.nodes), ...(definitions ? { definitions } : {}) }
}
