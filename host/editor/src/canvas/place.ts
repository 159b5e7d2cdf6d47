// Where there is room for what is added or pasted.
import { LiteGraph, type LGraphCanvas } from "@comfyorg/litegraph"
import type { GraftNode } from "./nodes"

export type Box = [number, number, number, number] // left, top, right, bottom

const GAP = 16
const STEP = 32 // between two places that are tried
const FAR = 40 // steps

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

export function isFree(box: Box, others: Box[]): boolean {
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

export const boxAround = (boxes: Box[]): Box => [
  Math.min(...boxes.map((box) => box[0])),
  Math.min(...boxes.map((box) => box[1])),
  Math.max(...boxes.map((box) => box[2])),
  Math.max(...boxes.map((box) => box[3])),
]

// How far a box has to go to lie on none of the others: as little as possible, in view if it can.
// Where nothing is free nearby it goes below all of them.
export function nearestRoom(box: Box, others: Box[], view: Box): [number, number] {
  let best: [number, number] | null = null
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
  return best ?? [0, boxAround(others)[3] + STEP - box[1]]
}

// The part of the canvas that is seen.
export function viewOf({ ds, canvas }: LGraphCanvas, covered: number): Box {
  const [left, top] = [-ds.offset[0], -ds.offset[1]]
  const width = (canvas.clientWidth - covered) / ds.scale
  return [left, top, left + width, top + canvas.clientHeight / ds.scale]
}
