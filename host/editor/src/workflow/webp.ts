// The text that WebP pictures carry: the workflow that made them, where SaveAnimatedWEBP has it.

const ASCII = 2
const ENTRY = 12

const latin1 = (data: Uint8Array) => new TextDecoder("latin1").decode(data)
const viewOf = (data: Uint8Array) => new DataView(data.buffer, data.byteOffset, data.byteLength)

// Texts "key:value" of the first directory of a TIFF file (TIFF 6.0, section 2), which EXIF is.
function textsOf(exif: Uint8Array): Map<string, string> {
  const texts = new Map<string, string>()
  const data = latin1(exif.subarray(0, 6)) === "Exif\0\0" ? exif.subarray(6) : exif
  if (data.length < 8) return texts
  const view = viewOf(data)
  const little = latin1(data.subarray(0, 2)) === "II"
  const directory = view.getUint32(4, little)
  if (directory + 2 > data.length) return texts
  const end = directory + 2 + ENTRY * view.getUint16(directory, little)
  for (let at = directory + 2; at < end && at + ENTRY <= data.length; at += ENTRY) {
    const size = view.getUint32(at + 4, little)
    const from = size > 4 ? view.getUint32(at + 8, little) : at + 8 // four bytes have room for themselves
    if (view.getUint16(at + 2, little) !== ASCII || from + size > data.length) continue
    const text = new TextDecoder().decode(data.subarray(from, from + size)).replace(/\0+$/, "")
    const colon = text.indexOf(":")
    if (colon > 0) texts.set(text.slice(0, colon).toLowerCase(), text.slice(colon + 1))
  }
  return texts
}

// The texts of a WebP by keyword; null for anything that is no WebP. Whether the file is whole, or cut
// off somewhere.
export function readWebp(data: Uint8Array): { texts: Map<string, string>; whole: boolean } | null {
  if (latin1(data.subarray(0, 4)) !== "RIFF" || latin1(data.subarray(8, 12)) !== "WEBP") return null
  const view = viewOf(data)
  let texts = new Map<string, string>()
  for (let at = 12; at + 8 <= data.length; ) {
    const size = view.getUint32(at + 4, true)
    if (latin1(data.subarray(at, at + 4)) === "EXIF")
      texts = textsOf(data.subarray(at + 8, at + 8 + size))
    at += 8 + size + (size % 2)
  }
  return { texts, whole: 8 + view.getUint32(4, true) <= data.length }
}
