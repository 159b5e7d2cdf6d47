// What the Quantize panel makes of plans.
import assert from "node:assert/strict"
import { test } from "node:test"
import {
  advice,
  assumption,
  fate,
  hasAttention,
  lowerDensity,
  parsePlan,
  predict,
  seesAttention,
  speed,
  unmeasured,
} from "../../../host/editor/src/workflow/plan"

const layer = (
  name: string,
  kind: string,
  density: number,
  mse: number,
  flops: number,
  more = {},
) => ({ name, kind, density, mse, flops, weight_bytes: 100, chosen: true, reason: "", ...more })
const all = { conv: 0.1, linear: 0.1, density: 300, useConv: true, useLinear: true }

test("plans: what thresholds choose and what that brings", () => {
  const plan = parsePlan(
    JSON.stringify({
      version: 1,
      bits: 8,
      gain: { conv: 2, linear: 2 },
      layers: [
        layer("a", "conv", 1000, 0.01, 100),
        layer("b", "linear", 500, 0.2, 50),
        layer("c", "linear", 100, 0.01, 50),
        layer("in", "conv", 1000, 0, 0, { chosen: false, reason: "first layer is kept" }),
      ],
    }),
  )!
  assert.deepEqual(
    plan.layers.map((l) => fate(l, all)),
    ["chosen", "error", "density", "kept"],
  )
  const p = predict(plan, all)
  assert.equal(p.count, 1)
  assert.equal(p.share, 0.5)
  assert.equal(p.speedup, 200 / 150)
  assert.equal(p.size, 350 / 400)
  assert.match(advice(p), /25 %/)
  const more = predict(plan, { ...all, linear: 0.5, density: 0 })
  assert.equal(more.count, 3)
  assert.equal(more.speedup, 2)
  assert.equal(more.error, 0.2)
  assert.equal(predict(plan, { ...all, useConv: false, useLinear: false }).speedup, 1)
  assert.match(advice(predict(plan, { ...all, useConv: false })), /switched off/)
  assert.deepEqual(plan.assumed, ["attention"])
  assert.equal(assumption(plan, all), "") // there is no attention in it
})

// A layer as the engine writes it: half of the work of the plans below.
const attention = (mse: number | null, more = {}) => ({
  name: "input_blocks.1.1.transformer_blocks.0.attn1",
  kind: "attention",
  shape: [8, 40, 4096, 77],
  density: 400,
  mse,
  flops: 100,
  weights: 0,
  chosen: mse !== null,
  reason: "",
  ...more,
})
const three = { ...all, attention: 0.1, useAttention: true }

test("where the density leaves nearly all as it is, one that takes in most of the work is offered", () => {
  const plan = parsePlan({
    layers: [
      layer("first", "conv", 27, NaN, 5, { reason: "kept", chosen: false, mse: null }),
      layer("a", "conv", 105, 0.01, 40),
      layer("b", "conv", 89, 0.01, 100),
      layer("c", "linear", 45, 0.01, 200),
      layer("d", "linear", 26.7, 0.01, 120),
      layer("e", "linear", 7, 0.01, 60),
      layer("f", "linear", 600, 0.9, 30), // its error keeps it out at any density
    ],
  })!
  const at = (density: number, more = {}) => lowerDensity(plan, { ...all, density, ...more })
  assert.equal(at(100)!.density, 26)
  assert.equal(Math.round(100 * at(100)!.share), 7)
  assert.equal(at(500)!.share, 0)
  assert.equal(at(26), null)
  assert.equal(at(100, { conv: 0, linear: 0 }), null) // not the density's doing
  assert.equal(at(100, { useLinear: false })!.density, 89)
  assert.equal(lowerDensity(parsePlan({ layers: [] })!, all), null)
})

