// Every change of the workflow ends here, a moment after it happened: as a step that Undo takes back,
// and in what the browser keeps.
import { chosenPicture } from "../canvas/chosen"
import type { Editor } from "../canvas/graph"
import type { GraftNode } from "../canvas/nodes"
import { showText } from "../canvas/results"
import { saveWorkflow } from "./saved"
import { Undo } from "../workflow/undo"
import { picturesOf, showPictures, wordsOf } from "../canvas/widgets"

const MOMENT = 120 // ms

// A node that is touched comes to the top; nobody wants that undone.
function flatten({ nodes, ...rest }: any): string {
  const sorted = [...nodes].sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1))
  return JSON.stringify({ ...rest, nodes: sorted }, (key, value) =>
    key === "order" ? undefined : value,
  )
}

// What a node showed.
interface Shown {
  type: string
  pictures: string[]
  words: string
  result?: string
}

export class Steps {
  private readonly undo = new Undo()
  private timer = 0
  private restoring = false
  private shape = "" // of the state that was noted last
  private places = "" // likewise, without where nodes stand
  private flat = "" // likewise, whatever node lies on top: where Undo and Redo are, with the name
  private content = "" // likewise, without the name
  private onServer = "" // what that was when it was saved or opened there
  private opened = false // what is noted next is
  private ran = false // since then
  private moved = false // likewise: nodes made room
  // By nodes, when they were last there: Undo brings it back with them.
  private readonly shown = new Map<string, Shown>()

  onSettle = () => {} // something may have changed
  onEdit = () => {} // something has changed, by hand
  onStep = () => {} // there is one more, or one was taken back
  onRestore = () => {} // all is as it was: other nodes are there
  onOther = () => {} // another workflow is back, of which is not known what its nodes showed
  isRunning = () => false

  constructor(private readonly editor: Editor) {}

  get canUndo(): boolean {
    return this.undo.canUndo
  }
  get canRedo(): boolean {
    return this.undo.canRedo
  }

  changed = () => {
    clearTimeout(this.timer)
    this.timer = window.setTimeout(() => this.settle(), MOMENT)
  }
  // Nodes grow, and move for that, when a run shows its pictures; nobody wants that undone either.
  hasRun() {
    this.ran = true
  }
  hasMoved() {
    this.moved = true
    this.changed()
  }

  // A moment ago is now: what was changed then is a step, too.
  private hurry() {
    if (!this.timer) return
    clearTimeout(this.timer)
    this.settle()
  }
  // What is being saved on the server, to be told once it is.
  now(): string {
    this.hurry()
    return this.content
  }
  saved(state: string) {
    this.onServer = state
    this.keep()
    this.onStep()
  }
  // The workflow has just been loaded from there.
  hasOpened() {
    this.opened = true
    this.changed()
  }
  // Whether it was changed since; of one that is not on the server nobody asks.
  get isChanged(): boolean {
    return this.editor.file !== "" && !this.opened && this.content !== this.onServer
  }

  keep(workflow: any = this.editor.graph.serialize()) {
    const { name, file } = this.editor
    const changed = this.isChanged
    saveWorkflow({ name, file, changed, workflow, fitted: this.editor.isFitted() })
  }

  private settle() {
    this.timer = 0
    this.onSettle()
    if (this.restoring || this.editor.canvas.isDragging) return
    const data: any = this.editor.graph.serialize()
    const { extra, revision, ...rest } = data
    const { ds, ...kept } = extra ?? {}
    const without = (...keys: string[]) =>
      JSON.stringify(rest, (key, value) => (keys.includes(key) ? undefined : value))
    const now = without("size")
    const bare = without("size", "pos", "bounding")
    const state = JSON.stringify({ ...rest, extra: kept, name: this.editor.name })
    const { flat: before, content } = this
    this.place(this.editor.name, { ...rest, extra: kept })
    const byItself = (this.ran && now === this.shape) || (this.moved && bare === this.places)
    if (this.opened || (byItself && this.onServer === content)) this.onServer = this.content
    this.opened = false
    if (byItself || this.flat === before) this.undo.amend(state)
    else if (this.undo.note(state)) {
      this.keep(data)
      this.onEdit()
    }
    this.shape = now
    this.places = bare
    this.moved = false
    this.ran = this.isRunning()
    this.onStep()
  }

  // Notes where Undo and Redo are now.
  private place(name: string, workflow: any) {
    this.content = flatten(workflow)
    this.flat = name + this.content
  }

  by(way: "undo" | "redo") {
    this.hurry()
    const state = this.undo[way]()
    if (state !== null) this.restore(state)
  }

  private restore(state: string) {
    const { editor } = this
    const { name, ...workflow } = JSON.parse(state)
    const same = name === editor.name
    if (same) for (const node of editor.nodes) this.remember(node)
    else Object.assign(editor, { name, file: "" })
    this.restoring = true
    this.place(name, workflow)
    editor.load(workflow, undefined, true)
    if (same) for (const node of editor.nodes) this.recall(node)
    else {
      this.forget()
      this.onOther()
    }
    clearTimeout(this.timer)
    this.timer = 0
    this.restoring = false
    this.keep()
    this.onRestore()
    this.onStep()
  }

  remember(node: GraftNode) {
    const { type, result } = node
    const shown = { type, pictures: picturesOf(node), words: wordsOf(node), result }
    this.shown.set(String(node.id), shown)
  }
  private recall(node: GraftNode) {
    const was = this.shown.get(String(node.id))
    if (was?.type !== node.type) return
    // The picture that is chosen may be another one now, and is shown already.
    if (was.pictures.length && !chosenPicture(node)) showPictures(node, was.pictures, was.words)
    if (was.result) showText(node, was.result, !was.pictures.length)
  }
  // Other nodes have these numbers now.
  forget() {
    this.shown.clear()
  }
}
