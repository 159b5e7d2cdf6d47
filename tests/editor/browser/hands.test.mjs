// What hands do on the canvas and on the keys, and that nothing of it is lost.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, beforeEach, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { drag, openBrowser, pointOf } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
let mock, url, browser, page

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo, stepMs: 10 })
  url = `http://127.0.0.1:${await mock.listen()}/`
  browser = await openBrowser()
  page = browser.page
})
after(async () => {
  await browser?.close()
  await mock?.close()
})
beforeEach(async () => {
  await page.goto(`${url}app.css`)
  await page.evaluate(() => localStorage.clear())
  await browser.open(url)
})

const [LOADER, POSITIVE, NEGATIVE, SAMPLER, DECODE] = [1, 2, 3, 5, 6] // of the first workflow
const press = async (keys) => {
  await page.keyboard.press(keys)
  await page.waitForTimeout(60)
}
const settled = () => page.waitForTimeout(250)
const canUndo = async () => !(await page.locator("#undo").isDisabled())
// What the browser would bring back if the page died now.
const kept = (read) =>
  page.evaluate(`((w) => ${read})(JSON.parse(localStorage["graft.workflow"]).workflow)`)

test("each move of a node by the mouse is a step, and kept at once", async () => {
  const at = () =>
    page.evaluate(
      (ids) => ids.map((id) => [...graft.editor.node(id).pos].map(Math.round)),
      [SAMPLER, DECODE],
    )
  const states = [await at()]
  for (const id of [SAMPLER, DECODE]) {
    const from = await pointOf(page, id, "title")
    await drag(page, from, { x: from.x + 40, y: from.y + 30 })
    await settled()
    states.push(await at())
    assert.ok(await canUndo(), `${id} was moved`)
    const pos = await kept(`[...w.nodes.find((n) => n.id === ${id}).pos].map(Math.round)`)
    assert.deepEqual(pos, states.at(-1)[id === SAMPLER ? 0 : 1])
  }
  for (const state of [states[1], states[0]]) {
    await press("Control+z")
    assert.deepEqual(await at(), state)
  }
  for (const state of [states[1], states[2]]) {
    await press("Control+y")
    assert.deepEqual(await at(), state)
  }
})

test("each cable that is drawn or pulled off is a step, and the panel follows", async () => {
  const slot = await page.evaluate((id) => graft.editor.node(id).findInputSlot("positive"), SAMPLER)
  const origin = () =>
    page.evaluate(
      ([id, slot]) => {
        const { graph } = graft.editor
        return graph.getLink(graph.getNodeById(id).inputs[slot].link)?.origin_id ?? null
      },
      [SAMPLER, slot],
    )
  await page.mouse.click(...Object.values(await pointOf(page, SAMPLER, "title")))
  await page.locator("#tab-node").click()
  await settled()
  const shown = async () =>
    Number(
      (
        await page
          .locator(".inspector .field", { hasText: /^positive/ })
          .locator("select")
          .inputValue()
      ).split("/")[0],
    )
  assert.equal(await shown(), POSITIVE)
  const input = () => pointOf(page, SAMPLER, "input", slot)
  const box = await page.locator("#canvas").boundingBox()
  await drag(page, await input(), { x: box.x + box.width / 2, y: box.y + box.height - 60 })
  await page.locator("dialog.search").waitFor()
  await page.keyboard.press("Escape")
  await settled()
  assert.equal(await shown(), 0)
  for (const id of [POSITIVE, NEGATIVE]) {
    await drag(page, await pointOf(page, id, "output", 0), await input())
    await settled()
    assert.deepEqual([await origin(), await shown()], [id, id])
  }
  await page.locator("#canvas").focus()
  for (const id of [POSITIVE, null, POSITIVE]) {
    await press("Control+z")
    assert.equal(await origin(), id)
  }
  for (const id of [null, POSITIVE, NEGATIVE]) {
    await press("Control+y")
    assert.equal(await origin(), id)
  }
})

