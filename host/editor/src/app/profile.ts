// Where the time and the memory of the last run went.
import { profileOf, type Spent, systemStats } from "../server/api"
import { bytes, clockTime, duration, h, svg } from "../page/dom"
import type { NodeRun, Run } from "../workflow/progress"
import { savedProfile, saveProfile } from "./saved"
import { showRate } from "./status"

const EVERY = 400 // ms between two looks at the memory
const SHORT = 1000 // ms of a run in which so much happens that it is looked at more often
const SOON = 60 // how often
const POINTS = 2000

// Bytes: of the server's process, of its devices.
export interface Sample {
  at: number
  ram: number
  vram: number
}

// What is known of a run.
export interface Measured {
  run: Run
  titles: Map<string, string>
  samples: Sample[]
  spent: Spent | null // null: the server has not said
  clock: number // when it ended
}

// It found everything in the cache.
function didNothing(run: Run): boolean {
  return run.state === "success" && [...run.nodes.values()].every((n) => n.state === "cached")
}

export class ProfilePanel {
  readonly element = h("section", { class: "panel-body profile" })
  private run: Run | null = null
  private titles = new Map<string, string>()
  private samples: Sample[] = []
  private spent: Spent | null = null
  private ended = false // something of an earlier run is shown
  private before: Measured | null = null // that run
  private clock = 0
  private kept = false // it is one from before the page was loaded
  private timer = 0
  private looked = 0

  constructor() {
    const last = savedProfile()
    try {
      if (last) Object.assign(this, last, { ended: true, kept: true })
      this.render()
    } catch {
      Object.assign(this, { run: null, ended: false, kept: false }) // not as this page keeps it
      this.render()
    }
  }

  start(run: Run, titles: Map<string, string>) {
    if (this.ended && this.run && this.run.state !== "running")
      this.before = {
        run: this.run,
        titles: this.titles,
        samples: this.samples,
        spent: this.spent,
        clock: this.clock,
      }
    this.run = run
    this.titles = titles
    this.samples = []
    this.spent = null
    clearInterval(this.timer)
    this.timer = window.setInterval(() => void this.sample(run), EVERY)
    void this.sample(run)
  }

  // Something of the run happened: its memory may be another. Later on the timer is enough.
  look() {
    const { run } = this
    const now = performance.now()
    if (run?.state === "running" && now - run.started < SHORT && now - this.looked > SOON)
      void this.sample(run)
  }

  private async sample(run: Run) {
    if (run !== this.run) return
    this.looked = performance.now()
    try {
      const { system, devices } = await systemStats()
      const vram = devices
        .filter((d) => d.type !== "cpu")
        .reduce((sum, d) => sum + d.vram_total - d.vram_free, 0)
      if (this.samples.length < POINTS)
        this.samples.push({ at: performance.now(), ram: system.graft_memory, vram })
    } catch {
      // The curve has a gap; the run goes on.
    }
  }

  finish() {
    clearInterval(this.timer)
    if (this.before && this.run && didNothing(this.run)) {
      Object.assign(this, this.before) // which says more
      return
    }
    this.ended = true
    this.kept = false
    this.clock = Date.now()
    this.render()
    const { run, titles, samples, clock } = this
    if (!run) return
    const spent = profileOf(run.prompt).catch(() => null) // the history may be cleared already
    void Promise.all([spent, this.sample(run)]).then(([spent]) => {
      if (run === this.run) {
        this.spent = spent
        this.render()
      }
      saveProfile({ run, titles, samples, spent, clock })
    })
  }

  render() {
    const { run } = this
    if (run?.state === "running" && this.ended) return // what the last run took stays until then
    if (!run || run.state === "running") {
      this.element.replaceChildren(
        h(
          "div",
          { class: "empty" },
          h(
            "p",
            {},
            run
              ? "The run is being measured."
              : "Run a workflow to see where its time and memory went.",
          ),
          h(
            "p",
            { class: "muted" },
            "Every node, phase and the memory in use are noted while it runs.",
          ),
        ),
      )
      return
    }
    const total = (run.ended ?? run.started) - run.started
    // Of short ones the page sees little but when the news of them came.
    const measured = new Map(this.spent?.nodes?.map(({ node, seconds }) => [node, 1000 * seconds]))
    const seen = (node: NodeRun) =>
      node.started === undefined ? 0 : (node.ended ?? run.ended!) - node.started
    const nodes = [...run.nodes.entries()].map(([id, node]) => ({
      id,
      node,
      ms: measured.get(id) ?? seen(node),
    }))
    const ran = nodes
      .filter(({ ms, node }) => ms > 0 || node.state === "finished")
      .sort((a, b) => b.ms - a.ms)
    const cached = nodes.filter(({ node }) => node.state === "cached").length
    const rows = ran.map(({ id, node, ms }) =>
      this.row(this.titles.get(id.split(/[:.]/)[0]) ?? `#${id}`, ms, total, this.rate(node)),
    )
    this.element.replaceChildren(
      h(
        "p",
        { class: "profile-total" },
        h("strong", {}, duration(total)),
        ` in all · ${ran.length} ${ran.length === 1 ? "node" : "nodes"} ran${cached ? ` · ${cached} from the cache` : ""}`,
      ),
      this.kept
        ? h("p", { class: "muted" }, `The run that ended at ${clockTime(this.clock)}.`)
        : "",
      ...(rows.length ? [h("h3", {}, "Time by node"), h("div", { class: "bars" }, ...rows)] : []),
      ...this.phases(run, total),
      ...this.memory(run),
    )
  }

