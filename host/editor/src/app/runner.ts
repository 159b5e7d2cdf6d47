// Sends the workflow to the server and follows what becomes of it.
import * as api from "../server/api"
import { hideToast, toast } from "../page/dom"
import { nodeFaults, promptFaults, unknownNodes, type Fault } from "../server/errors"
import { withReasons } from "../canvas/idle"
import { complaintsOf, isMended, type Complaint } from "../canvas/mended"
import type { Editor } from "../canvas/graph"
import type { GraftNode } from "../canvas/nodes"
import type { Preview } from "../workflow/frames"
import { Paced } from "../page/paced"
import {
  apply,
  createRun,
  expectedOf,
  resume,
  timeByServer,
  type Expected,
  type Run,
} from "../workflow/progress"
import { showText, writtenBy } from "../canvas/results"
import { showPictures } from "../canvas/widgets"

// Steps come every 20 ms. Where the page and the sampling share processors, a picture of the canvas
// for each takes as much of them as the steps.
const PACE = 150 // ms

const HELD_UP = "Parts of the workflow were held up"

// The panel plots it, with words that can be read; the file is white.
const PLAN = "Plan: double-click for its picture"

const OTHER = "A run of another workflow failed, or parts of it were held up"

const refusal = (faults: Fault[]) =>
  `${faults.length} ${faults.length === 1 ? "thing" : "things"} to fix first`

export class Runner implements api.Listener {
  run: Run | null = null
  expected: Expected = { nodes: 0, steps: new Map() }
  private readonly titles = new Map<string, Map<string, string>>() // of submitted prompts
  private readonly expectations = new Map<string, Expected>()
  private readonly elsewhere = new Set<string>() // prompts whose workflow is no longer shown
  private readonly previews = new Map<string, string>()
  private readonly sketches = new Map<string, { target: GraftNode; image: Blob }>() // not shown yet
  private readonly refresh = new Paced(() => this.look(), PACE)
  onRun = (_run: Run, _titles: Map<string, string>) => {}
  onProgress = () => {}
  onEnd = (_run: Run) => {}
  onQueue = () => {}
  onOutput = (_node: string, _output: any) => {}
  onRefused = (_text: string) => {}
  onQueued = () => {}
  onMended = () => {}
  private complaints: Complaint[] = [] // why a workflow was not queued
  private unsent = false // the server was not reached when a workflow was to be queued
  private failed = false // what is shown is why an earlier run failed
  onFaults = (_faults: Fault[], _title?: string) => {}
  onWarnings = () => {}
  onConnected = (_up: boolean) => {}

  constructor(private readonly editor: Editor) {}

  async submit(clientId: string, count: number, front = false) {
    hideToast() // what it says is about something else
    for (let i = 0; i < count; i++) {
      const { prompt, unknown, workflow } = this.editor.toPrompt()
      this.clearFaults()
      if (unknown.length) {
        const faults = this.editor.nodes
          .filter((node) => unknown.includes(node.type))
          .map((node) => ({
            node: String(node.id),
            nodeClass: node.type,
            input: "",
            text: unknownNodes([node.type]),
          }))
        return this.refuse(faults)
      }
      try {
        this.unsent = false
        const answer = await api.submit({ prompt, workflow, clientId, front }, this.editor.specs)
        const titles = new Map(this.editor.nodes.map((node) => [String(node.id), node.title]))
        this.titles.set(answer.prompt_id, titles)
        this.expectations.set(answer.prompt_id, expectedOf(prompt))
        // A run may have failed by now; its faults stay when the answer has none.
        const faults = withReasons(this.editor, nodeFaults(answer.node_errors))
        if (faults.length) this.showFaults(faults, HELD_UP)
        this.editor.advanceSeeds()
        if (this.run?.state !== "running" && this.run?.prompt !== answer.prompt_id) this.onQueued()
      } catch (error) {
        if (!(error instanceof api.Refused)) {
          toast((error as Error).message, "error")
          this.unsent = true
          return this.onRefused((error as Error).message)
        }
        return this.refuse(withReasons(this.editor, promptFaults(error.body)))
      } finally {
        this.onQueue()
      }
    }
  }

  private refuse(faults: Fault[]) {
    this.showFaults(faults)
    this.complaints = complaintsOf(this.editor, faults)
    this.onRefused(refusal(faults))
  }

