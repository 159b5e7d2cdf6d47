// What hands do on the canvas and on the keys, and that nothing of it is lost.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, beforeEach, test } from "node:test"
import { createMock, picture } from "../mock/server.mjs"
import { addNode, doubleClick, drag, openBrowser, pointOf, runEnded, runOnce } from "./drive.mjs"

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

test("the link that the pointer is on is drawn wider, as long as it is", async () => {
  const ends = await page.evaluate(
    ([from, to]) => {
      const { editor } = graft
      const [a, b] = [editor.node(from).getOutputPos(0), editor.node(to).getInputPos(0)]
      const { left, top } = editor.canvas.canvas.getBoundingClientRect()
      return [a, b].map((at) => {
        const [x, y] = editor.canvas.ds.convertOffsetToCanvas(at)
        return { x: x + left, y: y + top }
      })
    },
    [SAMPLER, DECODE],
  )
  const middle = { x: (ends[0].x + ends[1].x) / 2, y: (ends[0].y + ends[1].y) / 2 }
  const clip = { x: middle.x - 8, y: middle.y - 30, width: 16, height: 60 }
  const look = async (x, y) => {
    await page.mouse.move(x, y)
    await page.waitForTimeout(100)
    return (await page.screenshot({ clip })).toString("base64")
  }
  const before = await look(middle.x, middle.y + 100)
  assert.notEqual(await look(middle.x, middle.y), before)
  assert.equal(await look(middle.x, middle.y + 100), before)
})

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
    graft.editor.node(id).widgets.find((w) => w.name === "steps").value = 6000 // a minute, which loading must not outlast
  }, SAMPLER)
  await page.locator("#queue").click()
  await page.waitForFunction(() =>
    /^(?:[5-9]\d|\d{3,4}) of/.test(document.querySelector(".status-steps").textContent),
  )
  const began = [...mock.state.started.values()].at(-1)
  await browser.open(url)
  // One step in ten milliseconds; a page that was slow itself needs a moment to see it.
  await page.waitForFunction(() => {
    const text = document.querySelector(".status-steps").textContent
    return Number(/^\d+ of 6000 · ([\d.]+) it/.exec(text)?.[1]) < 150
  })
  const [steps, part] = await page.evaluate(() => [
    document.querySelector(".status-steps").textContent,
    Number(document.querySelector(".status-track").getAttribute("aria-valuenow")),
  ])
  const value = Number(/^\d+/.exec(steps)[0])
  assert.ok(Math.abs(part - value / 60) < 3, `${part} % at ${value} of 6000`)
  await page.locator("#interrupt").click()
  const text = page.locator(".status-text", { hasText: "Interrupted after" })
  await text.waitFor()
  const took =
    mock.state.history[await page.evaluate(() => graft.runner.run.prompt)].status.messages.at(-1)[1]
      .timestamp - began
  const said = 1000 * Number(/after ([\d.]+) s/.exec(await text.textContent())[1])
  assert.ok(Math.abs(said - took) < 60, `${said} ms for ${took}`)
})

// What comes in a moment, on a busy machine in some more.
async function eventually(holds) {
  for (let i = 0; i < 100 && !(await holds()); i++) await page.waitForTimeout(50)
  assert.ok(await holds())
}

// Pairs of nodes that lie on each other.
const overlaps = () =>
  page.evaluate(() => {
    const boxes = graft.editor.nodes.map(({ id, pos, size }) => [
      id,
      pos[0],
      pos[1] - 30,
      pos[0] + size[0],
      pos[1] + size[1],
    ])
    return boxes.flatMap((a, i) =>
      boxes
        .slice(i + 1)
        .filter((b) => a[1] < b[3] && b[1] < a[3] && a[2] < b[4] && b[2] < a[4])
        .map((b) => [a[0], b[0]]),
    )
  })
// Parts of nodes that are out of view, or under a panel.
const hidden = () =>
  page.evaluate(() => {
    const { editor } = graft
    const { ds, canvas } = editor.canvas
    const at = (n) => [
      (n.pos[0] + ds.offset[0]) * ds.scale,
      (n.pos[0] + n.size[0] + ds.offset[0]) * ds.scale,
    ]
    return editor.nodes
      .filter((n) => at(n)[0] < 0 || at(n)[1] > canvas.clientWidth - editor.covered())
      .map((n) => n.title)
  })

