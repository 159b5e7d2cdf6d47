// The picture that a node loads: the widget that names it, and where the file is.
import type { FileRef } from "../server/api"
import { isLinked } from "./linked"
import type { GraftNode } from "./nodes"

const NAME = /^(?:(.*)\/)?([^/]+?)(?: \[(input|output|temp)\])?$/

// "FOLDER/NAME [TYPE]", of which only the name has to be there.
export function fileOf(value: unknown, type: string): FileRef | null {
  const match = NAME.exec(String(value ?? ""))
  return match && { filename: match[2], subfolder: match[1] ?? "", type: match[3] ?? type }
}

export const nameOf = ({ filename, subfolder, type }: FileRef): string =>
  `${subfolder ? `${subfolder}/` : ""}${filename} [${type ?? "input"}]`

// Lists have what lies in the folder itself; files below it, or of another one, may be there, too.
export const isElsewhere = (value: unknown): boolean =>
  /\/| \[(input|output|temp)\]$/.test(String(value ?? ""))

export interface Chosen {
  widget: any
  file: FileRef
}

// Null where nothing is chosen, or the name comes by a link.
export function chosenPicture(node: GraftNode): Chosen | null {
  const input = node.spec?.inputs.find(({ options }) => options.image_upload)
  const widget: any = input && node.widgets?.find((w) => w.name === input.name)
  const linked = isLinked(node, input?.name)
  const file = widget && !linked && fileOf(widget.value, input!.options.image_folder ?? "input")
  return file ? { widget, file } : null
}
