// The dialog in which the mask of a node's picture is painted. What is painted becomes the
// transparency of a copy of the picture that the server keeps.
import * as api from "../server/api"
import { askYes } from "../page/ask"
import { Mask } from "../page/brush"
import { chosenPicture, nameOf, type Chosen } from "./chosen"
import { h, iconButton, toast } from "../page/dom"
import type { GraftNode } from "./nodes"
import { Painter } from "../page/painter"
import { orientationOf, upright } from "../page/turned"

const FACTOR = 1.25 // between two sizes of the brush, or of the picture

async function load(url: string): Promise<HTMLImageElement> {
  const picture = h("img", { src: url, alt: "", draggable: "false" })
  await picture.decode()
  return picture
}

function contextOf(width: number, height: number): CanvasRenderingContext2D {
  const canvas = h("canvas", { width, height })
  return canvas.getContext("2d", { willReadFrequently: true })!
}

// What is transparent is the mask to begin with.
function maskOf(picture: HTMLImageElement): Mask {
  const { naturalWidth: width, naturalHeight: height } = picture
  const ctx = contextOf(width, height)
  ctx.drawImage(picture, 0, 0)
  const { data } = ctx.getImageData(0, 0, width, height)
  const values = new Uint8Array(width * height)
  for (let i = 0; i < values.length; i++) values[i] = 255 - data[4 * i + 3]
  return new Mask(width, height, values)
}

// Black, and transparent where it is painted: the server takes the colours of the picture itself,
// which a canvas would lose there.
function pngOf({ width, height, values }: Mask): Promise<Blob> {
  const ctx = contextOf(width, height)
  const image = ctx.createImageData(width, height)
  for (let i = 0; i < values.length; i++) image.data[4 * i + 3] = 255 - values[i]
  ctx.putImageData(image, 0, 0)
  return blobOf(ctx.canvas)
}

const blobOf = (canvas: HTMLCanvasElement) =>
  new Promise<Blob>((done, fail) =>
    canvas.toBlob(
      (blob) => (blob ? done(blob) : fail(new Error("The picture is too large for this browser."))),
      "image/png",
    ),
  )

// What is painted on.
interface Subject {
  name: string
  picture: HTMLImageElement | HTMLCanvasElement
  mask: Mask
  original(): Promise<api.FileRef> // that the mask will belong to
}

async function subjectOf(file: api.FileRef): Promise<Subject> {
  const url = api.viewUrl(file)
  const name = file.filename
  const isJpeg = /\.jpe?g$/i.test(name)
  const bytes = isJpeg ? await (await fetch(url)).arrayBuffer() : new ArrayBuffer(0)
  const orientation = orientationOf(new Uint8Array(bytes))
  if (orientation !== 1) return turnedSubject(name, await load(`${url}&channel=rgb`), orientation)
  const [picture, mask] = await layersOf(url)
  return { name, picture, mask, original: async () => file }
}

// The server would give the mask to the picture as it lies, and forget which side is up.
function turnedSubject(name: string, lying: HTMLImageElement, orientation: number): Subject {
  const picture = upright(lying, orientation)
  const original = async () => api.uploadUpright(await blobOf(picture))
  return { name, picture, mask: new Mask(picture.width, picture.height), original }
}

// The colours, also where they are transparent, and the transparency. To take them apart costs the
// server some time with large pictures: only what needs it, or what no browser reads, is.
async function layersOf(url: string): Promise<[HTMLImageElement, Mask]> {
  const whole = await load(url).catch(() => null)
  const mask = whole && maskOf(whole)
  if (mask?.values.every((value) => value === 0)) return [whole!, mask]
  const picture = await load(`${url}&channel=rgb`)
  return [picture, mask ?? maskOf(await load(`${url}&channel=a`))]
}

