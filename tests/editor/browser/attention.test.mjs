// Attention in the Quantize panel: a third kind of layer, where the node and its plan have it.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, beforeEach, test } from "node:test"
import { createMock, planOf } from "../mock/server.mjs"
import { openBrowser, runOnce } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
const LATER = ["quantize_attention", "attention_mse_threshold"]
const earlier = structuredClone(objectInfo) // of a server that cannot quantize attention
for (const fields of [earlier.QuantizeModel.input, earlier.QuantizeModel.input_order])
  fields.optional = Array.isArray(fields.optional)
    ? fields.optional.filter((name) => !LATER.includes(name))
    : Object.fromEntries(Object.entries(fields.optional).filter(([name]) => !LATER.includes(name)))
let mock, old, url, oldUrl, browser, page

before(async () => {
  const root = process.env.GRAFT_EDITOR_DIR
  mock = createMock({ root, objectInfo, stepMs: 5 })
  old = createMock({ root, objectInfo: earlier, stepMs: 5 })
  url = `http://127.0.0.1:${await mock.listen()}/`
  oldUrl = `http://127.0.0.1:${await old.listen()}/`
  browser = await openBrowser({ width: 1280, height: 1000 })
  page = browser.page
})
after(async () => {
  await browser?.close()
  await mock?.close()
  await old?.close()
})
beforeEach(() => {
  mock.state.history = {}
  old.state.history = {}
})

// A page on which QuantizeModel ran once and gave this plan.
async function calibrated(server, at, plan) {
  server.state.plan = plan
  await page.goto(`${at}app.css`)
  await page.evaluate(() => localStorage.clear())
  await browser.open(at)
  await page.locator("#tab-quantize").click()
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  await runOnce(page)
  await page.locator(".plot").waitFor()
  await page.waitForTimeout(300)
}
const values = () =>
  page.evaluate(() => {
    const { widgets } = graft.editor.nodes.find((n) => n.type === "QuantizeModel")
    const value = (name) => widgets.find((w) => w.name === name)?.value
    return {
      conv: value("conv_mse_threshold"),
      linear: value("linear_mse_threshold"),
      attention: value("attention_mse_threshold"),
      use: value("quantize_attention"),
    }
  })
const shown = () =>
  page.evaluate(() => {
    const text = (id) => document.querySelector(`[data-card=${id}]`).textContent
    return {
      speed: parseFloat(text("speedup")),
      count: parseInt(text("count")),
      size: text("size"),
      line: Number(document.querySelector("[data-line=attention]").getAttribute("aria-valuenow")),
      chosen: document.querySelectorAll(".point.attention:not(.off)").length,
    }
  })
// In one move, which is one step of undo.
async function dragLine(key, down) {
  const knob = await page.locator(`[data-line=${key}] .knob`).boundingBox()
  const [x, y] = [knob.x + knob.width / 2, knob.y + knob.height / 2]
  await page.mouse.move(x, y)
  await page.mouse.down()
  await page.mouse.move(x, y + down)
  await page.mouse.up()
  await page.waitForTimeout(300)
}
async function undo() {
  await page.locator("#undo").click()
  await page.waitForTimeout(300)
}
const defaults = { conv: 0.1, linear: 0.1, attention: 0.1, use: "enable" }

test("attention's line is dragged: node and prediction follow, and undo takes it back", async () => {
  await calibrated(mock, url, planOf())
  const first = await shown()
  assert.deepEqual(await values(), defaults)
  assert.ok(first.chosen > 0 && first.size.endsWith(" %"), JSON.stringify(first))
  // All three lines lie on each other: each is taken by its own knob.
  await dragLine("attention", 110)
  const { attention, ...others } = await values()
  assert.deepEqual(others, { conv: 0.1, linear: 0.1, use: "enable" })
  assert.ok(attention > 0 && attention < 0.01, String(attention))
  const second = await shown()
  assert.equal(second.line, attention)
  assert.ok(second.chosen < first.chosen, JSON.stringify([first, second]))
  assert.equal(first.count - second.count, first.chosen - second.chosen)
  assert.ok(second.speed < first.speed, JSON.stringify([first, second]))
  assert.equal(second.size, first.size) // it has no weights
  await undo()
  assert.deepEqual(await values(), defaults)
  assert.deepEqual(await shown(), first)
  for (const key of ["conv", "linear"]) {
    await dragLine(key, 60)
    const { [key]: moved, ...rest } = await values()
    assert.ok(moved < 0.1, `${key} ${moved}`)
    const { [key]: _, ...stayed } = defaults
    assert.deepEqual(rest, stayed)
    await undo()
  }
})

