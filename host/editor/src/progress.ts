// What a run is doing, worked out from its events. No elements here: see status.ts.

export const SAMPLING = "sample" // the phase whose progress counts steps

export interface NodeRun {
  value: number
  max: number
  state: "pending" | "running" | "finished" | "error" | "cached"
  started?: number
  ended?: number
  steps: number // that were sampled, in `sampled` ms
  sampled: number
  since?: number // while it samples: the last step, or the begin
}
export interface Run {
  prompt: string
  state: "running" | "success" | "error" | "interrupted"
  started: number
  ended?: number
  node: string | null
  nodes: Map<string, NodeRun>
  phase: string
  phases: { name: string; started: number; ended?: number; node: string | null }[]
  rate: number // steps a second, smoothed
  lastStep?: { node: string; value: number; at: number }
  error?: NodeError
  blocked: NodeError[] // nodes that did not run, on purpose; the run goes on
  warnings: { node: string; text: string }[] // each once
}
export interface NodeError {
  node: string
  type: string
  message: string
}

export function createRun(prompt: string, at: number): Run {
  return {
    prompt,
    state: "running",
    started: at,
    node: null,
    nodes: new Map(),
    phase: "",
    phases: [],
    rate: 0,
    blocked: [],
    warnings: [],
  }
}

function nodeRun(run: Run, id: string): NodeRun {
  let node = run.nodes.get(id)
  if (!node)
    run.nodes.set(id, (node = { value: 0, max: 0, state: "pending", steps: 0, sampled: 0 }))
  return node
}

function finish(run: Run, id: string | null, at: number) {
  const node = id === null ? undefined : run.nodes.get(id)
  if (node && node.ended === undefined && node.started !== undefined) {
    node.ended = at
    if (node.state === "running") node.state = "finished"
  }
}

function enter(run: Run, id: string | null, at: number) {
  if (run.node === id) return
  finish(run, run.node, at)
  run.node = id
  setPhase(run, "", at)
  if (id === null) return
  const node = nodeRun(run, id)
  node.started ??= at
  node.ended = node.since = undefined
  node.state = "running"
}

// What was done, not what was to be done: a run may be interrupted.
function countSteps(node: NodeRun, value: number, max: number, at: number) {
  const more = max === node.max && value >= node.value ? value - node.value : value
  if (node.since === undefined) node.since = at
  else if (more > 0) {
    node.steps += more
    node.sampled += at - node.since
    node.since = at
  }
}

function step(run: Run, id: string, value: number, max: number, at: number, phase = run.phase) {
  const node = nodeRun(run, id)
  if (phase === SAMPLING) countSteps(node, value, max, at)
  else node.since = undefined
  const last = run.lastStep
  if (last && last.node === id && value > last.value && at > last.at) {
    const rate = ((value - last.value) * 1000) / (at - last.at)
    run.rate = run.rate ? run.rate * 0.6 + rate * 0.4 : rate
  } else if (!last || last.node !== id || value < last.value) run.rate = 0
  if (!last || last.node !== id || value !== last.value) run.lastStep = { node: id, value, at }
  node.value = value
  node.max = max
}

export function setPhase(run: Run, name: string, at: number) {
  if (run.phase === name) return
  const open = run.phases.at(-1)
  if (open && open.ended === undefined) open.ended = at
  run.phase = name
  if (name) run.phases.push({ name, started: at, node: run.node })
}

function close(run: Run, state: Run["state"], at: number) {
  finish(run, run.node, at)
  setPhase(run, "", at)
  run.state = state
  run.ended = at
}

// Applies one event that belongs to this run.
export function apply(run: Run, type: string, data: any, at: number) {
  switch (type) {
    case "execution_cached":
      for (const id of data.nodes ?? []) nodeRun(run, String(id)).state = "cached"
      break
    case "executing":
      if (data.node !== null) enter(run, String(data.display_node ?? data.node), at)
      else if (run.state === "running") close(run, "success", at)
      break
    case "progress":
      if (data.node != null) step(run, String(data.node), Number(data.value), Number(data.max), at)
      if (data.phase) setPhase(run, String(data.phase), at)
      break
    case "progress_state":
      for (const state of Object.values<any>(data.nodes ?? {})) {
        const id = String(state.display_node_id ?? state.node_id)
        if (state.state !== "running") continue
        enter(run, id, at)
        step(run, id, Number(state.value), Number(state.max), at, state.phase)
        if (state.phase) setPhase(run, String(state.phase), at)
      }
      break
    case "executed": {
      const id = String(data.display_node ?? data.node)
      const node = nodeRun(run, id)
      if (node.state !== "cached") node.state = "finished"
      if (node.started !== undefined) node.ended ??= at
      break
    }
    case "graft.warning": {
      const [node, text] = [String(data.display_node ?? data.node), String(data.text ?? "")]
      if (!run.warnings.some((known) => known.node === node && known.text === text))
        run.warnings.push({ node, text })
      break
    }
    case "execution_success":
      close(run, "success", at)
      break
    case "execution_interrupted":
      close(run, "interrupted", at)
      break
    case "execution_error": {
      const error = {
        node: String(data.node_id),
        type: String(data.node_type ?? ""),
        message: String(data.exception_message ?? "").trim(),
      }
      if (data.exception_type === "ExecutionBlocked") {
        run.blocked.push(error)
        break
      }
      const node = nodeRun(run, error.node)
      close(run, "error", at)
      node.state = "error"
      run.error = error
      break
    }
  }
}

// Between 0 and 1; `total` is how many nodes the workflow has.
export function fraction(run: Run, total: number): number {
  if (run.state === "success") return 1
  let done = 0
  for (const node of run.nodes.values()) {
    if (node.state === "finished" || node.state === "cached") done++
    else if (node.state === "running" && node.max > 0) done += Math.min(1, node.value / node.max)
  }
  return total > 0 ? Math.min(1, done / total) : 0
}
