// Room for a node that grows: what would lie under it moves down.
import { LiteGraph, type LGraph } from "@comfyorg/litegraph"
import type { GraftNode } from "./nodes"

const GAP = 16

const bottomOf = (node: GraftNode) => node.pos[1] + (node.flags.collapsed ? 0 : node.size[1])
const topOf = (node: GraftNode) => node.pos[1] - LiteGraph.NODE_TITLE_HEIGHT

function besideEachOther(a: GraftNode, b: GraftNode): boolean {
  return a.pos[0] + a.size[0] <= b.pos[0] || b.pos[0] + b.size[0] <= a.pos[0]
}

// Nodes that stood below one that grew go down as far as is needed, and so do those below them; what
// was covered before stays so, and pinned nodes stay where they are. Gives the bottoms from before.
function pushDown(node: GraftNode, bottom: number): Map<GraftNode, number> {
  const before = new Map([[node, bottom]])
  const others = [...(((node.graph as LGraph | null)?.nodes ?? []) as GraftNode[])]
  others.sort((a, b) => topOf(a) - topOf(b)) // so that those above are where they will be
  for (const other of others) {
    if (other === node || other.pinned) continue
    let top = topOf(other)
    for (const [mover, was] of before)
      if (was <= topOf(other) && !besideEachOther(mover, other))
        top = Math.max(top, bottomOf(mover) + GAP)
    if (top === topOf(other)) continue
    before.set(other, bottomOf(other))
    other.pos = [other.pos[0], top + LiteGraph.NODE_TITLE_HEIGHT]
  }
  return before
}

// Groups that held what moved hold it still.
function growGroups(node: GraftNode, before: Map<GraftNode, number>) {
  for (const group of (node.graph as LGraph | null)?.groups ?? []) {
    const [x, y] = group.pos
    const [width, height] = group.size
    for (const [moved, bottom] of before) {
      const held = moved.pos[0] >= x && moved.pos[0] + moved.size[0] <= x + width
      if (!held || bottom > y + height || bottom < y) continue
      const needed = bottomOf(moved) + GAP - y
      if (needed > group.size[1]) group.size = [width, needed]
    }
  }
}

function makeRoom(node: GraftNode, bottom: number): boolean {
  const before = pushDown(node, bottom)
  growGroups(node, before)
  return before.size > 1
}

let held: Map<GraftNode, number> | null = null // what grew while others had no places yet

// As wide as is wished, or as wide as nodes to the right of it let it be.
function widthFor(node: GraftNode, [width, height]: [number, number]): number {
  const now = node.size[0]
  let room = width
  for (const other of ((node.graph as LGraph | null)?.nodes ?? []) as GraftNode[]) {
    const gap = other.pos[0] - node.pos[0]
    const beside = topOf(other) < node.pos[1] + height && bottomOf(other) > topOf(node)
    if (other !== node && beside && gap >= now) room = Math.min(room, gap - GAP)
  }
  return Math.max(now, room)
}

// Sets the size of a node, which is no smaller than it was; true when others moved.
export function growNode(node: GraftNode, size: [number, number]): boolean {
  const bottom = bottomOf(node)
  node.setSize([held ? size[0] : widthFor(node, size), size[1]])
  if (!held) return makeRoom(node, bottom)
  if (!held.has(node)) held.set(node, bottom)
  return false
}

// Runs what gives nodes their places, and only then makes room for those that grew meanwhile.
export function withRoom(place: () => void) {
  const grew = (held = new Map<GraftNode, number>())
  try {
    place()
  } finally {
    held = null
  }
  for (const [node, bottom] of grew) if (node.graph) makeRoom(node, bottom)
}
