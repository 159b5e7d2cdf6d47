// What ran: its pictures, and the workflow that made them.
import * as api from "../server/api"
import type { FileRef, HistoryEntry } from "../server/api"
import { clockTime, duration, h, icon, iconButton, toast } from "../page/dom"
import { showPicture } from "../page/lightbox"
import { promptTitle } from "./queue"
import { quantizationOf, subjectOf, type Picture } from "../workflow/subject"

const SHOWN = 64

export function picturesOf(entry: HistoryEntry): FileRef[] {
  // A picture of a plan is no result of the workflow.
  const outputs = Object.values(entry.outputs ?? {}).filter((output) => !output.plan)
  return outputs.flatMap((output) =>
    [...(output.images ?? []), ...(output.gifs ?? [])].filter((file) => file?.filename),
  )
}

export function timesOf(entry: HistoryEntry): { started?: number; ms?: number } {
  const messages = entry.status?.messages ?? []
  const at = (type: RegExp) => messages.find(([name]) => type.test(name))?.[1]?.timestamp
  const started = at(/^execution_start$/)
  const ended = at(/^execution_(success|error|interrupted)$/)
  return { started, ms: started !== undefined && ended !== undefined ? ended - started : undefined }
}

// What a run was warned of, and at which node.
export function warningsOf(entry: HistoryEntry): string[] {
  const prompt = entry.prompt?.[2] ?? {}
  return (entry.status?.messages ?? [])
    .filter(([type]) => type === "graft.warning")
    .map(([, data]) => {
      const node = prompt[data.display_node ?? data.node]
      const title = node?._meta?.title ?? node?.class_type ?? `Node ${data.node}`
      return `${title}: ${data.text}`
    })
}

// Whether all that a run gave was there already.
export function fromCache({ outputs, status }: HistoryEntry): boolean {
  const cached = (status?.messages ?? [])
    .filter(([type]) => type === "execution_cached")
    .flatMap(([, data]) => (data?.nodes ?? []) as unknown[])
  const gave = Object.keys(outputs ?? {})
  return gave.length > 0 && gave.every((id) => cached.includes(id))
}

// How a run was quantized, with what its plan chose: "8-bit, 84 of 132 layers".
export function quantizedBy(entry: HistoryEntry): string {
  const name = quantizationOf(entry.prompt?.[2] ?? {})
  if (!name) return ""
  for (const { plan } of Object.values(entry.outputs ?? {})) {
    const text = typeof plan?.[0] === "string" ? plan[0] : ""
    const layers = text.match(/"chosen":\s*(true|false)/g) ?? []
    const chosen = layers.filter((layer) => layer.endsWith("true")).length
    if (layers.length) return `${name}, ${chosen} of ${layers.length} layers`
  }
  return name
}

const MOST_WARNINGS = 3
const MOST = 4 // pictures of one run that are shown at once

function thumbs(files: FileRef[], title: string): Node[] {
  const urls = files.map((file) => api.viewUrl(file))
  const crisp = (event: Event) => {
    const picture = event.target as HTMLImageElement
    picture.classList.toggle("crisp", picture.naturalWidth < 200)
  }
  return files.slice(0, MOST).map((file, i) => {
    const more = i === MOST - 1 && files.length > MOST
    const onclick = () => showPicture(files, urls, i)
    return h(
      "button",
      { type: "button", class: "thumb", "aria-label": `Show ${file.filename}`, onclick },
      h("img", { src: urls[i], alt: title, loading: "lazy", onload: crisp }),
      more ? h("span", { class: "thumb-more" }, `+${files.length - MOST}`) : null,
    )
  })
}

// Asks once more, as what is cleared does not come back, until something else is pressed or focused.
function clearButton(clear: () => void): HTMLButtonElement {
  const button = h("button", { type: "button" })
  let sure = false
  const ask = (again: boolean) => {
    sure = again
    button.className = sure ? "button danger" : "button quiet"
    button.textContent = sure
      ? "Clear it for good? The pictures stay in their folder."
      : "Clear the history"
  }
  ask(false)
  button.onclick = () => {
    if (sure) clear()
    ask(!sure)
  }
  button.onblur = () => ask(false)
  const elsewhere = (event: Event) => {
    if (event.target !== button) ask(false)
  }
  document.addEventListener("pointerdown", elsewhere, true)
  return button
}

