// The line at the bottom: what runs, how far it is, how fast.
import { byId, duration, h, icon } from "../page/dom"
import { fraction, SAMPLING, type Expected, type Run } from "../workflow/progress"

const READY =
  "Run queues the workflow. Double-click the canvas to add a node. Press ? for all keys."

export function showRate(rate: number): string {
  if (!rate) return ""
  if (rate >= 999.5) return `${Math.round(rate)} it/s`
  return rate >= 1 ? `${rate.toPrecision(3)} it/s` : `${(1 / rate).toPrecision(3)} s/it`
}
// How long a node's steps will take yet; "" when that is a moment.
export function showLeft(steps: number, rate: number): string {
  const seconds = rate > 0 ? steps / rate : 0
  if (seconds < 3) return ""
  return seconds < 90 ? `${Math.round(seconds)} s left` : `${Math.round(seconds / 60)} min left`
}

export class StatusBar {
  private readonly text = h("span", { class: "status-text", role: "status" }, READY)
  private readonly notes = h("button", {
    type: "button",
    class: "status-notes",
    hidden: true,
    onclick: () => this.onNotes(),
  })
  onNotes = () => {}
  private readonly steps = h("span", { class: "status-steps" })
  private readonly server = h("span", { class: "status-server" })
  private was = false
  private hinted = ""
  private readonly fill = h("i", {})
  private readonly track = h(
    "div",
    {
      class: "status-track",
      role: "progressbar",
      "aria-label": "Progress of the run",
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    },
    this.fill,
  )

  constructor() {
    byId("status").replaceChildren(this.track, this.text, this.notes, this.steps, this.server)
  }

  connected(up: boolean) {
    this.server.textContent = up
      ? "connected"
      : this.was
        ? "no connection, trying again"
        : "connecting…"
    this.was ||= up
    this.server.classList.toggle("down", !up)
  }

  // What became of the wish to run something, until a run has something to say.
  say(text: string, state: "idle" | "refused") {
    byId("status").dataset.state = state
    this.put(text)
    this.steps.textContent = ""
    this.notes.hidden = true
  }

  // Of what was typed last; the next that is taken whole ends it.
  hint(text: string) {
    this.say(text, "idle")
    this.hinted = text
  }
  endHint() {
    if (this.hinted && this.text.textContent === this.hinted) this.ready()
    this.hinted = ""
  }

  // What failed is no longer what is shown.
  endFailure() {
    if (byId("status").dataset.state === "error") this.ready()
  }

  ready() {
    this.say(READY, "idle")
    this.fill.style.width = "0"
  }

  // The line may be too short for all of it.
  private put(text: string) {
    if (this.text.textContent !== text) this.text.textContent = this.text.title = text
  }

  private showNotes(count: number) {
    this.notes.hidden = !count
    const text = count === 1 ? "1 warning" : `${count} warnings`
    if (this.notes.textContent !== text) this.notes.replaceChildren(icon("warning"), text)
  }

  show(run: Run | null, title: (id: string) => string, expected: Expected) {
    const element = byId("status")
    element.dataset.state = run?.state ?? "idle"
    const part = run ? fraction(run, expected) : 0
    this.fill.style.width = `${part * 100}%`
    this.track.setAttribute("aria-valuenow", String(Math.round(part * 100)))
    if (!run) return
    this.showNotes(run.warnings.length)
    if (run.state === "running") {
      const node = run.node === null ? undefined : run.nodes.get(run.node)
      this.put(
        run.node === null ? "Starting…" : [title(run.node), run.phase].filter(Boolean).join(" · "),
      )
      const sampling = !run.phase || run.phase === SAMPLING
      const steps = node && node.max > 1 && sampling ? `${node.value} of ${node.max}` : ""
      const rate = sampling ? showRate(run.rate) : ""
      const left = node && steps && rate ? showLeft(node.max - node.value, run.rate) : ""
      this.steps.textContent = [steps, rate, left].filter(Boolean).join(" · ")
      return
    }
    this.steps.textContent = ""
    const took = duration((run.ended ?? run.started) - run.started)
    const cached = [...run.nodes.values()].every(
      (n) => n.state === "cached" || (n.state === "finished" && n.started === undefined),
    )
    this.put(outcome(run, took, cached))
  }
}

function outcome(run: Run, took: string, cached: boolean): string {
  if (run.state === "interrupted") return `Interrupted after ${took}`
  if (run.state === "error") return `Failed: ${run.error?.message ?? ""}`
  if (run.blocked.length) return `Done in ${took}, but parts were held up`
  if (cached && run.nodes.size) return "Nothing changed: the result came from the cache"
  return `Done in ${took}`
}
