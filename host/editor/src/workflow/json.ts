// JSON whose whole numbers may be larger than a JavaScript number holds: seeds have 64 bits. Such a
// number is kept as its digits, in a string, and written as a number again where the browser can.

interface Source {
  source?: string
}
const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON
const DIGITS = /^-?\d{16,20}$/

export function parseJson(text: string): any {
  const revive = (_key: string, value: unknown, context?: Source) => {
    const source = context?.source
    if (typeof value !== "number" || Number.isSafeInteger(value) || !source) return value
    return DIGITS.test(source) ? source : value
  }
  // NaN and Infinity are not JSON, yet older programs left them in pictures.
  try {
    return JSON.parse(text, revive as any)
  } catch (error) {
    const mended = text.replace(/([:[,]\s*)(?:NaN|-?Infinity)(?=\s*[,\]}])/g, "$1null")
    if (mended === text) throw error
    return JSON.parse(mended, revive as any)
  }
}

export type IsInteger = (type: string, input: string) => boolean

// The server's form: `isInteger` says which inputs hold whole numbers. Changes the prompt.
function withIntegers(prompt: Record<string, any>, isInteger: IsInteger) {
  if (!raw) return
  for (const node of Object.values<any>(prompt))
    for (const [name, value] of Object.entries(node.inputs ?? {}))
      if (typeof value === "string" && DIGITS.test(value) && isInteger(node.class_type, name))
        node.inputs[name] = raw(value)
}

export function stringifyPrompt(body: Record<string, any>, isInteger: IsInteger): string {
  withIntegers(body.prompt ?? {}, isInteger)
  return JSON.stringify(body)
}

// The prompt alone, as a file.
export function promptFile(prompt: Record<string, any>, isInteger: IsInteger): string {
  withIntegers(prompt, isInteger)
  return JSON.stringify(prompt, null, 2) + "\n"
}
