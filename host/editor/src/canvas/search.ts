// Finding a node to add, in a dialog.
import { fadeEnds, h } from "../page/dom"
import { find, type LinkEnd } from "../workflow/find"
import type { NodeSpec, Specs } from "../workflow/schema"
import { typeColor } from "../page/theme"

function rowOf(spec: NodeSpec, index: number): HTMLElement {
  const dots = spec.outputs.slice(0, 4).map((output) => {
    const dot = h("i", { class: "dot", title: output.type })
    dot.style.background = typeColor(output.type)
    return dot
  })
  const category = spec.deprecated ? "deprecated" : spec.category
  return h(
    "li",
    { role: "option", id: `search-${index}` },
    h("span", { class: "search-name" }, spec.title, ...dots),
    h("span", { class: "search-category" }, category),
  )
}

export function openSearch(specs: Specs, pick: (spec: NodeSpec) => void, end?: LinkEnd) {
  let shown: NodeSpec[] = []
  let active = 0
  const list = h("ul", { role: "listbox", id: "search-list", "aria-label": "Nodes" })
  const fade = fadeEnds(list)
  const detail = h("p", { class: "search-detail", "aria-live": "polite" })
  const field = h("input", {
    type: "search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "search-list",
    "aria-label": "Search nodes",
    placeholder: "Search nodes…",
    autocomplete: "off",
    spellcheck: "false",
  })
  const hint = end ? h("span", { class: "chip" }, `fits ${end.type}`) : null
  const dialog = h(
    "dialog",
    { class: "dialog search", "aria-label": "Add a node" },
    h("header", {}, field, hint),
    list,
    detail,
  )

  const mark = () => {
    list.querySelectorAll("li").forEach((item, i) => {
      item.setAttribute("aria-selected", String(i === active))
      if (i === active) {
        item.scrollIntoView({ block: "nearest" })
        field.setAttribute("aria-activedescendant", item.id)
      }
    })
    detail.textContent = shown[active]?.description ?? (shown.length ? "" : "No node matches.")
  }
  const choose = (index: number) => {
    const spec = shown[index]
    dialog.close()
    if (spec) pick(spec)
  }
  const update = () => {
    shown = find(specs, field.value, end).slice(0, 200)
    active = 0
    list.replaceChildren(
      ...shown.map((spec, i) => {
        const row = rowOf(spec, i)
        row.addEventListener("click", () => choose(i))
        row.addEventListener("pointermove", () => {
          if (active === i) return
          active = i
          mark()
        })
        return row
      }),
    )
    list.hidden = !shown.length
    mark()
    fade()
  }
  field.addEventListener("input", update)
  field.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step) active = Math.max(0, Math.min(shown.length - 1, active + step))
    else if (event.key === "Enter") choose(active)
    else if (event.key === "Escape")
      dialog.close() // a search field would only be emptied
    else return
    event.preventDefault()
    mark()
  })
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close()
  })
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  update()
  field.focus()
}
