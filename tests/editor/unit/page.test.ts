import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { deflateSync } from "node:zlib"
import { nodeFaults, promptFaults, unknownNodes } from "../../../host/editor/src/server/errors"
import { find, score } from "../../../host/editor/src/workflow/find"
import { readFrame } from "../../../host/editor/src/workflow/frames"
import { parseJson, stringifyPrompt } from "../../../host/editor/src/workflow/json"
import { layout } from "../../../host/editor/src/workflow/layout"
import { Paced } from "../../../host/editor/src/page/paced"
import { readPng } from "../../../host/editor/src/workflow/png"
import { readFile } from "../../../host/editor/src/workflow/read"
import { readWebp } from "../../../host/editor/src/workflow/webp"
import { apply, createRun, expectedOf, fraction, resume } from "../../../host/editor/src/workflow/progress"
import { parseObjectInfo } from "../../../host/editor/src/workflow/schema"
import { showLeft, showRate } from "../../../host/editor/src/app/status"
import { inkOn } from "../../../host/editor/src/page/ink"
import { calculate } from "../../../host/editor/src/workflow/sum"
import { comparedOf, quantizationOf, subjectOf } from "../../../host/editor/src/workflow/subject"
import { Undo } from "../../../host/editor/src/workflow/undo"
import {
  addTo,
  clampNumber,
  notTaken,
  nextValue,
  showNumber,
  tidyFloat,
  wrapText,
} from "../../../host/editor/src/workflow/values"
import { info, specs } from "./given"

