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

// What to hold the newest picture against: one of the same subject, computed the other way.
export function beforeOf(pictures: Picture[]): Picture | undefined {
  const [after, ...others] = pictures
  const alike = others.filter((p) => p.subject === after?.subject)
  return (
    alike.find((p) => p.quantized !== after.quantized) ??
    alike[0] ??
    others.find((p) => !p.quantized) ??
    others[0]
  )
}
