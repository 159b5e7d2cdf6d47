// What people read on the page beside the workflow, and what they do to what a run gave.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, beforeEach, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { doubleClick, drag, openBrowser, pointOf, runEnded, runOnce } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
let mock, url, browser, page

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo, stepMs: 10 })
  url = `http://127.0.0.1:${await mock.listen()}/`
  browser = await openBrowser({ width: 1440, height: 900 })
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

const set = (type, name, value) =>
  page.evaluate(
    ([type, name, value]) => {
      const node = graft.editor.nodes.find((n) => n.type === type)
      node.widgets.find((w) => w.name === name).value = value
      graft.editor.onChange()
    },
    [type, name, value],
  )
const value = (type, name) =>
  page.evaluate(
    ([type, name]) =>
      graft.editor.nodes.find((n) => n.type === type).widgets.find((w) => w.name === name).value,
    [type, name],
  )
const idOf = (type) =>
  page.evaluate((type) => graft.editor.nodes.find((n) => n.type === type).id, type)
const queue = async () => {
  await runOnce(page)
}
const open = (tab) => page.locator(`#tab-${tab}`).click()

test("a prompt that is too long for its row leaves the row's button in sight", async () => {
  await set("CLIPTextEncode", "text", "a very long prompt, with much detail, ".repeat(8))
  await set("KSampler", "steps", 300)
  await open("queue")
  await page.locator(".queue-group input").fill("3")
  await page.locator("#queue").click()
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 3)
  const edges = await page.evaluate(() => ({
    panel: document.getElementById("side-body").getBoundingClientRect().right,
    buttons: [...document.querySelectorAll(".row button")].map(
      (button) => button.getBoundingClientRect().right,
    ),
    badge: document.querySelector(".badge").getBoundingClientRect().left,
    icon: document.querySelector("#tab-queue .icon").getBoundingClientRect(),
  }))
  for (const right of edges.buttons) assert.ok(right <= edges.panel, `${right} ${edges.panel}`)
  assert.ok(edges.badge > edges.icon.left + edges.icon.width / 2, "the number covers the symbol")
  await page.locator("button", { hasText: "Remove all" }).click()
  await page.locator("#interrupt").click()
  await runEnded(page)
})

test("a click into a prompt sets the cursor, and what is typed does not replace it", async () => {
  const id = await idOf("CLIPTextEncode")
  const at = await pointOf(page, id, "widget", "text")
  await page.mouse.click(at.x, at.y + 30) // below its only line: at the end
  await page.keyboard.type(" x")
  await page.keyboard.press("Control+Enter")
  const text = await page.evaluate((id) => graft.editor.node(id).widgets[0].value, id)
  assert.equal(text, "red apple, 3d x")
  await runEnded(page)
})

test("nodes that do not run look so", async () => {
  // The middle of the title bar of a node, as it is drawn.
  const colour = async () => {
    await page.waitForTimeout(100)
    const { x, y } = await pointOf(page, await idOf("KSampler"), "title")
    return page.evaluate(
      ([x, y]) => {
        const { canvas } = graft.editor.canvas
        const box = canvas.getBoundingClientRect()
        const ctx = canvas.getContext("2d")
        return [...ctx.getImageData(x - box.left, y - box.top, 1, 1).data].join()
      },
      [x, y],
    )
  }
  const plain = await colour()
  const seen = new Set([plain])
  await page.mouse.click(...Object.values(await pointOf(page, await idOf("KSampler"), "title")))
  for (const key of ["Control+m", "Control+b"]) {
    await page.keyboard.press(key)
    const now = await colour()
    assert.notEqual(now, plain, key)
    seen.add(now)
  }
  await page.keyboard.press("Control+b")
  assert.equal(await colour(), plain)
})