function chunk(type: string, data: Uint8Array): Buffer {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(data.length)
  const body = Buffer.concat([Buffer.from(type), data])
  let sum = ~0
  for (const byte of body) {
    sum ^= byte
    for (let k = 0; k < 8; k++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1
  }
  const end = Buffer.alloc(4)
  end.writeUInt32BE(~sum >>> 0)
  return Buffer.concat([size, body, end])
}
const png = (...chunks: Buffer[]) =>
  new Uint8Array(
    Buffer.concat([
      Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
      chunk("IHDR", Buffer.alloc(13)),
      ...chunks,
      chunk("IEND", Buffer.alloc(0)),
    ]),
  )
const bytes = (...parts: (string | number[] | Buffer)[]) =>
  Buffer.concat(parts.map((p) => Buffer.from(p as any)))

// A WebP with these texts in its EXIF, in either order of bytes.
function webp(texts: string[], little = true): Uint8Array {
  const number = (value: number, size: number) => {
    const out = Buffer.alloc(size)
    if (little) out.writeUIntLE(value, 0, size)
    else out.writeUIntBE(value, 0, size)
    return out
  }
  const words = texts.map((text) => Buffer.from(text + "\0"))
  let at = 8 + 2 + 12 * words.length + 4
  const entries = words.map((word, i) => {
    const where = word.length > 4 ? number(at, 4) : Buffer.concat([word], 4)
    at += word.length > 4 ? word.length : 0
    return Buffer.concat([number(0x110 - i, 2), number(2, 2), number(word.length, 4), where])
  })
  const long = words.filter((word) => word.length > 4)
  const exif = Buffer.concat([
    Buffer.from(little ? "II*\0" : "MM\0*"),
    number(8, 4),
    number(words.length, 2),
    ...entries,
    number(0, 4),
    ...long,
  ])
  const part = (type: string, data: Buffer) => {
    const size = Buffer.alloc(4)
    size.writeUInt32LE(data.length)
    return Buffer.concat([Buffer.from(type), size, data, Buffer.alloc(data.length % 2)])
  }
  return part("RIFF", Buffer.concat([Buffer.from("WEBP"), part("ALPH", Buffer.alloc(3)), part("EXIF", exif)]))
}

test("texts of a WebP: in either order of bytes, short ones, cut off, none", async () => {
  for (const little of [true, false]) {
    const { texts, whole } = readWebp(webp(['prompt:{"1":{}}', "workflow:grüße", "a:b", "nothing"], little))!
    assert.deepEqual([...texts], [["prompt", '{"1":{}}'], ["workflow", "grüße"], ["a", "b"]])
    assert.ok(whole)
  }
  const made = webp(['Prompt:{"1":{"class_type":"A","inputs":{}}}'])
  for (let n = 0; n < made.length; n++)
    assert.ok(!(readWebp(made.slice(0, n))?.whole ?? false), `${n} bytes`)
  assert.equal(readWebp(png()), null)
  const found = await readFile(new File([made as BlobPart], "a.webp", { type: "image/webp" }))
  assert.deepEqual(found, { data: { 1: { class_type: "A", inputs: {} } }, name: "a", note: "" })
  assert.equal(await readFile(new File([webp([]) as BlobPart], "b.webp")), null)
})

test("texts of a PNG: plain, compressed, international", async () => {
  const { texts } = await readPng(
    png(
      chunk("tEXt", bytes("prompt", [0], '{"a":"é"}')),
      chunk("zTXt", bytes("z", [0, 0], deflateSync("squeezed"))),
      chunk("iTXt", bytes("workflow", [0, 0, 0], "en", [0], "Ablauf", [0], '{"ü":1}')),
      chunk("iTXt", bytes("packed", [0, 1, 0, 0, 0], deflateSync("päckchen"))),
    ),
  )
  assert.deepEqual(Object.fromEntries(texts), {
    prompt: '{"a":"é"}',
    z: "squeezed",
    workflow: '{"ü":1}',
    packed: "päckchen",
  })
})

test("a picture that is cut, broken or none gives what can be read, never an error", async () => {
  const whole = png(chunk("tEXt", bytes("prompt", [0], "x".repeat(50))))
  assert.ok((await readPng(whole)).whole)
  for (let size = 0; size < whole.length; size++) {
    const cut = await readPng(whole.slice(0, size))
    if (size >= 8) assert.ok(!cut.whole, `cut off after ${size}`)
  }
  const bent = whole.slice()
  bent[bent.length - 30] ^= 1 // in the text, whose sum is wrong now
  assert.ok(!(await readPng(bent)).whole)
  assert.equal((await readPng(new TextEncoder().encode("<svg/>"))).texts.size, 0)
  assert.equal((await readPng(png(chunk("zTXt", bytes("z", [0, 0], "not zlib"))))).texts.size, 0)
  const huge = png()
  new DataView(huge.buffer, huge.byteOffset).setUint32(8, 0xffffffff)
  assert.equal((await readPng(huge)).texts.size, 0)
  assert.equal(
    (await readPng(png(chunk("iTXt", bytes("k", [0, 0, 0], "never ends"))))).texts.size,
    0,
  )
})

test("numbers that JavaScript cannot hold keep their digits where the browser lets them", () => {
  const text =
    '{"prompt":{"5":{"class_type":"KSampler","inputs":{"seed":18446744073709551615,"cfg":1.5}}}}'
  const data = parseJson(text)
  const exact = typeof data.prompt["5"].inputs.seed === "string"
  const out = stringifyPrompt(data, (type, input) => type === "KSampler" && input === "seed")
  if (exact) assert.match(out, /18446744073709551615/)
  assert.equal(JSON.parse(out).prompt["5"].inputs.cfg, 1.5)
  assert.equal(parseJson("[1, NaN, -Infinity]")[1], null)
  assert.deepEqual(parseJson('{"a":"x: NaN, y"}'), { a: "x: NaN, y" })
  assert.throws(() => parseJson("{nonsense"))
})

test("values of widgets", () => {
  const int: any = { type: "INT", options: { min: 1, max: 100 } }
  const seed: any = { type: "INT", options: { min: 0, max: 2 ** 64 } }
  const float: any = { type: "FLOAT", options: { min: 0, max: 10, step: 0.1 } }
  assert.equal(clampNumber("250", int), 100)
  assert.equal(clampNumber("2.6", int), 3)
  assert.equal(clampNumber("-1", float), 0)
  assert.equal(clampNumber("", float), null)
  assert.equal(clampNumber("soup", int), null)
  assert.equal(clampNumber("18446744073709551615", seed), "18446744073709551615")
  assert.equal(clampNumber("18446744073709551616", seed), null)
  const exact: any = { type: "INT", options: { min: 0, max: "18446744073709551615" } }
  for (const input of [seed, exact]) {
    assert.equal(clampNumber("18446744073709551615", input), "18446744073709551615")
    assert.equal(clampNumber(" 9007199254740993", input), "9007199254740993")
    assert.equal(clampNumber("9007199254740991", input), 9007199254740991)
    assert.equal(clampNumber("-9007199254740993", input), 0)
    assert.equal(addTo("18446744073709551614", 1, input), "18446744073709551615")
    assert.equal(addTo("18446744073709551615", 10, input), "18446744073709551615")
    assert.equal(addTo(9007199254740991, 2, input), "9007199254740993")
    assert.equal(addTo(3, -10, input), 0)
  }
  assert.equal(clampNumber("9007199254740993", int), 100)
  assert.equal(clampNumber("9".repeat(30), seed), "18446744073709551615")
  assert.equal(addTo("soup", 1, int), null)
  assert.equal(addTo(0.5, 0.25, float), 0.75)
  assert.equal(showNumber(8, float), "8.0")
  assert.equal(showNumber(0.125, float), "0.125")
  assert.equal(showNumber(20, int), "20")
  assert.equal(tidyFloat(0.1 + 0.2, 0.1), 0.3)
  assert.equal(tidyFloat(0.0005, 0.0001), 0.0005)
  assert.equal(tidyFloat(0.0291675 + 0.01, 1e-9), 0.0391675)
})

test("seeds move on", () => {
  const w = (value: any, options: any = { min: 0, max: 10 }) => ({ value, options })
  assert.equal(nextValue(w(3), "fixed"), 3)
  assert.equal(nextValue(w(3), "increment"), 4)
  assert.equal(nextValue(w(10), "increment"), 10)
  assert.equal(nextValue(w(0), "decrement"), 0)
  const seeds = { min: 0, max: "18446744073709551615" } // as json.ts reads it
  const next = (value: unknown, way = "increment") => nextValue(w(value, seeds), way)
  assert.equal(next("18446744073709551614"), "18446744073709551615")
  assert.equal(next("18446744073709551615"), "18446744073709551615")
  assert.equal(next("9007199254740992", "decrement"), 9007199254740991)
  assert.equal(next(9007199254740991), "9007199254740992")
  assert.equal(next(2 ** 52), 2 ** 52 + 1)
  assert.equal(next(0, "decrement"), 0)
  assert.equal(nextValue(w("b", { values: ["a", "b", "c"] }), "increment"), "c")
  for (let i = 0; i < 50; i++) {
    const value = nextValue(w(0, { min: 0, max: 2 ** 64 }), "randomize") as number
    assert.ok(Number.isSafeInteger(value) && value >= 0)
  }
})

test("text is wrapped at words, long words are cut, lines are limited", () => {
  const ctx: any = { measureText: (text: string) => ({ width: text.length }) }
  assert.deepEqual(
    wrapText(ctx, "red apple on a table", 10, 9).map((l) => l.trimEnd()),
    ["red apple", "on a table"],
  )
  assert.deepEqual(wrapText(ctx, "abcdefghij", 4, 9), ["abcd", "efgh", "ij"])
  assert.equal(wrapText(ctx, "a\nb\nc\nd", 10, 2).length, 2)
  assert.deepEqual(wrapText(ctx, "", 10, 5), [""])
})

test("a run from its events", () => {
  const run = createRun("p", 0)
  apply(run, "execution_cached", { nodes: ["1"] }, 1)
  apply(run, "executing", { node: "5", display_node: "5" }, 10)
  const state = (value: number, phase?: string) => ({
    nodes: { 5: { node_id: "5", display_node_id: "5", state: "running", value, max: 4, phase } },
  })
  apply(run, "progress_state", state(0, "compile"), 10)
  apply(run, "progress_state", state(1, "sample"), 110)
  apply(run, "progress", { node: "5", value: 1, max: 4 }, 110)
  apply(run, "progress_state", state(2, "sample"), 210)
  assert.equal(run.phase, "sample")
  assert.equal(run.rate, 10)
  const four = { nodes: 4, steps: new Map<string, number>() }
  assert.equal(fraction(run, four), 2 / (4 + 0.2 * 2))
  apply(run, "executing", { node: "6" }, 400)
  assert.equal(run.nodes.get("5")!.ended, 400)
  assert.equal(run.nodes.get("5")!.state, "finished")
  assert.deepEqual(
    run.phases.map((p) => [p.name, p.started, p.ended]),
    [
      ["compile", 10, 110],
      ["sample", 110, 400],
    ],
  )
  apply(run, "execution_success", {}, 500)
  apply(run, "executing", { node: null }, 501)
  assert.equal(run.state, "success")
  assert.equal(run.ended, 500)
  assert.equal(fraction(run, four), 1)
})

test("the bar is the sampling's, and goes on evenly", () => {
  const sampler = { model: ["1", 0], latent_image: ["4", 0] }
  const prompt: any = {
    "1": { class_type: "Loader", inputs: {} },
    "2": { class_type: "Encode", inputs: {} },
    "3": { class_type: "QuantizeModel", inputs: { ...sampler, steps: 500 } },
    "4": { class_type: "Empty", inputs: {} },
    "5": { class_type: "KSampler", inputs: { ...sampler, steps: 2000 } },
    "6": { class_type: "Decode", inputs: {} },
    "7": { class_type: "Save", inputs: {} },
  }
  const expected = expectedOf(prompt)
  assert.deepEqual([...expected.steps], [["5", 2000]])
  const run = createRun("p", 0)
  const parts: number[] = []
  const look = () => parts.push(fraction(run, expected))
  for (const node of ["1", "2", "3", "4", "5"]) {
    apply(run, "executing", { node }, 1)
    look()
  }
  const tell = (value: number, max: number, phase: string) => {
    const state = { node_id: "5", state: "running", value, max, phase }
    apply(run, "progress_state", { nodes: { 5: state } }, 1)
    look()
  }
  tell(300, 300, "compile")
  tell(300, 300, "sample")
  assert.ok(parts.at(-1)! < 0.1, String(parts))
  tell(206, 2000, "sample")
  assert.ok(Math.abs(parts.at(-1)! - 0.103) < 0.01, String(parts))
  tell(2000, 2000, "sample")
  apply(run, "executing", { node: "6" }, 1)
  look()
  assert.ok(parts.at(-1)! > 0.98 && parts.at(-1)! < 1, String(parts))
  assert.deepEqual(
    [...parts].sort((a, b) => a - b),
    parts,
  )
  // What the cache had is no part of it; of few steps the others' part stays small.
  const again = createRun("q", 0)
  prompt["5"].inputs.steps = 4
  apply(again, "execution_cached", { nodes: ["1", "2", "3", "4"] }, 0)
  apply(again, "executing", { node: "5" }, 0)
  assert.equal(fraction(again, expectedOf(prompt)), 0)
  apply(again, "progress", { node: "5", value: 2, max: 4 }, 0)
  assert.ok(Math.abs(fraction(again, expectedOf(prompt)) - 0.5) < 0.05)
  // A sampler whose steps are those of a schedule; one of which nothing is known.
  assert.deepEqual(
    [
      ...expectedOf({
        "1": { class_type: "BasicScheduler", inputs: { steps: 8 } },
        "2": { class_type: "SplitSigmas", inputs: { sigmas: ["1", 0] } },
        "3": { class_type: "SamplerCustom", inputs: { ...sampler, sigmas: ["2", 0] } },
        "4": { class_type: "KSampler", inputs: { ...sampler, steps: ["9", 0] } },
        "5": {
          class_type: "KSamplerAdvanced",
          inputs: { ...sampler, steps: 20, start_at_step: 12, end_at_step: 10000 },
        },
      }).steps,
    ],
    [
      ["3", 8],
      ["4", 20],
      ["5", 8],
    ],
  )
})

test("a run that the page joins late: its rate starts anew, its time is the server's", () => {
  const run = createRun("p", 10_000)
  run.joined = true
  run.began = 1_000_000
  resume(run, 10_000)
  const tell = (value: number, at: number, rate?: number) =>
    apply(run, "progress", { node: "5", value, max: 4000, phase: "sample", rate }, at)
  tell(2, 10_001)
  tell(208, 10_020) // what had waited comes at once
  assert.equal(run.rate, 0)
  tell(308, 11_020)
  assert.equal(Math.round(run.rate), 100)
  assert.deepEqual([run.nodes.get("5")!.steps, run.nodes.get("5")!.sampled], [100, 1000])
  tell(309, 11_021, 101)
  assert.equal(run.rate, 101)
  apply(run, "execution_interrupted", { node_id: "5", timestamp: 1_004_500 }, 11_200)
  assert.equal(run.ended! - run.started, 4500)
  // Of one that was followed all the time nothing is added for the page's being away.
  const away = createRun("q", 0)
  apply(away, "execution_start", { timestamp: 5000 }, 0)
  apply(away, "execution_success", { timestamp: 7000 }, 60_000)
  assert.equal(away.ended! - away.started, 2000)
})

test("the steps that were done are counted, not those that were to be done", () => {
  const run = createRun("p", 0)
  const state = (value: number, max: number, phase: string) => ({
    nodes: { 5: { node_id: "5", state: "running", value, max, phase } },
  })
  const tell = (value: number, max: number, phase: string, at: number) => {
    apply(run, "progress_state", state(value, max, phase), at)
    apply(run, "progress", { node: "5", value, max }, at)
  }
  apply(run, "executing", { node: "5" }, 10)
  tell(300, 300, "compile", 200)
  tell(300, 300, "sample", 1000) // the phase begins with the last one's numbers
  tell(1, 20, "sample", 1500)
  tell(2, 20, "sample", 2000)
  apply(run, "execution_interrupted", { node_id: "5" }, 2400)
  const { steps, sampled } = run.nodes.get("5")!
  assert.deepEqual([steps, sampled], [2, 1000])
  const part = fraction(run, { nodes: 1, steps: new Map([["5", 20]]) })
  assert.ok(part > 0.05 && part < 0.2, `the bar of an interrupted run is at ${part}`)
  // Sampling twice in one node; what comes in between is no sampling.
  const twice = createRun("q", 0)
  const all = (phase: string, from: number) => {
    for (let i = 1; i <= 3; i++) {
      apply(twice, "progress_state", state(i, 3, phase), from + 100 * i)
      if (i === 1) apply(twice, "progress_state", state(1, 3, phase), from + 100)
    }
  }
  apply(twice, "progress_state", state(0, 3, "sample"), 0)
  all("sample", 0)
  all("decode", 1000)
  apply(twice, "progress_state", state(3, 3, "sample"), 2000)
  all("sample", 2000)
  const both = twice.nodes.get("5")!
  assert.deepEqual([both.steps, both.sampled], [6, 600])
})

test("a blocked node is told of, and the run goes on", () => {
  const run = createRun("p", 0)
  apply(run, "executing", { node: "1" }, 1)
  const data = { node_id: "2", node_type: "SaveImage", exception_message: "Not today\n" }
  apply(run, "execution_error", { ...data, exception_type: "ExecutionBlocked" }, 2)
  assert.equal(run.state, "running")
  apply(run, "execution_success", {}, 3)
  assert.equal(run.state, "success")
  assert.equal(run.error, undefined)
  assert.deepEqual(run.blocked, [{ node: "2", type: "SaveImage", message: "Not today" }])
})

test("a run that fails, and one that is stopped", () => {
  const bad = createRun("p", 0)
  apply(bad, "executing", { node: "2" }, 1)
  apply(
    bad,
    "execution_error",
    { node_id: "2", node_type: "X", exception_message: "no memory\n" },
    5,
  )
  apply(bad, "executing", { node: null }, 6)
  assert.equal(bad.state, "error")
  assert.deepEqual(bad.error, { node: "2", type: "X", message: "no memory" })
  const stopped = createRun("q", 0)
  apply(stopped, "execution_interrupted", { node_id: "2" }, 5)
  assert.equal(stopped.state, "interrupted")
})

test("binary frames, whole and broken", async () => {
  const frame = (event: number, ...parts: Buffer[]) => {
    const head = Buffer.alloc(4)
    head.writeUInt32BE(event)
    const all = Buffer.concat([head, ...parts])
    return all.buffer.slice(all.byteOffset, all.byteOffset + all.length) as ArrayBuffer
  }
  const u32 = (n: number) => Buffer.from([n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255])
  assert.equal(readFrame(frame(1, u32(2), Buffer.from("abc"))).preview!.image.type, "image/png")
  assert.equal(readFrame(frame(1, u32(1), Buffer.from("abc"))).preview!.image.size, 3)
  const meta = Buffer.from('{"node_id":"5","prompt_id":"p","image_type":"image/jpeg"}')
  const rich = readFrame(frame(4, u32(meta.length), meta, Buffer.from("jpeg"))).preview!
  assert.deepEqual([rich.node, rich.prompt, rich.image.size], ["5", "p", 4])
  assert.deepEqual(readFrame(frame(3, u32(1), Buffer.from("7compiling"))).text, ["7", "compiling"])
  assert.deepEqual(readFrame(frame(4, u32(1000), Buffer.from("x"))), {})
  assert.deepEqual(readFrame(frame(9, u32(0))), {})
  assert.deepEqual(readFrame(new ArrayBuffer(3)), {})
})

test("refusals in words, at node and input", () => {
  const faults = promptFaults({
    error: {
      type: "prompt_outputs_failed_validation",
      message: "Prompt outputs failed validation",
      details: "",
    },
    node_errors: {
      3: {
        class_type: "KSampler",
        errors: [
          {
            type: "value_smaller_than_min",
            message: "Value 0 smaller than min of 1",
            details: "steps",
            extra_info: { input_name: "steps" },
          },
          {
            type: "value_not_in_list",
            message: "Value not in list",
            details: "scheduler: 'zzz' not in ['a', 'b']",
            extra_info: { input_name: "scheduler" },
          },
          {
            type: "required_input_missing",
            message: "Required input is missing",
            details: "model",
            extra_info: { input_name: "model" },
          },
        ],
      },
    },
  })
  assert.deepEqual(
    faults.map((f) => [f.node, f.input]),
    [
      ["3", "steps"],
      ["3", "scheduler"],
      ["3", "model"],
    ],
  )
  assert.equal(faults[0].text, "“steps”: Value 0 smaller than min of 1.")
  assert.equal(faults[1].text, "“scheduler” cannot be 'zzz' here. Choose one of the list.")
  assert.equal(faults[2].text, "“model” needs a link.")
  const missing = promptFaults({
    error: {
      type: "missing_node_type",
      message: "Cannot execute because node Xyz does not exist.",
      details: "Node ID '#7'",
    },
    node_errors: {},
  })
  assert.equal(missing[0].node, "7")
  assert.match(
    promptFaults({ error: { type: "prompt_no_outputs", message: "Prompt has no outputs" } })[0]
      .text,
    /Save Image/,
  )
  assert.deepEqual(nodeFaults(undefined), [])
})

test("nodes that the server lacks are named; of a group node it is said what is missing", () => {
  assert.equal(unknownNodes(["Abc"]), "This server does not have the node “Abc”.")
  assert.equal(unknownNodes(["Abc", "De"]), "This server does not have the nodes “Abc”, “De”.")
  const lacks = "is a group node, of which the file does not say what it is made of."
  assert.equal(unknownNodes(["workflow>My group"]), `“My group” ${lacks}`)
  assert.equal(
    unknownNodes(["workflow/a/b", "Abc"]),
    `This server does not have the node “Abc”. “a/b” ${lacks}`,
  )
})

test("search: names before descriptions, every word counts, links narrow it", () => {
  assert.equal(find(specs, "ksampler")[0].name, "KSampler")
  assert.equal(find(specs, "load image")[0].name, "LoadImage")
  assert.deepEqual(find(specs, "zzzz"), [])
  assert.equal(score(specs.get("KSampler")!, "ksampler zzzz"), 0)
  assert.ok(find(specs, "", { type: "LATENT", from: "output" }).some((s) => s.name === "VAEDecode"))
  assert.ok(
    !find(specs, "", { type: "LATENT", from: "output" }).some((s) => s.name === "SaveImage"),
  )
  assert.ok(
    find(specs, "", { type: "VAE", from: "input" }).every((s) =>
      s.outputs.some((o) => o.type === "VAE"),
    ),
  )
  find(specs, "( [ \\ *") // is no pattern
  // What usually stands at such an end comes first.
  const first = (type: string, from: "output" | "input", of?: string) =>
    find(specs, "", { type, from, of })[0].name
  assert.equal(first("LATENT", "output", "KSampler"), "VAEDecode")
  assert.equal(first("LATENT", "output", "EmptyLatentImage"), "KSampler")
  assert.equal(first("LATENT", "input", "KSampler"), "EmptyLatentImage")
  assert.equal(first("CLIP", "output"), "CLIPTextEncode")
  assert.equal(first("IMAGE", "output", "VAEDecode"), "SaveImage")
  assert.equal(first("CONDITIONING", "input"), "CLIPTextEncode")
  const latents = find(specs, "", { type: "LATENT", from: "output" })
  const kept = latents.slice(2).map((s) => s.inputs.filter((i) => !i.widget)[0]?.type === "LATENT")
  assert.equal(
    kept.lastIndexOf(true),
    kept.filter(Boolean).length - 1,
    "those about latents follow",
  )
  const named = (name: string, title: string) =>
    [name, { ...specs.get("ConditioningCombine")!, name, title }] as const
  const masks = new Map([
    named("SetLatentNoiseMask", "Set Latent Noise Mask"),
    named("ConditioningSetMask", "Conditioning (Set Mask)"),
  ])
  assert.equal(find(masks, "set  Mask")[0].name, "ConditioningSetMask")
})

test("layout puts every node right of those that feed it, without overlap", () => {
  const nodes = [
    { id: 1, width: 100, height: 80, from: [] },
    { id: 2, width: 120, height: 60, from: [1] },
    { id: 3, width: 90, height: 60, from: [1] },
    { id: 4, width: 100, height: 200, from: [2, 3, 6] },
    { id: 5, width: 100, height: 50, from: [4, 1] },
    { id: 6, width: 70, height: 40, from: [] },
  ]
  const wide = { width: 1360, height: 740, least: 0.35 }
  const places = layout(nodes, wide)
  for (const node of nodes)
    for (const from of node.from)
      assert.ok(
        places.get(from)![0] + nodes.find((n) => n.id === from)!.width < places.get(node.id)![0],
      )
  for (const a of nodes)
    for (const b of nodes) {
      if (a === b) continue
      const [p, q] = [places.get(a.id)!, places.get(b.id)!]
      const apart =
        p[0] + a.width <= q[0] ||
        q[0] + b.width <= p[0] ||
        p[1] + a.height <= q[1] ||
        q[1] + b.height <= p[1]
      assert.ok(apart, `${a.id} and ${b.id}`)
    }
  assert.equal(places.get(6)![0], places.get(2)![0]) // right before what needs it
  assert.equal(
    layout(
      [
        { id: 1, width: 1, height: 1, from: [2] },
        { id: 2, width: 1, height: 1, from: [1] },
      ],
      wide,
    ).size,
    2,
  )
})

test("a row that could not be read is folded, to as few columns as can be", () => {
  const chain = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      id: i,
      width: 280,
      height: 180,
      from: i ? [i - 1] : [],
    }))
  const columns = (count: number, width: number, height: number, least: number) =>
    new Set([...layout(chain(count), { width, height, least }).values()].map(([x]) => x)).size
  assert.equal(columns(6, 1360, 740, 0.35), 6)
  assert.equal(columns(6, 680, 940, 0.68), 2)
  assert.equal(columns(4, 990, 680, 0.68), 4)
  assert.ok(columns(40, 1360, 740, 0.35) <= 10)
  assert.equal(layout([], { width: 100, height: 100, least: 1 }).size, 0)
})

