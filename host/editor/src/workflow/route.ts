// Ways for links around nodes that are not theirs: a curve that runs below a node comes out at its
// other side, beside sockets to which it does not belong.

export type Point = [number, number]
export type Box = [left: number, top: number, right: number, bottom: number]
interface Line {
  along: "x" | "y"
  at: number
  from: number
  to: number
  of: string // links of one output may share their way
}

const STUB = 12 // from a socket to the first corner
const CLEAR = 4 // between a line and a node
const PAD = 9 // likewise, where there is room
const APART = [12, 8, 4] // between two lines, where there is room
const REACH = 64 // how far from where a line would be best it is looked for
const SAMPLES = 24

const span = (a: number, b: number): [number, number] => (a < b ? [a, b] : [b, a])

// Whether a line that is level or upright would lie on one of the boxes.
function hit(along: "x" | "y", at: number, from: number, to: number, boxes: Box[]) {
  const [low, high] = span(from, to)
  return boxes.find(([left, top, right, bottom]) =>
    along === "x"
      ? at > top - CLEAR && at < bottom + CLEAR && high > left - CLEAR && low < right + CLEAR
      : at > left - CLEAR && at < right + CLEAR && high > top - CLEAR && low < bottom + CLEAR,
  )
}

const isOn = ([left, top, right, bottom]: Box, [x, y]: Point) =>
  x > left - CLEAR && x < right + CLEAR && y > top && y < bottom

// Whether the curve that the canvas library would draw runs below one of the boxes.
export function runsBelow([ax, ay]: Point, [bx, by]: Point, boxes: Box[]): boolean {
  const reach = Math.hypot(bx - ax, by - ay) / 4
  for (let i = 1; i < SAMPLES; i++) {
    const t = i / SAMPLES
    const s = 1 - t
    const [p, q, r] = [3 * s * s * t, 3 * s * t * t, t * t * t]
    const x = s * s * s * ax + p * (ax + reach) + q * (bx - reach) + r * bx
    const y = s * s * s * ay + p * ay + q * by + r * by
    if (boxes.some((box) => x > box[0] && x < box[2] && y > box[1] && y < box[3])) return true
  }
  return false
}

export class Router {
  private lines: Line[] = []
  private apart = APART[0]

  constructor(private readonly boxes: Box[]) {}

  // The corners of a way from output a to input b, wherever that is. Null where there is none. `of` names
  // the output that the link comes from.
  route(a: Point, b: Point, of: string): Point[] | null {
    let inner: Point[] | null = null
    for (const apart of APART) {
      this.apart = apart
      inner ??= this.elbow(a, b, of) ?? this.level(a, b, of)
    }
    if (!inner) return null
    const corners = [a, ...inner, b]
    for (let i = 1; i < corners.length; i++) {
      const [p, q] = [corners[i - 1], corners[i]]
      const along = p[1] === q[1] ? "x" : "y"
      const [at, from, to] = along === "x" ? [p[1], p[0], q[0]] : [p[0], p[1], q[1]]
      this.lines.push({ along, at, from, to, of })
    }
    return corners
  }

  // With one upright line, after the output or before the input.
  private elbow(a: Point, b: Point, of: string): Point[] | null {
    for (const [end, other, way] of [
      [a, b, 1],
      [b, a, -1],
    ] as const) {
      const x = this.upright(end, other[1], way, of)
      if (x === null || way * (other[0] - x) < STUB) continue
      if (hit("x", other[1], x, other[0], this.without(other))) continue
      if (this.taken("x", other[1], x, other[0], of)) continue
      return [
        [x, a[1]],
        [x, b[1]],
      ]
    }
    return null
  }

  // Levels to be tried, and which way to go from each where it is taken: above and below all nodes that
  // are between them. A link that goes back runs in the middle between its own two, if it can.
  private levels(a: Point, b: Point): [number, -1 | 1][] {
    const [left, right] = span(a[0], b[0])
    const between = this.boxes.filter((box) => box[2] > left - STUB && box[0] < right + STUB)
    const levels: [number, -1 | 1][] = between.flatMap(([, top, , bottom]) => [
      [top - PAD, -1],
      [bottom + PAD, 1],
    ])
    const cost = (y: number) => Math.abs(y - a[1]) + Math.abs(y - b[1])
    levels.sort((p, q) => cost(p[0]) - cost(q[0]))
    const [from, to] = [a, b].map((end) => this.boxes.find((box) => isOn(box, end)))
    if (b[0] > a[0] || !from || !to) return levels
    const [upper, lower] = from[1] < to[1] ? [from, to] : [to, from]
    return [[(upper[3] + lower[1]) / 2, 1], ...levels]
  }

  // Along a level line that is free.
  private level(a: Point, b: Point, of: string): Point[] | null {
    const back = b[0] < a[0]
    for (const [start, away] of this.levels(a, b))
      for (let off = 0; off < REACH; off += this.apart) {
        const y = start + away * off
        const x1 = this.upright(a, y, 1, of)
        const x2 = this.upright(b, y, -1, of)
        if (x1 === null || x2 === null || (!back && x2 - x1 < STUB)) break
        if (hit("x", y, x1, x2, this.boxes)) break
        if (this.taken("x", y, x1, x2, of)) continue
        return [
          [x1, a[1]],
          [x1, y],
          [x2, y],
          [x2, b[1]],
        ]
      }
    return null
  }

  // All boxes but the one whose socket this is.
  private without(end: Point): Box[] {
    return this.boxes.filter((box) => !isOn(box, end))
  }

  // Where a line from a socket turns up or down: to the right of an output, to the left of an input.
  private upright([x, y]: Point, level: number, way: 1 | -1, of: string): number | null {
    let at = x + way * STUB
    for (let i = 0; i < REACH / this.apart; i++) {
      const box = hit("y", at, y, level, this.boxes)
      if (box) at = way > 0 ? box[2] + PAD : box[0] - PAD
      else if (this.taken("y", at, y, level, of)) at += way * this.apart
      else return hit("x", y, x, at, this.without([x, y])) ? null : at
    }
    return null
  }

  private taken(along: "x" | "y", at: number, from: number, to: number, of: string): boolean {
    const [low, high] = span(from, to)
    return this.lines.some((line) => {
      if (line.along !== along || line.of === of || Math.abs(line.at - at) >= this.apart) return false
      const [start, end] = span(line.from, line.to)
      return start < high && low < end
    })
  }
}