export class HistoryPanel {
  private readonly cards = h("div", { class: "history" })
  private readonly empty = h(
    "div",
    { class: "empty" },
    h("p", {}, "No runs yet."),
    h("p", { class: "muted" }, "Pictures appear here when the queue has finished one."),
  )
  private readonly clear = clearButton(() => void this.act(api.clearHistory()))
  readonly element = h("section", { class: "panel-body" }, this.cards, this.empty, this.clear)
  entries: [string, HistoryEntry][] = []
  onEntries = () => {}
  private asked = 0

  constructor(
    private readonly load: (
      workflow: unknown,
      name: string,
      outputs: HistoryEntry["outputs"],
    ) => void,
  ) {
    this.render()
  }

  async refresh() {
    const turn = ++this.asked
    try {
      const history = await api.history_(SHOWN)
      if (turn !== this.asked) return
      // The answer is an object, and a script puts ids that look like numbers first.
      this.entries = Object.entries(history)
        .map((pair, i) => ({ pair, i, started: timesOf(pair[1]).started ?? 0 }))
        .sort((a, b) => b.started - a.started || b.i - a.i)
        .map(({ pair }) => pair)
    } catch {
      return
    }
    this.render()
    this.onEntries()
  }

  // Newest first; a run that took its picture from the cache names one that is there already.
  pictures(): Picture[] {
    const found = new Map<string, Picture>()
    for (const [, entry] of this.entries) {
      const quantized = quantizationOf(entry.prompt?.[2] ?? {})
      const { started } = timesOf(entry)
      for (const file of picturesOf(entry)) {
        const url = api.viewUrl(file)
        const label = [clockTime(started), quantized, file.filename]
        if (!found.has(url))
          found.set(url, {
            label: label.filter(Boolean).join(" · "),
            url,
            quantized: !!quantized,
            subject: subjectOf(entry.prompt?.[2] ?? {}),
          })
      }
    }
    return [...found.values()]
  }

  private async act(what: Promise<void>) {
    try {
      await what
    } catch (error) {
      toast((error as Error).message, "error")
    }
    await this.refresh()
  }

  private card(id: string, entry: HistoryEntry): Node {
    const files = picturesOf(entry)
    const { started, ms } = timesOf(entry)
    const messages = entry.status?.messages ?? []
    const failure = messages.find(
      ([type, data]) => type === "execution_error" && data?.exception_type !== "ExecutionBlocked",
    )?.[1]
    const interrupted = messages.some(([type]) => type === "execution_interrupted")
    const state = failure ? "failed" : interrupted ? "interrupted" : ""
    const title = promptTitle(entry.prompt)
    const restore = () => {
      const workflow = entry.prompt[3]?.extra_pnginfo?.workflow ?? entry.prompt[2]
      const name = files[0]?.filename.replace(/\.[^.]*$/, "") ?? "workflow"
      this.load(workflow, name, entry.outputs ?? {})
    }
    const pictures = thumbs(files, title)
    const warned = warningsOf(entry)
    const note = [
      state,
      clockTime(started),
      !state && (fromCache(entry) || (ms !== undefined && ms < 1))
        ? "from the cache"
        : ms === undefined
          ? ""
          : duration(ms).replaceAll(" ", "\u00a0"), // a number and its unit stay together
    ]
    const quantized = quantizedBy(entry)
    return h(
      "article",
      { class: `history-card ${state}${pictures.length ? "" : " wide"}` },
      pictures.length ? h("div", { class: `thumbs n${pictures.length}` }, ...pictures) : null,
      failure
        ? h(
            "p",
            { class: "history-error" },
            icon("warning"),
            String(failure.exception_message ?? "").trim(),
          )
        : null,
      ...warned
        .slice(0, MOST_WARNINGS)
        .map((text) => h("p", { class: "history-error warned" }, icon("warning"), text)),
      warned.length > MOST_WARNINGS
        ? h(
            "p",
            { class: "history-error muted" },
            `and ${warned.length - MOST_WARNINGS} more warnings`,
          )
        : null,
      h(
        "div",
        { class: "history-foot" },
        h(
          "div",
          { class: "history-text" },
          h("span", { class: "history-title", title }, title),
          h("span", { class: "muted" }, note.filter(Boolean).join(" · ")),
          quantized ? h("span", { class: "history-bits" }, quantized) : null,
        ),
        iconButton("open", "Load this workflow", restore),
        iconButton("trash", "Remove from the history", () => void this.act(api.dropHistory([id]))),
      ),
    )
  }

  // The button stays the same one: a run that ends meanwhile must not take back its first press.
  private render() {
    const some = this.entries.length > 0
    this.cards.replaceChildren(...this.entries.map(([id, entry]) => this.card(id, entry)))
    this.cards.hidden = this.clear.hidden = !some
    this.empty.hidden = some
  }
}