test("of two numbers that do not agree the one to trust leads", () => {
  const made = (sampled: number, slow: number, more = {}) =>
    parsePlan({
      layers: [
        layer("a", "conv", 500, 0.01, 100, { seconds: 4, seconds_quantized: slow }),
        layer("b", "linear", 500, 0.2, 100, { chosen: false, seconds: 2, seconds_quantized: 1 }),
      ],
      time: { step: 8, sampled, sampled_quantized: 1 },
      ...more,
    })!
  const other = { ...all, linear: 0.5 }
  // Never timed as a whole.
  const alone = parsePlan({ layers: [layer("a", "conv", 500, 0.01, 100)] })!
  assert.deepEqual(speed(alone, all), { value: "1.60×", label: "predicted speed", note: "" })
  // They agree: what was measured leads where it was measured.
  const quiet = made(1.65, 1)
  assert.ok(!quiet.disturbed)
  assert.deepEqual(speed(quiet, all), {
    value: "1.65×",
    label: "measured speed",
    note: "The times of single layers predict 1.60×.",
  })
  assert.deepEqual(speed(quiet, other), {
    value: "2.00×",
    label: "predicted speed",
    note: "Measured with the plan as it was made, with other thresholds: 1.65×.",
  })
  // They do not.
  const busy = made(1.65, 10.5)
  assert.ok(busy.disturbed)
  assert.deepEqual([speed(busy, all).value, speed(busy, all).label], ["1.65×", "measured speed"])
  assert.match(speed(busy, all).note, /^Trust what was measured: .* predict 0\.55×, were disturbed/)
  const moved = speed(busy, other)
  assert.deepEqual([moved.value, moved.label], ["1.65×", "measured, as the plan was made"])
  assert.match(moved.note, /predict 0\.59×\. Do not trust that/)
  // Slower than without, which the layers do not say: nobody knows.
  const slow = made(0.48, 4)
  assert.ok(slow.disturbed)
  assert.equal(speed(slow, all).value, "unclear")
  assert.match(speed(slow, all).note, /^Measured were 0\.48×, the times .* predict 1\.00×: .*; “recalibrate”/)
  assert.deepEqual([speed(slow, other).value, speed(slow, other).label], ["1.14×", "predicted, uncertain"])
  // Neither can be.
  assert.deepEqual(speed(made(20, 1), all).label, "predicted, uncertain")
  assert.match(speed(made(20, 1), all).note, /recalibrate/)
  // Hardly anything is quantized, or the little that was measured is not what the layers predict.
  const other_flops = 10_000
  const little = made(0.76, 1, { other_flops })
  assert.deepEqual([little.noise, speed(little, all).value], ["little", "≈ 1×"])
  assert.equal(speed(little, all).label, "within the noise of measuring")
  assert.match(speed(little, all).note, /measured 0\.76× is within the noise of measuring/)
  assert.deepEqual(speed(little, other), {
    value: "2.00×",
    label: "predicted speed",
    note: "With the thresholds of the run the difference was within the noise of measuring.",
  })
  const unclear = made(0.95, 3.2)
  assert.deepEqual([unclear.noise, speed(unclear, all).value], ["unclear", "unclear"])
  assert.match(speed(unclear, all).note, /0\.95×, .* predict 1\.11×/)
  // Whose thresholds they are is what the plan says, not what they would choose.
  const limits = { conv: true, linear: false, conv_mse: 0.1, linear_mse: 0.7, density: 300 }
  const own = made(1.65, 1, { limits })
  const label = (t: typeof all) => speed(own, t).label
  assert.equal(label({ ...all, useLinear: false }), "measured speed")
  assert.equal(label({ ...all, useLinear: false, conv: 0.11 }), "predicted speed")
  assert.equal(label({ ...all, useLinear: false, density: 301 }), "predicted speed")
  assert.equal(label(all), "predicted speed")
})

test("attention is a kind of its own: limit, switch and gain, and no weights", () => {
  const plan = parsePlan({ layers: [layer("a", "conv", 500, 0.01, 100), attention(0.05)] })!
  assert.deepEqual(
    [plan.layers[1].kind, plan.layers[1].bytes, plan.layers[1].shape],
    ["attention", 0, [8, 40, 4096, 77]],
  )
  assert.ok(hasAttention(plan, three))
  const fates = (t: typeof three) => plan.layers.map((l) => fate(l, t))
  assert.deepEqual(fates(three), ["chosen", "chosen"])
  assert.deepEqual(fates({ ...three, attention: 0.04 }), ["chosen", "error"])
  assert.deepEqual(fates({ ...three, conv: 0, linear: 0 }), ["error", "chosen"])
  assert.deepEqual(fates({ ...three, useAttention: false }), ["chosen", "off"])
  assert.deepEqual(fates({ ...three, density: 450 }), ["chosen", "density"])
  const [both, one] = [predict(plan, three), predict(plan, { ...three, useAttention: false })]
  assert.deepEqual([both.count, both.share, both.error], [2, 1, 0.05])
  assert.deepEqual([one.count, one.share, one.lost.off], [1, 0.5, 0.5])
  assert.equal(both.speedup, 200 / (100 / 1.6 + 100 / 1.7))
  assert.deepEqual([both.size, one.size], [0.5, 0.5]) // only the convolution has weights
  assert.match(advice(one), /50 % of the work is in layers whose kind is switched off/)
  assert.match(
    assumption(plan, three),
    /1\.6× \(convolution\), 1\.7× \(linear\) or 1\.7× \(attention\)/,
  )
})

test("attention alone: its size is known, and an assumed gain is said", () => {
  const plan = parsePlan({ gain: { conv: 2, linear: 3 }, layers: [attention(0.05)] })!
  assert.equal(predict(plan, three).size, 1)
  assert.equal(assumption(plan, three), "The speed assumes that 8-bit attention is 1.7× as fast.")
  const known = parsePlan({ gain: { conv: 2, linear: 3, attention: 4 }, layers: [attention(0)] })!
  assert.deepEqual([predict(known, three).speedup, assumption(known, three)], [4, ""])
  const times = { seconds: 3, seconds_quantized: 1 }
  const timed = parsePlan({ layers: [attention(0, times)], gain: { conv: 2 }, time: { step: 5 } })!
  assert.deepEqual([predict(timed, three).speedup, assumption(timed, three)], [5 / 3, ""])
})

