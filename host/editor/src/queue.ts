// The list of what runs and what waits.
import * as api from "./api"
import { h, icon, iconButton, toast } from "./dom"
import type { QueueEntry } from "./api"

export function promptTitle(entry: QueueEntry): string {
  const prompt = entry[2] ?? {}
  for (const node of Object.values(prompt)) {
    const text = node.inputs?.text
    if (typeof text === "string" && text.trim()) return text.trim().slice(0, 90)
  }
  return `${Object.keys(prompt).length} nodes`
}

export class QueuePanel {
  readonly element = h("section", { class: "panel-body" })
  running: QueueEntry[] = []
  pending: QueueEntry[] = []
  onQueue = (_entries: QueueEntry[]) => {}
  private asked = 0

  constructor() {
    this.render()
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

  private row(entry: QueueEntry, runs: boolean): Node {
    const [number, id] = entry
    const cancel = () => void this.act(runs ? api.interrupt(id) : api.dropPending([id]))
    return h(
      "li",
      { class: runs ? "row running" : "row" },
      h("span", { class: "row-mark" }, runs ? icon("play") : String(Math.abs(number))),
      h("span", { class: "row-text", title: id }, promptTitle(entry)),
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
        ...this.running.map((e) => this.row(e, true)),
        ...shown.map((e) => this.row(e, false)),
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
            `Remove all ${this.pending.length} that wait`,
          )
        : "",
    )
  }
}
