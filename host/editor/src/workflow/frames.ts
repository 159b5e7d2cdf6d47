// Binary messages of the server: previews and texts.

export interface Preview {
  node: string | null
  prompt: string | null
  image: Blob
}
// Binary frames: a big-endian event number, then what the event asks for.
export function readFrame(buffer: ArrayBuffer): { preview?: Preview; text?: [string, string] } {
  if (buffer.byteLength < 8) return {}
  const view = new DataView(buffer)
  const event = view.getUint32(0)
  const word = view.getUint32(4)
  if (event === 1) {
    const type = word === 2 ? "image/png" : "image/jpeg"
    return { preview: { node: null, prompt: null, image: new Blob([buffer.slice(8)], { type }) } }
  }
  if (word > buffer.byteLength - 8) return {}
  const head = new TextDecoder().decode(new Uint8Array(buffer, 8, word))
  if (event === 3) return { text: [head, new TextDecoder().decode(buffer.slice(8 + word))] }
  if (event !== 4) return {}
  const meta = JSON.parse(head)
  const image = new Blob([buffer.slice(8 + word)], { type: meta.image_type ?? "image/jpeg" })
  const node = meta.display_node_id ?? meta.node_id ?? null
  return { preview: { node, prompt: meta.prompt_id ?? null, image } }
}
