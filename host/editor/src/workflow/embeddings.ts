// Names of embeddings in a prompt: which one is being typed, and which are meant. No elements here:
// see complete.ts.

const MOST = 50

export interface Found {
  from: number // where the name begins in the text
  typed: string
}

// The name at the caret, as prompts have it: behind white space or a bracket, up to the next one.
export function nameAt(text: string, caret: number): Found | null {
  const found = /(?:^|[\s()])embedding:([^\s()]*)$/.exec(text.slice(0, caret))
  return found ? { from: caret - found[1].length, typed: found[1] } : null
}

// Those that begin so come first, then those whose last part does, then those that hold it.
export function matching(names: string[], typed: string): string[] {
  const word = typed.toLowerCase()
  const rank = (name: string) => {
    const low = name.toLowerCase()
    if (low.startsWith(word)) return 0
    if (low.slice(low.lastIndexOf("/") + 1).startsWith(word)) return 1
    return low.includes(word) ? 2 : 3
  }
  return names
    .map((name) => ({ name, rank: rank(name) }))
    .filter((entry) => entry.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map(({ name }) => name)
}
