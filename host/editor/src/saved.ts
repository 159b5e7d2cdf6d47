// The workflow as the browser keeps it from one visit to the next.
import { parseJson } from "./json"

const KEY = "graft.workflow"

export interface Saved {
  name: string
  workflow: any
}

// A browser may refuse: no room left, or storage switched off. The page works on without it.
export function saveWorkflow(name: string, workflow: unknown): boolean {
  try {
    localStorage.setItem(KEY, JSON.stringify({ name, workflow }))
    return true
  } catch {
    return false
  }
}

// What was kept, or null when there is nothing of use.
export function savedWorkflow(): Saved | null {
  try {
    const text = localStorage.getItem(KEY)
    const saved = text ? (parseJson(text) as Saved) : null
    return saved?.workflow?.nodes?.length ? saved : null
  } catch {
    return null
  }
}
