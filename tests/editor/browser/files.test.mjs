// Workflows that are kept on the server, those that come with it, and what is dropped or pasted.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock, picture } from "../mock/server.mjs"
import { openBrowser, pointOf, runOnce } from "./drive.mjs"

const source = process.env.GRAFT_SOURCE_DIR
const objectInfo = JSON.parse(
  readFileSync(join(source, "tests/editor/mock/object_info.json"), "utf8"),
)
const regions = JSON.parse(readFileSync(join(source, "workflows/regions.json"), "utf8"))
let mock, url, browser, page

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo, stepMs: 10 })
  mock.state.templates = {
    index: [
      {
        title: "Pictures",
        workflows: [
          { name: "regions", title: "Regions", description: "Two prompts." },
          { name: "big", title: "Big", description: "Another model.", models: ["big.safetensors"] },
          { name: "gone", title: "Not in the folder" },
        ],
      },
    ],
    regions,
    big: regions,
    mine: regions,
  }
  url = `http://127.0.0.1:${await mock.listen()}/`
  browser = await openBrowser()
  page = browser.page
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
  await browser.open(url)
})
after(async () => {
  await browser?.close()
  await mock?.close()
})

const eventually = async (holds) => {
  for (let i = 0; i < 100 && !(await holds()); i++) await page.waitForTimeout(50)
  assert.ok(await holds())
}
const dialog = () => page.locator("dialog.browse")
const browse = async () => {
  await page.keyboard.press("Control+o")
  await dialog().waitFor()
}
const menu = async (name) => {
  await page.getByRole("button", { name: "Workflow", exact: true }).click()
  await page.getByRole("menuitem", { name, exact: true }).click()
}
const name = () => page.locator("#name").textContent()
const changed = () => page.evaluate(() => document.querySelector("#name").matches(".changed"))
const kept = () => [...mock.state.kept.keys()]
const toast = (text) => page.locator("#toast.show").filter({ hasText: text }).waitFor()
const types = () => page.evaluate(() => graft.editor.nodes.map((n) => n.type).sort())
const renamed = async (item, text) => {
  await menu(item)
  await page.locator("dialog input").fill(text)
  await page.keyboard.press("Enter")
}

test("templates: in their groups, with what they lack, found by words, opened by Enter", async () => {
  await browse()
  assert.deepEqual(await dialog().locator("h3").allTextContents(), [
    "Saved on the server",
    "Pictures",
    "Others",
  ])
  assert.deepEqual(await dialog().locator(".offer-title").allTextContents(), [
    "Regions",
    "Big",
    "mine",
  ])
  assert.deepEqual(await dialog().locator(".offer-note").allTextContents(), [
    "needs big.safetensors",
  ])
  await page.keyboard.type("two prom")
  assert.deepEqual(await dialog().locator(".offer-title").allTextContents(), ["Regions"])
  await page.keyboard.press("Enter")
  await eventually(async () => (await name()) === "Regions")
  assert.equal((await types()).length, Object.keys(regions).length)
  await page.keyboard.press("Control+z")
  assert.equal(await name(), "text to picture", "Undo brings the name back")
  assert.equal((await types()).length, 7)
  await page.keyboard.press("Control+y")
  assert.equal(await name(), "Regions")
})

