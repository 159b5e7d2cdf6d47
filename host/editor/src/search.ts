// Finding a node to add: by name, category or what it does; or by what fits a link.
import { h } from "./dom"
import { compatible, type NodeSpec, type Specs } from "./schema"
import { typeColor } from "./theme"

export interface LinkEnd {
  type: string | number
  from: "output" | "input" // the end that is already attached
}

// Higher is better; 0 is no match. Every word has to be found somewhere.
export function score(spec: NodeSpec, query: string): number {
  const title = spec.title.toLowerCase()
  const name = spec.name.toLowerCase()
  let total = spec.deprecated ? 0.5 : 1
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    if (title === word || name === word) total += 100
    else if (title.startsWith(word) || name.startsWith(word)) total += 50
    else if (new RegExp(`\\b${word.replace(/[^\w]/g, "\\$&")}`).test(title)) total += 30
    else if (title.includes(word) || name.includes(word)) total += 20
    else if (spec.aliases.some((alias) => alias.toLowerCase().includes(word))) total += 15
    else if (spec.category.toLowerCase().includes(word)) total += 8
    else if (spec.description.toLowerCase().includes(word)) total += 3
    else return 0
  }
  return total
}

export function fits(spec: NodeSpec, end: LinkEnd): boolean {
  return end.from === "output"
    ? spec.inputs.some((input) => compatible(end.type, input.type))
    : spec.outputs.some((output) => compatible(output.type, end.type))
}

export function find(specs: Specs, query: string, end?: LinkEnd): NodeSpec[] {
  const found = [...specs.values()]
    .filter((spec) => !end || fits(spec, end))
    .map((spec) => ({ spec, points: score(spec, query) }))
    .filter(({ points }) => points > 0)
  // A socket of the very type comes before one that takes a value of any kind.
  const exact = (spec: NodeSpec) =>
    end && (end.from === "output" ? spec.inputs.some((i) => !i.widget && i.type === end.type) : spec.outputs.some((o) => o.type === end.type)) ? 1 : 0
  return found
    .sort((a, b) =>
      b.points - a.points || exact(b.spec) - exact(a.spec) ||
      a.spec.category.localeCompare(b.spec.category) || a.spec.title.localeCompare(b.spec.title))
    .map(({ spec }) => spec)
}

export function openSearch(specs: Specs, pick: (spec: NodeSpec) => void, end?: LinkEnd) {
  let shown: NodeSpec[] = []
  let active = 0
  const list = h("ul", { role: "listbox", id: "search-list", "aria-label": "Nodes" })
  const detail = h("p", { class: "search-detail", "aria-live": "polite" })
  const field = h("input", {
    type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "search-list",
    "aria-label": "Search nodes", placeholder: "Search nodes…", autocomplete: "off", spellcheck: "false",
  })
  const hint = end ? h("span", { class: "chip" }, `fits ${end.type}`) : null
  const dialog = h("dialog", { class: "dialog search", "aria-label": "Add a node" }, h("header", {}, field, hint), list, detail)

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
        const dots = spec.outputs.slice(0, 4).map((output) => {
          const dot = h("i", { class: "dot", title: output.type })
          dot.style.background = typeColor(output.type)
          return dot
        })
        return h(
          "li",
          { role: "option", id: `search-${i}`, onclick: () => choose(i), onpointermove: () => { if (active !== i) { active = i; mark() } } },
          h("span", { class: "search-name" }, spec.title, ...dots),
          h("span", { class: "search-category" }, spec.deprecated ? "deprecated" : spec.category),
        )
      }),
    )
    mark()
  }
  field.addEventListener("input", update)
  field.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step) active = Math.max(0, Math.min(shown.length - 1, active + step))
    else if (event.key === "Enter") choose(active)
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
