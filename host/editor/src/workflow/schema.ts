// What /object_info says about the nodes, as the rest of the page wants it.

export type Value = string | number | boolean | null | unknown[] | Record<string, unknown>

export interface InputOptions {
  default?: Value
  min?: number // with digits that a number cannot hold, a string (json.ts)
  max?: number
  step?: number
  round?: number | false
  display?: string
  multiline?: boolean
  placeholder?: string
  label_on?: string
  label_off?: string
  tooltip?: string
  image_upload?: boolean
  image_folder?: string
  video_upload?: boolean
  audio_upload?: boolean
  control_after_generate?: boolean | string
  forceInput?: boolean
  defaultInput?: boolean
  socketless?: boolean
  advanced?: boolean
  series?: boolean // shown once the input before it is linked
  when?: Record<string, string[]> // it counts while that one is one of these
  options?: Value[]
  [other: string]: unknown
}

export interface InputSpec {
  name: string
  type: string // a combo is "COMBO"
  optional: boolean
  widget: boolean // set on the node itself; a socket otherwise
  choices?: (string | number)[]
  options: InputOptions
}

export interface OutputSpec {
  name: string
  type: string
  tooltip?: string
  list: boolean
}

export interface NodeSpec {
  name: string
  title: string
  category: string
  description: string
  inputs: InputSpec[]
  outputs: OutputSpec[]
  output: boolean // running it is a reason to run a workflow
  deprecated: boolean
  experimental: boolean
  aliases: string[]
}

// A place in widgets_values. Only "value" reaches the server.
export interface WidgetPlace {
  name: string
  kind: "value" | "control" | "filter" | "upload"
  input: InputSpec
}

export type Specs = Map<string, NodeSpec>

const WIDGET_TYPES = new Set(["INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"])
export const CONTROLS = ["fixed", "increment", "decrement", "randomize"]

function parseInput(name: string, raw: unknown, optional: boolean): InputSpec {
  const [first, second] = Array.isArray(raw) ? raw : [raw, {}]
  const options: InputOptions = second && typeof second === "object" ? second : {}
  if (Array.isArray(first) || first === "COMBO") {
    const choices = Array.isArray(first) ? first : (options.options ?? [])
    return { name, type: "COMBO", optional, widget: !options.forceInput, choices, options }
  }
  const type = String(first)
  return { name, type, optional, widget: WIDGET_TYPES.has(type) && !options.forceInput, options }
}

function parseNode(name: string, raw: any): NodeSpec {
  const inputs: InputSpec[] = []
  for (const section of ["required", "optional"] as const) {
    const fields = raw.input?.[section] ?? {}
    for (const key of raw.input_order?.[section] ?? Object.keys(fields))
      if (key in fields) inputs.push(parseInput(key, fields[key], section === "optional"))
  }
  const outputs = (raw.output ?? []).map((type: unknown, i: number) => ({
    type: Array.isArray(type) ? "COMBO" : String(type),
    name: String(raw.output_name?.[i] ?? type),
    tooltip: raw.output_tooltips?.[i] ?? undefined,
    list: !!raw.output_is_list?.[i],
  }))
  return {
    name,
    title: raw.display_name || name,
    category: raw.category || "other",
    description: raw.description ?? "",
    inputs,
    outputs,
    output: !!raw.output_node,
    deprecated: !!raw.deprecated,
    experimental: !!raw.experimental,
    aliases: raw.search_aliases ?? [],
  }
}

export function parseObjectInfo(raw: Record<string, unknown>): Specs {
  return new Map(Object.entries(raw).map(([name, node]) => [name, parseNode(name, node)]))
}

export function hasControl(input: InputSpec): boolean {
  if (input.options.control_after_generate) return true
  return input.type === "INT" && (input.name === "seed" || input.name === "noise_seed")
}

function hasUpload(input: InputSpec): boolean {
  const { image_upload, video_upload, audio_upload } = input.options
  return !!(image_upload || video_upload || audio_upload)
}

// Whether an input counts, by the choice that decides that, or what that is at first.
export function counts(spec: NodeSpec, input: InputSpec, valueOf: (name: string) => unknown) {
  return Object.entries(input.options.when ?? {}).every(([name, choices]) => {
    const decider = spec.inputs.find((other) => other.name === name)
    const value = valueOf(name)
    const choice = typeof value === "string" ? value : decider && defaultValue(decider)
    return choices.includes(choice as string)
  })
}

// The places of widgets_values, in the order in which workflow files keep them: those of the inputs
// that count, as these values of a file say; without, of all.
export function widgetPlaces(spec: NodeSpec, values?: unknown): WidgetPlace[] {
  const places: WidgetPlace[] = []
  const valueOf = (name: string) => {
    const at = places.findIndex((place) => place.kind === "value" && place.name === name)
    return alignValues(places, values)[at]
  }
  for (const input of spec.inputs) {
    if (!input.widget || (values !== undefined && !counts(spec, input, valueOf))) continue
    places.push({ name: input.name, kind: "value", input })
    if (hasControl(input)) {
      places.push({ name: "control_after_generate", kind: "control", input })
      if (input.type === "COMBO")
        places.push({ name: "control_filter_list", kind: "filter", input })
    }
    if (hasUpload(input)) places.push({ name: "upload", kind: "upload", input })
  }
  return places
}

export function defaultValue(input: InputSpec): Value {
  const { options } = input
  if (options.default !== undefined) return options.default
  switch (input.type) {
    case "INT":
    case "FLOAT":
      return Math.max(0, options.min ?? 0)
    case "BOOLEAN":
      return false
    case "COMBO":
      return input.choices?.[0] ?? ""
    default:
      return ""
  }
}

// Before there were four controls a seed was drawn anew, or not.
const isOldControl = (entry: unknown) => typeof entry === "boolean"

// A file may leave out the places that hold no value (older programs wrote none), so a place of that
// kind takes an entry only when the entry looks like its own.
function takes(place: WidgetPlace, entry: unknown, next?: WidgetPlace): boolean {
  if (place.kind === "control")
    return CONTROLS.includes(entry as string) || (isOldControl(entry) && next?.input.type !== "BOOLEAN")
  if (place.kind === "upload") return entry === "image" || entry === "video" || entry === "audio"
  if (place.kind === "filter") return typeof entry === "string"
  return true
}

// widgets_values of a file (a list, or an object by name), one entry for each place; undefined where
// the file has none.
export function alignValues(places: WidgetPlace[], values: unknown): unknown[] {
  if (!values || typeof values !== "object") return places.map(() => undefined)
  if (!Array.isArray(values))
    return places.map((place) => (values as Record<string, unknown>)[place.name])
  let next = 0
  return places.map((place, i) => {
    if (next >= values.length) return undefined
    if (!takes(place, values[next], places[i + 1])) return undefined
    const entry = values[next++]
    return place.kind === "control" && isOldControl(entry) ? (entry ? "randomize" : "fixed") : entry
  })
}

// Whether an output of one type may feed an input of another; "A,B" is either, "*" anything.
export function compatible(from: string | number, to: string | number): boolean {
  const [a, b] = [String(from).toUpperCase(), String(to).toUpperCase()]
  if (a === b || a === "*" || b === "*" || a === "" || b === "" || a === "0" || b === "0")
    return true
  const wanted = new Set(b.split(",").map((t) => t.trim()))
  return a.split(",").some((t) => wanted.has(t.trim()))
}
