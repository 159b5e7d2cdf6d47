// rgthree's nodes that turn others off and on: one switch for each group of the workflow, or for each
// node that is linked to it. Those of groups are told by their properties which groups to show, in
// which order, and how many may be on.
import {
  LGraphCanvas,
  LGraphNode,
  LiteGraph,
  type LGraph,
  type LGraphGroup,
} from "@comfyorg/litegraph"
import { BYPASSED, MUTED, ROLES } from "../workflow/virtual"
import { changed } from "./widgets"

const ALWAYS = 0
const MOST = 100 // reroutes in a row, which may be a loop
const GRAIN = 30 // groups this near in height stand in one row

interface Switched {
  name: string
  nodes(): LGraphNode[]
}

// The middle of a node with its title, as groups hold nodes; one that was never drawn has no bounds yet.
function middleOf({ boundingRect: [x, y, width, height], pos, size }: LGraphNode) {
  if (width > 0) return [x + width / 2, y + height / 2]
  return [pos[0] + size[0] / 2, pos[1] + (size[1] - LiteGraph.NODE_TITLE_HEIGHT) / 2]
}

function nodesIn(group: LGraphGroup): LGraphNode[] {
  const [left, top] = group.pos
  const [width, height] = group.size
  return ((group.graph as LGraph | null)?.nodes ?? []).filter((node) => {
    const [x, y] = middleOf(node)
    return x >= left && x < left + width && y >= top && y < top + height
  })
}

const inFull = (colour: string) => {
  const digits = colour.trim().replace("#", "").toLowerCase()
  return digits.length === 3 ? digits.replace(/./g, "$&$&") : digits
}

// The colours that a node asks for, by their names or as #rgb or #rrggbb.
function coloursOf(text: unknown): string[] {
  const names: Record<string, { groupcolor: string } | undefined> = LGraphCanvas.node_colors
  return String(text ?? "")
    .split(",")
    .filter((colour) => colour.trim())
    .map((colour) => inFull(names[colour.trim().toLowerCase()]?.groupcolor ?? colour))
}

function titleTest(text: unknown): (title: string) => boolean {
  const wanted = String(text ?? "").trim()
  if (!wanted) return () => true
  try {
    const expression = new RegExp(wanted, "i")
    return (title) => expression.test(title)
  } catch {
    return () => false
  }
}

// Where a title stands in an alphabet of the user's: the first that it begins with, else behind all.
function orderIn(alphabet: string[]): (title: string) => number {
  return (title) => {
    const at = alphabet.findIndex((letters) => letters && title.toLowerCase().startsWith(letters))
    return at < 0 ? alphabet.length : at
  }
}

function sorted(groups: LGraphGroup[], properties: Record<string, unknown>): LGraphGroup[] {
  const custom = String(properties.customSortAlphabet ?? "")
    .replace(/\n/g, "")
    .toLowerCase()
  const byTitle = (a: LGraphGroup, b: LGraphGroup) => a.title.localeCompare(b.title)
  if (properties.sort === "custom alphabet" && custom.trim()) {
    const place = orderIn(custom.includes(",") ? custom.split(",") : custom.trim().split(""))
    return groups.sort((a, b) => place(a.title) - place(b.title) || byTitle(a, b))
  }
  if (properties.sort === "alphanumeric" || properties.sort === "custom alphabet")
    return groups.sort(byTitle)
  const row = ({ pos }: LGraphGroup) => [Math.floor(pos[1] / GRAIN), Math.floor(pos[0] / GRAIN)]
  return groups.sort((a, b) => row(a)[0] - row(b)[0] || row(a)[1] - row(b)[1])
}

