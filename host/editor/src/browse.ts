// The workflows that can be opened: those that were saved on the server, and those that come with it.
import { fadeEnds, h, iconButton, toast } from "./dom"

export interface Offer {
  title: string
  text: string // what it does
  file?: string // what it is called on the disk, which is searched, too
  note?: string // what is to be known of it before
  wanting?: boolean // the note says what is not there
  open(): void
  remove?(): Promise<void>
}
export interface Shelf {
  title: string
  offers: Offer[]
  empty?: string // what to say in place of offers
}

// How well an offer answers what was typed, every word of which has to be found; 0: not at all.
function score(offer: Offer, shelf: Shelf, query: string): number {
  const phrase = query.trim().toLowerCase().split(/\s+/).join(" ")
  const words = phrase.split(" ").filter(Boolean)
  const title = offer.title.toLowerCase()
  const file = (offer.file ?? "").toLowerCase()
  const text = `${title} ${file} ${offer.text} ${shelf.title}`.toLowerCase()
  if (!words.every((word) => text.includes(word))) return 0
  if (title === phrase || file === phrase) return 5
  if (title.startsWith(phrase) || file.startsWith(phrase)) return 4
  if (title.includes(phrase)) return 3
  return words.every((word) => title.includes(word)) ? 2 : 1
}

// What answers, best first, on shelves of which the one with the best stands first.
export function searched(shelves: Shelf[], query: string): Shelf[] {
  if (!query.trim()) return shelves.filter((shelf) => shelf.offers.length || shelf.empty)
  const found = shelves.map((shelf) => {
    const scored = shelf.offers.map((offer) => ({ offer, score: score(offer, shelf, query) }))
    const fitting = scored.filter((s) => s.score).sort((a, b) => b.score - a.score)
    return { best: fitting[0]?.score, shelf: { ...shelf, offers: fitting.map((s) => s.offer) } }
  })
  return found
    .filter(({ best }) => best)
    .sort((a, b) => b.best - a.best)
    .map(({ shelf }) => shelf)
}

// Asks once more before anything is removed, until something else is pressed.
function removeButton(offer: Offer, done: () => void): HTMLElement {
  let asked = false
  const button = iconButton("trash", `Delete ${offer.title}`, () => {
    if (!asked) {
      asked = true
      button.replaceChildren("Delete?")
      button.className = "button danger small"
      return
    }
    offer.remove!().then(done, (error: Error) => toast(error.message, "error"))
  })
  button.addEventListener("blur", () => {
    if (asked) button.replaceWith(removeButton(offer, done))
  })
  return button
}

function rowOf(offer: Offer, close: () => void, removed: () => void): HTMLElement {
  const row: HTMLElement = h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: "offer",
        onclick: () => {
          close()
          offer.open()
        },
      },
      h("span", { class: "offer-title" }, offer.title),
      offer.note
        ? h("span", { class: offer.wanting ? "offer-note warn" : "offer-note" }, offer.note)
        : null,
      offer.text ? h("span", { class: "offer-text" }, offer.text) : null,
    ),
    offer.remove
      ? removeButton(offer, () => {
          row.remove()
          removed()
        })
      : null,
  )
  return row
}

// Arrow keys go from one to the next, and up to the field.
function moveBetween(dialog: HTMLElement, event: KeyboardEvent) {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
  const stops = [...dialog.querySelectorAll<HTMLElement>("input, .offer")]
  const at = stops.indexOf(document.activeElement as HTMLElement)
  if (!step || at < 0) return
  stops[Math.max(0, Math.min(stops.length - 1, at + step))].focus()
  event.preventDefault()
}

export function openBrowse(shelves: Shelf[], pickFile: () => void) {
  const list = h("div", { class: "offers" })
  const fade = fadeEnds(list)
  const close = () => dialog.close()
  const fill = () => {
    const shown = searched(shelves, field.value)
    list.replaceChildren(
      ...shown.flatMap((shelf) => [
        h("h3", {}, shelf.title),
        shelf.offers.length
          ? h("ul", {}, ...shelf.offers.map((offer) => rowOf(offer, close, () => removed(offer))))
          : h("p", { class: "muted" }, shelf.empty!),
      ]),
    )
    if (!shown.length) list.append(h("p", { class: "muted" }, "Nothing matches."))
    fade()
  }
  const removed = (offer: Offer) => {
    for (const shelf of shelves) shelf.offers = shelf.offers.filter((other) => other !== offer)
    fill()
    field.focus()
  }
  const field = h("input", {
    type: "search",
    "aria-label": "Search workflows",
    placeholder: "Search workflows…",
    autocomplete: "off",
    spellcheck: "false",
    oninput: fill,
  })
  const file = h(
    "button",
    {
      type: "button",
      class: "button",
      onclick: () => {
        close()
        pickFile()
      },
    },
    "From a file…",
  )
  const dialog = h(
    "dialog",
    { class: "dialog browse", "aria-label": "Open a workflow" },
    h("header", {}, field, file, iconButton("close", "Close", close)),
    list,
  )
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector<HTMLElement>(".offer")?.click()
    else if (event.key === "Escape")
      close() // a search field would only be emptied
    else return
    event.preventDefault()
  })
  dialog.addEventListener("keydown", (event) => moveBetween(dialog, event))
  dialog.addEventListener("click", (event) => event.target === dialog && close())
  dialog.addEventListener("close", () => dialog.remove())
  fill()
  document.body.append(dialog)
  dialog.showModal()
  field.focus()
}
