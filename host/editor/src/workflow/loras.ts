// rgthree's node for any number of LoRAs: its values are rows, one a LoRA, which files of the editor
// have one after the other among what was drawn between them, and prompts by names with numbers.
// host/prompt/workflow_ui.c does the same for `graft run`.
import type { Specs } from "./schema"

export const LORAS = "Power Lora Loader (rgthree)"
const PREFIX = "lora_"

export interface LoraRow {
  on?: boolean
  lora?: string | null
  strength?: number
  strengthTwo?: number | null // of the text encoder, where it is another
  [other: string]: unknown
}

export const isLoras = (type: string) => type === LORAS
export const rowName = (i: number) => `${PREFIX}${i + 1}`

function isRow(value: unknown): value is LoraRow {
  if (!value || typeof value !== "object" || Array.isArray(value)) return false
  return Object.keys(value).length > 0 && !("type" in value)
}

// Of widgets_values, or of a prompt's inputs.
function namedRows(values: unknown): [string, LoraRow][] {
  if (Array.isArray(values)) return values.filter(isRow).map((row, i) => [rowName(i), row])
  return Object.entries(values ?? {}).filter(
    ([name, value]) => name.startsWith(PREFIX) && name !== PREFIX && isRow(value),
  )
}
export const rowsOf = (values: unknown): LoraRow[] => namedRows(values).map(([, row]) => row)
export const rowInputs = (values: unknown): Record<string, unknown> =>
  Object.fromEntries(namedRows(values))

// The files that there are, as the node for one LoRA has them.
export const loraFiles = (specs: Specs): (string | number)[] =>
  specs.get("LoraLoader")?.inputs.find(({ name }) => name === "lora_name")?.choices ?? []