function groupsFor(node: LGraphNode): Switched[] {
  const root = (node.graph as LGraph | null)?.rootGraph
  if (!root) return []
  const { properties } = node as { properties: Record<string, unknown> }
  const graphs =
    properties.showAllGraphs === false ? [node.graph as LGraph] : [root, ...root.subgraphs.values()]
  const colours = coloursOf(properties.matchColors)
  const matches = titleTest(properties.matchTitle)
  const groups = graphs
    .flatMap((graph) => [...graph.groups])
    .filter(({ color }) => !colours.length || (color && colours.includes(inFull(color))))
    .filter(({ title }) => matches(title))
  return sorted(groups, properties).map((group) => ({
    name: group.title,
    nodes: () => nodesIn(group),
  }))
}

// The nodes that are linked to this one, also through reroutes and nodes that collect links.
function linkedTo(node: LGraphNode, depth = 0): LGraphNode[] {
  if (depth > MOST) return []
  return (node.inputs ?? []).flatMap((slot) => {
    const link = node.graph?.getLink(slot.link)
    const origin = link && node.graph?.getNodeById(link.origin_id)
    if (!origin) return []
    const passes = ROLES.get(origin.type) === "pass" || origin.type === "Node Collector (rgthree)"
    return passes ? linkedTo(origin, depth + 1) : [origin]
  })
}

const linksFor = (node: LGraphNode): Switched[] =>
  [...new Set(linkedTo(node))].map((origin) => ({ name: origin.title, nodes: () => [origin] }))

abstract class Switches extends LGraphNode {
  abstract readonly off: number
  abstract switched(): Switched[]
  private shown = ""

  constructor(title: string, type: string) {
    super(title || type, type)
    this.addOutput("OPT_CONNECTION", "*")
    this.onDrawBackground = () => this.refresh()
  }
  onConfigure() {
    this.refresh()
  }

  // Groups come, go and are renamed without a word to this node.
  private refresh() {
    const all = this.switched()
    const shown = JSON.stringify(all.map(({ name }) => name))
    if (shown === this.shown) return
    this.shown = shown
    this.widgets = []
    const { size } = this
    all.forEach(({ name }, i) => this.addSwitch(name, i))
    const [width, height] = this.computeSize()
    this.setSize([Math.max(width, size[0]), Math.max(height, size[1])])
  }

  private addSwitch(name: string, i: number) {
    const widget: any = this.addWidget("toggle", `Enable ${name}`, false, () => changed(this), {
      on: "yes",
      off: "no",
    })
    Object.defineProperty(widget, "value", {
      get: () => this.isOn(this.switched()[i]),
      set: (on: boolean) => this.turn(i, on),
    })
    Object.assign(widget, { serialize: false, settable: true })
  }

  private isOn(one: Switched | undefined): boolean {
    return !!one?.nodes().some(({ mode }) => mode === ALWAYS)
  }
  private setAll(one: Switched | undefined, on: boolean) {
    for (const node of one?.nodes() ?? []) node.mode = on ? ALWAYS : this.off
  }
  private turn(i: number, on: boolean) {
    const all = this.switched()
    const rule = String(this.properties.toggleRestriction ?? "default")
    const others = all.filter((_, at) => at !== i)
    if (on && rule.includes(" one")) for (const other of others) this.setAll(other, false)
    if (!on && rule === "always one" && !others.some((other) => this.isOn(other))) return
    this.setAll(all[i], on)
    this.setDirtyCanvas(true, true)
  }
}

function classOf(type: string, off: number, find: (node: LGraphNode) => Switched[]) {
  return class extends Switches {
    readonly off = off
    constructor(title: string) {
      super(title, type)
    }
    switched = () => find(this)
  }
}

export const SWITCHES: [string, any][] = [
  ["Fast Groups Muter (rgthree)", classOf("Fast Groups Muter (rgthree)", MUTED, groupsFor)],
  [
    "Fast Groups Bypasser (rgthree)",
    classOf("Fast Groups Bypasser (rgthree)", BYPASSED, groupsFor),
  ],
  ["Fast Muter (rgthree)", classOf("Fast Muter (rgthree)", MUTED, linksFor)],
  ["Fast Bypasser (rgthree)", classOf("Fast Bypasser (rgthree)", BYPASSED, linksFor)],
]
