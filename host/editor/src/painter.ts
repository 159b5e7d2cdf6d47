// A picture with the mask over it, painted on by mouse, pen or finger.
import { joined, type Area, type Mask, type Point } from "./brush"
import { h } from "./dom"

// How much of the paint is seen is in mask.css.
const PINK = [255, 45, 120]
const BLUE = [30, 120, 255]
type Picture = HTMLImageElement | HTMLCanvasElement

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
  onStroke = () => {} // one has ended
  private readonly picture: Picture
  private readonly paint: number[]
  private readonly overlay: HTMLCanvasElement
  private readonly frame: HTMLElement
  private readonly ring = h("div", { class: "mask-ring", hidden: true })
  private pointer: number | null = null // that paints
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

  // As large as there is room for.
  private fit() {
    const { clientWidth, clientHeight } = this.element
    const { width, height } = this.mask
    const scale = Math.min((clientWidth - 24) / width, (clientHeight - 24) / height)
    this.frame.style.width = `${Math.max(1, width * scale)}px`
    this.frame.style.height = `${Math.max(1, height * scale)}px`
    for (const layer of [this.picture, this.overlay]) layer.classList.toggle("crisp", scale > 3)
    this.drawRing()
  }

  private get scale(): number {
    return this.overlay.getBoundingClientRect().width / this.mask.width || 1
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
  }

  private begin(event: PointerEvent) {
    if (this.pointer !== null || event.button === 1) return
    event.preventDefault() // no selecting, no dragging of the picture
    this.element.focus({ preventScroll: true })
    this.element.setPointerCapture(event.pointerId)
    this.pointer = event.pointerId
    this.rubs = this.erases || (event.buttons & (RIGHT | RUBBER)) !== 0
    this.last = this.pointAt(event)
    this.moveRing({ x: event.clientX, y: event.clientY })
    this.stroke([this.last])
  }

  private move(event: PointerEvent) {
    if (this.pointer !== null && event.pointerId !== this.pointer) return // another finger
    this.moveRing({ x: event.clientX, y: event.clientY })
    if (this.pointer === null) return
    const all = event.getCoalescedEvents?.() ?? []
    this.stroke((all.length ? all : [event]).map((one) => this.pointAt(one)))
  }

  private stroke(points: Point[]) {
    let area: Area | null = null
    for (const point of points) {
      area = joined(area, this.mask.line(this.last, point, this.width / 2, this.rubs))
      this.last = point
    }
    if (area) this.show(area)
  }

  private end(event: PointerEvent) {
    if (event.pointerId !== this.pointer) return
    this.pointer = null
    this.mask.settle()
    if (event.pointerType === "touch") this.hideRing() // there is no finger any more
    this.drawRing()
    this.onStroke()
  }
}
