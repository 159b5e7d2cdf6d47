// Questions that stop everything until they are answered.
import { h } from "./dom"

function show(dialog: HTMLDialogElement) {
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

const cancelButton = (dialog: () => HTMLDialogElement) =>
  h("button", { type: "button", class: "button", onclick: () => dialog().close() }, "Cancel")

// What was typed, or null when it was cancelled.
export function askText(title: string, label: string, value: string, go: string) {
  return new Promise<string | null>((answer) => {
    const field = h("input", { type: "text", value, "aria-label": label })
    const dialog: HTMLDialogElement = h(
      "dialog",
      { class: "dialog small", "aria-label": title },
      h(
        "form",
        { method: "dialog", onsubmit: () => answer(field.value) },
        h("label", { class: "field" }, h("span", {}, label), field),
        h(
          "div",
          { class: "buttons" },
          cancelButton(() => dialog),
          h("button", { type: "submit", class: "button primary" }, go),
        ),
      ),
    )
    dialog.addEventListener("close", () => answer(null)) // after an answer it says nothing new
    show(dialog)
    field.select()
  })
}

export function askYes(title: string, text: string, go: string) {
  return new Promise<boolean>((answer) => {
    const yes = () => {
      answer(true)
      dialog.close()
    }
    const dialog: HTMLDialogElement = h(
      "dialog",
      { class: "dialog small", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
      h("header", {}, h("h2", { id: "ask-title" }, title)),
      h("p", { id: "ask-text" }, text),
      h(
        "div",
        { class: "buttons" },
        cancelButton(() => dialog),
        h("button", { type: "button", class: "button primary", onclick: yes }, go),
      ),
    )
    dialog.addEventListener("close", () => answer(false))
    show(dialog)
  })
}
