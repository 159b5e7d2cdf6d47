// Questions that stop everything until they are answered.
import { h } from "./dom"

function show(dialog: HTMLDialogElement) {
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

const cancelButton = (dialog: () => HTMLDialogElement) =>
  h("button", { type: "button", class: "button", onclick: () => dialog().close() }, "Cancel")

export interface Question {
  label: string
  value: string
  go: string // the button's text
  problemOf(text: string): string // "" where it can be taken
}

// What was typed, without spaces around it, or null when it was cancelled.
export function askText(title: string, { label, value, go, problemOf }: Question) {
  return new Promise<string | null>((answer) => {
    const hint = h("p", { class: "muted", "aria-live": "polite" })
    const submit = h("button", { type: "submit", class: "button primary" }, go)
    const check = () => {
      hint.textContent = problemOf(field.value.trim())
      submit.disabled = !!hint.textContent
    }
    const field = h("input", { type: "text", value, "aria-label": label, oninput: check })
    const dialog: HTMLDialogElement = h(
      "dialog",
      { class: "dialog small", "aria-label": title },
      h(
        "form",
        { method: "dialog", onsubmit: () => answer(field.value.trim()) },
        h("label", { class: "field" }, h("span", {}, label), field),
        hint,
        h(
          "div",
          { class: "buttons" },
          cancelButton(() => dialog),
          submit,
        ),
      ),
    )
    dialog.addEventListener("close", () => answer(null)) // after an answer it says nothing new
    show(dialog)
    check()
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