test("what is added by the keys lies on nothing and in view; what is pasted lies beside its original", async () => {
  const view = () => page.evaluate(() => graft.editor.canvas.ds.offset.join())
  const before = await view()
  for (const name of ["KSampler", "VAEDecode", "SaveImage", "LoadImage", "KSampler"]) {
    const id = await addNode(page, name)
    const title = await page.evaluate((id) => graft.editor.node(id).title, id)
    await eventually(async () => !(await hidden()).includes(title))
    if (name === "VAEDecode") assert.equal(await view(), before) // as long as there is room in it
  }
  assert.deepEqual(await overlaps(), [])
  await page.keyboard.press(".")
  await page.mouse.click(...Object.values(await pointOf(page, SAMPLER, "title")))
  await press("Control+c")
  const pasted = async (count) => {
    await press("Control+v") // with the pointer still on the original
    await eventually(async () => (await nodeCount()) === count)
    assert.deepEqual(await overlaps(), [])
  }
  const nodeCount = () => page.evaluate(() => graft.editor.nodes.length)
  const all = await nodeCount()
  for (let i = 1; i <= 3; i++) await pasted(all + i)
  const [from, to] = await page.evaluate(
    (id) => [[...graft.editor.node(id).pos], [...graft.editor.selected[0].pos]],
    SAMPLER,
  )
  assert.ok(Math.hypot(to[0] - from[0], to[1] - from[1]) < 1500, `${from} ${to}`)
  // All at once, for which there is no room but beside everything; the view goes with it.
  await press("Control+a")
  await press("Control+c")
  await pasted(2 * (all + 3))
  const seen = await page.evaluate(() => {
    const { ds, canvas } = graft.editor.canvas
    const extent = [canvas.clientWidth, canvas.clientHeight]
    return graft.editor.selected.some(({ pos, size }) =>
      [0, 1].every((axis) => {
        const at = (pos[axis] + ds.offset[axis]) * ds.scale
        return at < extent[axis] && at + size[axis] * ds.scale > 0
      }),
    )
  })
  assert.ok(seen)
  await page.evaluate((id) => graft.editor.canvas.selectItems([graft.editor.node(id)]), SAMPLER)
  await press("Control+c")
  // Where the pointer is on free ground it goes there.
  const box = await page.locator("#canvas").boundingBox()
  await page.evaluate(() => {
    graft.editor.canvas.ds.offset[1] -= 20_000
    graft.editor.canvas.setDirty(true, true)
  })
  await page.mouse.move(box.x + 300, box.y + 200)
  await pasted(2 * (all + 3) + 1)
  const [x, y] = await page.evaluate(() => {
    const { ds } = graft.editor.canvas
    const { pos } = graft.editor.selected[0]
    return [(pos[0] + ds.offset[0]) * ds.scale, (pos[1] + ds.offset[1]) * ds.scale]
  })
  assert.ok(Math.abs(x - 300) < 3 && Math.abs(y - 200) < 3, `${x} ${y}`)
})

test("a long row of a file without places is folded, and its end can be read", async () => {
  const prompt = { 1: { class_type: "LoadImage", inputs: { image: "a.png" } } }
  for (let i = 2; i < 200; i++)
    prompt[i] = { class_type: "ImageScale", inputs: { image: [String(i - 1), 0] } }
  prompt[200] = { class_type: "SaveImage", inputs: { images: ["199", 0] } }
  const [wide, high, scale, seen] = await page.evaluate((prompt) => {
    const { editor } = graft
    editor.load(prompt, "long")
    const span = (axis) =>
      Math.max(...editor.nodes.map((n) => n.pos[axis])) -
      Math.min(...editor.nodes.map((n) => n.pos[axis]))
    const { ds, canvas } = editor.canvas
    const [left, top] = editor.node(200).pos.map((v, axis) => (v + ds.offset[axis]) * ds.scale)
    return [
      span(0),
      span(1),
      ds.scale,
      left > 0 && top > 0 && left < canvas.clientWidth - 200 && top < canvas.clientHeight - 50,
    ]
  }, prompt)
  assert.ok(wide / high > 0.8 && wide / high < 4, `${wide} x ${high}`)
  assert.ok(scale >= 0.7, String(scale))
  assert.ok(seen)
  assert.deepEqual(await overlaps(), [])
})

