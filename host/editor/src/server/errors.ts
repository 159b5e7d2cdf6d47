// Why a workflow does not run, in words, at the node and the input at fault.
import { groupNodeName, isGroupNode } from "../workflow/groupnodes"
import type { NodeErrors, PromptError } from "./api"

export interface Fault {
  node: string // "" when the whole workflow is at fault
  nodeClass: string
  input: string
  text: string
  kind?: string // the protocol's name of it
}

function sentence(text: string): string {
  const clean = text.trim()
  if (!clean) return ""
  return /[.!?…)]$/.test(clean) ? clean : `${clean}.`
}

// A file that is not there: which one, and where the server looked.
function missing(value: string, folder: string): string {
  if (!value) return `There is no file in ${folder} yet. Put one there, then press R for new lists.`
  if (/\.(ckpt|pt|pth|bin)$/.test(value))
    return `Files of PyTorch, as “${value}”, are not loaded. “graft convert FILE” makes a .safetensors of one.`
  return `There is no file “${value}” in ${folder}. Put it there and press R, or choose another.`
}

const aOf = (type: string) => `${/^[AEIOU]/.test(type) ? "an" : "a"} ${type}`

const NAMES: Record<string, (input: string, details: string, folder?: string) => string> = {
  value_not_in_list: (input, details, folder) => {
    const value = /: (.*?) not in [[(]/.exec(details)?.[1]
    if (folder) return missing((value ?? "").replace(/^(['"])(.*)\1$/, "$2"), folder)
    return `“${input}” cannot be ${value && value !== "''" ? value : "empty"} here. Choose one of the list.`
  },
  // The protocol's own words say nothing; the details do: “image - Invalid image file: x.png”.
  custom_validation_failed: (input, details, folder) => {
    const reason = details.startsWith(`${input} - `) ? details.slice(input.length + 3) : ""
    const file = /^Invalid \w+ file: (.*)$/
      .exec(reason)?.[1]
      .replace(/ \[(input|output|temp)\]$/, "")
    if (folder && file !== undefined) return missing(file, folder)
    const words = sentence(reason || (input ? "" : details) || "The node does not take this value")
    return input ? `“${input}”: ${words}` : words
  },
  return_type_mismatch: (input, details) => {
    const [, given, wanted] =
      /received_type\((.*?)\) mismatch input_type\((.*?)\)/.exec(details) ?? []
    if (!given) return `What is linked to “${input}” is of another type.`
    return `“${input}” takes ${aOf(wanted)}; what is linked to it gives ${aOf(given)}.`
  },
  required_input_missing: (input) => `“${input}” needs a link.`,
  bad_linked_input: (input) => `The link into “${input}” is damaged. Draw it again.`,
  dependency_cycle: () =>
    "This node waits for its own result. Remove one of the links of this loop.",
}

// Nodes of these classes, which a workflow has and this server has not. Group nodes of which the file
// does not say what they are made of could not become sub-graphs.
export function unknownNodes(types: string[]): string {
  const quoted = (some: string[]) => some.map((type) => `“${groupNodeName(type)}”`).join(", ")
  const [groups, others] = [true, false].map((is) =>
    types.filter((type) => isGroupNode(type) === is),
  )
  const notes: string[] = []
  if (others.length)
    notes.push(
      `This server does not have the ${others.length > 1 ? "nodes" : "node"} ${quoted(others)}.`,
    )
  if (groups.length)
    notes.push(
      `${quoted(groups)} ${groups.length > 1 ? "are group nodes" : "is a group node"}, of which ` +
        "the file does not say what it is made of.",
    )
  return notes.join(" ")
}

function describe(error: NodeErrors["errors"][number]): { input: string; text: string } {
  const input =
    error.extra_info?.input_name ?? (error.type === "required_input_missing" ? error.details : "")
  const own = NAMES[error.type]
  const folder = error.extra_info?.folder
  if (own) return { input, text: own(input, error.details, folder) }
  const details = error.details && error.details !== input ? error.details : ""
  const where = input && !details.startsWith(input) ? `“${input}”: ` : ""
  const main = sentence(error.message)
  if (!details) return { input, text: where + main }
  // “Value 0 smaller than min of 1” names the value already; the details only repeat the input.
  return { input, text: `${where}${main} ${sentence(details)}`.trim() }
}

export function nodeFaults(errors: Record<string, NodeErrors> | undefined): Fault[] {
  const faults: Fault[] = []
  for (const [node, entry] of Object.entries(errors ?? {}))
    for (const error of entry.errors ?? [])
      faults.push({
        node,
        nodeClass: entry.class_type ?? "",
        kind: error.type,
        ...describe(error),
      })
  return faults
}

export function promptFaults(body: PromptError): Fault[] {
  const faults = nodeFaults(body.node_errors)
  const { error } = body
  const whole = error && (!faults.length || error.type !== "prompt_outputs_failed_validation")
  if (whole) {
    const node = String(
      error.extra_info?.node_id ?? /#([\w:.]+)/.exec(error.details ?? "")?.[1] ?? "",
    )
    const text =
      error.type === "prompt_no_outputs"
        ? "Nothing would be made: add a node that saves or shows a picture, such as Save Image."
        : sentence(error.message ?? "The workflow was refused.")
    faults.unshift({ node, nodeClass: error.extra_info?.class_type ?? "", input: "", text })
  }
  return faults
}
