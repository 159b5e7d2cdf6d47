// A button that opens a list of actions.
import { h, icon } from "./dom"

export interface MenuItem {
  label: string
  keys?: string
  run(): void
}

export function menuButton(
  label: string,
  symbol: string | null,
  items: (MenuItem | null)[],
  css = "button quiet",
): HTMLElement {
  const list = h("div", { class: "menu", role: "menu", hidden: true })
  const button = h(
    "button",
    {
      type: "button",
      class: css,
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      title: symbol ? label : "",
      "aria-label": label,
      onclick: () => toggle(list.hidden),
    },
    ...(symbol ? [icon(symbol)] : [label, icon("chevron")]),
  )
  const wrap = h("div", { class: "menu-wrap" }, button, list)
  const outside = (event: Event) => {
    if (!wrap.contains(event.target as Node)) toggle(false)
  }
  const toggle = (show: boolean) => {
    list.hidden = !show
    button.setAttribute("aria-expanded", String(show))
    if (show) {
      document.addEventListener("pointerdown", outside, true)
      list.querySelector("button")?.focus()
    } else document.removeEventListener("pointerdown", outside, true)
  }
  list.append(
    ...items.map((item) =>
      item
        ? h(
            "button",
            {
              type: "button",
              role: "menuitem",
              tabindex: "-1", // the arrow keys go from one to the next
              onclick: () => {
                toggle(false)
                button.focus() // what the action opens gives it back to here
                item.run()
              },
            },
            h("span", {}, item.label),
            item.keys ? h("kbd", {}, item.keys) : null,
          )
        : h("hr", {}),
    ),
  )
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")]
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement)
    if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length].focus()
    else if (event.key === "ArrowUp") buttons[(at - 1 + buttons.length) % buttons.length].focus()
    else if (event.key === "Escape") {
      toggle(false)
      button.focus()
    } else if (event.key === "Home") buttons[0].focus()
    else if (event.key === "End") buttons.at(-1)!.focus()
    else return
    event.preventDefault()
    event.stopPropagation()
  })
  // Tab goes on to the next button of the bar, and the menu is done.
  wrap.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !wrap.contains(event.relatedTarget as Node)) toggle(false)
  })
  return wrap
}