test("attention that was not measured, and that no limit can choose", () => {
  const before = [layer("a", "conv", 500, 0.01, 100), layer("b", "linear", 100, 0.01, 50)]
  // A plan of before as a server shows it that knows of attention, or one of a device without it.
  const old = parsePlan({ layers: [...before, attention(null, { reason: "unknown" })] })!
  assert.equal(fate(old.layers[2], three), "unmeasured")
  assert.ok(hasAttention(old, three) && !seesAttention(old, three))
  assert.deepEqual([predict(old, three).count, predict(old, three).lost.unmeasured], [1, 0])
  assert.ok(!/attention/.test(assumption(old, three)))
  const said = (t: typeof three) => advice(predict(old, t))
  assert.match(
    said(three),
    /^20 % .* density threshold: .*\. Attention was not measured: try “recal/,
  )
  assert.match(said({ ...three, density: 0 }), /^Attention was not measured/)
  for (const more of [{ density: 450 }, { useAttention: false }])
    assert.ok(!/measured/.test(said({ ...three, ...more })), said({ ...three, ...more }))
  for (const one of old.layers) one.mse = NaN
  assert.match(unmeasured(old, { ...three, density: 501 }), /the densest has 500\./)
  old.layers[2].mse = 0.01
  assert.equal(unmeasured(old, three), "")
  // Other bits leave it as it is, whatever its switch says; a density that it has leads nowhere.
  for (const more of [{ bits: 4 }, { bits: 8, values: "fp8_e4m3fn" }]) {
    const layers = [...before, attention(null, { density: 2000, reason: "kind off" })]
    const plan = parsePlan({ ...more, layers })!
    assert.ok(!hasAttention(plan, three))
    assert.equal(fate(plan.layers[2], { ...three, useAttention: false }), "kept")
    assert.deepEqual(predict(plan, three).lost.off, 0)
    for (const one of plan.layers) one.mse = NaN
    assert.match(unmeasured(plan, { ...three, density: 1000 }), /the densest has 500\./)
  }
  assert.ok(hasAttention(parsePlan({ bits: 8, values: "int", layers: [attention(0)] })!, three))
})

test("plans and nodes of before know of no attention", () => {
  const layers = [layer("a", "conv", 500, 0.01, 100), layer("b", "linear", 400, 0.2, 100)]
  const plan = parsePlan({ layers })!
  assert.ok(!hasAttention(plan, three))
  assert.deepEqual(predict(plan, three), predict(plan, all))
  assert.match(assumption(plan, three), /is 1\.6× \(convolution\) or 1\.7× \(linear\) as fast\.$/)
  const more = parsePlan({ layers: [...layers, attention(0)] })!
  assert.equal(fate(more.layers[2], all), "kept")
  assert.ok(!hasAttention(more, all))
  assert.equal(assumption(more, all), assumption(plan, all))
})

test("layers that were not measured are neither chosen nor without error", () => {
  const plan = parsePlan({
    layers: [
      layer("a", "conv", 105.4, null as any, 100, { chosen: false, reason: "density" }),
      layer("b", "linear", 50, null as any, 100, { chosen: false, reason: "density" }),
    ],
  })!
  assert.match(unmeasured(plan, all), /no layer has a density of 300.* densest has 105\./)
  const low = { ...all, density: 0 }
  assert.match(unmeasured(plan, low), /Run again/)
  assert.deepEqual(
    plan.layers.map((l) => fate(l, low)),
    ["unmeasured", "unmeasured"],
  )
  const p = predict(plan, low)
  assert.deepEqual([p.count, p.speedup, p.error], [0, 1, 0])
  assert.match(advice(p), /100 % of the work is in layers that were not measured/)
  plan.layers[0].mse = 0.01
  assert.equal(unmeasured(plan, low), "")
})

test("plans that are none", () => {
  for (const bad of [undefined, null, "", "{", "[]", {}, { layers: 3 }, 7])
    assert.equal(parsePlan(bad), null)
  // Times that were measured count more than work.
  const timed = parsePlan({
    layers: [
      { name: "a", kind: "conv", density: 500, mse: 0, flops: 1, seconds: 4, seconds_quantized: 1 },
      { name: "b", kind: "linear", density: 9, mse: 0, flops: 9, seconds: 2, seconds_quantized: 9 },
    ],
    time: { step: 8 },
  })!
  assert.equal(predict(timed, all).speedup, 8 / 5)
  assert.equal(predict(timed, { ...all, density: 0 }).speedup, 8 / 12)
  const odd = parsePlan({ layers: [null, { name: "x", density: "NaN", mse: -1, flops: null }] })!
  assert.deepEqual([odd.layers.length, odd.layers[0].density, odd.layers[0].mse], [1, 0, 0])
  const empty = parsePlan({ layers: [] })!
  assert.deepEqual(
    [predict(empty, all).speedup, predict(empty, all).size, advice(predict(empty, all))],
    [1, null, ""],
  )
})
