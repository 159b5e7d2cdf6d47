// A picture with the mask over it, painted on by mouse, pen or finger, and seen as near as is wanted.
import { joined, type Area, type Mask, type Point } from "./brush"
import { h } from "./dom"
import { Near } from "./near"

// How much of the paint is seen is in mask.css.
const PINK = [255, 45, 120]
const BLUE = [30, 120, 255]
type Picture = HTMLImageElement | HTMLCanvasElement

const MIDDLE = 1 // of a mouse's buttons, by number; the others by bit
const RIGHT = 2
const RUBBER = 32 // the other end of a pen

// The paint that is told apart from the picture: blue where much is red.
function paintFor(picture: Picture): number[] {
  const ctx = h("canvas", { width: 32, height: 32 }).getContext("2d")!
  ctx.drawImage(picture, 0, 0, 32, 32)
  const { data } = ctx.getImageData(0, 0, 32, 32)
  let red = 0
  for (let i = 0; i < data.length; i += 4) red += data[i] - data[i + 2]
  return red > (data.length / 4) * 20 ? BLUE : PINK
}

export class Painter {
  readonly element: HTMLElement
  erases = false
  soft = 0 // how much of the brush's radius is its edge
  onStroke = () => {} // one has ended
  onNear = () => {} // the picture is seen nearer or from further away
  private readonly picture: Picture
  private readonly paint: number[]
  private readonly overlay: HTMLCanvasElement
  private readonly frame: HTMLElement
  private readonly ring = h("div", { class: "mask-ring", hidden: true })
  private readonly near: Near
  private readonly fingers = new Map<number, Point>() // that touch, in pixels of the window
  private pointer: number | null = null // that paints
  private mover: number | null = null // a pointer that moves the picture
  private space = false // it is held: the mouse moves the picture
  private rubs = false // it erases
  private last: Point = { x: 0, y: 0 }
  private place: Point = { x: 0, y: 0 } // of the ring, in pixels of the window
  private width = 1 // of the brush, in pixels of the picture

  constructor(
    picture: Picture,
    private readonly mask: Mask,
  ) {
    this.picture = picture
    this.paint = paintFor(picture)
    const { width, height } = mask
    this.near = new Near(mask)
    this.overlay = h("canvas", { width, height, class: "mask-paint" })
    this.frame = h("div", { class: "mask-frame" }, picture, this.overlay)
    this.element = h(
      "div",
      {
        class: "mask-stage",
        tabindex: "0",
        role: "application",
        "aria-label": "The picture, to be painted on",
        "aria-describedby": "mask-hint",
      },
      this.frame,
      this.ring,
    )
    this.listen()
    this.show(mask.whole)
    new ResizeObserver(() => this.fit()).observe(this.element)
  }

  get size(): number {
    return this.width
  }
  set size(size: number) {
    this.width = size
    this.drawRing()
  }
  get isPainting(): boolean {
    return this.pointer !== null
  }

  // Puts a part of the mask on the screen.
  show({ left, top, right, bottom }: Area) {
    const [across, down] = [right - left, bottom - top]
    if (across <= 0 || down <= 0) return
    const image = new ImageData(across, down)
    const pixels = new Uint32Array(image.data.buffer) // one number a pixel: this has to be fast
    const [red, green, blue] = this.paint
    const paint = red + (green << 8) + (blue << 16)
    const { values, width } = this.mask
    for (let y = 0; y < down; y++)
      for (let x = 0; x < across; x++)
        pixels[y * across + x] = paint + values[(top + y) * width + left + x] * 2 ** 24
    this.overlay.getContext("2d")!.putImageData(image, left, top)
  }

  // The brush in the middle, for who changes its size elsewhere.
  showRing() {
    const box = this.element.getBoundingClientRect()
    this.moveRing({ x: box.left + box.width / 2, y: box.top + box.height / 2 })
  }
  hideRing() {
    this.ring.hidden = true
  }

  // Percent of the picture's own size.
  get percent(): number {
    return Math.round(this.near.scale * 100)
  }
  get isWhole(): boolean {
    return this.near.isWhole
  }
  // At the ring, which is where the mouse is, or in the middle.
  zoom(by: number) {
    const box = this.element.getBoundingClientRect()
    const middle = { x: box.left + box.width / 2, y: box.top + box.height / 2 }
    this.zoomAt(by, this.ring.hidden ? middle : this.place)
  }
  seeWhole() {
    this.near.zoom(0, { x: 0, y: 0 })
    this.lay()
  }

  private zoomAt(by: number, { x, y }: Point) {
    const box = this.element.getBoundingClientRect()
    this.near.zoom(by, {
      x: x - box.left - box.width / 2,
      y: y - box.top - box.height / 2,
    })
    this.lay()
  }

  private fit() {
    const { clientWidth, clientHeight } = this.element
    this.near.fit({ width: clientWidth - 24, height: clientHeight - 24 })
    this.lay()
  }
  private lay() {
    const { scale, offset } = this.near
    const { width, height } = this.mask
    Object.assign(this.frame.style, {
      width: `${Math.max(1, width * scale)}px`,
      height: `${Math.max(1, height * scale)}px`,
      transform: `translate(calc(${offset.x}px - 50%), calc(${offset.y}px - 50%))`,
    })
    for (const layer of [this.picture, this.overlay]) layer.classList.toggle("crisp", scale > 3)
    this.drawRing()
    this.onNear()
  }

