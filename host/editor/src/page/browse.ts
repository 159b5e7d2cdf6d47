// The workflows that can be opened: those that were saved on the server, and those that come with it.
import { fadeEnds, h, iconButton, toast } from "./dom"

export interface Offer {
  title: string
  text: string // what it does
  file?: string // its name as a file, which people know it by
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

// What people type of what is called otherwise here.
const ALSO: Record<string, string> = {
  outpaint: "inpaint",
  outpainting: "inpaint",
  inpainting: "inpaint",
  upscaling: "upscale",
  quantization: "quantize",
  quantisation: "quantize",
  hires: "two passes",
  highres: "two passes",
}

const wordsOf = (text: string) => text.toLowerCase().split(/\s+/).filter(Boolean)

// Higher is better; 0 is no match. Every word has to be found somewhere; a whole title, or the name of
// a file, is what was meant.
function score(offer: Offer, shelf: string, query: string): number {
  const words = wordsOf(query)
  const names = [offer.title, offer.file ?? ""].map((name) => name.toLowerCase())
  const text = [...names, offer.text, shelf].join(" ").toLowerCase()
  const found = (word: string) => text.includes(word) || (ALSO[word] && text.includes(ALSO[word]))
  if (!words.every(found)) return 0
  const phrase = words.join(" ")
  if (names.includes(phrase)) return 5
  if (names.some((name) => name.startsWith(phrase))) return 4
  if (names.some((name) => name.includes(phrase))) return 3
  return words.every((word) => names.some((name) => name.includes(word))) ? 2 : 1
}

// The shelves with what matches, best first; as they are while nothing is looked for.
export function matching(shelves: Shelf[], query: string): Shelf[] {
  const searching = wordsOf(query).length > 0
  if (!searching) return shelves.filter((shelf) => shelf.offers.length || shelf.empty)
  return shelves
    .map((shelf) => {
      const scored = shelf.offers
        .map((offer) => ({ offer, points: score(offer, shelf.title, query) }))
        .filter(({ points }) => points > 0)
        .sort((a, b) => b.points - a.points)
      const offers = scored.map(({ offer }) => offer)
      return { shelf: { ...shelf, offers }, points: scored[0]?.points ?? 0 }
    })
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
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
    const shown = matching(shelves, field.value)
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