  // Something was changed. What a refusal complained of goes as it is mended.
  recheck() {
    const left = this.complaints.filter((complaint) => !isMended(this.editor, complaint))
    if (left.length === this.complaints.length) return
    this.clearFaults()
    this.editor.canvas.setDirty(true, true)
    const faults = left.map(({ fault }) => fault)
    if (!left.length) return this.onMended()
    this.showFaults(faults)
    this.complaints = left
    this.onRefused(refusal(faults))
  }

  interrupt() {
    if (this.run?.state !== "running") return
    api.interrupt(this.run.prompt).catch((error) => toast(error.message, "error"))
  }

  // Other nodes are on the canvas. What runs or waits is not about them, whatever their numbers,
  // unless they are of the `same` workflow in an earlier state.
  loaded(same: boolean) {
    if (!same) for (const prompt of this.titles.keys()) this.elsewhere.add(prompt)
    if (!same && this.run?.state === "running") this.elsewhere.add(this.run.prompt)
    const refused = this.complaints.length > 0
    this.clearFaults()
    if (refused) this.onMended()
  }

  // The node on the canvas that a run of it has by this number.
  nodeOf(prompt: string | undefined, id: string): GraftNode | null {
    return prompt !== undefined && this.elsewhere.has(prompt) ? null : this.editor.node(id)
  }

  clearFaults() {
    this.failed = false
    this.complaints = []
    for (const node of this.editor.nodes) {
      node.faults = undefined
      if (node.run?.state === "error") node.run = undefined
      for (const slot of node.inputs ?? []) slot.hasErrors = false
    }
    this.onFaults([])
  }

  // Without a title nothing of the workflow runs.
  showFaults(faults: Fault[], title?: string) {
    for (const fault of faults) {
      const node = this.editor.node(fault.node)
      if (!node) continue
      ;(node.faults ??= []).push(fault)
      const slot = node.inputs?.find((input) => input.name === fault.input)
      if (slot && !slot.widget) slot.hasErrors = true
    }
    this.editor.canvas.setDirty(true, true)
    this.onFaults(faults, title)
  }

  // What runs is not what is shown.
  get away(): boolean {
    return !!this.run && this.elsewhere.has(this.run.prompt)
  }

  titleOf(id: string): string {
    const outer = id.split(/[:.]/)[0]
    const titles = this.run && this.titles.get(this.run.prompt)
    return titles?.get(outer) ?? this.nodeOf(this.run?.prompt, outer)?.title ?? `Node ${id}`
  }

  private begin(prompt: string, joined: boolean): Run {
    if (this.run?.prompt === prompt) return this.run
    for (const node of this.editor.nodes) node.run = node.warnings = undefined
    const run = (this.run = createRun(prompt, performance.now()))
    this.expected = this.expectations.get(prompt) ?? {
      nodes: this.editor.nodes.length,
      steps: new Map(),
    }
    if (joined) void this.join(run)
    this.onRun(run, this.titles.get(prompt) ?? new Map())
    return run
  }

  // The page was loaded while it ran.
  private async join(run: Run) {
    run.joined = true
    resume(run, run.started)
    run.began ??= await api.startOf(run.prompt).catch(() => undefined)
    if (run.state === "running") return
    timeByServer(run)
    this.onProgress()
  }

  event(type: string, data: any) {
    if (type === "status") return this.onQueue()
    const prompt = data.prompt_id
    if (typeof prompt !== "string") return
    // Late events of a run that was followed to its end change nothing.
    if (this.run?.prompt === prompt && this.run.state !== "running") return
    if (this.run?.prompt !== prompt && type === "executing" && data.node === null) return
    const run = this.begin(prompt, type !== "execution_start")
    const before = run.state
    apply(run, type, data, performance.now())
    if (type === "graft.warning") this.warn(run)
    if (type === "executed") this.output(String(data.display_node ?? data.node), data.output)
    if (before === "running" && run.state !== "running") {
      this.refresh.now()
      this.end(run)
    } else this.refresh.ask()
  }