test("undo and redo", () => {
  const undo = new Undo()
  assert.ok(undo.note("a") && undo.note("bb"))
  undo.amend("b")
  assert.ok(!undo.note("b") && undo.note("c"))
  assert.equal(undo.undo(), "b")
  assert.equal(undo.undo(), "a")
  assert.equal(undo.undo(), null)
  assert.equal(undo.redo(), "b")
  assert.ok(undo.note("d"))
  assert.equal(undo.redo(), null)
  assert.equal(undo.undo(), "b")
  for (let i = 0; i < 500; i++) undo.note(String(i))
  let steps = 0
  while (undo.undo() !== null) steps++
  assert.equal(steps, 99)
})

// WCAG 2.1: the contrast of two colours.
function luminance(colour: string): number {
  const [r, g, b] = [1, 3, 5]
    .map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}
const over = (top: number[], alpha: number, ground: string) =>
  "#" +
  top
    .map((v, i) => v * alpha + parseInt(ground.slice(1 + 2 * i, 3 + 2 * i), 16) * (1 - alpha))
    .map((v) => Math.round(v).toString(16).padStart(2, "0"))
    .join("")

test("texts can be read on every ground, light and dark", () => {
  const css = readFileSync(`${process.env.GRAFT_SOURCE_DIR}/host/editor/src/app.css`, "utf8")
  for (const name of ["dark", "light"]) {
    const block = css.split(`:root[data-theme="${name}"]`)[1].split("}")[0]
    const colour = (key: string): string => {
      const found = new RegExp(`--${key}: (#\\w+|rgb[^;]+);`).exec(block)![1]
      return found.length === 4 ? "#" + [...found.slice(1)].map((c) => c + c).join("") : found
    }
    const grounds = ["canvas", "panel", "raised", "hover"].map(colour)
    const [r, g, b, alpha] = colour("accent-soft").match(/\d+/g)!.map(Number)
    grounds.push(over([r, g, b], alpha / 100, colour("panel")))
    for (const key of ["text", "soft", "muted", "accent", "danger"])
      for (const ground of grounds) {
        const ratio = contrast(colour(key), ground)
        assert.ok(ratio >= 4.5, `${name}: ${key} on ${ground} has ${ratio.toFixed(2)}`)
      }
    for (const key of ["conv", "linear", "attention"])
      // points of the plot
      assert.ok(contrast(colour(key), colour("panel")) >= 3, `${name}: ${key}`)
    assert.ok(contrast(colour("accent-ink"), colour("accent")) >= 4.5)
  }
})