test("Save keeps a workflow on the server, and replaces no other without asking", async () => {
  await page.keyboard.press("Control+s")
  await toast("Saved on the server as “Regions”.")
  assert.deepEqual(kept(), ["workflows/Regions.json"])
  await page.evaluate(() => graft.editor.add("KSampler", [0, 2000]))
  await page.keyboard.press("Control+s")
  const saved = () => JSON.parse(mock.state.kept.get("workflows/Regions.json").text).nodes.length
  await eventually(() => saved() === Object.keys(regions).length + 1)
  // The same name, but not the workflow that was saved by it.
  await browse()
  await page.keyboard.type("two prom")
  await page.keyboard.press("Enter")
  await eventually(async () => (await types()).length === Object.keys(regions).length)
  await page.keyboard.press("Control+s")
  await page.getByRole("button", { name: "Cancel" }).click()
  assert.equal(saved(), Object.keys(regions).length + 1)
  await page.keyboard.press("Control+s")
  await page.getByRole("button", { name: "Replace", exact: true }).click()
  await eventually(() => saved() === Object.keys(regions).length)
  const before = await name()
  await menu("Save as…")
  const field = page.locator("dialog input")
  const go = page.getByRole("button", { name: "Save", exact: true })
  for (const [text, problem] of [
    [" ", "It needs a name."],
    ["pairs//two", "A folder needs a name, too."],
    ["pairs/../two", "A name cannot begin with a dot."],
    ["x".repeat(201), "The name is too long."],
  ]) {
    await field.fill(text)
    assert.equal(await page.locator("dialog p").textContent(), problem)
    assert.ok(await go.isDisabled())
  }
  await field.fill("Regions 2")
  mock.state.kept.set("workflows/Regions 2.json", { text: "{}", info: { modified: 1 } })
  await go.click()
  await page.getByText("There is another workflow “Regions 2”").waitFor()
  await page.getByRole("button", { name: "Cancel" }).click()
  assert.equal(await name(), before, "nothing was saved by that name")
  mock.state.kept.delete("workflows/Regions 2.json")
  await renamed("Save as…", " pairs/two ")
  await eventually(() => kept().length === 2)
  assert.deepEqual(kept(), ["workflows/Regions.json", "workflows/pairs/two.json"])
  await eventually(async () => (await name()) === "pairs/two")
})

test("what was saved can be opened again, also after a reload, and deleted at the second press", async () => {
  await menu("New")
  await page.reload()
  await page.waitForSelector("html[data-ready]")
  await browse()
  assert.deepEqual(
    (await dialog().locator(".offer-title").allTextContents()).slice(0, 2).sort(),
    ["Regions", "pairs/two"],
  )
  await dialog().locator(".offer", { hasText: "pairs/two" }).click()
  await eventually(async () => (await name()) === "pairs/two")
  await browser.open(url)
  assert.equal(await name(), "pairs/two")
  await page.keyboard.press("Control+s") // asks nothing: it is the one that was opened
  await toast("Saved on the server as “pairs/two”.")
  await browse()
  await page.getByRole("button", { name: "Delete pairs/two" }).click()
  await dialog().locator("input").click() // another thought
  assert.equal(kept().length, 2)
  await page.getByRole("button", { name: "Delete pairs/two" }).click()
  await page.evaluate(() => graft.editor.add("KSampler", [0, 2000]))
  await eventually(changed)
  await page.getByText("Delete?").click()
  await eventually(() => kept().length === 1)
  await eventually(async () => !(await changed())) // from what is there no more
  await eventually(async () => !(await dialog().locator("text=pairs/two").count()))
  await page.keyboard.press("Escape")
})

test("a workflow that was changed since it was saved says so", async () => {
  const dotted = async () => (await page.title()).startsWith("• ")
  assert.ok(!(await changed()), "nothing is known of one that is not on the server")
  await browse()
  await dialog().locator(".offer", { hasText: "Regions" }).first().click()
  await eventually(async () => (await name()) === "Regions")
  await page.waitForTimeout(300)
  assert.ok(!(await changed()))
  await page.evaluate(() => graft.editor.add("KSampler", [0, 2000]))
  await eventually(changed)
  assert.ok(await dotted())
  await browser.open(url)
  assert.ok(await changed(), "after a reload, too")
  await page.locator("#canvas").focus()
  await page.evaluate(() => graft.editor.add("KSampler", [0, 2400]))
  await page.waitForTimeout(300)
  await page.keyboard.press("Control+s")
  await eventually(async () => !(await changed()))
  assert.ok(!(await dotted()))
  await page.evaluate(() => graft.editor.add("KSampler", [0, 2800]))
  await eventually(changed)
  await page.locator("#canvas").focus()
  await page.keyboard.press("Control+z")
  await eventually(async () => !(await changed()))
  await renamed("Save as…", "pairs/three")
  await eventually(async () => (await name()) === "pairs/three")
  await page.waitForTimeout(300)
  assert.ok(!(await changed()), "another name is no change")
  await browser.open(url)
  await page.waitForTimeout(300)
  assert.ok(!(await changed()))
})

