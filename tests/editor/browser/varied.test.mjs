// Inputs that come and go: with a choice, and in a series.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { drag, openBrowser, pointOf } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
const known = { category: "image", output: ["IMAGE"], output_name: ["IMAGE"] }
const when = (...choices) => ({ when: { how: choices } })
objectInfo.Resize = {
  ...known,
  input: {
    required: {
      input: ["IMAGE", {}],
      how: [["to size", "by factor", "like other"], {}],
      "how.width": ["INT", { default: 512, ...when("to size") }],
      "how.factor": ["FLOAT", { default: 1, ...when("by factor") }],
      "how.other": ["IMAGE", when("like other")],
      method: [["area", "lanczos"], {}],
    },
  },
}
const slot = (n) => [`images.image${n}`, ["IMAGE", n > 1 ? { series: true } : {}]]
objectInfo.Batch = {
  ...known,
  input: {
    required: Object.fromEntries([0, 1].map(slot)),
    optional: Object.fromEntries([2, 3, 4].map(slot)),
  },
}
let mock, browser, page

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo })
  const port = await mock.listen()
  browser = await openBrowser()
  page = browser.page
  await browser.open(`http://127.0.0.1:${port}/`)
})
after(async () => {
  await browser?.close()
  await mock?.close()
})

const resize = (values, more = {}) => ({
  id: 1,
  type: "Resize",
  pos: [500, 100],
  size: [260, 160],
  inputs: [{ name: "input", type: "IMAGE", link: null }],
  outputs: [{ name: "IMAGE", type: "IMAGE", links: [] }],
  widgets_values: values,
  ...more,
})
const empty = (id, links = []) => ({
  id,
  type: "EmptyImage",
  pos: [100, 100],
  size: [240, 130],
  inputs: [],
  outputs: [{ name: "IMAGE", type: "IMAGE", links }],
  widgets_values: [64, 64, 1, 255],
})
const show = async (nodes, links = []) => {
  const last = { last_node_id: nodes.length, last_link_id: links.length }
  const data = { ...last, nodes, links, groups: [], extra: {}, version: 0.4 }
  await page.evaluate((data) => graft.editor.load(data), data)
  await page.waitForTimeout(200)
}
const inputs = (id) => page.evaluate((id) => graft.editor.toPrompt().prompt[id].inputs, id)
const saved = (id) =>
  page.evaluate((id) => graft.editor.toWorkflow().nodes.find((node) => node.id === id), id)
const shown = () =>
  page.evaluate(() =>
    graft.editor.node(1).widgets.flatMap(({ name, hidden }) => (hidden ? [] : [name])),
  )
const sockets = (id) =>
  page.evaluate(
    (id) => graft.editor.node(id).inputs.filter(({ widget }) => !widget).map(({ name }) => name),
    id,
  )
const choose = async (value) => {
  await page.evaluate((value) => {
    const { editor } = graft
    const node = editor.node(1)
    const widget = node.widgets.find(({ name }) => name === "how")
    widget.setValue(value, { e: {}, node, canvas: editor.canvas })
  }, value)
  await page.waitForTimeout(100)
}

test("what a choice does not ask for is not shown, and not in files", async () => {
  await show([resize(["by factor", 2.5, "lanczos"])])
  assert.deepEqual(await shown(), ["how", "how.factor", "method"])
  assert.deepEqual(await inputs(1), { how: "by factor", "how.factor": 2.5, method: "lanczos" })
  assert.deepEqual((await saved(1)).widgets_values, ["by factor", 2.5, "lanczos"])
  await choose("to size")
  assert.deepEqual(await shown(), ["how", "how.width", "method"])
  assert.deepEqual((await saved(1)).widgets_values, ["to size", 512, "lanczos"])
  assert.deepEqual(await inputs(1), { how: "to size", "how.width": 512, method: "lanczos" })
})

