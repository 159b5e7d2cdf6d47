// What a run is doing, worked out from its events. No elements here: see status.ts.
import type { Prompt } from "./convert"
import { QUANTIZE } from "./subject"

export const SAMPLING = "sample" // the phase whose progress counts steps

export interface NodeRun {
  value: number
  max: number
  state: "pending" | "running" | "finished" | "stopped" | "error" | "cached"
  started?: number
  ended?: number
  due: number // steps that it samples, 0 until it does
  done: number // of them
  steps: number // that were sampled, in `sampled` ms
  sampled: number
  since?: number // while it samples: the last step, or the begin
}
export interface Run {
  prompt: string
  state: "running" | "success" | "error" | "interrupted"
  started: number
  ended?: number
  joined: boolean // it ran already when the page began to follow it
  burst: number // until then events come that waited for the page, at once
  began?: number // by the server's clock
  over?: number // likewise: its end
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

// How much there is to do, as far as a prompt tells.
export interface Expected {
  nodes: number
  steps: Map<string, number> // of the nodes that sample
}

const GUESSED = 20 // steps, where a sampler has them from elsewhere

// The steps of a sampler, or of the schedule that it gets.
function stepsOf(prompt: Prompt, id: string): number {
  const open = [id]
  for (let i = 0; i < open.length && i < 32; i++) {
    const { steps, sigmas, start_at_step, end_at_step } = prompt[open[i]]?.inputs ?? {}
    if (typeof steps === "number") {
      const last = typeof end_at_step === "number" ? Math.min(steps, end_at_step) : steps
      return Math.max(1, last - (typeof start_at_step === "number" ? start_at_step : 0))
    }
    if (Array.isArray(sigmas)) open.push(String(sigmas[0]))
  }
  return GUESSED
}

export function expectedOf(prompt: Prompt): Expected {
  const samplers = Object.entries(prompt).filter(
    ([, { class_type, inputs }]) => inputs?.latent_image && class_type !== QUANTIZE, // it has them too
  )
  return {
    nodes: Object.keys(prompt).length,
    steps: new Map(samplers.map(([id]) => [id, stepsOf(prompt, id)])),
  }
}

const BURST = 250 // ms

// The page begins to follow a run, again or late: what comes at once says nothing of how fast it is.
export function resume(run: Run, at: number) {
  run.burst = at + BURST
  run.rate = 0
  run.lastStep = undefined
}

export function createRun(prompt: string, at: number): Run {
  return {
    prompt,
    state: "running",
    started: at,
    joined: false,
    burst: 0,
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
    run.nodes.set(
      id,
      (node = { value: 0, max: 0, state: "pending", due: 0, done: 0, steps: 0, sampled: 0 }),
    )
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
function countSteps(node: NodeRun, value: number, max: number, at: number, burst: boolean) {
  const more = max === node.max && value >= node.value ? value - node.value : value
  if (node.since === undefined || burst) node.since = at
  else if (more > 0) {
    node.steps += more
    node.sampled += at - node.since
    node.since = at
  }
}

// For the bar. A phase begins with the numbers that the one before it ended with.
function countDue(node: NodeRun, value: number, max: number) {
  if (!(max > 1) || (!node.due && value >= max)) return
  node.due = max
  node.done = value
}

// Steps a second: as the server says or, of one that does not, as they come.
function countRate(run: Run, id: string, value: number, at: number) {
  const last = run.lastStep
  if (last && last.node === id && value > last.value && at > last.at && at > run.burst) {
    const rate = ((value - last.value) * 1000) / (at - last.at)
    run.rate = run.rate ? run.rate * 0.6 + rate * 0.4 : rate
  } else if (!last || last.node !== id || value < last.value) run.rate = 0
  if (!last || last.node !== id || value !== last.value) run.lastStep = { node: id, value, at }
}

function step(run: Run, id: string, data: any, at: number, phase = run.phase) {
  const node = nodeRun(run, id)
  const [value, max] = [Number(data.value), Number(data.max)]
  if (phase === SAMPLING) countSteps(node, value, max, at, at <= run.burst)
  else node.since = undefined
  if (phase === SAMPLING || !phase) countDue(node, value, max)
  countRate(run, id, value, at)
  if (data.rate > 0) run.rate = data.rate
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
  const node = run.node === null ? undefined : run.nodes.get(run.node)
  const cut = state !== "success" && node?.state === "running" // what it had to do is not done
  finish(run, run.node, at)
  if (cut) node!.state = "stopped"
  setPhase(run, "", at)
  run.state = state
  run.ended = at
}

// How long a run took is the server's to say: the page may have come late, or been away at its end.
export function timeByServer(run: Run) {
  const { began, over, ended } = run
  if (began === undefined || over === undefined || ended === undefined || over < began) return
  if (run.joined || run.started + over - began > ended) run.started = ended - (over - began)
  else run.ended = run.started + over - began
}

// Applies one event that belongs to this run.
export function apply(run: Run, type: string, data: any, at: number) {
  const stamp = Number(data.timestamp) || undefined
  if (type === "execution_start") run.began ??= stamp
  else if (/^execution_(success|error|interrupted)$/.test(type)) run.over = stamp
  change(run, type, data, at)
  if (run.state !== "running") timeByServer(run)
}

function change(run: Run, type: string, data: any, at: number) {
  switch (type) {
    case "execution_cached":
      for (const id of data.nodes ?? []) nodeRun(run, String(id)).state = "cached"
      break
    case "executing":
      if (data.node !== null) enter(run, String(data.display_node ?? data.node), at)
      else if (run.state === "running") close(run, "success", at)
      break
    case "progress":
      if (data.node != null) step(run, String(data.node), data, at)
      if (data.phase) setPhase(run, String(data.phase), at)
      break
    case "progress_state":
      for (const state of Object.values<any>(data.nodes ?? {})) {
        const id = String(state.display_node_id ?? state.node_id)
        if (state.state !== "running") continue
        enter(run, id, at)
        step(run, id, state, at, state.phase)
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

// Between 0 and 1. A step of a sampler counts most: all other nodes together take a tenth of the bar
// at most, and none of it is for what was in the cache. Without samplers each node counts alike.
export function fraction(run: Run, expected: Expected): number {
  if (run.state === "success") return 1
  const steps = new Map(expected.steps)
  const plain = { all: expected.nodes, done: 0 }
  let done = 0
  for (const [id, { state, due, done: sampled, value, max }] of run.nodes) {
    const ended = state === "finished" || state === "cached"
    if (due) steps.set(id, due)
    if (state === "cached") {
      plain.all--
      steps.delete(id)
    } else if (steps.has(id)) done += ended ? steps.get(id)! : sampled
    else if (ended) plain.done++
    else if (state === "running" && max > 0) plain.done += Math.min(1, value / max)
  }
  plain.all = Math.max(plain.all - steps.size, plain.done)
  const all = [...steps.values()].reduce((sum, n) => sum + n, 0)
  const weight = all ? Math.min(1, all / (10 * Math.max(1, plain.all))) : 1
  const total = all + weight * plain.all
  return total > 0 ? Math.min(1, (done + weight * plain.done) / total) : 0
}