test("a node with an error has its red frame also while it runs, and when it is selected", async () => {
  const id = await idOf("KSampler")
  const frames = async (faults, state, selected) => {
    await page.evaluate(
      ([id, faults, state, selected]) => {
        const { editor } = graft
        const node = editor.node(id)
        node.faults = faults ? [{ input: "", text: "wrong" }] : undefined
        node.run = { state, value: 1, max: 2 }
        editor.canvas.deselectAll()
        if (selected) editor.canvas.selectItems([node])
        editor.canvas.ds.scale = 1
        editor.canvas.ds.offset[0] = -400
        editor.canvas.setDirty(true, true)
      },
      [id, faults, state, selected],
    )
    await page.waitForTimeout(100)
    return page.evaluate((id) => {
      const { canvas, ds } = graft.editor.canvas
      const { pos, size } = graft.editor.node(id)
      const y = Math.round(pos[1] + size[1] / 2 + ds.offset[1])
      const left = Math.round(pos[0] + ds.offset[0])
      return [3, 7, 11].map((out) => {
        const [r, g] = canvas.getContext("2d").getImageData(left - out - 1, y, 2, 1).data
        return r > 2 * g ? "red" : g > 1.5 * r ? "green" : ""
      })
    }, id)
  }
  assert.deepEqual(await frames(true, "pending", false), ["red", "", ""])
  assert.deepEqual(await frames(true, "running", false), ["red", "green", ""])
  assert.deepEqual(await frames(true, "running", true), ["red", "green", "green"])
  assert.deepEqual(await frames(false, "running", false), ["green", "", ""])
  assert.deepEqual(await frames(false, "pending", true), ["green", "", ""])
})

test("a run that fails before its answer has come still says why", async () => {
  await set("KSampler", "cfg", 98)
  const answered = page.waitForResponse((response) => response.url().endsWith("/prompt"))
  await page.locator("#queue").click()
  await answered
  await page.waitForTimeout(300)
  assert.match(await page.locator(".faults").textContent(), /Sampler.*cfg is out of range/)
})

test("what was wrong with a workflow is forgotten when another is opened", async () => {
  await set("KSampler", "scheduler", "zzz")
  await page.locator("#queue").click()
  await page.locator(".faults").waitFor()
  await page.getByRole("button", { name: "Workflow" }).click()
  await page.getByRole("menuitem", { name: "Demo: text to picture" }).click()
  await page.waitForFunction(() => !document.querySelector(".faults"))
})

test("a text that a node gave stands on it and in its panel", async () => {
  await page.evaluate(() => {
    const { editor } = graft
    const report = editor.add("ModelReport", [330, 620])
    editor.nodes.find((n) => n.type === "CheckpointLoaderSimple").connect(0, report, 0)
    editor.fit()
  })
  await queue()
  await open("node")
  await page.locator("pre.result", { hasText: "compiled 1 graph" }).waitFor()
  const shown = () =>
    page.evaluate(() => {
      const node = graft.editor.nodes.find((n) => n.type === "ModelReport")
      return [node.result, node.widgets.some((w) => w.name === "$text")]
    })
  const first = await shown()
  assert.deepEqual(first, ["UNet\n  compiled  1 graph", true])
  await set("KSampler", "steps", 21)
  await page.waitForTimeout(300)
  await page.locator("#undo").click()
  assert.deepEqual(await shown(), first)
  const { prompt } = mock.state.prompts.at(-1)
  const sent = Object.values(prompt).find((node) => node.class_type === "ModelReport")
  assert.deepEqual(Object.keys(sent.inputs), ["model"]) // the text is no input
})

test("a new node is wide enough for its title", async () => {
  const cut = await page.evaluate(() => {
    const ctx = document.createElement("canvas").getContext("2d")
    return [...graft.editor.specs.values()]
      .filter((spec) => !spec.deprecated)
      .map((spec) => graft.editor.add(spec.name, [0, 0]))
      .filter((node) => {
        ctx.font = node.titleFontStyle
        return ctx.measureText(node.title).width > node.size[0] - 60 // mark and margins
      })
      .map((node) => node.title)
  })
  assert.deepEqual(cut, [])
})

test("a node that wrote a file that is no picture says where it is", async () => {
  await page.evaluate(() => {
    const { editor } = graft
    const save = editor.add("SaveLatent", [330, 900])
    editor.nodes.find((n) => n.type === "EmptyLatentImage").connect(0, save, 0)
    editor.fit()
  })
  await queue()
  const shown = await page.evaluate(() => {
    const node = graft.editor.nodes.find((n) => n.type === "SaveLatent")
    return [node.result, node.widgets.some((w) => w.name === "$text")]
  })
  assert.deepEqual(shown, ["output/latents/a_00001_.latent", true])
})

