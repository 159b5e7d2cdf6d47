// The rows of rgthree's loader of LoRAs as fields of the Node panel, for the keyboard.
import { h } from "../page/dom"
import type { GraftNode } from "../canvas/nodes"
import { addLora, loraChoices, removeLora, setLora } from "../canvas/loras"
import type { LoraRow } from "../workflow/loras"

const SAME = "same"

// Of a text that is no number the value stays as it is; of an empty one it becomes `empty`.
function numberField(
  label: string,
  value: number | null | undefined,
  empty: null | undefined,
  set: (value: number | null) => void,
) {
  const shown = () => (value == null ? "" : String(value))
  const field: HTMLInputElement = h("input", {
    type: "text",
    inputmode: "decimal",
    "aria-label": label,
    placeholder: empty === null ? SAME : "",
    value: shown(),
    onchange: () => {
      const text = field.value.trim()
      const number = Number(text)
      if (text && Number.isFinite(number)) set((value = number))
      else if (!text && empty === null) set((value = null))
      field.value = shown()
    },
  })
  return field
}

function fileField(label: string, widget: any, node: GraftNode) {
  const { lora } = widget.value as LoraRow
  const values = loraChoices(node)
  const known = lora && !values.includes(lora) ? [lora, ...values] : values
  return h(
    "select",
    {
      "aria-label": label,
      onchange: (event: Event) =>
        setLora(node, widget, {
          lora: String(known[(event.target as HTMLSelectElement).selectedIndex]),
        }),
    },
    ...known.map((value) =>
      h("option", { value: String(value), selected: value === lora }, String(value)),
    ),
  )
}

export function loraField(node: GraftNode, widget: any, cls: string, again: () => void): Node {
  const row: LoraRow = widget.value
  const name = widget.name as string
  return h(
    "div",
    { class: widget.isMissing() ? "field bad" : cls, role: "group", "aria-label": name },
    h(
      "label",
      { class: "field check" },
      h("span", {}, name),
      h("input", {
        type: "checkbox",
        checked: !!row.on,
        "aria-label": `${name}: on`,
        onchange: (event: Event) =>
          setLora(node, widget, { on: (event.target as HTMLInputElement).checked }),
      }),
    ),
    fileField(`${name}: file`, widget, node),
    numberField(`${name}: strength`, row.strength ?? 1, undefined, (strength) =>
      setLora(node, widget, { strength: strength! }),
    ),
    numberField(`${name}: strength for the text encoder`, row.strengthTwo, null, (strengthTwo) =>
      setLora(node, widget, { strengthTwo }),
    ),
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          removeLora(node, widget)
          again()
        },
      },
      "Remove",
    ),
  )
}

export function addLoraField(node: GraftNode, again: () => void): Node {
  return h(
    "button",
    {
      type: "button",
      onclick: () => {
        addLora(node, String(loraChoices(node)[0]))
        again()
      },
    },
    "Add LoRA",
  )
}
