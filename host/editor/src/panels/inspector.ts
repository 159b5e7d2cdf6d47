// The selected node as a form: everything about it can be read and set from the keyboard.
import { Completion } from "../canvas/complete"
import { h, icon } from "../page/dom"
import type { Editor } from "../canvas/graph"
import { isMissing, type GraftNode } from "../canvas/nodes"
import { isLinked } from "../canvas/linked"
import { isLoraWidget, lorasOf } from "../canvas/loras"
import { addLoraField, loraField } from "./lorafields"
import { isLoras } from "../workflow/loras"
import { compatible, type InputSpec } from "../workflow/schema"
import { addTo, clampNumber, notTaken, showNumber } from "../workflow/values"

const MODES: [number, string][] = [
  [0, "runs"],
  [4, "bypassed: its input goes straight on"],
  [2, "muted: as if it were not there"],
]

export class Inspector {
  readonly element = h("section", { class: "panel-body inspector" })
  onHint = (_text: string) => {}
  private shown: GraftNode | null = null
  private version = ""

  constructor(private readonly editor: Editor) {}

  // Builds the form for the selected node; when it is the same as before only the values follow.
  render(force = false) {
    const node = this.editor.selected[0] ?? null
    const version = node
      ? JSON.stringify([
          this.editor.nodes.map((n) => [n.id, n.title]),
          node.inputs?.map((i) => i.link),
          node.faults,
          node.warnings,
          node.widgets?.length,
          lorasOf(node).map(({ value }) => value),
          node.result,
        ])
      : String(this.editor.nodes.map((n) => [n.id, n.title]))
    if (!force && node === this.shown && version === this.version) return this.follow()
    if (
      node === this.shown &&
      this.element.contains(document.activeElement) &&
      !force &&
      this.shown
    ) {
      const typing = document.activeElement as HTMLElement
      if (/^(input|textarea)$/i.test(typing.tagName)) return this.follow()
    }
    const back = this.focus(node === this.shown)
    this.shown = node
    this.version = version
    this.element.replaceChildren(this.picker(node), ...(node ? this.form(node) : [this.hint()]))
    back()
  }

  // Remembers which field has the focus, and where its cursor is, for the form that takes the place of
  // this one. Of another node's form only the list of nodes is the same field.
  private focus(same: boolean): () => void {
    const fields = () => [
      ...this.element.querySelectorAll<HTMLElement>("select, input, textarea, pre"),
    ]
    const focused = document.activeElement as HTMLElement
    const at = fields().indexOf(focused)
    if (at < 0 || (at > 0 && !same)) return () => {}
    const { selectionStart, selectionEnd } = focused as HTMLInputElement
    const typed = typeof selectionStart === "number" // null of a switch, undefined of a list
    return () => {
      const field = fields()[at]
      field?.focus({ preventScroll: true })
      if (typed) (field as HTMLInputElement)?.setSelectionRange?.(selectionStart, selectionEnd)
    }
  }

  private hint(): Node {
    return h(
      "div",
      { class: "empty" },
      h("p", {}, "Select a node to see its settings."),
      h(
        "p",
        { class: "muted" },
        "Double-click the canvas, or press A, to add one. Press ? for all shortcuts.",
      ),
    )
  }

  private picker(node: GraftNode | null): Node {
    const nodes = [...this.editor.nodes].sort((a, b) => (a.order ?? 0) - (b.order ?? 0))
    const options = nodes.map((n) =>
      h("option", { value: String(n.id), selected: n === node }, `${n.title} (#${n.id})`),
    )
    return h(
      "div",
      { class: "field" },
      h(
        "select",
        {
          "aria-label": "Node",
          onchange: (event: Event) => {
            const chosen = this.editor.node((event.target as HTMLSelectElement).value)
            if (!chosen) return
            this.editor.canvas.selectItems([chosen])
            this.editor.onSelection()
          },
        },
        h(
          "option",
          { value: "", selected: !node, disabled: true },
          nodes.length ? "choose…" : "none yet",
        ),
        ...options,
      ),
    )
  }

