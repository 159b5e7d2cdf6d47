// Two pictures over each other, with a handle that uncovers one of them.
import { h } from "./dom"

export class Compare {
  readonly element: HTMLElement
  private readonly before = h("img", { alt: "Before", draggable: "false" })
  private readonly after = h("img", { alt: "After", draggable: "false", class: "compare-after" })
  private readonly range = h("input", {
    type: "range",
    min: "0",
    max: "100",
    step: "0.5",
    value: "50",
    "aria-label": "How much of the picture shows before and how much after",
  })

  constructor() {
    const labels = [
      h("span", { class: "compare-label left" }, "before"),
      h("span", { class: "compare-label right" }, "after"),
    ]
    this.element = h(
      "div",
      { class: "compare" },
      this.before,
      this.after,
      h("div", { class: "compare-line", "aria-hidden": "true" }),
      ...labels,
      this.range,
    )
    this.range.addEventListener("input", () => this.place())
    // Small pictures are shown by whole pixels.
    for (const picture of [this.before, this.after])
      picture.addEventListener("load", () =>
        picture.classList.toggle("crisp", picture.naturalWidth < 200),
      )
    this.place()
  }

  private place() {
    this.element.style.setProperty("--cut", `${this.range.value}%`)
  }

  show(before: string, after: string) {
    if (this.before.src !== before) this.before.src = before
    if (this.after.src !== after) this.after.src = after
  }
}
