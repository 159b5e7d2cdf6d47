// What a file or a text holds: a workflow in one of its forms, or a picture that may carry one.
import { isPrompt, isUiWorkflow } from "./convert"
import { parseJson } from "./json"
import { readPng } from "./png"
import { readWebp } from "./webp"

export interface Found {
  data: unknown
  name: string
  note: string // what is wrong with the file, though it could be read
}

const PICTURE = /\.(png|jpe?g|webp|gif|avif|bmp|tiff?|svg)$/i

export const isPicture = (file: File) => file.type.startsWith("image/") || PICTURE.test(file.name)

// What clients send to the server, or find in its history, has the workflow inside.
const unwrap = (data: any) =>
  data && !isUiWorkflow(data) && !isPrompt(data) ? (data.workflow ?? data.prompt ?? data) : data

// Null for a picture that carries none.
export async function readFile(file: File): Promise<Found | null> {
  const name = file.name.replace(/\.[^.]*$/, "")
  if (isPicture(file)) {
    const data = new Uint8Array(await file.arrayBuffer())
    const { texts, whole } = readWebp(data) ?? (await readPng(data)) // others have none
    const text = texts.get("workflow") ?? texts.get("prompt")
    const note = whole ? "" : `${file.name} is damaged; only its workflow was read.`
    return text ? { data: parsed(text, `The workflow in ${file.name}`), name, note } : null
  }
  return { data: parsed(await file.text(), file.name), name, note: "" }
}

// `what` it is called where it is no workflow.
export function parsed(text: string, what: string): unknown {
  let data
  try {
    data = unwrap(parseJson(text))
  } catch {
    throw new Error(`${what} cannot be read: it is not JSON.`)
  }
  if (!isUiWorkflow(data) && !isPrompt(data)) throw new Error(`${what} has no nodes.`)
  return data
}
