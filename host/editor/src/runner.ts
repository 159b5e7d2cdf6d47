// Sends the workflow to the server and follows what becomes of it.
import * as api from "./api"
import { toast } from "./dom"
import { nodeFaults, promptFaults, type Fault } from "./errors"
import type { Editor } from "./graph"
import type { GraftNode } from "./nodes"
import type { Preview } from "./frames"
import { apply, createRun, type Run } from "./progress"
import { showText } from "./results"
import { showPictures } from "./widgets"

const HELD_UP = "Parts of the workflow were held up"

export class Runner implements api.Listener {
  run: Run | null = null
  total = 0
  private readonly titles = new Map<string, Map<string, string>>() // of submitted prompts
  private readonly totals = new Map<string, number>()
  private readonly previews = new Map<string, string>()
  onRun = (_run: Run, _titles: Map<string, string>) => {}
  onProgress = () => {}
  onEnd = (_run: Run) => {}
  onQueue = () => {}
  onOutput = (_node: string, _output: any) => {}
  onFaults = (_faults: Fault[], _title?: string) => {}
  onConnected = (_up: boolean) => {}

  constructor(private readonly editor: Editor) {}

  async submit(clientId: string, count: number, front = false) {
    for (let i = 0; i < count; i++) {
      const { prompt, unknown } = this.editor.toPrompt()
      this.clearFaults()
      if (unknown.length) {
        const faults = this.editor.nodes
          .filter((node) => unknown.includes(node.type))
          .map((node) => ({
            node: String(node.id),
            nodeClass: node.type,
            input: "",
            text: `This server has no node “${node.type}”.`,
          }))
        return this.showFaults(faults)
      }
      try {
        const workflow = this.editor.toWorkflow()
        const answer = await api.submit({ prompt, workflow, clientId, front }, this.editor.specs)
        const titles = new Map(this.editor.nodes.map((node) => [String(node.id), node.title]))
        this.titles.set(answer.prompt_id, titles)
        this.totals.set(answer.prompt_id, Object.keys(prompt).length)
        // A run may have failed by now; its faults stay when the answer has none.
        const faults = nodeFaults(answer.node_errors)
        if (faults.length) this.showFaults(faults, HELD_UP)
        this.editor.advanceSeeds()
      } catch (error) {
        if (!(error instanceof api.Refused)) {
          toast((error as Error).message, "error")
          return
        }
        return this.showFaults(promptFaults(error.body))
      } finally {
        this.onQueue()
      }
    }
  }

  interrupt() {
    if (this.run?.state !== "running") return
    api.interrupt(this.run.prompt).catch((error) => toast(error.message, "error"))
  }

  clearFaults() {
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

  titleOf(id: string): string {
    const outer = id.split(/[:.]/)[0]
    const titles = this.run && this.titles.get(this.run.prompt)
    return titles?.get(outer) ?? this.editor.node(outer)?.title ?? `Node ${id}`
  }

  private begin(prompt: string): Run {
    if (this.run?.prompt === prompt) return this.run
    for (const node of this.editor.nodes) node.run = undefined
    this.run = createRun(prompt, performance.now())
    this.total = this.totals.get(prompt) ?? this.editor.nodes.length
    this.onRun(this.run, this.titles.get(prompt) ?? new Map())
    return this.run
  }

  event(type: string, data: any) {
    if (type === "status") return this.onQueue()
    const prompt = data.prompt_id
    if (typeof prompt !== "string") return
    // Late events of a run that was followed to its end change nothing.
    if (this.run?.prompt === prompt && this.run.state !== "running" && type === "executing") return
    if (this.run?.prompt !== prompt && type === "executing" && data.node === null) return
    const run = this.begin(prompt)
    const before = run.state
    apply(run, type, data, performance.now())
    if (type === "executed") this.output(String(data.display_node ?? data.node), data.output)
    this.paint(run)
    this.onProgress()
    if (before === "running" && run.state !== "running") this.end(run)
  }

  private end(run: Run) {
    this.titles.delete(run.prompt)
    this.totals.delete(run.prompt)
    const errors = run.error ? [run.error] : run.blocked
    if (errors.length)
      this.showFaults(
        errors.map(({ node, type, message }) => ({
          node,
          nodeClass: type,
          input: "",
          text: message,
        })),
        run.error ? "The run failed" : HELD_UP,
      )
    this.onEnd(run)
  }

  private paint(run: Run) {
    const shown = new Map<GraftNode, { state: string; value: number; max: number }>()
    for (const [id, state] of run.nodes) {
      const node = this.editor.node(id)
      if (node && shown.get(node)?.state !== "running") shown.set(node, state)
    }
    for (const [node, state] of shown) node.run = { ...state }
    this.editor.canvas.setDirty(true)
  }

  private output(id: string, output: any) {
    const node = this.editor.node(id)
    this.onOutput(id, output)
    if (!node || !output) return
    const files = [...(output.images ?? []), ...(output.gifs ?? [])].filter(
      (file: any) => file?.filename,
    )
    if (files.length)
      showPictures(
        node,
        files.map((file: api.FileRef) => api.viewUrl(file)),
      )
    const texts = [output.text ?? []].flat().filter((text: unknown) => typeof text === "string")
    if (texts.length) showText(node, texts.join("\n"), !files.length)
  }

  preview({ node, prompt, image }: Preview) {
    if (prompt && this.run && prompt !== this.run.prompt) return
    const id = node ?? this.run?.node
    const target = id ? this.editor.node(id) : null
    if (!id || !target) return
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

  connected(up: boolean) {
    this.onConnected(up)
    if (up) this.onQueue()
  }
}