test("without a query the nodes that people look for first are first", () => {
  const found = find(specs, "")
  assert.equal(found[0].category, "loaders")
  const place = (name: string) => found.findIndex((spec) => spec.name === name)
  assert.ok(place("KSampler") < place("DualCLIPLoader"), "advanced nodes come later")
  // What is deprecated is found, after everything else that has the word.
  const old = parseObjectInfo({
    ModelSpeedup: { ...info.KSampler, display_name: "Model Speedup", deprecated: true },
    CompileModel: { ...info.KSampler, display_name: "Compile Model" },
  })
  for (const query of ["model", ""])
    assert.deepEqual(
      find(old, query).map((spec) => spec.deprecated),
      [false, true],
    )
})

test("rates and remaining times in few characters", () => {
  assert.deepEqual([0, 8050.4, 11.52, 0.5].map(showRate), [
    "",
    "8050 it/s",
    "11.5 it/s",
    "2.00 s/it",
  ])
  assert.deepEqual(
    [showLeft(10, 10), showLeft(100, 10), showLeft(1200, 2), showLeft(5, 0)],
    ["", "10 s left", "10 min left", ""],
  )
})

test("what a picture is held against: the same subject, not quantized, if there is one", () => {
  const picture = (label: string, quantized: boolean, subject: string) => ({
    label,
    url: label,
    quantized,
    subject,
  })
  const after = picture("after", true, "apple")
  const other = picture("other", false, "whale")
  const alike = picture("alike", true, "apple")
  const plain = picture("plain", false, "apple")
  const pair = (...pictures: ReturnType<typeof picture>[]) => {
    const both = comparedOf(pictures)
    return both && [both.before.label, both.after.label]
  }
  assert.deepEqual(pair(after, other, alike, plain), ["plain", "after"])
  assert.deepEqual(pair(after, other, alike), ["alike", "after"])
  assert.deepEqual([pair(), pair(after)], [undefined, undefined])
  assert.deepEqual(pair(after, picture("q", true, "x"), other), ["other", "after"])
  // A plain run that comes after a quantized one is not what became of it.
  assert.deepEqual(pair(plain, after), ["plain", "after"])
  assert.deepEqual(pair(plain, other, alike, after), ["plain", "alike"])
  assert.deepEqual(pair(plain, picture("older", false, "apple")), ["older", "plain"])
  assert.deepEqual(pair(other, after), ["other", "after"])
  const prompt = (seed: number, more = {}) => ({
    "1": { class_type: "KSampler", inputs: { seed, steps: 20, model: ["2", 0] } },
    ...more,
  })
  const quantize = { "9": { class_type: "QuantizeModel", inputs: { seed: 5 } } }
  assert.equal(subjectOf(prompt(1)), subjectOf(prompt(1, quantize)))
  assert.notEqual(subjectOf(prompt(1)), subjectOf(prompt(2)))
})