test("hidden widgets take no room, and names are short", async () => {
  const look = () =>
    page.evaluate(() => {
      const node = graft.editor.node(1)
      const seen = node.widgets.filter(({ hidden }) => !hidden)
      const tops = seen.map(({ y }) => y)
      return {
        labels: [...node.inputs.filter(({ widget }) => !widget), ...seen].map(({ label }) => label),
        steps: tops.slice(1).map((y, i) => y - tops[i]),
        inside: tops.at(-1) + seen.at(-1).computedHeight <= node.size[1],
      }
    })
  await show([resize(["by factor", 2.5, "lanczos"])])
  const labels = ["input", "how", "factor", "method"]
  const first = await look()
  assert.deepEqual(first.labels, labels)
  assert.equal(first.steps.length, 2)
  assert.equal(first.steps[0], first.steps[1])
  assert.ok(first.inside)
  await choose("like other")
  assert.deepEqual((await look()).labels, ["input", "other", "how", "method"])
  await choose("to size")
  const last = await look()
  assert.deepEqual(last.labels, ["input", "how", "width", "method"])
  assert.deepEqual(last.steps, first.steps)
  assert.ok(last.inside)
})

test("a choice brings its socket, and takes it away", async () => {
  await show([resize(["like other", "area"])])
  assert.deepEqual(await sockets(1), ["input", "how.other"])
  assert.deepEqual(await shown(), ["how", "method"])
  await choose("to size")
  assert.deepEqual(await sockets(1), ["input"])
  await choose("like other")
  assert.deepEqual(await sockets(1), ["input", "how.other"])
  await page.keyboard.press("Escape")
})

test("a node of this kind comes back by Undo, as a copy and from a file", async () => {
  await show([resize(["by factor", 2.5, "lanczos"])])
  const data = await page.evaluate(() => graft.editor.toWorkflow())
  await page.evaluate((data) => graft.editor.load(data), data)
  assert.deepEqual((await saved(1)).widgets_values, ["by factor", 2.5, "lanczos"])
  const copy = await page.evaluate(() => {
    const { editor } = graft
    const node = editor.node(1).clone()
    editor.graph.add(node)
    return node.id
  })
  assert.deepEqual((await saved(copy)).widgets_values, ["by factor", 2.5, "lanczos"])
})

test("a series shows the next socket once the last is linked", async () => {
  const batch = {
    id: 2,
    type: "Batch",
    pos: [500, 100],
    size: [240, 130],
    inputs: [
      { name: "images.image0", type: "IMAGE", link: 1 },
      { name: "images.image1", type: "IMAGE", link: null },
    ],
    outputs: [{ name: "IMAGE", type: "IMAGE", links: [] }],
  }
  await show([empty(1, [1]), batch], [[1, 1, 0, 2, 0, "IMAGE"]])
  assert.deepEqual(await sockets(2), ["images.image0", "images.image1"])
  const connect = async (at) => {
    await drag(page, await pointOf(page, 1, "output", 0), await pointOf(page, 2, "input", at))
    await page.waitForTimeout(200)
  }
  await connect(1)
  assert.deepEqual(await sockets(2), [0, 1, 2].map((n) => `images.image${n}`))
  await connect(2)
  assert.deepEqual(await sockets(2), [0, 1, 2, 3].map((n) => `images.image${n}`))
  const made = await inputs(2)
  assert.deepEqual(Object.keys(made), [0, 1, 2].map((n) => `images.image${n}`))
  // A file has the free one, too; without it, it comes.
  const data = await page.evaluate(() => graft.editor.toWorkflow())
  data.nodes.find(({ id }) => id === 2).inputs.pop()
  await page.evaluate((data) => graft.editor.load(data), data)
  assert.deepEqual(await sockets(2), [0, 1, 2, 3].map((n) => `images.image${n}`))
  await page.evaluate(() => graft.editor.node(2).disconnectInput(2))
  await page.waitForTimeout(100)
  assert.deepEqual(await sockets(2), [0, 1, 2].map((n) => `images.image${n}`))
  await page.evaluate(() => graft.editor.node(2).disconnectInput(0))
  await page.waitForTimeout(100)
  assert.deepEqual(await inputs(2), { "images.image1": ["1", 0] })
})

test("nothing went wrong in the page", () => assert.deepEqual(browser.faults, []))