test("attention by the keys, by its field, and what is sent", async () => {
  const line = page.locator("[data-line=attention]")
  await line.focus()
  for (let i = 0; i < 4; i++) await page.keyboard.press("Shift+ArrowDown")
  const { attention, conv, linear } = await values()
  assert.ok(Math.abs(attention - 0.02) < 0.001 && conv === 0.1 && linear === 0.1, `${attention}`)
  assert.equal(Number(await line.getAttribute("aria-valuenow")), attention)
  const number = page.locator("input[type=number][data-control=attention]")
  assert.equal(Number(await number.inputValue()), attention)
  await number.fill("0.0125")
  await runOnce(page)
  const { prompt } = mock.state.prompts.at(-1)
  const { inputs } = Object.values(prompt).find((node) => node.class_type === "QuantizeModel")
  assert.deepEqual(
    LATER.map((name) => inputs[name]),
    ["enable", 0.0125],
  )
})

test("attention is switched off and on again", async () => {
  await calibrated(mock, url, planOf())
  const first = await shown()
  const box = page.getByRole("switch", { name: "Quantize attention" })
  assert.ok(await box.isChecked())
  await box.click()
  await page.waitForTimeout(300)
  assert.deepEqual(await values(), { ...defaults, use: "disable" })
  const second = await shown()
  assert.equal(second.chosen, 0)
  assert.ok(second.speed < first.speed)
  assert.match(await page.locator("[data-line=attention]").getAttribute("class"), /idle/)
  await undo()
  assert.deepEqual(await values(), defaults)
  assert.ok(await box.isChecked())
  assert.deepEqual(await shown(), first)
  await page.getByRole("switch", { name: "Quantize convolutions" }).click()
  assert.equal(await page.locator(".point.conv:not(.off)").count(), 0)
  assert.equal((await shown()).chosen, first.chosen)
})

test("attention has a shape of its own, and says what it is", async () => {
  const own = page.locator(".point.attention")
  assert.equal(await own.count(), 12)
  assert.equal(await page.locator("path.point").count(), 12)
  assert.match(
    await own.first().locator("title").textContent(),
    /^input_blocks\.0\S*attn1\nattention, 8 heads of 40, 4096 queries by 4096 keys, density /,
  )
  assert.ok(await page.locator(".legend .attention").isVisible())
})

test("without attention in node or plan there are two kinds", async () => {
  const four = planOf()
  four.bits = 4
  const cases = [
    [old, oldUrl, planOf(120, 0)],
    [old, oldUrl, planOf()],
    [mock, url, planOf(120, 0)],
    [mock, url, four],
  ]
  for (const [server, at, plan] of cases) {
    await calibrated(server, at, plan)
    const lines = await page.evaluate(() =>
      [...document.querySelectorAll("[data-line]")].map((line) => line.dataset.line),
    )
    assert.deepEqual(lines, ["conv", "linear", "density"])
    const more = ".switch, [data-control=attention], .legend .attention, .point.attention:not(.off)"
    assert.equal(await page.locator(more).count(), 0)
    assert.match(await page.locator("[data-card=advice]").textContent(), /\(convolution\) or 1.7×/)
  }
})

test("attention that was not measured has a switch, but no line, and it is said", async () => {
  const plan = planOf()
  for (const layer of plan.layers)
    if (layer.kind === "attention") Object.assign(layer, { mse: null, reason: "unknown" })
  await calibrated(mock, url, plan)
  assert.equal(await page.locator(".point.attention, [data-line=attention]").count(), 0)
  assert.ok(!(await page.locator(".legend .attention").count()))
  const advice = page.locator("[data-card=advice]")
  assert.match(await advice.textContent(), /Attention was not measured: try “recalibrate”/)
  await page.getByRole("switch", { name: "Quantize attention" }).click()
  assert.ok(!/not measured/.test(await advice.textContent()))
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
