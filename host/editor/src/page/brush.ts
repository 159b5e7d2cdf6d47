// A mask that is painted: one byte for each pixel of the picture, 255 where it is painted whole,
// and the steps by which it became what it is.

export interface Point {
  x: number // of the picture's pixels, the first of which is from 0 to 1
  y: number
}
// Without its right and lower ends.
export interface Area {
  left: number
  top: number
  right: number
  bottom: number
}
interface Step {
  area: Area
  bytes: Uint8Array // what the area is on the other side of the step
}

const MOST = 256 * 2 ** 20 // bytes that all steps take together; beyond them the oldest go

const sizeOf = ({ left, top, right, bottom }: Area) =>
  Math.max(0, right - left) * Math.max(0, bottom - top)

export const joined = (a: Area | null, b: Area): Area =>
  a
    ? {
        left: Math.min(a.left, b.left),
        top: Math.min(a.top, b.top),
        right: Math.max(a.right, b.right),
        bottom: Math.max(a.bottom, b.bottom),
      }
    : b

// How far a point is from a line between two others.
function distance(x: number, y: number, from: Point, to: Point): number {
  const [dx, dy] = [to.x - from.x, to.y - from.y]
  const length = dx * dx + dy * dy
  const along = length ? ((x - from.x) * dx + (y - from.y) * dy) / length : 0
  const at = Math.min(1, Math.max(0, along))
  const [offX, offY] = [x - from.x - at * dx, y - from.y - at * dy]
  return Math.sqrt(offX * offX + offY * offY) // hypot takes ten times as long
}

export class Mask {
  readonly values: Uint8Array
  private readonly settled: Uint8Array // the values after the last step
  private touched: Area | null = null // since then
  private steps: Step[] = []
  private at = 0
  private first = 0 // where `at` was when nothing had been painted; below 0 that is forgotten

  constructor(
    readonly width: number,
    readonly height: number,
    given?: Uint8Array,
  ) {
    this.values = given ?? new Uint8Array(width * height)
    this.settled = this.values.slice()
  }

  get whole(): Area {
    return { left: 0, top: 0, right: this.width, bottom: this.height }
  }
  get isChanged(): boolean {
    return this.at !== this.first || this.touched !== null
  }
  get canUndo(): boolean {
    return this.at > 0
  }
  get canRedo(): boolean {
    return this.at < this.steps.length
  }

  // A part of a stroke with a round brush. Its edge is as wide as one pixel, or this share of the
  // radius. Gives what it may have changed. `settle` ends the stroke, `drop` takes it back.
  line(from: Point, to: Point, radius: number, erase = false, soft = 0): Area {
    const { x, y } = from
    const [dx, dy] = [to.x - x, to.y - y]
    // In pieces: all that is around a long line is much more than what it covers.
    const pieces = Math.max(1, Math.ceil(Math.hypot(dx, dy) / (4 * radius + 16)))
    const point = (i: number): Point => ({ x: x + (dx * i) / pieces, y: y + (dy * i) / pieces })
    for (let i = 0; i < pieces; i++) this.piece(point(i), point(i + 1), radius, erase, soft)
    return this.around(from, to, radius + 1)
  }

  private piece(from: Point, to: Point, radius: number, erase: boolean, soft: number) {
    const { width, values } = this
    const edge = Math.max(1, soft * radius)
    const area = this.around(from, to, radius + 1)
    for (let y = area.top; y < area.bottom; y++)
      for (let x = area.left; x < area.right; x++) {
        const far = distance(x + 0.5, y + 0.5, from, to)
        if (far >= radius + 0.5) continue
        // A brush thinner than a pixel still leaves a trace.
        const value = Math.round(255 * Math.min(1, 2 * radius, (radius + 0.5 - far) / edge))
        const i = y * width + x
        values[i] = erase ? Math.min(values[i], 255 - value) : Math.max(values[i], value)
      }
    if (sizeOf(area)) this.touched = joined(this.touched, area)
  }

  private around(from: Point, to: Point, margin: number): Area {
    const within = (value: number, most: number) => Math.min(most, Math.max(0, value))
    return {
      left: within(Math.floor(Math.min(from.x, to.x) - margin), this.width),
      top: within(Math.floor(Math.min(from.y, to.y) - margin), this.height),
      right: within(Math.ceil(Math.max(from.x, to.x) + margin), this.width),
      bottom: within(Math.ceil(Math.max(from.y, to.y) + margin), this.height),
    }
  }

  clear() {
    this.values.fill(0)
    this.touched = this.whole
    this.settle()
  }
  invert() {
    const { values } = this
    for (let i = 0; i < values.length; i++) values[i] = 255 - values[i]
    this.touched = this.whole
    this.settle()
  }

  // Makes a step of what was changed since the last; where nothing was there is none.
  settle() {
    const area = this.touched
    this.touched = null
    if (!area) return
    const bytes = new Uint8Array(sizeOf(area))
    let same = true
    this.rows(area, (start, end, at) => {
      for (let i = start; same && i < end; i++) same = this.values[i] === this.settled[i]
      bytes.set(this.settled.subarray(start, end), at)
      this.settled.set(this.values.subarray(start, end), start)
    })
    if (same) return
    this.steps.length = this.at
    this.steps.push({ area, bytes })
    this.at++
    this.forget()
  }

  // As if nothing had been changed since the last step. Gives what had.
  drop(): Area | null {
    const area = this.touched
    this.touched = null
    if (area)
      this.rows(area, (start, end) =>
        this.values.set(this.settled.subarray(start, end), start),
      )
    return area
  }

  private forget() {
    let total = this.steps.reduce((sum, { bytes }) => sum + bytes.length, 0)
    while (total > MOST && this.steps.length > 1) {
      total -= this.steps.shift()!.bytes.length
      this.at--
      this.first--
    }
  }

  // What was changed by it; null when there is no step.
  undo(): Area | null {
    this.settle()
    return this.canUndo ? this.swap(this.steps[--this.at]) : null
  }
  redo(): Area | null {
    this.settle()
    return this.canRedo ? this.swap(this.steps[this.at++]) : null
  }

  private swap({ area, bytes }: Step): Area {
    this.rows(area, (start, end, at) => {
      const now = this.values.slice(start, end)
      this.values.set(bytes.subarray(at, at + end - start), start)
      bytes.set(now, at)
      this.settled.set(this.values.subarray(start, end), start)
    })
    return area
  }

  // Calls with each row's ends among all values, and where it is among those of the area.
  private rows(area: Area, call: (start: number, end: number, at: number) => void) {
    const across = area.right - area.left
    for (let y = area.top; y < area.bottom; y++) {
      const start = y * this.width + area.left
      call(start, start + across, (y - area.top) * across)
    }
  }
}