test("Escape ends a prompt and keeps it; a number that was typed it leaves as it was", async () => {
  const value = (id, name) =>
    page.evaluate(
      ([id, name]) => graft.editor.node(id).widgets.find((w) => w.name === name).value,
      [id, name],
    )
  await page.mouse.click(...Object.values(await pointOf(page, POSITIVE, "widget", "text")))
  await page.locator("textarea.inline-editor").fill("rocket, flat")
  await page.keyboard.press("Escape")
  assert.equal(await page.locator(".inline-editor").count(), 0)
  assert.equal(await value(POSITIVE, "text"), "rocket, flat")
  await press("Control+z") // at once
  assert.equal(await value(POSITIVE, "text"), "red apple, 3d")
  await press("Control+y")
  assert.equal(await value(POSITIVE, "text"), "rocket, flat")
  await page.mouse.click(...Object.values(await pointOf(page, SAMPLER, "widget", "steps")))
  await page.locator("input.inline-editor").fill("7")
  await page.keyboard.press("Escape")
  assert.equal(await value(SAMPLER, "steps"), 20)
})

test("the panel's lists keep the focus, arrow after arrow, and a text its cursor", async () => {
  const focused = () =>
    page.evaluate(() => {
      const { activeElement: e } = document
      return e.tagName === "SELECT" ? e.selectedOptions[0].textContent : e.id || e.tagName
    })
  await page.locator("#canvas").focus()
  await page.keyboard.press("n")
  await page.keyboard.press("Tab")
  const nodes = await page.locator(".inspector select[aria-label=Node] option").allTextContents()
  for (let i = 1; i < 5; i++) {
    await press("ArrowDown")
    assert.equal(await focused(), nodes[i])
  }
  await page.locator(".inspector select[aria-label=Node]").selectOption(String(SAMPLER))
  const field = page.locator(".inspector .field", { hasText: /^positive/ }).locator("select")
  const choices = await field.locator("option").allTextContents()
  await field.focus()
  await press("Home")
  for (const choice of choices.slice(1)) {
    await press("ArrowDown")
    await settled()
    assert.equal(await focused(), choice)
  }
  await page.locator(".inspector select[aria-label=Node]").selectOption(String(POSITIVE))
  const text = page.locator(".inspector [data-widget=text]")
  await text.fill("red pear")
  await text.evaluate((e) => e.setSelectionRange(4, 4))
  await page.keyboard.press("Control+Enter")
  await page.waitForFunction(() => graft.runner.run)
  await page.keyboard.type("ripe ")
  assert.equal(await text.inputValue(), "red ripe pear")
})

test("a page that is loaded again in the middle of a run knows how far that is, and how long it took", async () => {
  await page.evaluate((id) => {
    graft.editor.node(id).widgets.find((w) => w.name === "steps").value = 1000
  }, SAMPLER)
  await page.locator("#queue").click()
  await page.waitForFunction(() =>
    /^(?:[5-9]\d|\d{3}) of/.test(document.querySelector(".status-steps").textContent),
  )
  const began = [...mock.state.started.values()].at(-1)
  await browser.open(url)
  await page.waitForFunction(() =>
    /^\d+ of 1000 · [\d.]+ it/.test(document.querySelector(".status-steps").textContent),
  )
  const [steps, part] = await page.evaluate(() => [
    document.querySelector(".status-steps").textContent,
    Number(document.querySelector(".status-track").getAttribute("aria-valuenow")),
  ])
  const [, value, rate] = /^(\d+) of 1000 · ([\d.]+) it/.exec(steps).map(Number)
  assert.ok(Math.abs(part - value / 10) < 3, `${part} % at ${value} of 1000`)
  assert.ok(rate < 150, steps) // one in ten milliseconds
  await page.locator("#interrupt").click()
  const text = page.locator(".status-text", { hasText: "Interrupted after" })
  await text.waitFor()
  const took =
    mock.state.history[await page.evaluate(() => graft.runner.run.prompt)].status.messages.at(-1)[1]
      .timestamp - began
  const said = 1000 * Number(/after ([\d.]+) s/.exec(await text.textContent())[1])
  assert.ok(Math.abs(said - took) < 60, `${said} ms for ${took}`)
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
