// A stand-in for the server: enough of its protocol to drive the page, with runs that take a moment.
// node server.mjs WEB_ROOT OBJECT_INFO.json [PORT]; prints the port.
import { createServer } from "node:http"
import { readFile } from "node:fs/promises"
import { extname, join, normalize } from "node:path"
import { webcrypto as crypto } from "node:crypto" // global since Node 20
import * as zlib from "node:zlib"
import { createRequire } from "node:module"

// Packages are those of the working directory: tests keep them out of the source tree.
const { WebSocketServer } = createRequire(join(process.cwd(), "package.json"))("ws")

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" }

function crc(data) {
  if (zlib.crc32) return zlib.crc32(data) // since Node 20
  let c = ~0
  for (const byte of data) {
    c ^= byte
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
  }
  return ~c >>> 0
}
function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data])
  const out = Buffer.alloc(body.length + 8)
  out.writeUInt32BE(data.length, 0)
  body.copy(out, 4)
  out.writeUInt32BE(crc(body), body.length + 4)
  return out
}
// A disc on a gradient, noisier the smaller `clear` is; with text chunks.
export function picture(size, hue, clear = 1, texts = {}) {
  const rows = Buffer.alloc(size * (size * 3 + 1))
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) {
      const inside = Math.hypot(x - size / 2, y - size / 2) < size * 0.36
      const at = y * (size * 3 + 1) + 1 + x * 3
      const base = inside ? [200 - hue, 40 + hue, 60] : [235 - y, 240 - y / 2, 245]
      for (let c = 0; c < 3; c++)
        rows[at + c] = Math.max(
          0,
          Math.min(255, base[c] * clear + Math.random() * 255 * (1 - clear)),
        )
    }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(size, 0)
  head.writeUInt32BE(size, 4)
  head.set([8, 2, 0, 0, 0], 8)
  const text = Object.entries(texts).map(([k, v]) => chunk("tEXt", Buffer.from(`${k}\0${v}`)))
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
    chunk("IHDR", head),
    ...text,
    chunk("IDAT", zlib.deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

// Attention as a server names it that can quantize it: self and cross by turns, without weights.
function attentionOf(random, i) {
  const [side, heads, size] = [64 >> (i % 3), 8, 40 << (i % 3)]
  const keys = i % 2 ? 77 : side * side
  const density = (keys * side * side) / (keys + side * side)
  const mse = 10 ** (-4 + 3.6 * random())
  return {
    name: `input_blocks.${i}.1.transformer_blocks.0.attn${1 + (i % 2)}`,
    kind: "attention",
    shape: [heads, size, side * side, keys],
    density,
    mse,
    flops: 1e9 * density * (0.3 + random()),
    weights: 0,
    chosen: mse < 0.1 && density > 300,
    reason: "",
  }
}

export function planOf(count = 120, attention = 12) {
  let state = 7
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647
  const layers = Array.from({ length: count }, (_, i) => {
    const kind = i % 3 ? "linear" : "conv"
    const density = kind === "conv" ? 120 * 18 ** random() : 60 * 12 ** random()
    const mse = 10 ** (-4 + 3.6 * random())
    const first = i === 0
    return {
      name: `model.diffusion_model.${kind}.${i}`,
      kind,
      density: first ? 36 : density,
      mse,
      flops: 1e9 * density * (0.3 + random()),
      weight_bytes: 2e6 * (0.2 + random()),
      chosen: !first && mse < 0.1 && density > 300,
      reason: first ? "first layer is kept" : "",
    }
  })
  for (let i = 0; i < attention; i++) layers.splice(i * 9 + 8, 0, attentionOf(random, i))
  return { version: 1, bits: 8, layers, other_flops: 2e12 }
}

export function createMock({ root, objectInfo, stepMs = 40, plan = planOf() }) {
  const sockets = new Map()
  const state = {
    history: {},
    running: null,
    pending: [],
    files: new Map(),
    prompts: [],
    counter: 0,
    uploads: [],
    embeddings: ["cat", "charming", "style/catlike", "style/oil"],
    started: new Map(), // when runs began
    plan, // what QuantizeModel gives
    kept: new Map(), // files of the user, by their paths
    templates: {}, // by their names; "index" groups them
  }
  const say = (client, type, data) => {
    for (const [id, socket] of sockets)
      if (!client || id === client) socket.send(JSON.stringify({ type, data }))
  }
  const remaining = () => state.pending.length + (state.running ? 1 : 0)
  const status = () =>
    say(null, "status", { status: { exec_info: { queue_remaining: remaining() } } })
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

  function validate(prompt) {
    const node_errors = {}
    const fault = (id, type, message, details, input_name) => {
      node_errors[id] ??= { errors: [], dependent_outputs: [], class_type: prompt[id].class_type }
      const folder = input_name === "ckpt_name" ? { folder: "models/checkpoints" } : {}
      node_errors[id].errors.push({ type, message, details, extra_info: { input_name, ...folder } })
    }
    for (const [id, node] of Object.entries(prompt)) {
      const info = objectInfo[node.class_type]
      if (!info)
        return {
          error: {
            type: "missing_node_type",
            message: `Cannot execute because node ${node.class_type} does not exist.`,
            details: `Node ID '#${id}'`,
            extra_info: { node_id: id },
          },
          node_errors,
        }
      for (const [name, [type, options]] of Object.entries(info.input.required ?? {})) {
        const value = node.inputs[name]
        if (value === undefined)
          fault(id, "required_input_missing", "Required input is missing", name, name)
        else if (Array.isArray(type) && !Array.isArray(value) && !type.includes(value))
          fault(
            id,
            "value_not_in_list",
            "Value not in list",
            `${name}: '${value}' not in (list of length ${type.length})`,
            name,
          )
        else if (typeof value === "number" && options?.min > value)
          fault(
            id,
            "value_smaller_than_min",
            `Value ${value} smaller than min of ${options.min}`,
            name,
            name,
          )
      }
    }
    if (!Object.values(prompt).some((n) => objectInfo[n.class_type].output_node))
      return {
        error: {
          type: "prompt_no_outputs",
          message: "Prompt has no outputs",
          details: "",
          extra_info: {},
        },
        node_errors,
      }
    if (Object.keys(node_errors).length)
      return {
        error: {
          type: "prompt_outputs_failed_validation",
          message: "Prompt outputs failed validation",
          details: "",
          extra_info: {},
        },
        node_errors,
      }
    return null
  }

  async function runNode(job, id, node) {
    const { prompt_id, client } = job
    say(client, "executing", { node: id, display_node: id, prompt_id })
    for (const [, name] of String(node.inputs.text ?? "").matchAll(/embedding:([^\s,]+)/g))
      if (!state.embeddings.includes(name))
        job.tell("graft.warning", {
          node: id,
          display_node: id,
          text: `embedding "${name}" is left out: there is no file of this name`,
        })
    const steps = node.class_type === "KSampler" ? node.inputs.steps : 1
    for (let value = 0; value <= steps; value++) {
      if (job.interrupted) throw Object.assign(new Error("interrupted"), { interrupted: true })
      if (steps > 1 && value > 0) {
        const phase = value < 3 ? "compile" : "sample"
        say(client, "progress_state", {
          prompt_id,
          nodes: {
            [id]: {
              value,
              max: steps,
              state: "running",
              node_id: id,
              display_node_id: id,
              prompt_id,
              phase,
            },
          },
        })
        say(client, "progress", { value, max: steps, prompt_id, node: id })
        if (value % 5 === 0) {
          const meta = Buffer.from(
            JSON.stringify({
              node_id: id,
              display_node_id: id,
              prompt_id,
              image_type: "image/png",
            }),
          )
          const head = Buffer.alloc(8)
          head.writeUInt32BE(4, 0)
          head.writeUInt32BE(meta.length, 4)
          sockets.get(client)?.send(Buffer.concat([head, meta, picture(32, 20, value / steps)]))
        }
      }
      await sleep(steps > 1 ? stepMs : stepMs / 2)
    }
    if (node.class_type === "KSampler" && node.inputs.cfg === 99)
      throw new Error("The sampler ran out of memory: 1.2 GiB were asked for, 0.3 GiB are free.")
    let output
    if (node.class_type === "SaveImage" || node.class_type === "PreviewImage") {
      const filename = `picture_${String(state.files.size + 1).padStart(5, "0")}_.png`
      state.files.set(
        filename,
        picture(64, (state.files.size * 37) % 120, 1, {
          prompt: JSON.stringify(job.prompt),
          workflow: JSON.stringify(job.extra?.extra_pnginfo?.workflow ?? {}),
        }),
      )
      output = { images: [{ filename, subfolder: "", type: "output" }] }
    }
    if (node.class_type === "QuantizeModel")
      output = {
        plan: [JSON.stringify(state.plan)],
        ...(state.planFile ? { images: [state.planFile] } : {}),
      }
    if (node.class_type === "ModelReport") output = { text: ["UNet\n  compiled  1 graph"] }
    if (node.class_type === "SaveLatent")
      output = { latents: [{ filename: "a_00001_.latent", subfolder: "latents", type: "output" }] }
    if (output) {
      job.outputs[id] = output
      say(client, "executed", { node: id, display_node: id, output, prompt_id })
    }
  }

  async function work() {
    if (state.running) return
    const job = state.pending.shift()
    if (!job) return
    state.running = job
    status()
    const { prompt_id, client } = job
    const messages = []
    const tell = (job.tell = (type, data) => {
      const full = { ...data, prompt_id, timestamp: Date.now() }
      messages.push([type, full])
      say(client, type, full)
    })
    state.started.set(prompt_id, Date.now())
    tell("execution_start", {})
    tell("execution_cached", { nodes: [] })
    let status_str = "success"
    let current = null
    try {
      for (const [id, node] of Object.entries(job.prompt)) await runNode(job, (current = id), node)
      tell("execution_success", {})
    } catch (error) {
      status_str = "error"
      if (error.interrupted) tell("execution_interrupted", { node_id: current, executed: [] })
      else
        tell("execution_error", {
          node_id: current,
          node_type: job.prompt[current].class_type,
          exception_message: error.message,
          exception_type: "RuntimeError",
          traceback: [],
          executed: [],
        })
    }
    state.history[prompt_id] = {
      prompt: [job.number, prompt_id, job.prompt, job.extra, []],
      outputs: job.outputs,
      status: { status_str, completed: status_str === "success", messages },
    }
    state.running = null
    status()
    say(client, "executing", { node: null, prompt_id })
    void work()
  }

  const entry = (job) => [job.number, job.prompt_id, job.prompt, job.extra, []]
  const routes = {
    "GET object_info": () => objectInfo,
    "GET queue": () => ({
      queue_running: state.running ? [entry(state.running)] : [],
      queue_pending: state.pending.map(entry),
    }),
    "GET history": () => state.history,
    "GET embeddings": () => [200, state.embeddings],
    "GET workflow_templates": () => {
      const names = Object.keys(state.templates).filter((name) => name !== "index")
      return names.length ? { graft: names } : {}
    },
    "GET system_stats": () => ({
      system: {
        ram_total: 8 * 2 ** 30,
        ram_free: 4 * 2 ** 30,
        graft_memory: 300 * 2 ** 20 + Math.random() * 2 ** 28,
      },
      devices: [{ name: "cpu", type: "cpu", vram_total: 0, vram_free: 0 }],
    }),
    "POST queue": (body) => {
      state.pending = body.clear
        ? []
        : state.pending.filter((job) => !body.delete?.includes(job.prompt_id))
      status()
    },
    "POST interrupt": (body) => {
      if (state.running && (!body.prompt_id || body.prompt_id === state.running.prompt_id))
        state.running.interrupted = true
    },
    "POST history": (body) => {
      if (body.clear) state.history = {}
      for (const id of body.delete ?? []) delete state.history[id]
    },
    "POST prompt": (body) => {
      state.prompts.push(body)
      const error = validate(body.prompt)
      if (error) return [400, error]
      const prompt_id = crypto.randomUUID()
      const job = {
        number: state.counter++,
        prompt_id,
        prompt: body.prompt,
        extra: { ...body.extra_data, client_id: body.client_id, create_time: Date.now() },
        client: body.client_id,
        outputs: {},
      }
      // A run may fail before who queued it has the answer.
      const hasty = Object.entries(body.prompt).find(([, node]) => node.inputs.cfg === 98)
      if (hasty) {
        const [node_id, { class_type: node_type }] = hasty
        const exception_message = "cfg is out of range"
        say(job.client, "execution_start", { prompt_id })
        say(job.client, "execution_error", { prompt_id, node_id, node_type, exception_message })
        return sleep(300).then(() => ({ prompt_id, number: job.number, node_errors: {} }))
      }
      if (body.front) state.pending.unshift(job)
      else state.pending.push(job)
      status()
      setTimeout(work, 5)
      return { prompt_id, number: job.number, node_errors: {} }
    },
  }

  // Files that the page keeps here: a folder's, one's text, a new one, none.
  function keep(request, path, query, text) {
    const { kept } = state
    if (!path) {
      const folder = `${query.get("dir")}/`
      const files = [...kept].filter(([name]) => name.startsWith(folder))
      const list = files.map(([name, file]) => ({ path: name.slice(folder.length), ...file.info }))
      return files.length ? [200, list] : [404, "Directory not found"]
    }
    if (request.method === "GET")
      return kept.has(path) ? [200, JSON.parse(kept.get(path).text)] : [404, ""]
    if (request.method === "DELETE") return kept.delete(path) ? [204, ""] : [404, ""]
    if (kept.has(path) && query.get("overwrite") === "false") return [409, "File already exists"]
    kept.set(path, { text, info: { size: text.length, modified: Date.now() / 1000 } })
    return [200, path]
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://x")
    const chunks = []
    for await (const part of request) chunks.push(part)
    const raw = Buffer.concat(chunks)
    const reply = (code, body, type = "application/json") => {
      response.writeHead(code, { "content-type": type, "cache-control": "no-store" })
      response.end(body)
    }
    const path = url.pathname.replace(/^\/api\//, "/").slice(1)
    if (path === "view") {
      const file = state.files.get(url.searchParams.get("filename"))
      return file ? reply(200, file, "image/png") : reply(404, "")
    }
    if (path === "upload/image") {
      const name = /filename="([^"]*)"/.exec(raw.toString("latin1"))?.[1] ?? "x.png"
      state.uploads.push(name)
      state.files.set(name, picture(64, 90))
      return reply(200, JSON.stringify({ name, subfolder: "", type: "input" }))
    }
    if (path.startsWith("jobs/")) {
      const execution_start_time = state.started.get(path.slice(5))
      return reply(200, JSON.stringify({ execution_start_time, profile: state.spent }))
    }
    if (path === "userdata" || path.startsWith("userdata/")) {
      const name = decodeURIComponent(path.slice("userdata/".length))
      const [code, body] = keep(request, name, url.searchParams, raw.toString())
      return reply(code, code === 204 ? undefined : JSON.stringify(body))
    }
    if (path.startsWith("workflow_templates/graft/")) {
      const template = state.templates[decodeURIComponent(path.slice(25)).replace(/\.json$/, "")]
      return template ? reply(200, JSON.stringify(template)) : reply(404, "")
    }
    const route = routes[`${request.method} ${path}`]
    if (route) {
      const answer = await route(raw.length ? JSON.parse(raw.toString()) : {})
      if (Array.isArray(answer)) return reply(answer[0], JSON.stringify(answer[1]))
      return reply(200, answer === undefined ? "" : JSON.stringify(answer))
    }
    const file = join(root, normalize(path || "index.html"))
    try {
      reply(200, await readFile(file), TYPES[extname(file)] ?? "text/plain")
    } catch {
      reply(404, "")
    }
  })
  const wss = new WebSocketServer({ server })
  wss.on("connection", (socket, request) => {
    const client = new URL(request.url, "http://x").searchParams.get("clientId")
    sockets.set(client, socket)
    socket.on("close", () => sockets.get(client) === socket && sockets.delete(client))
    say(client, "status", { status: { exec_info: { queue_remaining: remaining() } }, sid: client })
  })
  return {
    state,
    sockets,
    listen: (port = 0) =>
      new Promise((done) => server.listen(port, "127.0.0.1", () => done(server.address().port))),
    close: () => {
      for (const socket of sockets.values()) socket.terminate()
      server.closeAllConnections()
      return new Promise((done) => server.close(done))
    },
  }
}

if (process.argv[1]?.endsWith("server.mjs") && process.argv[3]) {
  const objectInfo = JSON.parse(await readFile(process.argv[3], "utf8"))
  const mock = createMock({ root: process.argv[2], objectInfo })
  console.log(await mock.listen(Number(process.argv[4] ?? 0)))
}