test("how a prompt quantizes, in a word", () => {
  const prompt = (...all: object[]) =>
    Object.fromEntries(all.map((inputs, i) => [i, { class_type: "QuantizeModel", inputs }]))
  assert.equal(quantizationOf({ "1": { class_type: "KSampler", inputs: { bits: 3 } } }), "")
  assert.equal(quantizationOf(prompt({ bits: 8, format: "int" })), "8-bit")
  assert.equal(quantizationOf(prompt({ bits: 4 }, { bits: 4 })), "4-bit")
  assert.equal(quantizationOf(prompt({ bits: 8, format: "fp8_e4m3fn" })), "fp8_e4m3fn")
  assert.equal(quantizationOf(prompt({ bits: ["7", 0] }, {})), "quantized, 8-bit")
})

test("what is asked for too often is done at once and once more", async () => {
  let times = 0
  const paced = new Paced(() => times++, 400) // longer than a busy machine pauses
  for (let i = 0; i < 10; i++) paced.ask()
  assert.equal(times, 1)
  await new Promise((done) => setTimeout(done, 1000))
  assert.equal(times, 2)
  paced.ask()
  assert.equal(times, 3)
  paced.ask()
  paced.now() // also for what waits
  await new Promise((done) => setTimeout(done, 1000))
  assert.equal(times, 4)
})