  private end(run: Run) {
    this.titles.delete(run.prompt)
    this.expectations.delete(run.prompt)
    const errors = run.error ? [run.error] : run.blocked
    // A failure before this one is in the history; here it would read as if it were of this run.
    if (this.failed && run.state === "success") this.clearFaults()
    if (run.state !== "interrupted") this.failed = !!run.error
    if (errors.length)
      this.showFaults(
        errors.map(({ node, type, message }) => ({
          node: this.elsewhere.has(run.prompt) ? "" : node,
          nodeClass: type,
          input: "",
          text: message,
        })),
        this.elsewhere.has(run.prompt) ? OTHER : run.error ? "The run failed" : HELD_UP,
      )
    this.onEnd(run)
  }

  private warn(run: Run) {
    for (const node of this.editor.nodes) node.warnings = undefined
    for (const { node: id, text } of run.warnings) {
      const node = this.nodeOf(run.prompt, id)
      if (node && !node.warnings?.includes(text)) (node.warnings ??= []).push(text)
    }
    this.onWarnings()
  }

  // All that changed since the last look, in one picture.
  private look() {
    for (const [id, { target, image }] of this.sketches) this.sketch(id, target, image)
    this.sketches.clear()
    if (this.run) this.paint(this.run)
    this.onProgress()
  }

  private paint(run: Run) {
    const shown = new Map<GraftNode, { state: string; value: number; max: number }>()
    for (const [id, state] of run.nodes) {
      const node = this.nodeOf(run.prompt, id)
      if (node && shown.get(node)?.state !== "running") shown.set(node, state)
    }
    for (const [node, state] of shown) node.run = { ...state }
    this.editor.canvas.setDirty(true)
  }

  private output(id: string, output: any) {
    const node = this.nodeOf(this.run?.prompt, id)
    this.sketches.delete(id)
    this.onOutput(id, output)
    if (node && output) this.show(node, output)
  }

  // What a node gives, on the node.
  show(node: GraftNode, output: any) {
    const files = [...(output.images ?? []), ...(output.gifs ?? [])].filter(
      (file: any) => file?.filename,
    )
    if (files.length)
      showPictures(
        node,
        files.map((file: api.FileRef) => api.viewUrl(file)),
        output.plan ? PLAN : "",
      )
    const texts = [output.text ?? []].flat().filter((text: unknown) => typeof text === "string")
    texts.push(...writtenBy(output))
    if (texts.length) showText(node, texts.join("\n"), !files.length)
  }

  preview({ node, prompt, image }: Preview) {
    if (prompt && this.run && prompt !== this.run.prompt) return
    const id = node ?? this.run?.node
    const target = id ? this.nodeOf(prompt ?? this.run?.prompt, id) : null
    if (!id || !target) return
    this.sketches.set(id, { target, image })
    this.refresh.ask()
  }

  private sketch(id: string, target: GraftNode, image: Blob) {
    const url = URL.createObjectURL(image)
    const old = this.previews.get(id)
    this.previews.set(id, url)
    showPictures(target, [url])
    if (old) setTimeout(() => URL.revokeObjectURL(old), 2000)
  }

  text(node: string, text: string) {
    if (this.run?.state !== "running") return
    this.onOutput(node, { text: [text] })
  }

  // These prompts run or wait. A run that does not has ended, also when the news of it was lost: the
  // server was gone for a while, or another page has taken this one's place.
  async queued(entries: api.QueueEntry[]) {
    const { run } = this
    if (run?.state !== "running") return
    const own = entries.find(([, id]) => id === run.prompt)
    if (own) {
      if (!this.expectations.has(run.prompt)) this.expected = expectedOf(own[2])
      return
    }
    const found = await api.historyEntry(run.prompt).catch(() => ({}) as Record<string, undefined>)
    const entry = found[run.prompt]
    // Without one the list is older than the run; a run that began meanwhile is the one to show.
    if (!entry || this.run !== run) return
    const prompt_id = run.prompt
    for (const [node, output] of Object.entries(entry.outputs))
      this.event("executed", { node, output, prompt_id })
    for (const [type, data] of entry.status?.messages ?? [])
      if (/^(graft\.warning|execution_(success|error|interrupted))$/.test(type))
        this.event(type, data)
  }

  connected(up: boolean) {
    this.onConnected(up)
    if (!up) return
    if (this.unsent && this.run?.state !== "running") this.onMended()
    this.unsent = false
    if (this.run?.state === "running") resume(this.run, performance.now())
    this.onQueue()
  }
}
