// The server: its routes and its events.
import { readFrame, type Preview } from "../workflow/frames"
import { parseJson, stringifyPrompt } from "../workflow/json"
import { parseObjectInfo, type Specs } from "../workflow/schema"
import type { Prompt } from "../workflow/convert"

export interface FileRef {
  filename: string
  subfolder?: string
  type?: string
}
export interface PromptError {
  error?: { type?: string; message?: string; details?: string; extra_info?: any }
  node_errors?: Record<string, NodeErrors>
}
export interface NodeErrors {
  errors: {
    type: string
    message: string
    details: string
    extra_info?: { input_name?: string; folder?: string }
  }[]
  dependent_outputs?: string[]
  class_type?: string
}
export type QueueEntry = [number, string, Prompt, Record<string, any>, string[]]
export interface HistoryEntry {
  prompt: QueueEntry
  outputs: Record<string, Record<string, any[]>>
  status?: { status_str: string; completed: boolean; messages: [string, any][] }
  [more: string]: unknown
}
export interface SystemStats {
  system: Record<string, any> & { ram_total: number; ram_free: number; graft_memory: number }
  devices: { name: string; type: string; vram_total: number; vram_free: number }[]
}

// What the server measured of a run: seconds, and bytes that its own process had in memory.
export interface Spent {
  seconds: number
  memory_peak: number
  phases: { name: string; seconds: number; memory_peak: number }[]
  nodes?: { node: string; seconds: number }[]
}

// The prompt was refused; `body` says why, node by node.
export class Refused extends Error {
  constructor(readonly body: PromptError) {
    super(body.error?.message ?? "The server refused the workflow.")
  }
}

const base = new URL("./", document.baseURI)

// A server that asks for a token is opened once as /?token=…; the token leaves the address bar.
function takeToken(): string | null {
  const here = new URL(location.href)
  const given = here.searchParams.get("token")
  if (given !== null) {
    sessionStorage.setItem("graft.token", given)
    here.searchParams.delete("token")
    history.replaceState(null, "", here)
  }
  return sessionStorage.getItem("graft.token")
}
const token = takeToken()

export function apiUrl(path: string): string {
  const url = new URL(`api/${path}`, base)
  if (token) url.searchParams.set("token", token)
  return url.href
}

export function viewUrl(file: FileRef, preview = false): string {
  const query = new URLSearchParams({
    filename: file.filename,
    subfolder: file.subfolder ?? "",
    type: file.type ?? "output",
  })
  if (preview) query.set("preview", "jpeg;85")
  return apiUrl(`view?${query}`)
}

async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  if (token) headers.set("Authorization", `Bearer ${token}`)
  if (typeof init.body === "string") headers.set("Content-Type", "application/json")
  try {
    return await fetch(new URL(`api/${path}`, base), { ...init, headers })
  } catch {
    throw new Error("The server cannot be reached.")
  }
}

async function get<T>(path: string): Promise<T> {
  const response = await send(path)
  if (response.status === 401)
    throw new Error("The server asks for a token: open this page as /?token=YOUR_TOKEN.")
  if (!response.ok) throw new Error(`The server answered ${response.status} to ${path}.`)
  return parseJson(await response.text()) as T
}