  private form(node: GraftNode): Node[] {
    const { spec } = node
    const parts: Node[] = []
    for (const fault of node.faults ?? [])
      parts.push(h("p", { class: "fault" }, icon("warning"), h("span", {}, fault.text)))
    for (const text of node.warnings ?? [])
      parts.push(h("p", { class: "fault warned" }, icon("warning"), h("span", {}, text)))
    if (spec?.description) parts.push(h("p", { class: "muted" }, spec.description))
    parts.push(
      this.text("Title", node.title, (value) => {
        node.title = value || spec?.title || node.type
      }),
    )
    const inputs = (node.inputs ?? [])
      .map((slot, i) => ({ slot, i }))
      .filter(({ slot }) => !slot.widget)
    if (inputs.length)
      parts.push(h("h3", {}, "Inputs"), ...inputs.map(({ i }) => this.link(node, i)))
    const widgets = (node.widgets ?? []).filter(
      (w: any) => (w.serialize !== false || w.settable) && w.type !== "button" && !w.hidden,
    )
    if (widgets.length)
      parts.push(h("h3", {}, "Settings"), ...widgets.map((widget) => this.setting(node, widget)))
    if (isLoras(node.type)) parts.push(addLoraField(node, () => this.render(true)))
    if (node.result)
      parts.push(
        h("h3", {}, "Result"),
        h("pre", { class: "result", tabindex: "0", "aria-label": "Result" }, node.result),
      )
    parts.push(
      h("h3", {}, "When the workflow runs, this node"),
      h(
        "label",
        { class: "field" },
        h(
          "select",
          {
            "aria-label": "What this node does",
            onchange: (event: Event) => {
              node.mode = Number((event.target as HTMLSelectElement).value)
              this.changed()
            },
          },
          ...MODES.map(([mode, text]) =>
            h("option", { value: String(mode), selected: node.mode === mode }, text),
          ),
        ),
      ),
    )
    return parts
  }

  private changed() {
    this.editor.canvas.setDirty(true, true)
    this.editor.onChange()
  }

  private text(label: string, value: string, set: (value: string) => void): Node {
    return h(
      "label",
      { class: "field" },
      h("span", {}, label),
      h("input", {
        type: "text",
        value,
        oninput: (event: Event) => {
          set((event.target as HTMLInputElement).value)
          this.changed()
        },
      }),
    )
  }

  // Where an input comes from: any output of another node that fits.
  private link(node: GraftNode, index: number): Node {
    const slot = node.inputs[index]
    const { graph } = this.editor
    const link = graph.getLink(slot.link)
    const options: HTMLElement[] = [h("option", { value: "" }, "not connected")]
    for (const other of this.editor.nodes) {
      if (other === node) continue
      other.outputs?.forEach((output, i) => {
        if (!compatible(output.type, slot.type)) return
        const chosen = link?.origin_id === other.id && link.origin_slot === i
        options.push(
          h(
            "option",
            { value: `${other.id}/${i}`, selected: chosen },
            `${other.title} (#${other.id}) → ${output.name || output.type}`,
          ),
        )
      })
    }
    const optional = node.spec?.inputs.find((i) => i.name === slot.name)?.optional
    return h(
      "label",
      { class: this.fieldClass(node, slot.name) },
      h("span", {}, slot.name, optional ? h("em", {}, " optional") : null),
      h(
        "select",
        {
          onchange: (event: Event) => {
            const [id, output] = (event.target as HTMLSelectElement).value.split("/")
            const origin = id ? this.editor.node(id) : null
            if (origin) origin.connect(Number(output), node, index)
            else node.disconnectInput(index)
            this.changed()
          },
        },
        ...options,
      ),
    )
  }