test("a node's picture: opened, saved, and the node is moved by it", async () => {
  await queue()
  const id = await idOf("SaveImage")
  await page.waitForFunction(() =>
    graft.editor.nodes
      .find((n) => n.type === "SaveImage")
      .widgets.at(-1)
      .pictures?.some((p) => p.naturalWidth),
  )
  await page.waitForTimeout(200)
  const name = await page.evaluate(
    (id) => graft.editor.node(id).widgets.find((w) => w.name === "$pictures").name,
    id,
  )
  const at = await pointOf(page, id, "widget", name)
  at.y += 60
  await doubleClick(page, at, page.locator(".lightbox-name", { hasText: "64 × 64" }))
  await page.keyboard.press("Escape")
  await page.waitForTimeout(400)
  await page.mouse.click(at.x, at.y, { button: "right" })
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator(".litemenu-entry", { hasText: "Save the picture" }).click(),
  ])
  assert.match(download.suggestedFilename(), /^picture_\d+_\.png$/)
  const place = () => page.evaluate((id) => [...graft.editor.node(id).pos], id)
  const before = await place()
  await drag(page, at, { x: at.x - 60, y: at.y + 40 })
  assert.notDeepEqual(await place(), before)
})

test("thresholds are set finely: sliders by decades, and fields that show the whole value", async () => {
  await page.evaluate(() => graft.editor.add("QuantizeModel", [330, 620]))
  await open("quantize")
  const field = (type, control) => page.locator(`input[type=${type}][data-control=${control}]`)
  await field("number", "conv").fill("0.000053")
  assert.equal(await value("QuantizeModel", "conv_mse_threshold"), 0.000053)
  const place = Number(await field("range", "conv").inputValue())
  assert.ok(place > 300 && place < 700, String(place)) // of 1000
  assert.ok(await field("number", "conv").evaluate((e) => e.scrollWidth <= e.clientWidth))
  await field("range", "linear").fill("500")
  const middle = await value("QuantizeModel", "linear_mse_threshold")
  assert.ok(middle > 1e-5 && middle < 1e-3, String(middle))
  await field("range", "linear").fill("0")
  assert.equal(await value("QuantizeModel", "linear_mse_threshold"), 0)
  await field("range", "linear").fill("1000")
  assert.equal(await value("QuantizeModel", "linear_mse_threshold"), 1)
})

test("QuantizeModel is put between the sampler and its model, ready to calibrate", async () => {
  await set("KSampler", "steps", 12)
  await open("quantize")
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  await page.locator(".quantize .empty", { hasText: "Run once" }).waitFor()
  const overlaps = await page.evaluate(() => {
    const { nodes } = graft.editor
    const box = ({ pos, size }) => [pos[0], pos[1] - 30, pos[0] + size[0], pos[1] + size[1]]
    const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
    return nodes.flatMap((a, i) =>
      nodes
        .slice(i + 1)
        .filter((b) => meet(box(a), box(b)))
        .map((b) => `${a.title} ${b.title}`),
    )
  })
  assert.deepEqual(overlaps, [])
  await queue()
  const { prompt } = mock.state.prompts.at(-1)
  const [id, node] = Object.entries(prompt).find(([, n]) => n.class_type === "QuantizeModel")
  assert.deepEqual(prompt["5"].inputs.model, [id, 0])
  const { model, positive, negative, latent_image, steps, cfg } = node.inputs
  assert.deepEqual(
    [model, positive, negative, latent_image, steps, cfg],
    [["1", 0], ["2", 0], ["3", 0], ["4", 0], 12, 4],
  )
  await page.locator(".plot").waitFor()
})