async function post(path: string, body: unknown): Promise<void> {
  const response = await send(path, { method: "POST", body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`The server answered ${response.status} to ${path}.`)
}

export async function objectInfo(): Promise<Specs> {
  return parseObjectInfo(await get("object_info"))
}

// The first checkpoint that needs no other files; "" when there is none, or the server does not tell.
export async function wholeCheckpoint(): Promise<string> {
  try {
    const names: unknown = await get("models/checkpoints?whole=1")
    return Array.isArray(names) && names.length === 1 ? String(names[0]) : ""
  } catch {
    return ""
  }
}

export interface Submission {
  prompt: Prompt
  workflow: unknown
  clientId: string
  front?: boolean
}

export async function submit(
  { prompt, workflow, clientId, front }: Submission,
  specs: Specs,
): Promise<{ prompt_id: string; node_errors?: Record<string, NodeErrors> }> {
  const body = {
    prompt,
    client_id: clientId,
    ...(front ? { front } : {}),
    extra_data: { extra_pnginfo: { workflow } },
  }
  const text = stringifyPrompt(
    body,
    (type, input) =>
      !!specs.get(type)?.inputs.some((spec) => spec.name === input && spec.type === "INT"),
  )
  const response = await send("prompt", { method: "POST", body: text })
  const answer = await response.json().catch(() => ({}))
  if (response.ok) return answer
  throw new Refused(
    answer.error ? answer : { error: { message: `The server answered ${response.status}.` } },
  )
}

export const queue = () =>
  get<{ queue_running: QueueEntry[]; queue_pending: QueueEntry[] }>("queue")
export const dropPending = (ids: string[]) => post("queue", { delete: ids })
export const clearPending = () => post("queue", { clear: true })
export const interrupt = (id: string) => post("interrupt", { prompt_id: id })
export const history_ = (count: number, offset = 0) =>
  get<Record<string, HistoryEntry>>(
    `history?max_items=${count}${offset ? `&offset=${offset}` : ""}`,
  )
export const historyEntry = (id: string) =>
  get<Record<string, HistoryEntry>>(`history/${encodeURIComponent(id)}`)
export const dropHistory = (ids: string[]) => post("history", { delete: ids })
export const clearHistory = () => post("history", { clear: true })
export const systemStats = () => get<SystemStats>("system_stats")
export const embeddings = () => get<string[]>("embeddings")
// When a job began, by the server's clock in ms.
export const startOf = async (id: string) =>
  Number((await get<any>(`jobs/${encodeURIComponent(id)}`)).execution_start_time) || undefined
export const profileOf = async (id: string) =>
  (await get<{ profile?: Spent }>(`jobs/${encodeURIComponent(id)}`)).profile ?? null

export interface SavedFile {
  name: string
  modified: number // seconds since 1970
}
export interface Template {
  name: string
  title?: string
  description?: string
  models?: string[] // that do not come with it
}
export interface TemplateGroup {
  title: string
  workflows: Template[]
}

const fileOf = (name: string) => `userdata/${encodeURIComponent(`workflows/${name}.json`)}`

// Newest first.
export async function savedWorkflows(): Promise<SavedFile[]> {
  const response = await send("userdata?dir=workflows&recurse=true&full_info=true")
  if (response.status === 404) return [] // nothing was ever saved
  if (!response.ok) throw new Error(`The server answered ${response.status} to userdata.`)
  const files: { path: string; modified: number }[] = await response.json()
  return files
    .filter(({ path }) => path.endsWith(".json"))
    .map(({ path, modified }) => ({ name: path.slice(0, -".json".length), modified }))
    .sort((a, b) => b.modified - a.modified)
}
export const readWorkflow = (name: string) => get<unknown>(fileOf(name))
export async function deleteWorkflow(name: string) {
  const response = await send(fileOf(name), { method: "DELETE" })
  if (!response.ok) throw new Error(`The server answered ${response.status}.`)
}
// False when there is one of that name, which is to stay.
export async function saveWorkflow(name: string, text: string, overwrite: boolean) {
  const response = await send(`${fileOf(name)}?overwrite=${overwrite}`, {
    method: "POST",
    body: text,
  })
  if (response.status === 409) return false
  if (!response.ok) throw new Error(`The server would not save “${name}” (${response.status}).`)
  return true
}

// Those that come with the server, as their index groups them; what it leaves out comes last.
export async function templates(): Promise<TemplateGroup[]> {
  const found = (await get<Record<string, string[]>>("workflow_templates?format=any")).graft ?? []
  if (!found.length) return []
  const groups = await get<TemplateGroup[]>("workflow_templates/graft/index.json").catch(
    () => [] as TemplateGroup[],
  )
  const there = groups.map(({ title, workflows }) => ({
    title,
    workflows: workflows.filter(({ name }) => found.includes(name)),
  }))
  const named = new Set(groups.flatMap(({ workflows }) => workflows.map(({ name }) => name)))
  // NAME.editor is NAME once more, in an editor's format.
  const isCopy = (name: string) =>
    name.endsWith(".editor") && found.includes(name.slice(0, -".editor".length))
  const others = found
    .filter((name) => !named.has(name) && !isCopy(name))
    .map((name) => ({ name }))
  return [...there, { title: "Others", workflows: others }].filter((group) => group.workflows.length)
}
export const template = (name: string) =>
  get<unknown>(`workflow_templates/graft/${encodeURIComponent(name)}.json`)

export async function uploadImage(file: File): Promise<string> {
  const form = new FormData()
  form.append("image", file)
  const response = await send("upload/image", { method: "POST", body: form })
  if (!response.ok) throw new Error(`The server would not take ${file.name} (${response.status}).`)
  const { name, subfolder } = await response.json()
  return subfolder ? `${subfolder}/${name}` : name
}

// The picture `original` with the alpha of another one; names and folder are as in ComfyUI.
export const uploadMask = (png: Blob, original: FileRef) =>
  toClipspace("upload/mask", "mask", png, { original_ref: JSON.stringify(original) })
// What it belongs to where that lies on its side in its own file.
export const uploadUpright = (png: Blob) => toClipspace("upload/image", "upright", png, {})

async function toClipspace(
  route: string,
  kind: string,
  png: Blob,
  more: Record<string, string>,
): Promise<FileRef> {
  const form = new FormData()
  form.append("image", png, `clipspace-${kind}-${Date.now()}.png`)
  const fields = { ...more, type: "input", subfolder: "clipspace" }
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  const response = await send(route, { method: "POST", body: form })
  if (!response.ok) throw new Error(`The server would not take the mask (${response.status}).`)
  const { name, subfolder, type } = await response.json()
  return { filename: name, subfolder, type }
}

export interface Listener {
  event(type: string, data: any): void
  preview(preview: Preview): void
  text(node: string, text: string): void
  connected(up: boolean): void
}

// How the server closes a socket when a newer one has its id. The two would take turns for ever.
const REPLACED = 1000

// Keeps a connection, trying again after it is lost; the same id gets the events of runs that were
// started before.
export class Connection {
  private socket?: WebSocket
  private wait = 500
  // `another` gives an id instead of one that another page has taken: a copy of a page has its id.
  constructor(
    private clientId: string,
    private readonly listener: Listener,
    private readonly another: () => string,
  ) {
    this.open()
  }

  private open() {
    const url = new URL(apiUrl("ws"))
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:"
    url.searchParams.set("clientId", this.clientId)
    const socket = new WebSocket(url)
    this.socket = socket
    socket.binaryType = "arraybuffer"
    socket.onopen = () => {
      this.wait = 500
      socket.send(
        JSON.stringify({ type: "feature_flags", data: { supports_preview_metadata: true } }),
      )
      this.listener.connected(true)
    }
    socket.onmessage = ({ data }) => this.take(data)
    socket.onclose = ({ code }) => {
      if (this.socket !== socket) return
      if (code === REPLACED) this.clientId = this.another()
      this.listener.connected(false)
      setTimeout(() => this.open(), this.wait)
      this.wait = Math.min(this.wait * 1.6, 8000)
    }
  }

  private take(data: string | ArrayBuffer) {
    if (typeof data === "string") {
      const message = JSON.parse(data)
      this.listener.event(message.type, message.data ?? {})
      return
    }
    const { preview, text } = readFrame(data)
    if (preview) this.listener.preview(preview)
    if (text) this.listener.text(...text)
  }
}
