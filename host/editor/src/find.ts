// Which nodes a search means: by name, category or what they do, or by what fits a link.
import { compatible, type NodeSpec, type Specs } from "./schema"

export interface LinkEnd {
  type: string | number
  from: "output" | "input" // the end that is already attached
}

// Higher is better; 0 is no match. Every word has to be found somewhere; several that stand in the
// title as they were typed count more than the same ones here and there.
export function score(spec: NodeSpec, query: string): number {
  const title = spec.title.toLowerCase()
  const name = spec.name.toLowerCase()
  const phrase = query.trim().toLowerCase().split(/\s+/).join(" ")
  let total = phrase.includes(" ") && title.includes(phrase) ? 41 : 1
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    if (title === word || name === word) total += 100
    else if (title.startsWith(word) || name.startsWith(word)) total += 50
    else if (new RegExp(`\\b${word.replace(/[^\w]/g, "\\$&")}`).test(title)) total += 30
    else if (title.includes(word) || name.includes(word)) total += 20
    else if (spec.aliases.some((alias) => alias.toLowerCase().includes(word))) total += 15
    else if (spec.category.toLowerCase().includes(word)) total += 8
    else if (spec.description.toLowerCase().includes(word)) total += 3
    else return 0
  }
  return spec.deprecated ? total / 8 : total // after all that one would rather have
}

export function fits(spec: NodeSpec, end: LinkEnd): boolean {
  return end.from === "output"
    ? spec.inputs.some((input) => compatible(end.type, input.type))
    : spec.outputs.some((output) => compatible(output.type, end.type))
}

// What people look for most comes first when nothing else decides.
const FIRST = ["loaders", "conditioning", "sampling", "latent", "image", "graft"]
const LAST = ["advanced", "api", "onediff"]
function rank({ category, deprecated }: NodeSpec): number {
  const top = category.toLowerCase().split("/")[0]
  if (deprecated || top.startsWith("_")) return FIRST.length + 1 + LAST.length
  if (LAST.includes(top)) return FIRST.length + 1 + LAST.indexOf(top)
  const place = FIRST.indexOf(top)
  return place < 0 ? FIRST.length : place
}

export function find(specs: Specs, query: string, end?: LinkEnd): NodeSpec[] {
  const found = [...specs.values()]
    .filter((spec) => !end || fits(spec, end))
    .map((spec) => ({ spec, points: score(spec, query) }))
    .filter(({ points }) => points > 0)
  // A socket of the very type comes before one that takes a value of any kind.
  const exact = (spec: NodeSpec) =>
    end &&
    (end.from === "output"
      ? spec.inputs.some((i) => !i.widget && i.type === end.type)
      : spec.outputs.some((o) => o.type === end.type))
      ? 1
      : 0
  return found
    .sort(
      (a, b) =>
        b.points - a.points ||
        exact(b.spec) - exact(a.spec) ||
        rank(a.spec) - rank(b.spec) ||
        a.spec.category.localeCompare(b.spec.category) ||
        a.spec.title.localeCompare(b.spec.title),
    )
    .map(({ spec }) => spec)
}
