// Nodes that only the page knows: the server never sees them.
import { LGraphNode, LiteGraph } from "@comfyorg/litegraph"
import { Label } from "./labels"
import { addNote } from "./notes"
import { SWITCHES } from "./switches"
import { addWidget, changed } from "./widgets"
import { CONTROLS, type InputSpec, type Specs } from "../workflow/schema"
import type { GraftNode } from "./nodes"
import { ROLES } from "../workflow/virtual"

const nameInput: InputSpec = {
  name: "name",
  type: "STRING",
  optional: false,
  widget: true,
  options: {},
}

class Note extends LGraphNode {
  constructor(title: string, form: "plain" | "markdown" = "plain") {
    super(title || "Note", "Note")
    this.serialize_widgets = true
    addNote(this, form, () => changed(this))
    this.setSize([260, 140])
  }
}
class MarkdownNote extends Note {
  constructor(title: string) {
    super(title || "Markdown Note", "markdown")
  }
}

class Reroute extends LGraphNode {
  static title_mode = LiteGraph.NO_TITLE // as ComfyUI draws it
  constructor(title: string) {
    super(title || "Reroute", "Reroute")
    this.addInput("", "*")
    this.addOutput("", "*")
    this.setSize([75, 26])
  }
  // Both ends carry the type of what flows through.
  onConnectionsChange(): void {
    const link = this.inputs[0]?.link
    const origin = link == null ? undefined : this.graph?.getLink(link)
    const type = origin?.type ?? "*"
    if (!this.outputs[0]) return
    this.outputs[0].type = type
    this.outputs[0].name = type === "*" ? "" : String(type)
  }
}

// One value for the inputs it is linked to. Its widgets are those of the value that the file holds.
class PrimitiveNode extends LGraphNode {
  constructor(title: string) {
    super(title || "Primitive", "PrimitiveNode")
    this.serialize_widgets = true
    this.addOutput("connect to widget input", "*")
  }
  configure(info: any): void {
    this.widgets = []
    const values: unknown[] = Array.isArray(info.widgets_values) ? info.widgets_values : []
    values.forEach((value, i) => {
      if (i > 0)
        this.addWidget("combo", "control_after_generate", String(value), () => {}, {
          values: CONTROLS,
        })
      else if (typeof value === "number")
        this.addWidget("number", "value", value, () => {}, {
          step2: 1,
          precision: Number.isInteger(value) ? 0 : 3,
        })
      else if (typeof value === "boolean") this.addWidget("toggle", "value", value, () => {}, {})
      else this.addWidget("text", "value", String(value), () => {}, {})
    })
    super.configure(info)
  }
  // A new one takes its value from the first widget it is linked to.
  onConnectionsChange(_type: number, _slot: number, connected: boolean): void {
    if (!connected || this.widgets?.length || !this.graph) return
    const link = this.graph.getLink(this.outputs[0]?.links?.[0])
    const target = link && (this.graph.getNodeById(link.target_id) as GraftNode | null)
    const input = target?.spec?.inputs.find(
      (i) => i.name === target.inputs[link!.target_slot]?.name,
    )
    const source = target?.widgets?.find((w) => w.name === input?.name)
    if (!input || !source) return
    const widget = addWidget(this, {
      name: "value",
      kind: "value",
      input: { ...input, name: "value" },
    })
    widget.value = source.value
    if (input.type === "INT")
      addWidget(this, { name: "control_after_generate", kind: "control", input })
    this.outputs[0].type = input.type
    this.outputs[0].name = input.type
    this.setSize(this.computeSize())
  }
}

const seedInput: InputSpec = {
  name: "seed",
  type: "INT",
  optional: false,
  widget: true,
  options: { min: 0, max: "18446744073709551615" as unknown as number },
}

// Use Everywhere's seed for all, which moves on after a run as others do.
class SeedEverywhere extends LGraphNode {
  constructor(title: string) {
    super(title || "Seed Everywhere", "Seed Everywhere")
    this.serialize_widgets = true
    this.addOutput("INT", "INT")
    addWidget(this, { name: "seed", kind: "value", input: seedInput })
    addWidget(this, { name: "control_after_generate", kind: "control", input: seedInput })
  }
}

// A node of an extension: slots and title are those of the file, and so are values, of which only the
// name of a link is shown.
function classOf(name: string, role: string) {
  return class extends LGraphNode {
    static title_mode = role === "pass" ? LiteGraph.NO_TITLE : LiteGraph.NORMAL_TITLE
    private values: unknown
    constructor(title: string) {
      super(title || name, name)
      this.serialize_widgets = true
      if (role === "set" || role === "get")
        addWidget(this, { name: "name", kind: "value", input: nameInput })
      this.onSerialize = (data: any) => {
        if (!this.widgets?.length && this.values) data.widgets_values = this.values
      }
    }
    configure(info: any): void {
      this.values = info.widgets_values
      super.configure(info)
    }
  }
}

const CLASSES: [string, string, string, any][] = [
  ["Note", "Note", "A text for whoever reads the workflow.", Note],
  [
    "MarkdownNote",
    "Markdown Note",
    "A text for whoever reads the workflow, with headings, lists, links and tables.",
    MarkdownNote,
  ],
  ["Reroute", "Reroute", "A bend in a link.", Reroute],
  ["PrimitiveNode", "Primitive", "One value for the settings that it is linked to.", PrimitiveNode],
]

// As the search sees them.
export const virtualSpecs: Specs = new Map(
  CLASSES.map(([name, title, description]) => {
    const slots = name === "Reroute" ? [{ name: "", type: "*" }] : []
    const inputs = slots.map((s) => ({ ...s, optional: true, widget: false, options: {} }))
    const outputs = slots.map((s) => ({ ...s, list: false }))
    const rest = { output: false, deprecated: false, experimental: false, aliases: [] }
    return [name, { name, title, description, category: "utils", inputs, outputs, ...rest }]
  }),
)

export function registerVirtual() {
  for (const [name, title, , cls] of CLASSES) {
    LiteGraph.registerNodeType(name, cls)
    Object.assign(cls, { category: "utils", title })
  }
  const own = new Map<string, any>([
    ["Label (rgthree)", Label],
    ["Seed Everywhere", SeedEverywhere],
    ...SWITCHES,
  ])
  for (const [name, role] of ROLES) {
    if (CLASSES.some(([known]) => known === name)) continue
    const cls = own.get(name) ?? classOf(name, role)
    LiteGraph.registerNodeType(name, cls)
    Object.assign(cls, { category: "utils", title: name })
  }
}
