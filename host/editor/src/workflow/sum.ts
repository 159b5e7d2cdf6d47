// Arithmetic in number fields: "32*4", "(1024-64)/2". Numbers, + - * / and parentheses, nothing else.

// The value, or null of what is no such expression or has none.
export function calculate(text: string): number | null {
  const tokens = text.match(/\d*\.?\d+(?:e[+-]?\d+)?|\d+\.|\S/gi) ?? []
  let at = 0
  const sum = (): number => {
    let value = product()
    while (tokens[at] === "+" || tokens[at] === "-")
      value += tokens[at++] === "+" ? product() : -product()
    return value
  }
  const product = (): number => {
    let value = factor()
    while (tokens[at] === "*" || tokens[at] === "/")
      value = tokens[at++] === "*" ? value * factor() : value / factor()
    return value
  }
  // What is not expected makes NaN of all.
  const factor = (): number => {
    const token = tokens[at++] ?? ""
    if (token === "-") return -factor()
    if (token === "+") return factor()
    if (token !== "(") return /\d/.test(token) ? Number(token) : NaN
    const value = sum()
    return tokens[at++] === ")" ? value : NaN
  }
  if (text.length > 200) return null // nobody types that; parentheses may be as deep
  const value = sum()
  return at === tokens.length && Number.isFinite(value) ? value : null
}