class MaskDialog {
  private readonly mask: Mask
  private readonly painter: Painter
  private readonly most: number // the largest brush
  private readonly undoButton = iconButton("undo", "Undo (Ctrl+Z)", () => this.step("undo"))
  private readonly redoButton = iconButton("redo", "Redo (Ctrl+Shift+Z)", () => this.step("redo"))
  private readonly size: HTMLInputElement
  private readonly sizeText = h("output", { class: "mask-size" })
  private readonly soft = this.softSlider()
  private readonly nearText = h("output", { class: "mask-near", "aria-label": "Size of the picture" })
  private readonly wholeButton = iconButton("fit", "See it whole (0)", () => this.painter.seeWhole())
  private readonly eraser: HTMLButtonElement
  private readonly use: HTMLButtonElement
  private readonly trouble = h("p", { class: "mask-trouble", role: "alert" })
  private readonly dialog: HTMLDialogElement
  private busy = false

  constructor(
    private readonly subject: Subject,
    private readonly done: (file: api.FileRef) => void,
  ) {
    const { mask, picture } = subject
    this.mask = mask
    const side = Math.max(mask.width, mask.height)
    this.most = Math.max(4, Math.ceil(side / 2))
    this.painter = new Painter(picture, mask)
    this.painter.onStroke = () => this.refresh()
    this.painter.onNear = () => this.tellNear()
    this.size = this.sizeSlider()
    this.eraser = h(
      "button",
      {
        type: "button",
        class: "button",
        "aria-pressed": "false",
        title: "Erase (X, or the right button)",
        onclick: () => this.toggleEraser(),
      },
      "Erase",
    )
    this.use = h(
      "button",
      {
        type: "button",
        class: "button primary",
        title: "Use this mask (Enter)",
        onclick: () => void this.save(),
      },
      "Use",
    )
    this.dialog = this.build()
    this.setSize(Math.max(1, Math.round(side / 10)))
    this.refresh()
  }

  open() {
    document.body.append(this.dialog)
    this.dialog.showModal()
    this.painter.element.focus()
  }

  private sizeSlider() {
    const { painter } = this
    return h("input", {
      type: "range",
      min: "1",
      max: String(this.most),
      "aria-label": "Size of the brush",
      title: "Size of the brush ([ and ])",
      oninput: () => {
        this.setSize(Number(this.size.value))
        painter.showRing()
      },
      onchange: () => painter.hideRing(),
    })
  }

  private softSlider() {
    return h("input", {
      type: "range",
      min: "0",
      max: "100",
      step: "5",
      value: "0",
      class: "mask-soft",
      "aria-label": "Softness of the brush's edge",
      title: "Softness of the brush's edge",
      oninput: () => {
        this.painter.soft = Number(this.soft.value) / 100
        this.soft.setAttribute("aria-valuetext", `${this.soft.value} %`)
      },
    })
  }

  private tellNear() {
    this.nearText.textContent = `${this.painter.percent} %`
    this.wholeButton.disabled = this.painter.isWhole
  }

