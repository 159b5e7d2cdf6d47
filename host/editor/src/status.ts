// The line at the bottom: what runs, how far it is, how fast.
import { byId, duration, h } from "./dom"
import { fraction, SAMPLING, type Run } from "./progress"

export class StatusBar {
  private readonly text = h("span", { class: "status-text", role: "status" }, "Ready")
  private readonly steps = h("span", { class: "status-steps" })
  private readonly server = h("span", { class: "status-server" })
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
    byId("status").replaceChildren(this.track, this.text, this.steps, this.server)
  }

  connected(up: boolean) {
    this.server.textContent = up ? "connected" : "connecting…"
    this.server.classList.toggle("down", !up)
  }

  show(run: Run | null, title: (id: string) => string, total: number) {
    const element = byId("status")
    element.dataset.state = run?.state ?? "idle"
    const part = run ? fraction(run, total) : 0
    this.fill.style.width = `${part * 100}%`
    this.track.setAttribute("aria-valuenow", String(Math.round(part * 100)))
    if (!run) return
    if (run.state === "running") {
      const node = run.node === null ? undefined : run.nodes.get(run.node)
      this.text.textContent =
        run.node === null ? "Starting…" : [title(run.node), run.phase].filter(Boolean).join(" · ")
      const sampling = !run.phase || run.phase === SAMPLING
      const steps = node && node.max > 1 && sampling ? `${node.value} of ${node.max}` : ""
      const rate =
        !run.rate || !sampling
          ? ""
          : run.rate >= 1
            ? `${run.rate.toPrecision(3)} it/s`
            : `${(1 / run.rate).toPrecision(3)} s/it`
      this.steps.textContent = [steps, rate].filter(Boolean).join(" · ")
      return
    }
    this.steps.textContent = ""
    const took = duration((run.ended ?? run.started) - run.started)
    const cached = [...run.nodes.values()].every(
      (n) => n.state === "cached" || (n.state === "finished" && n.started === undefined),
    )
    this.text.textContent =
      run.state === "success"
        ? cached && run.nodes.size
          ? "Nothing changed: the result came from the cache"
          : `Done in ${took}`
        : run.state === "interrupted"
          ? `Interrupted after ${took}`
          : `Failed: ${run.error?.message ?? ""}`
  }
}
