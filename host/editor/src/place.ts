// Where there is room for what is added or pasted.
import { LiteGraph, type LGraphCanvas } from "@comfyorg/litegraph"
import type { GraftNode } from "./nodes"

export type Box = [number, number, number, number] // left, top, right, bottom

const GAP = 16
const STEP = 32 // between two places that are tried
const FAR = 40 // steps
const OFFSET = 32 // of a copy from what it is a copy of

export function boxOf({ pos, size, flags }: GraftNode): Box {
  const title = LiteGraph.NODE_TITLE_HEIGHT
  const bottom = pos[1] + (flags?.collapsed ? 0 : size[1])
  return [pos[0], pos[1] - title, pos[0] + size[0], bottom]
}

const moved = ([left, top, right, bottom]: Box, x: number, y: number): Box => [
  left + x,
  top + y,
  right + x,
  bottom + y,
]

function isFree(box: Box, others: Box[]): boolean {
  const [left, top, right, bottom] = box
  return others.every(
    (other) =>
      right + GAP <= other[0] ||
      other[2] + GAP <= left ||
      bottom + GAP <= other[1] ||
      other[3] + GAP <= top,
  )
}

const isWithin = (box: Box, view: Box) =>
  box[0] >= view[0] && box[1] >= view[1] && box[2] <= view[2] && box[3] <= view[3]

// How far a box has to go to lie on none of the others: as little as possible, in view if it can.
export function nearestRoom(box: Box, others: Box[], view: Box): [number, number] {
  let best: [number, number] = [0, 0]
  let least = Infinity
  for (let i = -FAR; i <= FAR; i++)
    for (let k = -FAR; k <= FAR; k++) {
      const [x, y] = [i * STEP, k * STEP]
      const there = moved(box, x, y)
      const cost = Math.hypot(x, y) + (isWithin(there, view) ? 0 : 2 * FAR * STEP)
      if (cost >= least || !isFree(there, others)) continue
      least = cost
      best = [x, y]
    }
  return best
}

// The part of the canvas that is seen.
export function viewOf({ ds, canvas }: LGraphCanvas, covered: number): Box {
  const [left, top] = [-ds.offset[0], -ds.offset[1]]
  const width = (canvas.clientWidth - covered) / ds.scale
  return [left, top, left + width, top + canvas.clientHeight / ds.scale]
}

// Pastes where the pointer is, if nothing is there; else beside what was copied, and beside what was
// pasted before. A place that was asked for is kept.
export function installPaste(canvas: LGraphCanvas) {
  const paste = canvas._pasteFromClipboard.bind(canvas)
  canvas._pasteFromClipboard = (options = {}) => {
    const nodes = () => (canvas.graph?.nodes ?? []) as GraftNode[]
    const before = new Set(nodes())
    const others = [...before].map(boxOf)
    const done = paste(options)
    const added = nodes().filter((node) => !before.has(node))
    if (!done || !added.length || options.position) return done
    const origin = originOf()
    if (!origin || added.every((node) => isFree(boxOf(node), others))) return done
    const left = Math.min(...done.created.map((item) => item.pos[0]))
    const top = Math.min(...done.created.map((item) => item.pos[1]))
    let [x, y] = [origin[0] - left + OFFSET, origin[1] - top + OFFSET]
    const taken = () =>
      added.some((node) =>
        [...before].some(
          ({ pos }) =>
            Math.abs(pos[0] - node.pos[0] - x) < OFFSET / 2 &&
            Math.abs(pos[1] - node.pos[1] - y) < OFFSET / 2,
        ),
      )
    for (let i = 0; i < 100 && taken(); i++) [x, y] = [x + OFFSET, y + OFFSET]
    for (const item of done.created) {
      item.pos[0] += x
      item.pos[1] += y
    }
    canvas.setDirty(true, true)
    return done
  }
}

// The upper left corner of what is on the library's clipboard.
function originOf(): [number, number] | null {
  try {
    const { nodes, groups, reroutes } = JSON.parse(
      localStorage.getItem("litegrapheditor_clipboard") ?? "",
    )
    const places = [...nodes, ...reroutes].map((item) => item.pos)
    places.push(...groups.map((group: any) => group.bounding))
    const at = (axis: 0 | 1) => Math.min(...places.map((place) => Number(place[axis])))
    return Number.isFinite(at(0)) ? [at(0), at(1)] : null
  } catch {
    return null
  }
}