test("thresholds of the same value are each dragged by their own knob", async () => {
  await open("quantize")
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  await queue()
  await page.locator(".plot").waitFor()
  for (const [key, other] of [
    ["conv", "linear"],
    ["linear", "conv"],
  ]) {
    for (const name of [key, other]) await set("QuantizeModel", `${name}_mse_threshold`, 0.1)
    await page.waitForTimeout(300)
    const { x, y } = await page.locator(`[data-line=${key}] circle`).boundingBox()
    await drag(page, { x: x + 4, y: y + 4 }, { x: x + 4, y: y + 64 })
    assert.ok((await value("QuantizeModel", `${key}_mse_threshold`)) < 0.05, key)
    assert.equal(await value("QuantizeModel", `${other}_mse_threshold`), 0.1)
  }
})

test("a plan whose times were disturbed shows what was measured, and says which to trust", async () => {
  const { plan } = mock.state
  const timed = (layer) => ({
    ...layer,
    seconds: 0.01,
    seconds_quantized: layer.chosen ? 0.03 : 0.01,
  })
  const limits = { conv: true, linear: true, conv_mse: 0.1, linear_mse: 0.1, density: 100 }
  const time = { step: 0.01 * plan.layers.length, sampled: 1.65, sampled_quantized: 1 }
  mock.state.plan = { ...plan, limits, time, layers: plan.layers.map(timed) }
  await open("quantize")
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  await page.evaluate(() => {
    const node = graft.editor.nodes.find((n) => n.type === "QuantizeModel")
    node.widgets.find((w) => w.name === "quantize_attention").value = "disable"
  })
  await queue()
  mock.state.plan = plan
  await page.locator(".plot").waitFor()
  const card = (id) => page.locator(`[data-card=${id}]`).textContent()
  assert.deepEqual(
    [await card("speedup"), await card("speedup-label")],
    ["1.65×", "measured speed"],
  )
  assert.match(await card("advice"), /^Trust what was measured: .* predict 0\.\d\d×/)
  await page.locator("input[type=number][data-control=density]").fill("400")
  assert.equal(await card("speedup-label"), "measured, as the plan was made")
  assert.match(await card("advice"), /Do not trust that/)
})

test("where hardly anything is quantized, it is said, and a density that takes in more is a press away", async () => {
  const { plan } = mock.state
  const limits = { conv: true, linear: true, conv_mse: 1, linear_mse: 1, density: 1900 }
  const time = { step: 1, sampled: 0.76, sampled_quantized: 1 }
  const layers = plan.layers.map((layer) => ({
    ...layer,
    chosen: layer.density >= 1900 && layer.kind !== "attention",
  }))
  mock.state.plan = { ...plan, limits, time, layers }
  await open("quantize")
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  for (const [key, value] of Object.entries({ conv_mse: 1, linear_mse: 1, compute_density: 1900 }))
    await set("QuantizeModel", `${key}_threshold`, value)
  await set("QuantizeModel", "quantize_attention", "disable")
  await queue()
  mock.state.plan = plan
  const card = (id) => page.locator(`[data-card=${id}]`).textContent()
  const more = page.getByRole("button", { name: /^Quantize more: lower the density to \d+$/ })
  await more.waitFor()
  assert.deepEqual(
    [await card("speedup"), await card("speedup-label")],
    ["≈ 1×", "within the noise of measuring"],
  )
  const density = Number(/\d+/.exec(await more.textContent())[0])
  await more.click()
  assert.equal(await value("QuantizeModel", "compute_density_threshold"), density)
  assert.ok(!(await more.isVisible()))
  const [, chosen, all] = /^(\d+) of (\d+)$/.exec(await card("count")).map(Number)
  assert.ok(chosen > all / 3, `${chosen} of ${all}`)
  assert.match(await card("advice"), /^With the thresholds of the run the difference was within/)
})

test("a file that the server lacks is marked before anything runs", async () => {
  await set("CheckpointLoaderSimple", "ckpt_name", "gone.safetensors")
  await page.mouse.click(
    ...Object.values(await pointOf(page, await idOf("CheckpointLoaderSimple"), "title")),
  )
  await open("node")
  await page.locator(".field.bad", { hasText: "This server does not have gone.safetensors." }).waitFor()
})