test("after a reload the view fits beside a panel that another page had opened", async () => {
  await settled()
  await page.evaluate(() => localStorage.setItem("graft.panel", "history"))
  await browser.open(url)
  assert.ok(await page.locator(".side-title", { hasText: "History" }).isVisible())
  assert.deepEqual(await hidden(), [])
  // A view that somebody chose stays.
  await page.evaluate(() => (graft.editor.canvas.ds.scale = 1.25))
  await browser.open(url)
  assert.equal(await page.evaluate(() => graft.editor.canvas.ds.scale), 1.25)
})

test("after a reload nodes show the last pictures again, and none has room for what is gone", async () => {
  const heights = () =>
    page.evaluate(
      (id) => [
        graft.editor.node(id).size[1],
        graft.editor.nodes.find((n) => n.type === "SaveImage").size[1],
      ],
      SAMPLER,
    )
  const pictures = () =>
    page.evaluate(() =>
      graft.editor.nodes
        .filter((n) => n.widgets?.find((w) => w.name === "$pictures")?.pictures.length)
        .map((n) => n.type),
    )
  const before = await heights()
  await runOnce(page)
  await page.waitForFunction(
    () =>
      graft.editor.nodes.find((n) => n.type === "SaveImage").widgets.at(-1).pictures?.[0]
        ?.naturalWidth,
  )
  await eventually(async () => (await heights())[0] > before[0] + 100) // for the preview
  await browser.open(url)
  await page.waitForFunction(
    () =>
      graft.editor.nodes.find((n) => n.type === "SaveImage").widgets.at(-1).pictures?.[0]
        ?.naturalWidth === 64,
  )
  assert.deepEqual(await pictures(), ["SaveImage"])
  assert.deepEqual(await heights(), before)
  assert.ok(!(await canUndo()))
  // Of another workflow nothing is shown.
  await addNode(page, "SaveImage")
  await settled()
  await page.evaluate(() => graft.editor.nodes.at(-2).connect(0, graft.editor.nodes.at(-1), 0))
  await browser.open(url)
  await settled()
  assert.deepEqual(await pictures(), [])
})

test("a node is renamed by its title, by its menu and by F2, and shortcuts do not listen meanwhile", async () => {
  const title = () => page.evaluate((id) => graft.editor.node(id).title, SAMPLER)
  const field = page.locator("input.inline-editor")
  const at = await pointOf(page, SAMPLER, "title")
  await doubleClick(page, at, field)
  assert.equal(await field.inputValue(), "Sampler")
  await page.keyboard.type("anqhr. Delete") // letters that are shortcuts
  await press("Enter")
  assert.equal(await title(), "anqhr. Delete")
  await settled()
  assert.equal(await page.locator("dialog[open]").count(), 0)
  await page.mouse.click(at.x, at.y, { button: "right" })
  await page.getByRole("menuitem", { name: "Rename" }).click()
  await page.keyboard.type("Noise away")
  await press("Enter")
  assert.equal(await title(), "Noise away")
  await settled()
  await page.locator("#canvas").focus()
  await page.keyboard.press("F2")
  await field.fill("")
  await page.keyboard.press("Enter")
  assert.equal(await title(), objectInfo.KSampler.display_name)
  for (const name of ["Noise away", "anqhr. Delete", "Sampler"]) {
    await press("Control+z")
    assert.equal(await title(), name)
  }
})

test("prompts in the queue are told apart, and how long they wait is said", async () => {
  await page.evaluate((id) => {
    const set = (name, value) =>
      (graft.editor.node(id).widgets.find((w) => w.name === name).value = value)
    set("steps", 400)
    set("control_after_generate", "increment")
  }, SAMPLER)
  await page.locator("#tab-queue").click()
  await page.locator(".queue-group input").fill("3")
  await page.locator("#queue").click()
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 3)
  const notes = () => page.locator(".row-note").allTextContents()
  const [running, ...waiting] = await notes()
  assert.equal(running, "seed 1")
  waiting.forEach((note, i) => assert.match(note, new RegExp(`^seed ${i + 2} · waits \\d+ s$`)))
  await page.locator("button", { hasText: "Remove all 2 waiting" }).waitFor()
  await page.waitForFunction(() =>
    /waits [1-9]/.test(document.querySelectorAll(".row-note")[2].textContent),
  )
  await page.getByRole("button", { name: "Remove from the queue" }).last().click()
  await page.locator("button", { hasText: /^Remove the waiting one$/ }).click()
  await page.locator("#interrupt").click()
  await runEnded(page)
})

