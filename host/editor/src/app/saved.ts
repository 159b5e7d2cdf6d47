// What the browser keeps from one visit to the next: the workflow, and what its last run took.
import { parseJson } from "../workflow/json"
import type { Measured, Sample } from "./profile"
import { createRun } from "../workflow/progress"

const KEY = "graft.workflow"

export interface Saved {
  name: string
  file?: string // its name on the server
  workflow: any
  changed?: boolean // since it was saved there
  fitted?: boolean // nobody had chosen the view
}

// A browser may refuse: no room left, or storage switched off. The page works on without it.
export function saveWorkflow(saved: Saved): boolean {
  try {
    localStorage.setItem(KEY, JSON.stringify(saved))
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

// With fewer points of its memory.
const PROFILE = "graft.profile"
const KEPT = 240

export function saveProfile({ run, titles, samples, spent, clock }: Measured) {
  const every = Math.ceil(samples.length / KEPT)
  const { state, started, ended, phases } = run
  const text = JSON.stringify({
    run: { state, started, ended, phases },
    nodes: [...run.nodes],
    titles: [...titles],
    samples: thin(samples, every),
    spent,
    clock,
  })
  try {
    localStorage.setItem(PROFILE, text)
  } catch {
    // The page remembers it until it is loaded again.
  }
}

// The largest of so many that follow each other: a peak stays.
function thin(samples: Sample[], every: number): Sample[] {
  const kept: Sample[] = []
  for (let i = 0; i < samples.length; i += every) {
    const some = samples.slice(i, i + every)
    kept.push({
      at: some[0].at,
      ram: Math.max(...some.map((s) => s.ram)),
      vram: Math.max(...some.map((s) => s.vram)),
    })
  }
  return kept
}

export function savedProfile(): Measured | null {
  try {
    const kept = JSON.parse(localStorage.getItem(PROFILE) ?? "")
    const { run, nodes, titles, samples, spent } = kept
    if (!(run.ended >= run.started)) return null
    return {
      run: { ...createRun("", run.started), ...run, nodes: new Map(nodes) },
      titles: new Map(titles),
      samples: [...samples],
      spent: spent ?? null,
      clock: Number(kept.clock),
    }
  } catch {
    return null
  }
}