test("a workflow is renamed or not, and Undo knows its name", async () => {
  const before = await name()
  await menu("Rename…")
  await page.locator("dialog input").fill("something")
  await page.getByRole("button", { name: "Cancel" }).click()
  assert.equal(await name(), before)
  await renamed("Rename…", "something else")
  assert.equal(await name(), "something else")
  await page.locator("#canvas").focus()
  await page.keyboard.press("Control+z")
  assert.equal(await name(), before)
})

const drop = (files, at) =>
  page.evaluate(
    ([files, at]) => {
      const dataTransfer = new DataTransfer()
      for (const [name, type, bytes] of files)
        dataTransfer.items.add(new File([new Uint8Array(bytes)], name, { type }))
      const [clientX, clientY] = at
      const event = { bubbles: true, cancelable: true, dataTransfer, clientX, clientY }
      document.getElementById("stage").dispatchEvent(new DragEvent("drop", event))
    },
    [files, at],
  )
const pictures = () =>
  page.evaluate(() =>
    graft.editor.nodes
      .filter((n) => n.type === "LoadImage")
      .map((n) => n.widgets.find((w) => w.name === "image").value),
  )

test("pictures that carry no workflow become nodes that load them", async () => {
  await menu("New")
  const plain = [...picture(8, 0)]
  await drop([["a.png", "image/png", plain], ["b.JPG", "", plain]], [300, 300])
  await eventually(async () => (await pictures()).length === 2)
  await eventually(async () => (await pictures()).join() === "a.png,b.JPG")
  const places = await page.evaluate(() => graft.editor.nodes.map(({ pos }) => [...pos]))
  const apart = await page.evaluate(() => {
    const [a, b] = graft.editor.nodes.map(({ boundingRect: [x, y, w, h] }) => [x, y, x + w, y + h])
    return a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1]
  })
  assert.ok(apart, `${places}`)
})

const paste = (files, text) =>
  page.evaluate(
    ([files, text]) => {
      const clipboardData = new DataTransfer()
      for (const [name, type, bytes] of files)
        clipboardData.items.add(new File([new Uint8Array(bytes)], name, { type }))
      if (text) clipboardData.setData("text/plain", text)
      const event = new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData })
      document.getElementById("canvas").dispatchEvent(event)
    },
    [files, text],
  )

test("a picture, a workflow and nodes of another page can be pasted", async () => {
  await menu("New")
  await paste([["shot.png", "image/png", [...picture(8, 0)]]])
  await eventually(async () => (await pictures()).join() === "shot.png")
  await paste([], JSON.stringify(regions))
  await eventually(async () => (await types()).length === Object.keys(regions).length)
  await eventually(async () => (await name()) === "pasted")
  await paste([], "{ no workflow }")
  await toast("What was copied cannot be read: it is not JSON.")
  await page.locator("#canvas").focus()
  await page.evaluate(() => {
    const { editor } = graft
    editor.canvas.selectItems(editor.nodes.filter((n) => n.type === "KSampler"))
  })
  await page.keyboard.press("Control+c")
  const text = await page.evaluate(() => navigator.clipboard.readText())
  assert.equal(JSON.parse(text).nodes[0].type, "KSampler")
  await menu("New")
  await page.evaluate(() => localStorage.removeItem("litegrapheditor_clipboard"))
  await page.locator("#canvas").focus()
  await page.keyboard.press("Control+v")
  await eventually(async () => (await types()).join() === "KSampler")
  await page.waitForTimeout(200)
  assert.equal((await types()).length, 1, "once")
})