test("texts on coloured nodes are pale on what is dark and dark on what is bright", () => {
  assert.equal(inkOn("#432", "x"), inkOn("#000000", "x"))
  assert.equal(inkOn("#eda", "x"), inkOn("#ffffff", "x"))
  assert.notEqual(inkOn("#432", "x"), inkOn("#eda", "x"))
  assert.equal(inkOn(undefined, "x"), "x")
  assert.equal(inkOn("brown", "x"), "x")
})

test("number fields take sums, and say what they do not take", () => {
  for (const [text, value] of [
    ["32*4", 128],
    ["1024/2", 512],
    ["2 + 3*4 - (1 - .5)", 13.5],
    ["-(2)*-3", 6],
    ["1e2+1", 101],
    ["1/0", null],
    ["2+", null],
    ["(1", null],
    ["1 2", null],
    ["alert(1)", null],
    ["", null],
  ] as const)
    assert.equal(calculate(text), value, text)
  const options = { min: 1, max: 100 }
  const input: any = { name: "steps", type: "INT", optional: false, widget: true, options }
  assert.equal(clampNumber("5*4", input), 20)
  assert.equal(notTaken("5*4", input), "")
  assert.match(notTaken("abc", input), /^“abc” is not a number/)
  assert.equal(notTaken("-7", input), "“steps” takes no less than 1: -7 became 1.")
  assert.equal(notTaken("50*4", input), "“steps” takes no more than 100: 50*4 became 100.")
  assert.equal(notTaken("2.6", input), "“steps” takes whole numbers: 2.6 became 3.")
})