  private fieldClass(node: GraftNode, name: string): string {
    return node.faults?.some((fault) => fault.input === name) ? "field bad" : "field"
  }

  private setting(node: GraftNode, widget: any): Node {
    if (isLoraWidget(widget))
      return loraField(node, widget, this.fieldClass(node, widget.name), () => this.render(true))
    const input = node.spec?.inputs.find((i) => i.name === widget.name)
    const linked = isLinked(node, widget.name)
    const set = (value: unknown) => {
      widget.value = value
      widget.callback?.(value, this.editor.canvas, node)
      this.changed()
    }
    const field = this.control(widget, input, set)
    field.setAttribute("data-widget", widget.name)
    if (linked) field.setAttribute("disabled", "")
    const missing = !linked && isMissing(widget)
    const tip = linked
      ? "Comes from the link."
      : missing
        ? `This server does not have ${String(widget.value) || "a file for it"}. Choose another.`
        : widget.tooltip
    return h(
      "label",
      {
        class:
          (missing ? "field bad" : this.fieldClass(node, widget.name)) +
          (field instanceof HTMLInputElement && field.type === "checkbox" ? " check" : ""),
      },
      h("span", {}, widget.label ?? widget.name),
      field,
      tip ? h("small", {}, tip) : null,
    )
  }

  private control(
    widget: any,
    input: InputSpec | undefined,
    set: (value: unknown) => void,
  ): HTMLElement {
    if (widget.type === "combo") {
      const values: any[] = Array.isArray(widget.options.values)
        ? widget.options.values
        : Object.keys(widget.options.values ?? {})
      const known = values.includes(widget.value) ? values : [widget.value, ...values]
      return h(
        "select",
        {
          onchange: (event: Event) => set(known[(event.target as HTMLSelectElement).selectedIndex]),
        },
        ...known.map((value) =>
          h("option", { value: String(value), selected: value === widget.value }, String(value)),
        ),
      )
    }
    if (widget.type === "toggle")
      return h("input", {
        type: "checkbox",
        checked: !!widget.value,
        onchange: (event: Event) => set((event.target as HTMLInputElement).checked),
      })
    if ((widget.type === "number" || widget.type === "slider") && input) {
      const field = h("input", {
        type: "text",
        inputmode: "decimal",
        value: showNumber(widget.value, input),
        onchange: () => {
          const value = clampNumber(field.value, input)
          this.onHint(notTaken(field.value, input))
          if (value !== null) set(value)
          field.value = showNumber(widget.value, input)
        },
        onkeydown: (event: KeyboardEvent) => {
          const step = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0
          const value = step ? addTo(field.value, step * (input.options.step ?? 1), input) : null
          if (value === null) return
          event.preventDefault()
          set(typeof value === "number" ? Number(value.toPrecision(12)) : value)
          field.value = showNumber(widget.value, input)
        },
      })
      return field
    }
    if (widget.type === "multiline") {
      const area = h("textarea", { rows: "4", spellcheck: "false", oninput: () => set(area.value) })
      area.value = String(widget.value ?? "")
      new Completion(area)
      return area
    }
    return h("input", {
      type: "text",
      value: String(widget.value ?? ""),
      oninput: (event: Event) => set((event.target as HTMLInputElement).value),
    })
  }

  // Values that changed on the canvas.
  private follow() {
    for (const field of this.element.querySelectorAll<HTMLInputElement>("[data-widget]")) {
      if (field === document.activeElement) continue
      const widget = this.shown?.widgets?.find((w) => w.name === field.dataset.widget)
      const input = this.shown?.spec?.inputs.find((i) => i.name === field.dataset.widget)
      if (!widget) continue
      if (field.type === "checkbox") field.checked = !!widget.value
      else if (input && (widget.type === "number" || widget.type === "slider"))
        field.value = showNumber(widget.value, input)
      else field.value = String(widget.value ?? "")
    }
  }
}
