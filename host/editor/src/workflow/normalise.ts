// Files of other programs and other versions, made into what the canvas expects.
import type { UiNode, UiWorkflow } from "./convert"
import { keepConnectable } from "./everywhere"
import { expandGroupNodes } from "./groupnodes"
import { isLoras, loraFiles, rowsOf } from "./loras"
import { settlePromoted } from "./promoted"
import { alignValues, defaultValue, widgetPlaces, type InputSpec, type Specs } from "./schema"

// Files that were made on Windows have back-slashes between the folders of a file's name. The lists of
// pictures lack those in folders.
function asListed(value: unknown, choices?: (string | number)[], pictures = false): unknown {
  if (typeof value !== "string" || !value.includes("\\") || choices?.includes(value)) return value
  const turned = value.replaceAll("\\", "/")
  return pictures || choices?.includes(turned) ? turned : value
}

const listed = (value: unknown, { choices, options }: InputSpec) =>
  asListed(value, choices, options.image_upload)

function loraRows(values: unknown, specs: Specs) {
  const files = loraFiles(specs)
  return rowsOf(values).map((row) => ({ ...row, lora: asListed(row.lora, files) }))
}

// The library expects every input of a node that it shows to be in the file, and a value for every
// widget; files of other programs, and of other versions of a node, have fewer.
// `notes` gets a line about what of it is not known.
export function normalise(given: UiWorkflow, specs: Specs, notes: string[] = []): UiWorkflow {
  const expanded = expandGroupNodes(given, specs, notes)
  const workflow = keepConnectable(settlePromoted(expanded, specs))
  const fix = (node: UiNode): UiNode => {
    const spec = specs.get(node.type)
    if (!spec) return node
    const places = widgetPlaces(spec, node.widgets_values ?? null)
    const values = alignValues(places, node.widgets_values)
    const own = places.map((place, i) => {
      if (values[i] !== undefined)
        return place.kind === "value" ? listed(values[i], place.input) : values[i]
      if (place.kind === "value") return defaultValue(place.input)
      return place.kind === "control" ? "fixed" : place.kind === "upload" ? "image" : ""
    })
    const widgets_values = isLoras(node.type) ? loraRows(node.widgets_values, specs) : own
    const inputs = (node.inputs ?? []).map((slot) => ({ ...slot }))
    for (const input of spec.inputs) {
      const slot = inputs.find((candidate) => candidate.name === input.name)
      if (slot) {
        if (input.widget) slot.widget = { name: input.name }
        else delete slot.widget
      } else if (input.options.series || (input.options.when && !input.widget)) {
        continue // the canvas shows them when it is time (canvas/inputs.ts)
      } else if (!input.widget) inputs.push({ name: input.name, type: input.type, link: null })
      else if (!input.options.socketless)
        inputs.push({
          name: input.name,
          type: input.type,
          link: null,
          widget: { name: input.name },
        })
    }
    const outputs = (node.outputs ?? []).map((slot) => ({ ...slot }))
    for (const output of spec.outputs.slice(outputs.length))
      outputs.push({ name: output.name, type: output.type, links: null })
    return { ...node, inputs, outputs, widgets_values }
  }
  const definitions = workflow.definitions && {
    ...workflow.definitions,
    subgraphs: workflow.definitions.subgraphs?.map((s) => ({ ...s, nodes: s.nodes.map(fix) })),
  }
  const links = (workflow.links ?? []).filter(Boolean) // some files have places of links that went
  return {
    ...workflow,
    links,
    nodes: workflow.nodes.map(fix),
    ...(definitions ? { definitions } : {}),
  }
}
