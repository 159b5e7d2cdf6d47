// What ComfyUI's page does to prompts before it sends them: C's comments are left out, and {red|blue}
// becomes one of its parts. host/prompt/choices.c does the same for `graft run`.
import { parseLinks, type UiNode, type UiWorkflow } from "./convert"
import { ownTexts } from "./promoted"
import { alignValues, widgetPlaces, type InputSpec, type Specs } from "./schema"
import { ROLES } from "./virtual"

const DEEPEST = 64 // choices in choices; deeper ones stay as they are written

export function chooseText(text: string, random: () => number): string {
  return chosen(text.replace(/\/\*[^]*?\*\/|\/\/[^\r\n]*/g, ""), random, 0)
}

function chosen(text: string, random: () => number, depth: number): string {
  let out = ""
  for (let at = 0; at < text.length; ) {
    if (text[at] === "\\" && at + 1 < text.length) {
      out += "{}|".includes(text[at + 1]) ? text[at + 1] : text.slice(at, at + 2)
      at += 2
    } else if (text[at] === "{" && depth < DEEPEST) {
      const parts: string[] = []
      do {
        const end = partEnd(text, ++at)
        parts.push(text.slice(at, end))
        at = end
      } while (text[at] === "|")
      at++
      out += chosen(parts[Math.floor(random() * parts.length)], random, depth + 1)
    } else out += text[at++]
  }
  return out
}

// The end of what begins at `at`: a bar or the closing bracket of this level, or the text's end.
function partEnd(text: string, at: number): number {
  for (let depth = 0; at < text.length; at++) {
    if (text[at] === "\\") at++
    else if (text[at] === "{") depth++
    else if (!depth && (text[at] === "|" || text[at] === "}")) return at
    else if (text[at] === "}") depth--
  }
  return text.length
}

// In all texts of a workflow that ask for it, in place: what made a picture is what the file in the
// picture says.
export function makeChoices(workflow: UiWorkflow, specs: Specs, random: () => number) {
  const asks = (type: string, input: string): boolean =>
    !!specs.get(type)?.inputs.some(({ name, options }) => name === input && options.dynamicPrompts)
  const definitions = workflow.definitions?.subgraphs ?? []
  const chooseAt = ({ widgets_values: values }: UiNode, at: number) => {
    if (Array.isArray(values) && typeof values[at] === "string")
      values[at] = chooseText(values[at], random)
  }
  for (const { nodes, links } of [workflow, ...definitions]) {
    const givers = new Set<UiNode>() // of a value to a text that asks for it
    const byId = new Map(nodes.map((node) => [String(node.id), node]))
    for (const { origin_id, target_id, id } of parseLinks(links).values()) {
      const [from, to] = [byId.get(String(origin_id)), byId.get(String(target_id))]
      const slot = to?.inputs?.find(({ link }) => link === id)
      if (from && ROLES.get(from.type) === "value" && to && slot && asks(to.type, slot.name))
        givers.add(from)
    }
    for (const node of givers) chooseAt(node, 0)
    for (const node of nodes) {
      chooseOwn(node, specs, random)
      for (const at of ownTexts(node, definitions, asks)) chooseAt(node, at)
    }
  }
}

function chooseOwn(node: UiNode, specs: Specs, random: () => number) {
  const spec = specs.get(node.type)
  if (!spec?.inputs.some(({ options }) => options.dynamicPrompts)) return
  const places = widgetPlaces(spec, node.widgets_values ?? null)
  const values = alignValues(places, node.widgets_values)
  const pick = (input: InputSpec, value: unknown) =>
    input.options.dynamicPrompts && typeof value === "string" ? chooseText(value, random) : value
  node.widgets_values = places.map(({ input, kind }, i) =>
    kind === "value" ? pick(input, values[i]) : values[i],
  )
}
