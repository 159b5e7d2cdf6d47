// Pictures of cameras may lie on their side in the file. Nodes and browsers turn them upright; the
// copies that the server makes of them are as they lie.

// As EXIF counts it: 1 is upright. Only JPEGs are looked into.
export function orientationOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    if (view.getUint16(0) !== 0xffd8) return 1
    let at = 2
    for (; view.getUint16(at) !== 0xffe1; at += 2 + view.getUint16(at + 2))
      if (bytes[at] !== 0xff || bytes[at + 1] === 0xda) return 1
    return view.getUint32(at + 4) === 0x45786966 ? tagOf(view, at + 10) : 1 // "Exif"
  } catch {
    return 1 // it ends too early
  }
}

function tagOf(view: DataView, start: number): number {
  const little = view.getUint16(start) === 0x4949
  const short = (at: number) => view.getUint16(start + at, little)
  const first = view.getUint32(start + 4, little)
  for (let i = 0; i < short(first); i++) {
    const entry = first + 2 + 12 * i
    if (short(entry) !== 0x0112) continue
    const found = short(entry + 8)
    return found >= 1 && found <= 8 ? found : 1
  }
  return 1
}

// Where a pixel of a picture of w x h goes.
const matrixOf = (orientation: number, w: number, h: number) =>
  [
    [1, 0, 0, 1, 0, 0],
    [-1, 0, 0, 1, w, 0],
    [-1, 0, 0, -1, w, h],
    [1, 0, 0, -1, 0, h],
    [0, 1, 1, 0, 0, 0],
    [0, 1, -1, 0, h, 0],
    [0, -1, -1, 0, h, w],
    [0, -1, 1, 0, 0, w],
  ][orientation - 1] as [number, number, number, number, number, number]

export function upright(picture: HTMLImageElement, orientation: number): HTMLCanvasElement {
  const { naturalWidth: w, naturalHeight: h } = picture
  const canvas = document.createElement("canvas")
  ;[canvas.width, canvas.height] = orientation >= 5 ? [h, w] : [w, h]
  const ctx = canvas.getContext("2d")!
  ctx.setTransform(...matrixOf(orientation, w, h))
  ctx.drawImage(picture, 0, 0)
  return canvas
}
