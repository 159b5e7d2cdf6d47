// The panels beside the canvas, one at a time.
import { h, icon } from "./dom"

export interface Panel {
  id: string
  label: string
  icon: string
  element: HTMLElement
  shown?(): void
}

export class Sidebar {
  active = ""
  onToggle = () => {}
  private from: HTMLElement | null = null // what had the focus before the panel
  private readonly tabs = new Map<string, HTMLButtonElement>()
  private readonly body = h("div", {
    class: "side-body",
    id: "side-body",
    role: "tabpanel",
    tabindex: "-1",
  })

  constructor(
    private readonly root: HTMLElement,
    private readonly panels: Panel[],
  ) {
    const list = h("div", {
      class: "side-tabs",
      role: "tablist",
      "aria-orientation": "vertical",
      "aria-label": "Panels",
    })
    for (const panel of panels) {
      const tab = h(
        "button",
        {
          type: "button",
          role: "tab",
          class: "side-tab",
          id: `tab-${panel.id}`,
          "aria-controls": "side-body",
          title: panel.label,
          onclick: () => this.show(this.active === panel.id ? "" : panel.id),
        },
        icon(panel.icon),
        h("span", {}, panel.label),
      )
      this.tabs.set(panel.id, tab)
      list.append(tab)
    }
    list.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
      if (!step) return
      event.preventDefault()
      const tabs = [...this.tabs.values()]
      tabs[
        (tabs.indexOf(document.activeElement as HTMLButtonElement) + step + tabs.length) %
          tabs.length
      ].focus()
    })
    root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.active || event.defaultPrevented) return
      event.preventDefault()
      this.leave()
    })
    for (const panel of panels) {
      panel.element.hidden = true
      this.body.append(panel.element)
    }
    this.body.prepend(h("h2", { class: "side-title" }))
    root.replaceChildren(this.body, list)
  }

  private enter() {
    const now = document.activeElement
    if (!this.root.contains(now)) this.from = now as HTMLElement | null
    this.body.focus()
  }

  // Closes the panel; the focus goes back to where it was, or to the canvas.
  private leave() {
    const back = this.from?.isConnected && this.from !== document.body ? this.from : null
    this.from = null
    this.show("")
    ;(back ?? document.getElementById("canvas"))?.focus()
  }

  // By its key: the same key closes what it opened.
  toggle(id: string) {
    if (this.active === id) this.leave()
    else this.show(id, { focus: true })
  }

  badge(id: string, text: string) {
    const tab = this.tabs.get(id)
    tab?.querySelector(".badge")?.remove()
    if (text) tab?.append(h("b", { class: "badge" }, text))
  }

  // "" closes it. What is not remembered is forgotten at the next start. With `focus` the panel is
  // entered; Escape leaves it again, to where the focus was.
  show(id: string, { remember = true, focus = false } = {}) {
    this.active = id
    for (const panel of this.panels) {
      panel.element.hidden = panel.id !== id
      this.tabs.get(panel.id)!.setAttribute("aria-selected", String(panel.id === id))
    }
    this.root.classList.toggle("closed", !id)
    const panel = this.panels.find((p) => p.id === id)
    this.body.setAttribute("aria-labelledby", `tab-${id}`)
    this.body.querySelector(".side-title")!.textContent = panel?.label ?? ""
    if (remember) localStorage.setItem("graft.panel", id)
    panel?.shown?.()
    this.onToggle()
    if (focus && panel) this.enter()
  }
}
