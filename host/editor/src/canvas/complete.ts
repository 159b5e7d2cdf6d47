// Names of embeddings while a prompt is typed: a list below a field of several lines.
import * as api from "../server/api"
import { h } from "../page/dom"
import { matching, nameAt, type Found } from "../workflow/embeddings"

let serial = 0

const FRESH = 5000 // ms that a list is good for: files come and go
let known: { at: number; names: Promise<string[]> } | null = null

export function embeddingNames(): Promise<string[]> {
  if (!known || Date.now() - known.at > FRESH)
    known = { at: Date.now(), names: api.embeddings().catch(() => []) }
  return known.names
}

// Where the character at `index` stands in the field, in pixels of the field before it is scaled.
function caretPlace(field: HTMLTextAreaElement, index: number): { left: number; top: number } {
  const style = getComputedStyle(field)
  const copy = h("div", { class: "caret-copy", "aria-hidden": "true" })
  for (const name of ["font", "padding", "letterSpacing", "lineHeight", "border"] as const)
    copy.style[name] = style[name]
  copy.style.width = `${field.offsetWidth}px`
  const mark = h("span", {}, "\u200b")
  copy.append(field.value.slice(0, index), mark)
  document.body.append(copy)
  const line = mark.offsetHeight
  const place = { left: mark.offsetLeft, top: mark.offsetTop + line - field.scrollTop }
  copy.remove()
  return { left: place.left, top: Math.max(line, Math.min(place.top, field.offsetHeight)) }
}

export class Completion {
  private readonly list = h("ul", {
    class: "completion",
    role: "listbox",
    id: `completion-${++serial}`,
    "aria-label": "Embeddings",
    hidden: true,
  })
  private shown: string[] = []
  private active = 0
  private dismissed = -1 // where the name began whose list was closed

  constructor(
    private readonly field: HTMLTextAreaElement,
    private readonly names = embeddingNames,
  ) {
    field.setAttribute("aria-autocomplete", "list")
    field.setAttribute("aria-controls", this.list.id)
    // Before whatever else the field does with these keys.
    field.addEventListener("keydown", (event) => this.press(event))
    field.addEventListener("input", () => void this.update())
    field.addEventListener("click", () => this.close())
    field.addEventListener("blur", () => {
      this.close() // or it would still take the keys when the field is entered again
      this.list.remove()
    })
    field.addEventListener("scroll", () => this.close())
  }

  private async update() {
    const { field } = this
    const at = nameAt(field.value, field.selectionStart)
    if (at?.from !== this.dismissed) this.dismissed = -1
    if (!at || this.dismissed === at.from) return this.close()
    const names = await this.names()
    const now = nameAt(field.value, field.selectionStart) // more may have been typed meanwhile
    if (!now || document.activeElement !== field) return this.close()
    this.shown = matching(names, now.typed)
    // A name that is whole needs no list.
    if (!this.shown.length || (this.shown.length === 1 && this.shown[0] === now.typed))
      return this.close()
    this.active = 0
    this.draw(now)
  }

  private draw(at: Found) {
    const { field, list } = this
    list.replaceChildren(
      ...this.shown.map((name, i) =>
        h(
          "li",
          {
            role: "option",
            id: `${list.id}-${i}`,
            // The field must keep the focus, or it would close.
            onpointerdown: (event: Event) => {
              event.preventDefault()
              this.choose(i)
            },
          },
          name,
        ),
      ),
    )
    document.body.append(list)
    list.hidden = false
    const box = field.getBoundingClientRect()
    const scale = box.width / field.offsetWidth || 1
    const { left, top } = caretPlace(field, at.from)
    const x = Math.min(box.left + left * scale, innerWidth - list.offsetWidth - 8)
    const y = box.top + top * scale + 2
    const above = y + list.offsetHeight > innerHeight - 8
    list.style.left = `${Math.max(8, x)}px`
    list.style.top = `${above ? Math.max(8, y - list.offsetHeight - 26 * scale) : y}px`
    this.mark()
  }

  private mark() {
    const items = this.list.querySelectorAll("li")
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === this.active)))
    items[this.active]?.scrollIntoView({ block: "nearest" })
    this.field.setAttribute("aria-activedescendant", items[this.active]?.id ?? "")
  }

  private close() {
    this.list.hidden = true
    this.field.removeAttribute("aria-activedescendant")
  }

  private choose(index: number) {
    const { field } = this
    const at = nameAt(field.value, field.selectionStart)
    const name = this.shown[index]
    this.close()
    if (!at || name === undefined) return
    this.dismissed = at.from
    // What stands behind the caret of the same name goes, too; a weight stays.
    const rest = /^[^\s():]*/.exec(field.value.slice(field.selectionStart))![0]
    field.setRangeText(name, at.from, field.selectionStart + rest.length, "end")
    field.dispatchEvent(new Event("input", { bubbles: true }))
  }

  private press(event: KeyboardEvent) {
    if (this.list.hidden || event.ctrlKey || event.metaKey || event.altKey) return
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0
    const count = this.shown.length
    if (step) this.active = (this.active + step + count) % count
    else if (event.key === "Enter" || (event.key === "Tab" && !event.shiftKey))
      this.choose(this.active)
    else if (event.key === "Escape") {
      this.dismissed = nameAt(this.field.value, this.field.selectionStart)?.from ?? -1
      this.close()
    } else return
    event.preventDefault()
    event.stopImmediatePropagation()
    if (step) this.mark()
  }
}
