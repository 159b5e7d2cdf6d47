// Placeholders in file names that an editor fills in before it sends a prompt: the rules of
// host/prompt/file_name.c, which does the same for `graft run`.
import type { Prompt, UiNode, UiWorkflow } from "./convert"

// yyyy yy MM M dd d hh h mm m ss s; what is none of these stays.
export function formatDate(format: string, now: Date): string {
  const parts: Record<string, number> = {
    M: now.getMonth() + 1,
    d: now.getDate(),
    h: now.getHours(),
    m: now.getMinutes(),
    s: now.getSeconds(),
  }
  return format.replace(/(.)\1*/gsu, (run, letter: string) => {
    if (letter === "y" && (run.length === 2 || run.length === 4))
      return String(now.getFullYear()).padStart(4, "0").slice(-run.length)
    if (letter in parts && run.length <= 2) return String(parts[letter]).padStart(run.length, "0")
    return run
  })
}

// Nothing that could add a folder, or that a file system does not take.
function tame(value: unknown): string | null {
  if (typeof value !== "string" && typeof value !== "number") return null
  return String(value).replace(/[/?<>\\:*|"\u0000-\u001f\u007f]/g, "_")
}

// A node without a title of its own is shown under its class's, which the prompt has.
function isNamed(node: UiNode, name: string, prompt: Prompt): boolean {
  const search = node.properties?.["Node name for S&R"]
  const title = node.title || prompt[String(node.id)]?._meta?.title
  return search === name || title === name || node.type === name
}

// In every filename_prefix: %date:FORMAT%, and %NODE.INPUT% by a node's name for search and replace,
// its title or its class. What is unknown stays as it is. Changes the prompt.
export function fillFileNames(prompt: Prompt, workflow: UiWorkflow, now: Date) {
  const valueOf = (name: string): string | null => {
    if (name.startsWith("date:") && name.length > 5) return formatDate(name.slice(5), now)
    const dot = name.indexOf(".")
    if (dot < 0) return null
    const node = workflow.nodes.find((candidate) => isNamed(candidate, name.slice(0, dot), prompt))
    return node ? tame(prompt[String(node.id)]?.inputs[name.slice(dot + 1)]) : null
  }
  for (const { inputs } of Object.values(prompt)) {
    const prefix = inputs.filename_prefix
    if (typeof prefix === "string" && prefix.includes("%"))
      inputs.filename_prefix = fill(prefix, valueOf)
  }
}

function fill(text: string, valueOf: (name: string) => string | null): string {
  let out = ""
  for (let at = 0; at < text.length; ) {
    const end = text[at] === "%" ? text.indexOf("%", at + 1) : -1
    const value = end < 0 ? null : valueOf(text.slice(at + 1, end))
    out += value ?? text[at]
    at = value === null ? at + 1 : end + 1
  }
  return out
}