test("what is pasted is what was copied last, where the pointer is now", async () => {
  await page.locator("#canvas").focus()
  await page.evaluate(() => graft.editor.canvas.selectItems(graft.editor.nodes.slice(0, 1)))
  await page.keyboard.press("Control+c")
  await page.waitForTimeout(200)
  await page.evaluate(() => navigator.clipboard.writeText("a red apple")) // in another window
  await page.keyboard.press("Control+v")
  await toast("What was copied is a text, and no nodes.")
  assert.equal((await types()).length, 1)
  await page.mouse.move(400, 300)
  await page.evaluate(() => {
    const { ds } = graft.editor.canvas // another workflow's
    ds.scale = 0.5
    ds.offset[0] = 9000
    ds.offset[1] = -7000
    graft.editor.canvas.setDirty(true, true)
  })
  await paste([["here.png", "image/png", [...picture(8, 0)]]])
  await eventually(async () => (await pictures()).includes("here.png"))
  const at = await page.evaluate(() => {
    const { ds } = graft.editor.canvas
    const { pos } = graft.editor.nodes.find((n) => n.type === "LoadImage")
    return [0, 1].map((axis) => (pos[axis] + ds.offset[axis]) * ds.scale)
  })
  const box = await page.locator("#canvas").boundingBox()
  assert.ok(Math.hypot(at[0] - 400 + box.x, at[1] - 300 + box.y) < 5, `${at}`)
  await page.keyboard.press("Delete")
})

test("what was copied last is pasted, however slow the system's clipboard, or without one", async () => {
  const copyAndPaste = async (count) => {
    await page.evaluate(() => {
      const { editor } = graft
      editor.canvas.selectItems(editor.nodes.filter((n) => n.type === "KSampler").slice(0, 1))
    })
    await page.keyboard.press("Control+c")
    await page.keyboard.press("Control+v")
    await eventually(async () => (await types()).length === count)
    await page.waitForTimeout(200)
    assert.deepEqual(await types(), Array(count).fill("KSampler"))
  }
  await page.evaluate(async (text) => {
    const { clipboard } = navigator
    const write = clipboard.writeText.bind(clipboard)
    await write(text)
    clipboard.writeText = (text) =>
      new Promise((done) => setTimeout(done, 400)).then(() => write(text))
  }, JSON.stringify(regions))
  await page.locator("#canvas").focus()
  await copyAndPaste(2)
  await page.waitForTimeout(500)
  await page.evaluate(async (text) => {
    await navigator.clipboard.writeText(text)
    Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true })
  }, JSON.stringify(regions))
  await copyAndPaste(3)
})

test("copies, and what Undo brings back, have no empty room for pictures", async () => {
  await page.evaluate(() => localStorage.clear())
  await page.goto(`${url}app.css`)
  await browser.open(url)
  await menu("Demo: text to picture")
  const id = await page.evaluate(() => graft.editor.nodes.find((n) => n.type === "KSampler").id)
  const height = (of) => page.evaluate((id) => graft.editor.node(id)?.size[1], of)
  const without = await height(id)
  await runOnce(page)
  await eventually(async () => (await height(id)) > without)
  const grown = await height(id)
  await page.evaluate((id) => graft.editor.canvas.selectItems([graft.editor.node(id)]), id)
  await page.locator("#canvas").focus()
  await page.keyboard.press("Control+c")
  await page.keyboard.press("Control+v")
  await eventually(async () => (await types()).length === 8)
  assert.equal(await height(await page.evaluate(() => graft.editor.selected[0].id)), without)
  await page.evaluate((id) => graft.editor.canvas.selectItems([graft.editor.node(id)]), id)
  await page.keyboard.press("Delete")
  await eventually(async () => (await height(id)) === undefined)
  await page.keyboard.press("Control+z")
  await eventually(async () => (await height(id)) === grown)
  const shown = await page.evaluate(
    (id) => graft.editor.node(id).widgets.find((w) => w.name === "$pictures").pictures.length,
    id,
  )
  assert.equal(shown, 1)
})

test("what a socket and a widget are for is shown where the pointer stays", async () => {
  const id = await page.evaluate(() => graft.editor.nodes.find((n) => n.type === "KSampler").id)
  const tip = page.locator("#tip:not([hidden])")
  // Where it is now: nodes may still make room for what the last test brought back.
  const stay = async (what, index, text) =>
    eventually(async () => {
      const { x, y } = await pointOf(page, id, what, index)
      await page.mouse.move(x - 1, y)
      await page.mouse.move(x, y)
      await page.waitForTimeout(600)
      return (await tip.filter({ hasText: text }).count()) === 1
    })
  await stay("widget", "steps", "steps")
  assert.match(await tip.textContent(), /How many steps to take/)
  await stay("input", 0, "model · MODEL")
  await page.mouse.move(5, 300)
  await tip.waitFor({ state: "detached" })
})

