// Elements without a framework.

type Child = Node | string | null | undefined | false
type Attributes = Record<string, unknown>

// Attributes that start with "on" are listeners; true is an attribute without value; false and null
// leave it out.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  fill(element, attributes)
  append(element, children)
  return element
}

const SVG = "http://www.w3.org/2000/svg"

export function svg(
  tag: string,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): SVGElement {
  const element = document.createElementNS(SVG, tag)
  fill(element, attributes)
  append(element, children)
  return element
}

function fill(element: Element, attributes: Attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener)
    else if (name === "value" || name === "checked" || name === "disabled")
      (element as unknown as Attributes)[name] = value
    else element.setAttribute(name, value === true ? "" : String(value))
  }
}

function append(element: Element, children: (Child | Child[])[]) {
  for (const child of children.flat())
    if (child || child === "") element.append(child as Node | string)
}

const ICONS: Record<string, string> = {
  leaf: "M12 22V9m0 5c0-5 3-8 8-8 0 5-3 8-8 8zm0-2c0-4-2.5-6.5-7-6.5 0 4 2.5 6.5 7 6.5z",
  play: "M7 5.2v13.6c0 .8.9 1.2 1.5.8l10-6.8c.6-.4.6-1.2 0-1.6l-10-6.8c-.6-.4-1.5 0-1.5.8z",
  stop: "M7 7h10v10H7z",
  undo: "M9 7 4.5 11.5 9 16M5 11.5h9a5 5 0 0 1 0 10h-2",
  redo: "m15 7 4.5 4.5L15 16m4-4.5h-9a5 5 0 0 0 0 10h2",
  plus: "M12 5v14M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.7 1.7M17.3 17.3 19 19M5 19l1.7-1.7M17.3 6.7 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  help: "M9.2 9a2.9 2.9 0 1 1 4.3 2.6c-.9.5-1.5 1.1-1.5 2.4M12 17.5v.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
  close: "M6 6l12 12M18 6 6 18",
  panel: "M4 5h16v14H4zM15 5v14",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  menu: "M4 7h16M4 12h16M4 17h16",
  chevron: "m7 10 5 5 5-5",
  node: "M5 6h14v12H5zM5 10h14",
  queue: "M5 7h14M5 12h14M5 17h9",
  history: "M4.5 12a7.5 7.5 0 1 0 2.4-5.5L4.5 9M4.5 5v4h4M12 8v4.5l3 1.8",
  quantize: "M4 18h4v-5h4V9h4V5h4",
  profile: "M5 19V11M10 19V5M15 19v-6M20 19V9",
  open: "M4 7h6l2 2h8v10H4z",
  save: "M5 5h11l3 3v11H5zM8 5v5h7V5M8 19v-5h8v5",
  refresh: "M19 8a8 8 0 1 0 1 6M20 4v5h-5",
  warning: "M12 4 2.8 19.5h18.4zM12 10v4.5M12 17v.1",
}

export function icon(name: string): SVGElement {
  const solid = name === "play" || name === "stop"
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: solid ? "icon solid" : "icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }),
  )
}

// A button with a symbol; its name is read out and shown on hovering.
export function iconButton(
  name: string,
  label: string,
  onclick: () => void,
  more: Attributes = {},
): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...more },
    icon(name),
  )
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id)
  if (!element) throw new Error(`The page has no #${id}.`)
  return element as T
}

export function duration(ms: number): string {
  if (ms < 1) return "<1 ms"
  if (ms < 1000) return `${ms.toFixed(0)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
}

// With seconds: runs of one minute are told apart by them.
export function clockTime(at?: number): string {
  return at ? new Date(at).toLocaleTimeString([], { hourCycle: "h23" }) : ""
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]
  let unit = 0
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return `${n.toFixed(unit && n < 10 ? 1 : 0)} ${units[unit]}`
}

// Ends of a list beyond which there is more fade out, so that it does not look whole. Gives what is to
// be called when its lines are others.
export function fadeEnds(list: HTMLElement): () => void {
  list.classList.add("fading")
  const update = () => {
    const { scrollTop, scrollHeight, clientHeight } = list
    list.classList.toggle("more-above", scrollTop > 1)
    list.classList.toggle("more-below", scrollHeight - clientHeight - scrollTop > 1)
  }
  list.addEventListener("scroll", update)
  new ResizeObserver(update).observe(list)
  return update
}

export function download(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }))
  const link = h("a", { href: url, download: name })
  document.body.append(link)
  link.click()
  link.remove()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

let toastTimer = 0

export const hideToast = () => byId("toast").classList.remove("show")

// A line that goes away by itself; errors stay longer and are announced at once.
export function toast(text: string, kind: "info" | "error" = "info") {
  const box = byId("toast")
  box.textContent = text
  box.className = `toast show ${kind}`
  box.setAttribute("role", kind === "error" ? "alert" : "status")
  clearTimeout(toastTimer)
  toastTimer = window.setTimeout(hideToast, kind === "error" ? 8000 : 3500)
}
