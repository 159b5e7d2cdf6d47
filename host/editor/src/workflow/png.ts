// The text that pictures carry: the workflow that made them.

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
const TEXT_MAX = 64 << 20 // bytes of one text; more is not a workflow

async function inflate(data: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([data as BlobPart])
    .stream()
    .pipeThrough(new DecompressionStream("deflate"))
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    if (size > TEXT_MAX) throw new Error("A text in the picture is too long.")
    chunks.push(value)
  }
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

const latin1 = (data: Uint8Array) => new TextDecoder("latin1").decode(data)
const utf8 = (data: Uint8Array) => new TextDecoder().decode(data)

async function textOf(type: string, data: Uint8Array): Promise<[string, string] | null> {
  const end = data.indexOf(0)
  if (end < 1) return null
  const key = latin1(data.subarray(0, end))
  const rest = data.subarray(end + 1)
  if (type === "tEXt") {
    // The standard says Latin-1, but programs write UTF-8 too; pure ASCII is both.
    try {
      return [key, new TextDecoder("utf-8", { fatal: true }).decode(rest)]
    } catch {
      return [key, latin1(rest)]
    }
  }
  if (type === "zTXt") return [key, latin1(await inflate(rest.subarray(1)))]
  const language = rest.indexOf(0, 2)
  const translated = language < 0 ? -1 : rest.indexOf(0, language + 1)
  if (translated < 0) return null
  const body = rest.subarray(translated + 1)
  return [key, utf8(rest[0] === 1 ? await inflate(body) : body)]
}

let table: Uint32Array | null = null

// ISO 3309, of a chunk's type and data.
function crcOf(data: Uint8Array): number {
  table ??= Uint32Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1
    return n
  })
  let crc = ~0
  for (const byte of data) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8)
  return ~crc >>> 0
}

// The text chunks of a PNG by keyword; empty for anything that is no PNG. Whether the file is whole, or
// cut off or damaged somewhere.
export async function readPng(
  data: Uint8Array,
): Promise<{ texts: Map<string, string>; whole: boolean }> {
  const texts = new Map<string, string>()
  let whole = false
  let sound = true
  if (SIGNATURE.some((byte, i) => data[i] !== byte)) return { texts, whole: true }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  for (let at = 8; at + 12 <= data.length; ) {
    const size = view.getUint32(at)
    const type = latin1(data.subarray(at + 4, at + 8))
    if (size > data.length - at - 12) break
    sound &&= crcOf(data.subarray(at + 4, at + 8 + size)) === view.getUint32(at + 8 + size)
    whole = type === "IEND"
    if (whole) break
    if (type === "tEXt" || type === "zTXt" || type === "iTXt") {
      const pair = await textOf(type, data.subarray(at + 8, at + 8 + size)).catch(() => null)
      if (pair) texts.set(...pair)
    }
    at += 12 + size
  }
  return { texts, whole: whole && sound }
}
