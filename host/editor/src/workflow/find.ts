// Which nodes a search means: by name, category or what they do, or by what fits a link.
import { compatible, type NodeSpec, type Specs } from "./schema"

export interface LinkEnd {
  type: string | number
  from: "output" | "input" // the end that is already attached
  of?: string // the class of the node there
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

// What a link most often goes to, and comes from; of some nodes it goes elsewhere.
const TO: Record<string, string[]> = {
  MODEL: ["KSampler", "LoraLoader"],
  CLIP: ["CLIPTextEncode"],
  VAE: ["VAEDecode", "VAEEncode"],
  CONDITIONING: ["KSampler"],
  LATENT: ["VAEDecode", "KSampler", "LatentUpscale"],
  "LATENT of EmptyLatentImage": ["KSampler"],
  "LATENT of VAEEncode": ["KSampler"],
  IMAGE: ["SaveImage", "PreviewImage", "VAEEncode"],
  "IMAGE of LoadImage": ["VAEEncode", "ImageScale"],
  MASK: ["SetLatentNoiseMask", "VAEEncodeForInpaint"],
  CONTROL_NET: ["ControlNetApplyAdvanced"],
}
const FROM: Record<string, string[]> = {
  MODEL: ["CheckpointLoaderSimple", "LoraLoader"],
  CLIP: ["CheckpointLoaderSimple", "LoraLoader"],
  VAE: ["CheckpointLoaderSimple", "VAELoader"],
  CONDITIONING: ["CLIPTextEncode"],
  LATENT: ["EmptyLatentImage", "VAEEncode", "KSampler"],
  "LATENT of VAEDecode": ["KSampler"],
  IMAGE: ["VAEDecode", "LoadImage"],
  "IMAGE of VAEEncode": ["LoadImage"],
  MASK: ["LoadImageMask", "LoadImage"],
}

// Lower is nearer: what usually stands at such an end, then nodes that are about this type (their
// first socket), then those that have one of it, then those that take values of any kind.
function distance(spec: NodeSpec, end: LinkEnd): number {
  const table = end.from === "output" ? TO : FROM
  const usual = table[`${end.type} of ${end.of}`] ?? table[end.type] ?? []
  const place = usual.indexOf(spec.name)
  if (place >= 0) return place
  const sockets = end.from === "output" ? spec.inputs.filter((i) => !i.widget) : spec.outputs
  const at = spec.deprecated ? -1 : sockets.findIndex(({ type }) => type === end.type)
  return usual.length + (at === 0 ? 0 : at > 0 ? 1 : 2)
}

export function find(specs: Specs, query: string, end?: LinkEnd): NodeSpec[] {
  const found = [...specs.values()]
    .filter((spec) => !end || fits(spec, end))
    .map((spec) => ({ spec, points: score(spec, query) }))
    .filter(({ points }) => points > 0)
  const far = (spec: NodeSpec) => (end ? distance(spec, end) : 0)
  return found
    .sort(
      (a, b) =>
        b.points - a.points ||
        far(a.spec) - far(b.spec) ||
        rank(a.spec) - rank(b.spec) ||
        a.spec.category.localeCompare(b.spec.category) ||
        a.spec.title.localeCompare(b.spec.title),
    )
    .map(({ spec }) => spec)
}
