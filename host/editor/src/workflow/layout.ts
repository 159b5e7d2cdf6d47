// Places for the nodes of a workflow that has none: columns from left to right along the links.

export interface LayoutNode {
  id: string | number
  width: number
  height: number
  from: (string | number)[] // ids that feed it
}

const GAP_X = 48
const GAP_Y = 56 // room for a title bar too

function columnsOf(nodes: LayoutNode[]): Map<LayoutNode, number> {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const column = new Map<LayoutNode, number>()
  const open = new Set<LayoutNode>()
  const visit = (node: LayoutNode): number => {
    const known = column.get(node)
    if (known !== undefined) return known
    if (open.has(node)) return 0 // a cycle: the server will say so, but it must be visible
    open.add(node)
    let depth = 0
    for (const id of node.from) {
      const origin = byId.get(id)
      if (origin) depth = Math.max(depth, visit(origin) + 1)
    }
    open.delete(node)
    column.set(node, depth)
    return depth
  }
  nodes.forEach(visit)
  // What needs nothing stands right before whatever first needs it.
  for (const node of nodes) {
    if (node.from.length) continue
    const users = nodes.filter((other) => other.from.includes(node.id))
    if (users.length)
      column.set(node, Math.max(0, Math.min(...users.map((user) => column.get(user)!)) - 1))
  }
  return column
}

const MOST = 16 // steps of depth in one column
const READABLE = 0.75

export interface Space {
  width: number
  height: number
  least: number // how large all must be that nothing is folded
}

// How large, of 1, all can be drawn in a window when so many steps of depth stand below each other in a
// column.
function scaleOf(columns: LayoutNode[][], fold: number, space: Space): number {
  let [width, height] = [0, 0]
  for (let i = 0; i < columns.length; i += fold) {
    const some = columns.slice(i, i + fold).flat()
    width += widthOf(some) + GAP_X
    height = Math.max(height, heightOf(some))
  }
  return Math.min(1, space.width / width, space.height / height)
}

// Steps of depth that one column holds, below each other: one, unless that is a long row that could not
// be read in the window. Else what can be read best, with as few as that takes.
function foldOf(columns: LayoutNode[][], space: Space): number {
  const folds = Array.from({ length: Math.min(MOST, columns.length) }, (_, i) => i + 1)
  const scales = folds.map((fold) => scaleOf(columns, fold, space))
  if (!folds.length || scales[0] >= space.least) return 1
  const best = Math.min(READABLE, Math.max(...scales))
  return folds[scales.findIndex((scale) => scale >= best)]
}
const widthOf = (some: LayoutNode[]) => Math.max(...some.map((node) => node.width))
const heightOf = (some: LayoutNode[]) => some.reduce((sum, node) => sum + node.height + GAP_Y, 0)

export function layout(nodes: LayoutNode[], space: Space): Map<string | number, [number, number]> {
  const column = columnsOf(nodes)
  const sparse: LayoutNode[][] = []
  for (const node of nodes) (sparse[column.get(node)!] ??= []).push(node)
  const columns = sparse.filter((some) => some)
  const fold = foldOf(columns, space)
  const places = new Map<string | number, [number, number]>()
  const centre = new Map<string | number, number>()
  const wish = (node: LayoutNode) => {
    const known = node.from.map((id) => centre.get(id)).filter((y) => y !== undefined)
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0
  }
  let [x, y] = [0, 0]
  columns.forEach((members, i) => {
    if (i % fold === 0) y = 0
    const sorted = members
      .map((node, i) => ({ node, i, y: wish(node) }))
      .sort((a, b) => a.y - b.y || a.i - b.i)
    for (const { node } of sorted) {
      places.set(node.id, [x, y])
      centre.set(node.id, y + node.height / 2)
      y += node.height + GAP_Y
    }
    const group = columns.slice(i - (i % fold), i + 1).flat()
    if ((i + 1) % fold === 0) x += widthOf(group) + GAP_X
  })
  return places
}