test("a typed seed keeps all of its digits, on the node and in the panel", async () => {
  // The server says where seeds end in digits that a number of JavaScript has not.
  await page.route("**/object_info", async (route) => {
    const response = await route.fetch()
    const body = (await response.text()).replaceAll("18446744073709552000", "18446744073709551615")
    await route.fulfill({ response, body })
  })
  await browser.open(url)
  const id = await idOf("KSampler")
  const shown = () => page.evaluate((id) => String(graft.editor.node(id).widgets[0].value), id)
  const field = page.locator("[data-widget=seed]")
  const sent = async () => {
    const asked = page.waitForRequest((request) => request.url().endsWith("/prompt"))
    await page.keyboard.press("Control+Enter")
    const digits = /"seed":(\d+)/.exec((await asked).postData())[1]
    await runEnded(page)
    return digits
  }
  await page.mouse.click(...Object.values(await pointOf(page, id, "title")))
  await open("node")
  for (const seed of ["18446744073709551615", "9007199254740993", "9007199254740995"]) {
    await set("KSampler", "seed", 7)
    const at = await pointOf(page, id, "widget", "seed")
    await page.mouse.click(at.x, at.y)
    await page.locator(".inline-editor").fill(seed)
    await page.keyboard.press("Enter")
    assert.equal(await shown(), seed, "on the node")
    assert.equal(await sent(), seed)
    await set("KSampler", "seed", 7)
    await page.waitForFunction(() => document.querySelector("[data-widget=seed]").value === "7")
    await field.fill(seed)
    await field.press("Tab")
    assert.equal(await shown(), seed, "in the panel")
    assert.equal(await sent(), seed)
  }
  // Arrows: of the panel, and those on the node.
  await field.focus()
  await page.keyboard.press("ArrowUp")
  assert.equal(await shown(), "9007199254740996")
  const at = await pointOf(page, id, "widget", "seed")
  const left = await page.evaluate((id) => {
    const { editor } = graft
    return (editor.node(id).size[0] / 2 - 24) * editor.canvas.ds.scale
  }, id)
  await page.mouse.click(at.x - left, at.y)
  assert.equal(await shown(), "9007199254740995")
  await page.mouse.click(at.x + left, at.y)
  await drag(page, { x: at.x, y: at.y }, { x: at.x + 40, y: at.y })
  const dragged = BigInt(await shown()) - 9007199254740996n
  assert.ok(dragged > 0n && dragged < 100n, String(dragged))
  await page.unroute("**/object_info")
})

test("an empty canvas says what to do", async () => {
  assert.ok(!(await page.locator("#hint").isVisible()))
  await page.getByRole("button", { name: "Workflow" }).click()
  await page.getByRole("menuitem", { name: "New" }).click()
  await page.locator("#hint", { hasText: "add a node" }).waitFor()
  await page.locator("#undo").click()
  await page.waitForFunction(() => document.getElementById("hint").hidden)
})

test("the window's title tells how far a run is; the last profile stays meanwhile", async () => {
  assert.equal(await page.title(), "text to picture · Graft")
  await queue()
  await open("profile")
  await page.locator(".profile-total").waitFor()
  await set("KSampler", "steps", 3000)
  await page.locator("#queue").click()
  await page.waitForFunction(() => /^\d+ % · text to picture · Graft$/.test(document.title))
  assert.ok(await page.locator(".profile-total").isVisible())
  await page.waitForFunction(() =>
    / s left/.test(document.querySelector(".status-steps").textContent),
  )
  await page.locator("#interrupt").click()
  await runEnded(page)
  await page.waitForFunction(() => document.title === "text to picture · Graft")
})

