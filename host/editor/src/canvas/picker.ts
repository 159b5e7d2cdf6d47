// The list of a combo on the canvas: filtered by typing, moved through with the arrow keys.
import { fadeEnds, h } from "../page/dom"

const FILTER_FROM = 9 // shorter lists need no filter
const PAUSE = 800 // ms after which typing begins anew

export interface PickerOptions {
  label: string
  values: (string | number)[]
  value: unknown
  at: { x: number; y: number } // of the window
  pick(value: string | number): void
}

export function openPicker({ label, values, value, at, pick }: PickerOptions) {
  let shown = values
  let active = Math.max(0, values.indexOf(value as string))
  const list = h("ul", { role: "listbox", "aria-label": label, tabindex: "-1" })
  const fade = fadeEnds(list)
  const field = h("input", {
    type: "text",
    placeholder: "Filter…",
    "aria-label": `Filter ${label}`,
    spellcheck: "false",
  })
  field.hidden = values.length < FILTER_FROM
  const dialog = h("dialog", { class: "picker", "aria-label": label }, field, list)
  const mark = () =>
    list.querySelectorAll("li").forEach((item, i) => {
      item.classList.toggle("active", i === active)
      if (i === active) item.scrollIntoView({ block: "nearest" })
    })
  const choose = (index: number) => {
    dialog.close()
    if (shown[index] !== undefined) pick(shown[index])
  }
  const fill = () => {
    list.replaceChildren(
      ...shown.map((entry, i) =>
        h(
          "li",
          {
            role: "option",
            "aria-selected": String(entry === value),
            onclick: () => choose(i),
            onpointermove: () => {
              if (active !== i) {
                active = i
                mark()
              }
            },
          },
          String(entry),
        ),
      ),
    )
    if (!shown.length)
      list.append(
        h("li", { class: "muted" }, values.length ? "Nothing matches." : "The list is empty."),
      )
    mark()
    fade()
  }
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/)
    shown = values.filter((entry) =>
      words.every((word) => String(entry).toLowerCase().includes(word)),
    )
    active = 0
    fill()
  })
  // A short list has no field: typing goes to the entry that begins so.
  let typed = ""
  let last = 0
  const jump = ({ key, timeStamp, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean => {
    if (!field.hidden || key.length !== 1 || ctrlKey || metaKey || altKey) return false
    typed = (timeStamp - last < PAUSE ? typed : "") + key.toLowerCase()
    last = timeStamp
    const at = shown.findIndex((entry) => String(entry).toLowerCase().startsWith(typed))
    if (at >= 0) active = at
    return true
  }
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key] ?? 0
    if (step) active = Math.max(0, Math.min(shown.length - 1, active + step))
    else if (event.key === "Enter") choose(active)
    else if (!jump(event)) return
    event.preventDefault()
    mark()
  })
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close()
  })
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  fill()
  dialog.showModal()
  place(dialog, at)
  if (!field.hidden) field.focus()
  else list.focus()
  mark()
}

// Beside the pointer, and whole inside the window.
function place(dialog: HTMLElement, { x, y }: { x: number; y: number }) {
  const { width, height } = dialog.getBoundingClientRect()
  dialog.style.left = `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`
  dialog.style.top = `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`
}