test("a link has a menu, and is removed by it", async () => {
  const links = () => page.evaluate(() => graft.editor.graph._links.size)
  await menu("Demo: text to picture")
  await page.waitForTimeout(300)
  const before = await links()
  const sampler = await page.evaluate(
    () => graft.editor.nodes.find((n) => n.type === "VAEDecode").id,
  )
  const to = await pointOf(page, sampler, "input", 0)
  await page.mouse.click(to.x - 25, to.y, { button: "right" })
  await page.getByRole("menuitem", { name: "Remove this link" }).click()
  assert.equal(await links(), before - 1)
})

// A file as ComfyUI's templates are: a text and steps of the instance's own, a seed inside.
function fileWithInstance() {
  const slot = (name, type, link) => ({ name, type, link, widget: { name } })
  const at = { pos: [0, 0], size: [9, 9], flags: {}, mode: 0, outputs: [], properties: {} }
  const link = (id, target_id, type) => ({
    id,
    origin_id: -10,
    origin_slot: id - 1,
    target_id,
    target_slot: 0,
    type,
  })
  const inner = {
    id: "6007e698-2ebd-4917-84d8-299b35d7b7ab",
    version: 1,
    name: "Inner",
    state: { lastNodeId: 2, lastLinkId: 2, lastGroupId: 0, lastRerouteId: 0 },
    inputNode: { id: -10, bounding: [0, 0, 1, 1] },
    outputNode: { id: -20, bounding: [0, 0, 1, 1] },
    inputs: [
      { id: "a", name: "text", type: "STRING", linkIds: [1] },
      { id: "b", name: "steps", type: "INT", linkIds: [2] },
    ],
    outputs: [],
    widgets: [],
    nodes: [
      {
        ...at,
        id: 1,
        type: "CLIPTextEncode",
        inputs: [slot("text", "STRING", 1)],
        widgets_values: ["inside"],
      },
      {
        ...at,
        id: 2,
        type: "KSampler",
        inputs: [slot("steps", "INT", 2)],
        widgets_values: [7, "increment", 20, 8, "euler", "normal", 1],
      },
    ],
    links: [link(1, 1, "STRING"), link(2, 2, "INT")],
  }
  const shown = [
    ["-1", "text"],
    ["-1", "steps"],
    ["2", "seed"],
  ]
  const instance = {
    ...at,
    id: 5,
    type: inner.id,
    inputs: [slot("text", "STRING", null)],
    properties: { proxyWidgets: shown },
    widgets_values: ["{a|b} // c", 4, null],
  }
  return {
    version: 0.4,
    nodes: [instance],
    links: [null],
    groups: [],
    definitions: { subgraphs: [inner] },
  }
}

test("an instance of a sub-graph keeps its values, seeds inside move on, prompts are chosen", async () => {
  const [values, shown, runs] = await page.evaluate((file) => {
    const { editor } = graft
    editor.load(file)
    const seen = () => {
      const { prompt, workflow } = editor.toPrompt(new Date(), () => 0.6)
      const [{ inputs: text }, { inputs: sampler }] = [prompt["5:1"], prompt["5:2"]]
      return [text.text, sampler.steps, sampler.seed, workflow.nodes[0].widgets_values]
    }
    const widgets = editor.nodes[0].widgets
    const loaded = [
      editor.toWorkflow().nodes[0].widgets_values,
      widgets.map(({ name, value }) => [name, value]),
      [seen()],
    ]
    editor.advanceSeeds()
    widgets.find(({ name }) => name === "steps").value = 9
    loaded[2].push(seen())
    editor.load(editor.toWorkflow())
    loaded[2].push(seen())
    return loaded
  }, fileWithInstance())
  assert.deepEqual(values, ["{a|b} // c", 4, 7])
  assert.deepEqual(shown, [
    ["text", "{a|b} // c"],
    ["steps", 4],
    ["seed", 7],
  ])
  assert.deepEqual(runs, [
    ["b ", 4, 7, ["b ", 4, 7]],
    ["b ", 9, 8, ["b ", 9, 8]],
    ["b ", 9, 8, ["b ", 9, 8]],
  ])
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