test("one preview takes the place of another without a gap", async () => {
  await set("KSampler", "steps", 150)
  await page.evaluate(() => {
    const { canvas } = graft.editor
    const { drawImage } = CanvasRenderingContext2D.prototype
    const { drawFrontCanvas } = canvas
    const complete = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "complete")
    const late = new WeakMap() // every second picture is not loaded before the run is over
    let known = 0
    Object.defineProperty(HTMLImageElement.prototype, "complete", {
      configurable: true,
      get() {
        if (!late.has(this)) late.set(this, known++ % 2 === 1)
        return !late.get(this) && complete.get.call(this)
      },
    })
    let pictures = 0
    window.drawn = []
    CanvasRenderingContext2D.prototype.drawImage = function (what, ...where) {
      if (what instanceof HTMLImageElement) pictures++
      return drawImage.call(this, what, ...where)
    }
    canvas.drawFrontCanvas = function () {
      pictures = 0
      drawFrontCanvas.call(this)
      window.drawn.push(pictures)
    }
    window.restore = () => {
      CanvasRenderingContext2D.prototype.drawImage = drawImage
      canvas.drawFrontCanvas = drawFrontCanvas
      Object.defineProperty(HTMLImageElement.prototype, "complete", complete)
    }
  })
  await queue()
  const drawn = await page.evaluate(() => (window.restore(), window.drawn))
  const first = drawn.findIndex((count) => count > 0)
  assert.ok(first >= 0 && drawn.length > first + 3, String(drawn))
  for (const count of drawn.slice(first)) assert.ok(count > 0, String(drawn))
})

test("runs of one minute are told apart: when, how they were quantized, what the cache had", async () => {
  mock.state.history = {}
  await queue()
  await open("quantize")
  await page.getByRole("button", { name: "Add QuantizeModel" }).click()
  await queue()
  await set("QuantizeModel", "bits", 4)
  await queue()
  // The first one again, as a server tells it that had everything.
  const [[, first]] = Object.entries(mock.state.history)
  const again = structuredClone(first)
  again.status.messages = again.status.messages.map(([type, data]) => [
    type,
    { ...data, nodes: Object.keys(again.prompt[2]), timestamp: data.timestamp + 3_600_000 },
  ])
  mock.state.history.again = again
  await browser.open(url)
  await open("history")
  const notes = await page.locator(".history-text").allTextContents()
  const { layers } = mock.state.plan
  const chosen = layers.filter((layer) => layer.chosen).length
  assert.equal(notes.length, 4)
  for (const note of notes) assert.match(note, /\d\d:\d\d:\d\d/)
  assert.match(notes[0], /from the cache$/)
  assert.match(notes[1], new RegExp(`4-bit, ${chosen} of ${layers.length} layers$`))
  assert.match(notes[2], new RegExp(`8-bit, ${chosen} of ${layers.length} layers$`))
  assert.ok(!/bit|cache/.test(notes[3]), notes[3])
  await open("quantize")
  const selects = page.locator(".quantize select")
  const named = await selects.first().locator("option").allTextContents()
  assert.equal(new Set(named).size, named.length)
  assert.match(named[1], /^\d\d:\d\d:\d\d · 4-bit · picture_/)
  const wide = await selects.evaluateAll((all) => {
    const ctx = document.createElement("canvas").getContext("2d")
    return all.map((select) => {
      ctx.font = getComputedStyle(select).font
      const longest = Math.max(...[...select.options].map((o) => ctx.measureText(o.text).width))
      return select.clientWidth - 30 - longest // the arrow and margins
    })
  })
  for (const spare of wide) assert.ok(spare >= 0, String(spare))
  // Before is plain, after is what was quantized last.
  const shown = await selects.evaluateAll((all) => all.map((s) => s.selectedOptions[0].text))
  assert.ok(!/bit/.test(shown[0]) && /4-bit/.test(shown[1]), String(shown))
})

test("a short run has a peak of memory, and its profile is there after a reload", async () => {
  await set("KSampler", "steps", 2)
  await open("profile")
  // On a busy machine it may last until there is a curve: then once more.
  for (let i = 0; i < 10; i++) {
    await queue()
    await page.locator(".memory figcaption").waitFor()
    if (!(await page.locator(".memory svg").count())) break
  }
  const total = await page.locator(".profile-total").textContent()
  assert.match(await page.locator(".memory figcaption").textContent(), /^The server: .* at most$/)
  assert.match(await page.locator(".profile").textContent(), /Time by node.*Sampler.*Memory in use/)
  assert.match(await page.locator(".profile").textContent(), /Time by phase/) // as the page saw them
  await browser.open(url) // the panel is open again
  assert.equal(await page.locator(".profile-total").textContent(), total)
  assert.match(
    await page.locator(".profile").textContent(),
    /The run that ended at \d\d:\d\d:\d\d\./,
  )
  assert.match(await page.locator(".memory figcaption").textContent(), /at most$/)
  // The next one takes its place, with a curve where it is long enough.
  await set("KSampler", "steps", 120)
  await queue()
  await page.locator(".memory svg").waitFor()
  assert.ok(!/that ended at/.test(await page.locator(".profile").textContent()))
  const rest = '"nodes":[["1",null]],"titles":[],"samples":[],"clock":1}'
  for (const run of [
    "{",
    "{}",
    `{"run":{"started":1},${rest}`,
    `{"run":{"state":"success","started":1,"ended":2},${rest}`,
  ]) {
    await page.evaluate((text) => localStorage.setItem("graft.profile", text), run)
    await browser.open(url)
    await page.locator(".profile .empty", { hasText: "Run a workflow" }).waitFor()
  }
})