  // Steps a second of a node that samples; other nodes count things that are no steps.
  private rate({ steps, sampled, max }: NodeRun): string {
    return sampled > 0 && max > 1 ? showRate(steps / (sampled / 1000)) : ""
  }

  private row(name: string, ms: number, total: number, note = ""): Node {
    const bar = h("i", {})
    bar.style.width = `${total > 0 ? Math.max(0.5, (100 * ms) / total) : 0}%`
    return h(
      "div",
      { class: "bar" },
      h("span", { class: "bar-name", title: name }, name),
      h("span", { class: "bar-track" }, bar),
      h("span", { class: "bar-value" }, note ? h("em", {}, note) : null, duration(ms)),
    )
  }

  // As the server measured them; without that, as the page saw them begin and end.
  private phases(run: Run, total: number): Node[] {
    const sums = new Map<string, { ms: number; note: string }>()
    for (const { name, started, ended } of this.spent ? [] : run.phases) {
      const ms = (ended ?? run.ended ?? started) - started
      sums.set(name, { ms: (sums.get(name)?.ms ?? 0) + ms, note: "" })
    }
    for (const { name, seconds, memory_peak } of this.spent?.phases ?? [])
      sums.set(name, { ms: 1000 * seconds, note: memory_peak ? bytes(memory_peak) : "" })
    if (!sums.size) return []
    const rows = [...sums]
      .sort((a, b) => b[1].ms - a[1].ms)
      .map(([name, { ms, note }]) => this.row(name, ms, total, note))
    const title = this.spent ? "Time and peak memory by phase" : "Time by phase"
    return [h("h3", {}, title), h("div", { class: "bars" }, ...rows)]
  }

  private memory(run: Run): Node[] {
    const { samples } = this
    const end = run.ended ?? samples.at(-1)?.at ?? 0
    if (!samples.length) return []
    const curved = samples.length > 2 && end - run.started >= EVERY // else there is only a peak
    const curve = (key: "ram" | "vram", label: string) => {
      const values = samples.map((s) => s[key] ?? 0)
      const [low, high] = [Math.min(...values), Math.max(...values)]
      if (!high) return null
      const span = Math.max(high - low, 64 << 20)
      const x = (at: number) =>
        Math.min(340, (340 * Math.max(0, at - run.started)) / Math.max(1, end - run.started))
      const path = samples
        .map(
          (s, i) =>
            `${i ? "L" : "M"}${x(s.at).toFixed(1)} ${(56 - (48 * (s[key] - low)) / span).toFixed(1)}`,
        )
        .join("")
      const range =
        high - low < 1 << 20
          ? `${label}: ${bytes(high)}`
          : `${label}: ${bytes(low)} to ${bytes(high)}`
      const peak = (key === "ram" && this.spent?.memory_peak) || high
      const most = peak > high ? `${range}, ${bytes(peak)} at most` : range
      const caption = h("figcaption", {}, curved ? most : `${label}: ${bytes(peak)} at most`)
      if (!curved) return h("figure", { class: "memory" }, caption)
      return h(
        "figure",
        { class: "memory" },
        svg(
          "svg",
          {
            viewBox: "0 0 340 60",
            preserveAspectRatio: "none",
            role: "img",
            "aria-label": `${label} during the run`,
          },
          svg("path", {
            d: `${path}L${x(samples.at(-1)!.at).toFixed(1)} 60L${x(samples[0].at).toFixed(1)} 60Z`,
            class: "memory-area",
          }),
          svg("path", { d: path, class: "memory-line" }),
        ),
        caption,
      )
    }
    return [
      h("h3", {}, "Memory in use"),
      ...[curve("ram", "The server"), curve("vram", "Its device")].filter((c) => c !== null),
    ]
  }
}
