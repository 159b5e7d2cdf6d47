// How near a picture is seen: whole, as large as there is room for, or a part of it enlarged.
import type { Point } from "./brush"

export interface Size {
  width: number
  height: number
}

const MOST = 32 // pixels of the window for one of the picture, where there is not room for more

export class Near {
  private factor = 1 // 1: whole
  private room: Size = { width: 1, height: 1 }
  // Of the picture's middle from the room's, in pixels of the window.
  private off: Point = { x: 0, y: 0 }

  constructor(private readonly size: Size) {}

  get offset(): Point {
    return this.off
  }
  // Pixels of the window for one of the picture.
  get scale(): number {
    return this.whole * this.factor
  }
  get isWhole(): boolean {
    return this.factor === 1
  }

  fit(room: Size) {
    this.room = { width: Math.max(1, room.width), height: Math.max(1, room.height) }
    this.zoom(1, { x: 0, y: 0 })
  }
  // What is at the point, told from the room's middle, stays there.
  zoom(by: number, { x, y }: Point) {
    const before = this.scale
    const most = Math.max(1, MOST / this.whole)
    this.factor = Math.min(most, Math.max(1, this.factor * by))
    const grown = this.scale / before
    this.put(x - (x - this.off.x) * grown, y - (y - this.off.y) * grown)
  }
  move(dx: number, dy: number) {
    this.put(this.off.x + dx, this.off.y + dy)
  }

  private get whole(): number {
    const { room, size } = this
    return Math.min(room.width / size.width, room.height / size.height)
  }
  // No further than to the picture's edges.
  private put(x: number, y: number) {
    const { room, size, scale } = this
    const within = (value: number, side: number, have: number) => {
      const most = Math.max(0, (side * scale - have) / 2)
      return Math.min(most, Math.max(-most, value))
    }
    this.off = {
      x: within(x, size.width, room.width),
      y: within(y, size.height, room.height),
    }
  }
}