test("the profile has what the server measured of its phases and its memory", async () => {
  const phase = (name, seconds, memory_peak) => ({ name, seconds, memory_peak })
  mock.state.spent = {
    seconds: 9,
    memory_peak: 3 * 2 ** 30,
    phases: [phase("load", 0.5, 2 ** 29), phase("sample", 7.25, 3 * 2 ** 30)],
  }
  await set("KSampler", "steps", 120)
  await queue()
  await open("profile")
  const shown = async () => {
    await page.locator(".profile h3", { hasText: "Time and peak memory by phase" }).waitFor()
    const [, phases] = await page.locator(".profile .bars").all()
    assert.deepEqual(await phases.locator(".bar").allTextContents(), [
      "sample3.0 GiB7.25 s",
      "load512 MiB500 ms",
    ])
    assert.match(await page.locator(".memory figcaption").textContent(), /, 3\.0 GiB at most$/)
  }
  await shown()
  await browser.open(url)
  await shown()
  mock.state.spent = null
})

test("cards of the history leave no holes, and its button is as wide as they are", async () => {
  mock.state.history = {}
  for (const steps of [2, 3]) {
    await set("KSampler", "steps", steps)
    await queue()
  }
  await set("KSampler", "steps", 300)
  await page.locator("#queue").click()
  await page.locator("#interrupt").click()
  await runEnded(page)
  await set("KSampler", "steps", 4)
  await queue()
  await open("history")
  await page.waitForFunction(() => document.querySelectorAll(".history-card").length === 4)
  await page.getByRole("button", { name: "Clear the history" }).click()
  const { cards, grid, button } = await page.evaluate(() => {
    const box = (element) => {
      const { left, top, right, bottom, width, height } = element.getBoundingClientRect()
      return { left, top, right, bottom, area: width * height }
    }
    return {
      cards: [...document.querySelectorAll(".history-card")].map(box),
      grid: box(document.querySelector(".history")),
      button: box(document.querySelector(".history ~ .button.danger")),
    }
  })
  assert.ok(button.right <= grid.right + 0.5 && button.left >= grid.left, JSON.stringify(button))
  // Three pictures and one run without: two rows of two, and a low one of the whole width.
  const [wide, ...others] = [...cards].sort((a, b) => a.bottom - a.top - (b.bottom - b.top))
  assert.ok(wide.right - wide.left > grid.right - grid.left - 1)
  const rows = new Set(others.map(({ top }) => Math.round(top)))
  assert.equal(rows.size, 2)
})

test("the history is cleared at the second press", async () => {
  await queue()
  await open("history")
  const cards = page.locator(".history-card")
  await cards.first().waitFor()
  const clear = page.getByRole("button", { name: "Clear the history" })
  const sure = page.getByRole("button", { name: /^Clear it for good/ })
  await clear.click()
  await sure.waitFor()
  await page.locator(".history-text").first().click()
  await clear.click()
  // A run that ends in between draws the panel anew, and the press still counts.
  const before = await cards.count()
  await page.keyboard.press("Control+Enter")
  await page.waitForFunction(
    (before) => document.querySelectorAll(".history-card").length > before,
    before,
  )
  assert.notDeepEqual(mock.state.history, {})
  await sure.click()
  await page.locator(".empty", { hasText: "No runs yet" }).waitFor()
  assert.deepEqual(mock.state.history, {})
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