test("what a refusal complained of goes away once it is mended, one by one", async () => {
  const set = (name, value) =>
    page.evaluate(
      ([id, name, value]) => {
        graft.editor.node(id).widgets.find((w) => w.name === name).value = value
        graft.editor.onChange()
      },
      [name === "ckpt_name" ? LOADER : SAMPLER, name, value],
    )
  const line = (text) => page.locator(".status-text", { hasText: text }).waitFor()
  await set("steps", 0)
  await set("ckpt_name", "gone.safetensors")
  await page.keyboard.press("Control+Enter")
  await line("Not queued: 2 things to fix first")
  await set("ckpt_name", "gone-too.safetensors") // mends nothing
  await set("cfg", 3)
  await settled()
  assert.equal(await page.locator(".faults li").count(), 2)
  await set("steps", 8)
  await line("Not queued: 1 thing to fix first")
  assert.equal(await page.locator(".faults li").count(), 1)
  await set("ckpt_name", "emoji-64.safetensors")
  await line("Run queues the workflow.")
  assert.equal(await page.locator(".faults").count(), 0)
  assert.ok(await page.evaluate(() => graft.editor.nodes.every((n) => !n.faults?.length)))
  await set("steps", 0)
  await settled()
  await page.keyboard.press("Control+Enter")
  await line("Not queued: 1 thing")
  await press("Control+z")
  await line("Run queues the workflow.")
})

test("the picture of a plan is words on the node, and opens large", async () => {
  await page.evaluate(() => {
    const { editor } = graft
    const node = editor.add("QuantizeModel", [300, 700])
    editor.node(1).connect(0, node, 0)
    node.connect(0, editor.node(5), 0)
    editor.fit()
  })
  mock.state.files.set("plan.png", picture(600, 10))
  mock.state.planFile = { filename: "plan.png", subfolder: "", type: "temp" }
  await runOnce(page)
  const [high, at] = await page.evaluate(() => {
    const { editor } = graft
    const node = editor.nodes.find((n) => n.type === "QuantizeModel")
    const widget = node.widgets.find((w) => w.name === "$pictures")
    const { ds, canvas } = editor.canvas
    const box = canvas.getBoundingClientRect()
    const [x, y] = [node.pos[0] + node.size[0] / 2, node.pos[1] + widget.y + 20]
    return [
      widget.computedHeight,
      { x: box.left + (x + ds.offset[0]) * ds.scale, y: box.top + (y + ds.offset[1]) * ds.scale },
    ]
  })
  assert.ok(high < 60, String(high))
  await doubleClick(page, at, page.locator(".lightbox-name", { hasText: "plan.png · 600 × 600" }))
  const shown = await page.locator(".lightbox img").boundingBox()
  assert.ok(shown.width >= 500, String(shown.width))
  await page.keyboard.press("Escape")
  mock.state.planFile = null
})

test("a link to a node that does not run is told as that, until it runs again", async () => {
  const line = (text) => page.locator(".status-text", { hasText: text }).waitFor()
  for (const [keys, is] of [
    ["Control+m", "muted"],
    ["Control+b", "bypassed"],
  ]) {
    await page.mouse.click(...Object.values(await pointOf(page, NEGATIVE, "title")))
    await press(keys)
    await page.keyboard.press("Control+Enter")
    await line("Not queued: 1 thing to fix first")
    const text = `“negative” is linked to “Negative prompt”, which is ${is}.`
    await page.locator(".faults li", { hasText: text }).waitFor()
    await press(keys)
    await line("Run queues the workflow.")
    assert.equal(await page.locator(".faults").count(), 0)
    await page.waitForTimeout(600) // or the next click would make it a double one
  }
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
