// Shortcuts: one table for doing and for showing them.
import { fadeEnds, h, iconButton } from "./dom"

export interface Shortcut {
  keys: string // as shown: "Ctrl+Enter"; several are separated by " or "
  text: string // "": the help does not show it
  on?: string // id of the element that must have the focus
  run?: () => void // none: the canvas does it itself
  typing?: boolean // works while a field is being typed in, too
}

// What the canvas does itself by mouse.
export const GESTURES: Shortcut[] = [
  { keys: "Drag", text: "The canvas: move the view; a node: move it" },
  { keys: "Wheel", text: "Zoom" },
  { keys: "Ctrl+Drag", text: "Select what is in a rectangle" },
  { keys: "Shift+Click", text: "Add a node to the selection, or take it out" },
  { keys: "Alt+Drag", text: "A node: copy it" },
  { keys: "Alt+Click", text: "A link: add a bend" },
  { keys: "Right click", text: "Menu of a node, a link or the canvas" },
]

function matches(event: KeyboardEvent, keys: string): boolean {
  return keys.split(" or ").some((combination) => {
    const parts = combination.split("+")
    const key = parts.pop()!.toLowerCase()
    const control = event.ctrlKey || event.metaKey
    const shifted = key.length === 1 && !/[a-z0-9]/.test(key) // "?" needs Shift on most keyboards
    return (
      event.key.toLowerCase() === key &&
      control === parts.includes("Ctrl") &&
      event.altKey === parts.includes("Alt") &&
      (shifted || event.shiftKey === parts.includes("Shift"))
    )
  })
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (/^(input|textarea|select)$/i.test(target.tagName) || target.isContentEditable)

// The canvas takes its focus from a script, for which browsers show a frame whatever was pressed
// before: frame.css is told what that was.
export function followHand() {
  const { dataset } = document.documentElement
  window.addEventListener("pointerdown", () => (dataset.hand = "pointer"), true)
  window.addEventListener("keydown", () => delete dataset.hand, true)
}

export function installShortcuts(shortcuts: Shortcut[]) {
  window.addEventListener(
    "keydown",
    (event) => {
      if (document.querySelector("dialog[open]") && event.key !== "Escape") return
      const focus = (event.target as HTMLElement).id
      const shortcut = shortcuts.find(
        (s) => s.run && (!s.on || s.on === focus) && matches(event, s.keys),
      )
      if (!shortcut || (isTyping(event.target) && !shortcut.typing)) return
      event.preventDefault()
      event.stopPropagation()
      shortcut.run!()
    },
    true,
  )
}

export function showShortcuts(shortcuts: Shortcut[]) {
  const rows = shortcuts
    .filter((s) => s.text)
    .map(({ keys, text }) => h("tr", {}, h("td", {}, text), h("td", {}, ...keyCaps(keys))))
  const table = h("table", { class: "keys" }, h("tbody", {}, ...rows))
  const list = h(
    "div",
    { class: "keys-list", tabindex: "0", "aria-labelledby": "help-title" },
    table,
  )
  fadeEnds(list)
  const dialog = h(
    "dialog",
    { class: "dialog help", "aria-labelledby": "help-title" },
    h(
      "header",
      {},
      h("h2", { id: "help-title" }, "Shortcuts"),
      iconButton("close", "Close", () => dialog.close()),
    ),
    list,
  )
  dialog.addEventListener("close", () => dialog.remove())
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close()
  })
  document.body.append(dialog)
  dialog.showModal()
}

const LABELS: Record<string, string> = { ContextMenu: "Menu" } // as it is called on keyboards

function keyCaps(keys: string): (Node | string)[] {
  return keys
    .split(" or ")
    .flatMap((combination, i) => [
      ...(i ? [" or "] : []),
      ...combination
        .split("+")
        .flatMap((key, k) => [...(k ? [" "] : []), h("kbd", {}, LABELS[key] ?? key)]),
    ])
}
