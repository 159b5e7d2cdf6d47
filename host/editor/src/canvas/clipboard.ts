// Copying and pasting on the canvas. Nodes go through the library's own clipboard, which pages of one
// browser share, and as text through the system's, so that what was copied last is what is pasted:
// nodes, pictures, or a workflow from elsewhere.
import { LGraphCanvas } from "@comfyorg/litegraph"
import { h } from "../page/dom"
import type { GraftNode } from "./nodes"
import { boxAround, boxOf, isFree, nearestRoom, viewOf, type Box } from "./place"

const KEY = "litegrapheditor_clipboard"
const OFFSET = 32 // of a copy from what it is a copy of
const LATE = 80 // ms after the key in which the browser says what its clipboard holds

type PasteOptions = NonNullable<Parameters<LGraphCanvas["pasteFromClipboard"]>[0]>
type Pasted = ReturnType<LGraphCanvas["_pasteFromClipboard"]>

export interface Arrivals {
  covered(): number // pixels of the canvas that lie under a panel
  first(): void // nodes were pasted where none were
  pictures(files: File[]): void
  text(text: string): void
}

// Where the pointer is on the canvas, or the middle of what is seen when it is elsewhere: the library
// notes that only as the pointer moves, but another view may have come since.
function followPointer(canvas: LGraphCanvas, covered: () => number): () => void {
  let at: [number, number] | null = null
  canvas.canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => (at = [offsetX, offsetY]))
  canvas.canvas.addEventListener("pointerleave", () => (at = null))
  return () => {
    const { clientWidth, clientHeight } = canvas.canvas
    const place = at ?? [(clientWidth - covered()) / 2, clientHeight / 2]
    const [x, y] = canvas.ds.convertCanvasToOffset([place[0], place[1]])
    canvas.graph_mouse[0] = x
    canvas.graph_mouse[1] = y
  }
}

// The upper left corner of what is on the library's clipboard.
function originOf(): [number, number] | null {
  try {
    const { nodes, groups, reroutes } = JSON.parse(localStorage.getItem(KEY) ?? "")
    const places = [...nodes, ...reroutes].map((item) => item.pos)
    places.push(...groups.map((group: any) => group.bounding))
    const at = (axis: 0 | 1) => Math.min(...places.map((place) => Number(place[axis])))
    return Number.isFinite(at(0)) ? [at(0), at(1)] : null
  } catch {
    return null
  }
}

// Where the pointer is, if nothing is there; else where there is room beside what was copied. A place
// that was asked for is kept.
function placed(canvas: LGraphCanvas, arrivals: Arrivals, paste: () => Pasted): Pasted {
  const nodes = () => (canvas.graph?.nodes ?? []) as GraftNode[]
  const before = new Set(nodes())
  const others = [...before].map(boxOf)
  const done = paste()
  const added = nodes().filter((node) => !before.has(node))
  const origin = originOf()
  if (!done || !added.length || !origin) return done
  const shift = (x: number, y: number) => {
    for (const item of done.created) {
      item.pos[0] += x
      item.pos[1] += y
    }
  }
  if (!before.size) arrivals.first()
  const view = viewOf(canvas, arrivals.covered())
  if (!added.every((node) => isFree(boxOf(node), others))) {
    const [x, y] = [0, 1].map((axis) => Math.min(...done.created.map((item) => item.pos[axis])))
    shift(origin[0] - x + OFFSET, origin[1] - y + OFFSET)
    shift(...nearestRoom(boxAround(added.map(boxOf)), others, view))
  }
  bringIntoView(canvas, added.map(boxOf), view)
  canvas.setDirty(true, true)
  return done
}

// Moves the view where of none of the boxes the middle would be seen: to the middle of all or, where they
// are larger than the view, to their upper left corner.
function bringIntoView({ ds }: LGraphCanvas, boxes: Box[], view: Box) {
  const seen = (box: Box) =>
    [0, 1].every((axis) => {
      const middle = (box[axis] + box[axis + 2]) / 2
      return middle > view[axis] && middle < view[axis + 2]
    })
  if (boxes.some(seen)) return
  const box = boxAround(boxes)
  for (const axis of [0, 1]) {
    const [size, room] = [box[axis + 2] - box[axis], view[axis + 2] - view[axis]]
    ds.offset[axis] = (size < room ? (room - size) / 2 : OFFSET) - box[axis]
  }
}

// Nodes in the library's form, as a text of the system's clipboard.
function asNodes(text: string): boolean {
  try {
    const data = JSON.parse(text)
    return Array.isArray(data.nodes) && Array.isArray(data.reroutes) && !("version" in data)
  } catch {
    return false
  }
}

// Pages of another machine without TLS may write there only what is selected.
async function toSystem(canvas: LGraphCanvas, text: string): Promise<boolean> {
  if (navigator.clipboard)
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  const field = h("textarea", { style: "position: fixed; top: 0; opacity: 0", value: text })
  document.body.append(field)
  field.select()
  const taken = document.execCommand("copy")
  field.remove()
  canvas.canvas.focus()
  return taken
}

const isTyping = (target: EventTarget | null) =>
  target instanceof Element && target.matches("input, textarea, select")

export function installClipboard(canvas: LGraphCanvas, arrivals: Arrivals) {
  const copy = canvas.copyToClipboard.bind(canvas)
  const pasteNodes = canvas._pasteFromClipboard.bind(canvas)
  canvas._pasteFromClipboard = (options = {}) =>
    options.position
      ? pasteNodes(options)
      : placed(canvas, arrivals, () => pasteNodes(options))
  const paste = canvas.pasteFromClipboard.bind(canvas)

  const findPointer = followPointer(canvas, arrivals.covered)
  let writing = 0 // copies that the system's clipboard does not have yet
  let refused = false // it would not take the last one
  canvas.copyToClipboard = (items) => {
    copy(items)
    writing++
    void toSystem(canvas, localStorage.getItem(KEY) ?? "").then((taken) => {
      writing--
      refused = !taken
    })
  }
  let waiting: PasteOptions | null = null
  const pasteWaiting = () => {
    const options = waiting
    waiting = null
    findPointer()
    if (options) paste(options)
  }
  canvas.pasteFromClipboard = (options = {}) => {
    if (options.position) return paste(options)
    waiting = options
    setTimeout(pasteWaiting, LATE)
  }
  window.addEventListener("paste", ({ target, clipboardData: data }) => {
    if (isTyping(target) || document.querySelector("dialog[open]") || !data) return
    const pictures = [...data.files].filter((file) => file.type.startsWith("image/"))
    const text = data.getData("text/plain")
    if (!writing && asNodes(text)) localStorage.setItem(KEY, text)
    else if (!writing && !refused && (pictures.length || text.trim())) {
      waiting = null // something else was copied since
      findPointer()
      if (pictures.length) arrivals.pictures(pictures)
      else arrivals.text(text)
    }
    pasteWaiting()
  })
}

// Beside the original, and without the clipboard having anything to do with it.
export function duplicate(canvas: LGraphCanvas) {
  const before = localStorage.getItem(KEY)
  LGraphCanvas.prototype.copyToClipboard.call(canvas)
  canvas._pasteFromClipboard({ connectInputs: true })
  if (before === null) localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, before)
}
