// Markdown as elements of the page. Nothing but the elements that are made here comes out of it: a text
// can bring neither tags nor scripts, nor have anything loaded. What it says in tags is left out, and of
// a picture there is a link.
import { lexer, type Token, type Tokens } from "marked"
import { h } from "./dom"

const LONGEST = 200_000 // characters; nobody writes such notes, and reading one could take long

// Where a link may lead; null for what could run here, or does not say where.
export function hrefOf(text: string): string | null {
  try {
    const url = new URL(text)
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : null
  } catch {
    return null
  }
}

// "&amp;" and its like. A document that is only parsed loads and runs nothing.
const decoded = (text: string) =>
  text.replace(
    /&#?\w{1,31};/g,
    (name) => new DOMParser().parseFromString(name, "text/html").body.textContent ?? name,
  )

const withoutTags = (text: string) =>
  text
    .replace(/<br\s*\/?>/gi, "\n")
    .replace(/<(script|style)\b[^]*?<\/\1\s*>|<!--[^]*?-->|<\/?[a-z][^>]*>/gi, "")

export function linkTo(address: string, ...content: (Node | string)[]): Node {
  const href = hrefOf(address)
  if (!href) return h("span", {}, ...content)
  return h("a", { href, target: "_blank", rel: "noopener noreferrer", title: href }, ...content)
}

const all = (tokens: Token[] | undefined): Node[] => (tokens ?? []).flatMap(elements)
const inside = (token: any): Node[] =>
  token.tokens ? all(token.tokens) : [document.createTextNode(decoded(token.text ?? ""))]

function item(token: Tokens.ListItem): Node {
  const { task, checked } = token
  // Newer versions of the reader have the box among the item's own parts.
  const box = task && !token.tokens.some(({ type }) => type === "checkbox")
  return h("li", { class: task ? "task" : false }, box && checkbox(!!checked), ...all(token.tokens))
}

const checkbox = (checked: boolean) => h("input", { type: "checkbox", checked, disabled: true })

function table({ header, rows }: Tokens.Table): Node {
  const cell = (tag: "th" | "td") => (one: Tokens.TableCell) =>
    h(tag, { class: one.align ? `to-${one.align}` : false }, ...all(one.tokens))
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...header.map(cell("th")))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell("td"))))),
  )
}

const HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"] as const

function elements(token: any): Node[] {
  switch (token.type) {
    case "space":
    case "def":
      return []
    case "heading":
      return [h(HEADINGS[token.depth - 1] ?? "h6", {}, ...inside(token))]
    case "paragraph":
      return [h("p", {}, ...inside(token))]
    case "blockquote":
      return [h("blockquote", {}, ...inside(token))]
    case "list":
      return [
        token.ordered
          ? h("ol", { start: token.start || 1 }, ...token.items.map(item))
          : h("ul", {}, ...token.items.map(item)),
      ]
    case "checkbox":
      return [checkbox(!!token.checked)]
    case "code":
      return [h("pre", {}, h("code", {}, token.text))]
    case "codespan":
      return [h("code", {}, token.text)]
    case "hr":
      return [h("hr")]
    case "br":
      return [h("br")]
    case "table":
      return [table(token)]
    case "strong":
    case "em":
    case "del":
      return [h(token.type as "strong" | "em" | "del", {}, ...inside(token))]
    case "link":
      return [linkTo(token.href, ...(inside(token) as Node[]))]
    case "image":
      return [linkTo(token.href, token.text || token.href)]
    case "html": {
      const text = decoded(withoutTags(token.raw ?? ""))
      return [token.block ? h("p", {}, text.trim()) : document.createTextNode(text)]
    }
    case "escape":
      return [document.createTextNode(token.text)]
    default:
      return inside(token)
  }
}

// A text that means too much for its reader is shown as it is written.
export function markdown(text: string): Node[] {
  if (text.length > LONGEST) return [plain(text)]
  try {
    return all(lexer(text, { gfm: true, breaks: true }))
  } catch {
    return [plain(text)]
  }
}

const ADDRESS = /\bhttps?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]]/g

// As it is written, but for addresses, which are links.
export function plain(text: string): Node {
  const parts: (Node | string)[] = []
  let at = 0
  for (const match of text.matchAll(ADDRESS)) {
    parts.push(text.slice(at, match.index), linkTo(match[0], match[0]))
    at = match.index + match[0].length
  }
  return h("div", { class: "as-written" }, ...parts, text.slice(at))
}