  private build() {
    const { mask, subject } = this
    const label = `${subject.name} · ${mask.width} × ${mask.height}`
    const dialog = h(
      "dialog",
      { class: "mask", "aria-labelledby": "mask-title" },
      h(
        "header",
        {},
        h("h2", { id: "mask-title" }, "Paint a mask"),
        h("span", { class: "muted mask-name" }, label),
        h("div", { class: "mask-view" }, this.nearText, this.wholeButton),
        h(
          "button",
          { type: "button", class: "button", onclick: () => void this.cancel() },
          "Cancel",
        ),
        this.use,
      ),
      this.painter.element,
      this.tools(),
    )
    dialog.addEventListener("keydown", (event) => this.press(event))
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault() // a gesture that goes back: Escape is among the keys
      void this.cancel()
    })
    dialog.addEventListener("close", () => dialog.remove())
    // After a click the keys are the picture's again, Enter among them.
    dialog.addEventListener("click", (event) => {
      if (event.detail && !(event.target as HTMLElement).closest("input"))
        this.painter.element.focus({ preventScroll: true })
    })
    return dialog
  }

  private tools() {
    const change = (run: () => void) => () => {
      run()
      this.painter.show(this.mask.whole)
      this.refresh()
    }
    const button = (text: string, onclick: () => void) =>
      h("button", { type: "button", class: "button", onclick }, text)
    return h(
      "footer",
      {},
      this.eraser,
      h("div", { class: "mask-sizes" }, h("span", {}, "Brush"), this.size, this.sizeText),
      h("div", { class: "mask-sizes" }, h("span", {}, "Soft"), this.soft),
      h("div", { class: "mask-steps" }, this.undoButton, this.redoButton),
      button(
        "Clear",
        change(() => this.mask.clear()),
      ),
      button(
        "Invert",
        change(() => this.mask.invert()),
      ),
      h(
        "p",
        { class: "muted", id: "mask-hint" },
        "Right button or X erases, [ and ] change the brush, the wheel goes nearer, " +
          "Space and the mouse move, Enter uses the mask.",
      ),
      this.trouble,
    )
  }

  private refresh() {
    this.undoButton.disabled = !this.mask.canUndo
    this.redoButton.disabled = !this.mask.canRedo
    this.use.disabled = this.busy
    this.use.textContent = this.busy ? "Saving…" : "Use"
  }

  private setSize(size: number) {
    const kept = Math.min(this.most, Math.max(1, Math.round(size)))
    this.painter.size = kept
    this.size.value = String(kept)
    this.size.setAttribute("aria-valuetext", `${kept} pixels`)
    this.sizeText.textContent = `${kept} px`
  }
  private scaleSize(factor: number) {
    const { size } = this.painter
    const next = Math.round(size * factor)
    this.setSize(next === size ? size + Math.sign(factor - 1) : next)
  }

  private toggleEraser() {
    this.painter.erases = !this.painter.erases
    this.eraser.setAttribute("aria-pressed", String(this.painter.erases))
    this.painter.drawRing()
  }

  private step(way: "undo" | "redo") {
    if (this.painter.isPainting) return
    const area = this.mask[way]()
    if (area) this.painter.show(area)
    this.refresh()
    // A button that can do no more would keep the focus, and all keys with it.
    if (document.activeElement?.matches(":disabled, body")) this.painter.element.focus()
  }

  private press(event: KeyboardEvent) {
    const key = event.key.toLowerCase()
    const control = event.ctrlKey || event.metaKey
    const onButton = (event.target as HTMLElement).tagName === "BUTTON"
    if (key === "escape") void this.cancel()
    else if (control && key === "z") this.step(event.shiftKey ? "redo" : "undo")
    else if (control && key === "y") this.step("redo")
    else if (key === "[") this.scaleSize(1 / FACTOR)
    else if (key === "]") this.scaleSize(FACTOR)
    else if (key === "x" && !control) this.toggleEraser()
    else if ((key === "+" || key === "=") && !control) this.painter.zoom(FACTOR)
    else if (key === "-" && !control) this.painter.zoom(1 / FACTOR)
    else if (key === "0" && !control) this.painter.seeWhole()
    else if (key === "enter" && !onButton) void this.save()
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  private async cancel() {
    if (this.busy) return
    const question = "What was painted is lost then."
    if (this.mask.isChanged && !(await askYes("Leave the mask?", question, "Leave"))) return
    this.dialog.close()
  }

  private async save() {
    if (this.busy) return
    this.mask.settle()
    if (!this.mask.isChanged) return this.dialog.close()
    this.busy = true
    this.trouble.textContent = ""
    this.refresh()
    try {
      const file = await api.uploadMask(await pngOf(this.mask), await this.subject.original())
      this.dialog.close()
      this.done(file)
    } catch (error) {
      this.trouble.textContent = (error as Error).message
    }
    this.busy = false
    this.refresh()
  }
}

// The mask of LoadImageMask is the transparency only where its channel says so.
function take(node: GraftNode, { widget }: Chosen, file: api.FileRef) {
  const channel = node.widgets?.find((w) => w.name === "channel")
  if (channel && (channel.options as any)?.values?.includes("alpha")) channel.value = "alpha"
  widget.value = nameOf(file)
  widget.callback?.(widget.value)
  node.setDirtyCanvas(true, true)
}

let opening = false

export async function paintMask(node: GraftNode) {
  const chosen = chosenPicture(node)
  if (!chosen || opening) return
  opening = true
  try {
    const subject = await subjectOf(chosen.file)
    if (document.querySelector("dialog[open]")) return // something else was asked for meanwhile
    new MaskDialog(subject, (file) => take(node, chosen, file)).open()
  } catch {
    toast(`The picture ${chosen.file.filename} cannot be read.`, "error")
  } finally {
    opening = false
  }
}
