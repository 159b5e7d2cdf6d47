// Asks before a file is made that is less than what is on the canvas.
import type { Lost } from "../workflow/convert"
import { h, iconButton } from "./dom"

export function confirmLoss(lost: Lost[], go: () => void, saveAll: () => void) {
  const close = () => dialog.close()
  const then = (run: () => void) => () => {
    close()
    run()
  }
  const dialog = h(
    "dialog",
    { class: "dialog small", "aria-labelledby": "loss-title", "aria-describedby": "loss-text" },
    h(
      "header",
      {},
      h("h2", { id: "loss-title" }, "Some values would be lost"),
      iconButton("close", "Close", close),
    ),
    h(
      "p",
      { id: "loss-text" },
      "This server does not know these nodes, and the file does not say which of their settings these " +
        "values belong to. The API format has no place for values without a name.",
    ),
    h(
      "ul",
      { class: "losses" },
      ...lost
        .slice(0, 12)
        .map(({ title, type, values }) =>
          h(
            "li",
            {},
            h("b", {}, title === type ? title : `${title} (${type})`),
            h("span", { class: "muted" }, values.map((value) => JSON.stringify(value)).join(", ")),
          ),
        ),
      lost.length > 12 ? h("li", { class: "muted" }, `and ${lost.length - 12} more nodes`) : null,
    ),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "button", onclick: then(go) }, "Download without them"),
      h(
        "button",
        { type: "button", class: "button primary", autofocus: true, onclick: then(saveAll) },
        "Download as a workflow, with all",
      ),
    ),
  )
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}
