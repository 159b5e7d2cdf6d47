// Which pictures show the same, so that holding them against each other tells something.

export const QUANTIZE = "QuantizeModel"

export interface Picture {
  label: string
  url: string
  quantized: boolean
  subject: string // see subjectOf
}

// What decides what a picture shows, apart from how it is computed: prompts, seeds and sizes.
export function subjectOf(prompt: Record<string, { class_type: string; inputs: any }>): string {
  const telling = /^(text.*|seed|noise_seed|width|height|ckpt_name|image)$/
  const values = Object.values(prompt)
    .filter((node) => node.class_type !== QUANTIZE)
    .flatMap((node) =>
      Object.entries(node.inputs ?? {})
        .filter(([name, value]) => telling.test(name) && !Array.isArray(value))
        .map(([name, value]) => `${node.class_type}.${name}=${String(value)}`),
    )
  return values.sort().join("\n")
}

// How a prompt quantizes, in a word: "8-bit", "fp8_e4m3fn"; "" when it does not.
export function quantizationOf(
  prompt: Record<string, { class_type: string; inputs: any }>,
): string {
  const names = Object.values(prompt)
    .filter((node) => node.class_type === QUANTIZE)
    .map(({ inputs }) => {
      const { bits, format } = inputs ?? {}
      if (Array.isArray(bits) || Array.isArray(format)) return "quantized" // comes from a link
      return format && format !== "int" ? String(format) : `${bits ?? 8}-bit`
    })
  return [...new Set(names)].join(", ")
}

// The newest picture and what to hold it against: one of the same subject, computed the other way.
// Before is how it was without quantization, whichever of the two was made first.
export function comparedOf(pictures: Picture[]): { before: Picture; after: Picture } | undefined {
  const [newest, ...others] = pictures
  const alike = others.filter((p) => p.subject === newest?.subject)
  const other =
    alike.find((p) => p.quantized !== newest.quantized) ??
    alike[0] ??
    others.find((p) => !p.quantized) ??
    others[0]
  if (!other) return undefined
  return other.quantized && !newest.quantized
    ? { before: newest, after: other }
    : { before: other, after: newest }
}
