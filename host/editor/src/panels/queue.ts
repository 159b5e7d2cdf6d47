// The list of what runs and what waits.
import * as api from "../server/api"
import { duration, h, icon, iconButton, toast } from "../page/dom"
import type { QueueEntry } from "../server/api"
import { QUANTIZE } from "../workflow/subject"

export function promptTitle(entry: QueueEntry): string {
  const prompt = entry[2] ?? {}
  for (const node of Object.values(prompt)) {
    const text = node.inputs?.text
    if (typeof text === "string" && text.trim()) return text.trim().slice(0, 90)
  }
  return `${Object.keys(prompt).length} nodes`
}

// What tells prompts of the same words apart: their seeds, but not that of a calibration.
export function seedsOf(entry: QueueEntry): string {
  const seeds = Object.values(entry[2] ?? {})
    .filter((node) => node.class_type !== QUANTIZE)
    .flatMap(({ inputs }) => [inputs?.seed, inputs?.noise_seed])
    .filter((seed) => /^(number|string|bigint)$/.test(typeof seed))
  return [...new Set(seeds.map(String))].join(", ")
}

function waitedOf(entry: QueueEntry): string {
  const since = Number(entry[3]?.create_time)
  if (!(since > 0)) return ""
  const seconds = Math.max(0, Math.floor((Date.now() - since) / 1000))
  return `waits ${seconds < 60 ? `${seconds} s` : duration(seconds * 1000)}`
}

export class QueuePanel {
  readonly element = h("section", { class: "panel-body" })
  running: QueueEntry[] = []
  pending: QueueEntry[] = []
  onQueue = (_entries: QueueEntry[]) => {}
  private asked = 0

  constructor() {
    this.render()
    setInterval(() => this.tick(), 1000)
  }

  private tick() {
    if (this.element.hidden) return
    const notes = this.element.querySelectorAll<HTMLElement>(".row:not(.running) .row-note")
    notes.forEach((note, i) => (note.textContent = this.note(this.pending[i], false)))
  }

  private note(entry: QueueEntry, runs: boolean): string {
    const seeds = seedsOf(entry)
    return [seeds && `seed ${seeds}`, runs ? "" : waitedOf(entry)].filter(Boolean).join(" · ")
  }

  async refresh() {
    const turn = ++this.asked
    try {
      const { queue_running, queue_pending } = await api.queue()
      if (turn !== this.asked) return
      this.running = queue_running
      this.pending = queue_pending.sort((a, b) => a[0] - b[0])
    } catch {
      return
    }
    this.onQueue([...this.running, ...this.pending])
    this.render()
  }

  private async act(what: Promise<void>) {
    try {
      await what
    } catch (error) {
      toast((error as Error).message, "error")
    }
    await this.refresh()
  }

  // By its place among those that wait, from 1; 0 is what runs.
  private row(entry: QueueEntry, place: number): Node {
    const [, id] = entry
    const runs = place === 0
    const cancel = () => void this.act(runs ? api.interrupt(id) : api.dropPending([id]))
    return h(
      "li",
      { class: runs ? "row running" : "row" },
      h("span", { class: "row-mark" }, runs ? icon("play") : String(place)),
      h(
        "span",
        { class: "row-text", title: id },
        promptTitle(entry),
        h("span", { class: "row-note" }, this.note(entry, runs)),
      ),
      iconButton("close", runs ? "Interrupt" : "Remove from the queue", cancel),
    )
  }

  private render() {
    if (!this.running.length && !this.pending.length) {
      this.element.replaceChildren(
        h(
          "div",
          { class: "empty" },
          h("p", {}, "Nothing is queued."),
          h("p", { class: "muted" }, "Ctrl+Enter queues the workflow; several may wait."),
        ),
      )
      return
    }
    const shown = this.pending.slice(0, 100)
    const more = this.pending.length - shown.length
    this.element.replaceChildren(
      h(
        "ul",
        { class: "rows" },
        ...this.running.map((e) => this.row(e, 0)),
        ...shown.map((e, i) => this.row(e, i + 1)),
      ),
      more > 0 ? h("p", { class: "muted" }, `and ${more} more`) : "",
      this.pending.length
        ? h(
            "button",
            {
              type: "button",
              class: "button quiet",
              onclick: () => void this.act(api.clearPending()),
            },
            this.pending.length === 1
              ? "Remove the waiting one"
              : `Remove all ${this.pending.length} waiting`,
          )
        : "",
    )
  }
}