  private get scale(): number {
    return this.near.scale
  }
  private pointAt({ clientX, clientY }: { clientX: number; clientY: number }): Point {
    const box = this.overlay.getBoundingClientRect()
    return { x: (clientX - box.left) / this.scale, y: (clientY - box.top) / this.scale }
  }

  private moveRing(place: Point) {
    this.place = place
    this.ring.hidden = false
    this.drawRing()
  }
  drawRing() {
    const box = this.element.getBoundingClientRect()
    const side = Math.max(4, this.width * this.scale)
    const [x, y] = [this.place.x - box.left - side / 2, this.place.y - box.top - side / 2]
    this.ring.classList.toggle("erases", this.pointer === null ? this.erases : this.rubs)
    Object.assign(this.ring.style, {
      width: `${side}px`,
      height: `${side}px`,
      transform: `translate(${x}px, ${y}px)`,
    })
  }

  private listen() {
    const { element } = this
    element.addEventListener("pointerdown", (event) => this.begin(event))
    element.addEventListener("pointermove", (event) => this.move(event))
    for (const type of ["pointerup", "pointercancel"] as const)
      element.addEventListener(type, (event) => this.end(event))
    element.addEventListener("pointerleave", () => this.pointer === null && this.hideRing())
    element.addEventListener("contextmenu", (event) => event.preventDefault())
    element.addEventListener("wheel", (event) => this.turn(event), { passive: false })
    element.addEventListener("keydown", (event) => this.hold(event, true))
    element.addEventListener("keyup", (event) => this.hold(event, false))
    element.addEventListener("blur", () => this.setSpace(false))
  }

  // A wheel's notch is some hundred pixels; two fingers on a touchpad come as a wheel with Ctrl, in
  // small steps.
  private turn(event: WheelEvent) {
    event.preventDefault()
    if (this.pointer !== null) return
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE
    const by = event.deltaY * (lines ? 33 : 1) * (event.ctrlKey ? 0.01 : 0.002)
    this.zoomAt(Math.exp(-by), { x: event.clientX, y: event.clientY })
  }

  private hold(event: KeyboardEvent, held: boolean) {
    if (event.key !== " ") return
    event.preventDefault()
    this.setSpace(held)
  }
  private setSpace(held: boolean) {
    this.space = held
    this.showHand()
  }
  private showHand() {
    this.element.classList.toggle("moves", this.space || this.mover !== null)
  }

  private begin(event: PointerEvent) {
    const place = { x: event.clientX, y: event.clientY }
    if (event.pointerType === "touch") this.fingers.set(event.pointerId, place)
    if (this.fingers.size > 1) return this.pinch()
    if (this.pointer !== null || this.mover !== null) return
    event.preventDefault() // no selecting, no dragging of the picture
    this.element.focus({ preventScroll: true })
    this.element.setPointerCapture(event.pointerId)
    if (event.button === MIDDLE || this.space) return this.grab(event)
    this.pointer = event.pointerId
    this.rubs = this.erases || (event.buttons & (RIGHT | RUBBER)) !== 0
    this.last = this.pointAt(event)
    this.moveRing(place)
    this.stroke([this.last])
  }

  private grab({ pointerId, clientX, clientY }: PointerEvent) {
    this.mover = pointerId
    this.place = { x: clientX, y: clientY }
    this.hideRing()
    this.showHand()
  }

  // A second finger has come: what the first has painted was not meant.
  private pinch() {
    if (this.pointer === null) return
    this.pointer = null
    const area = this.mask.drop()
    if (area) this.show(area)
    this.hideRing()
  }

  private move(event: PointerEvent) {
    const place = { x: event.clientX, y: event.clientY }
    if (this.fingers.size > 1) return this.spread(event.pointerId, place)
    if (event.pointerId === this.mover) {
      this.near.move(place.x - this.place.x, place.y - this.place.y)
      this.place = place
      return this.lay()
    }
    if (this.pointer !== null && event.pointerId !== this.pointer) return
    if (this.mover !== null || (this.pointer === null && event.pointerType === "touch")) return
    this.moveRing(place)
    if (this.pointer === null) return
    const all = event.getCoalescedEvents?.() ?? []
    this.stroke((all.length ? all : [event]).map((one) => this.pointAt(one)))
  }

  // Two fingers: what is between them stays between them.
  private spread(pointer: number, place: Point) {
    const other = [...this.fingers].find(([id]) => id !== pointer)?.[1]
    const before = this.fingers.get(pointer)
    if (!other || !before) return
    const apart = (a: Point) => Math.max(1, Math.hypot(a.x - other.x, a.y - other.y))
    const half = { x: (before.x + other.x) / 2, y: (before.y + other.y) / 2 }
    this.fingers.set(pointer, place)
    this.zoomAt(apart(place) / apart(before), half)
    this.near.move((place.x - before.x) / 2, (place.y - before.y) / 2)
    this.lay()
  }

  private stroke(points: Point[]) {
    let area: Area | null = null
    for (const point of points) {
      area = joined(area, this.mask.line(this.last, point, this.width / 2, this.rubs, this.soft))
      this.last = point
    }
    if (area) this.show(area)
  }

  private end(event: PointerEvent) {
    this.fingers.delete(event.pointerId)
    if (event.pointerId === this.mover) {
      this.mover = null
      this.showHand()
    }
    if (event.pointerId !== this.pointer) return
    this.pointer = null
    this.mask.settle()
    if (event.pointerType === "touch") this.hideRing() // there is no finger any more
    this.drawRing()
    this.onStroke()
  }
}
