// What the page tells whoever works with it: warnings, files that are not there, failures that are
// over, names of embeddings; and that nothing gets lost or hidden on the way.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { openBrowser, pointOf, runEnded } from "./drive.mjs"

const root = process.env.GRAFT_EDITOR_DIR
const source = process.env.GRAFT_SOURCE_DIR
const objectInfo = JSON.parse(
  readFileSync(join(source, "tests/editor/mock/object_info.json"), "utf8"),
)
// A type that nobody here knows.
objectInfo.PluginNode = {
  input: { required: { booster: ["BoosterOfAPlugin", {}] } },
  output: ["BoosterOfAPlugin"],
  output_name: ["booster"],
}
let mock, url, browser, page

before(async () => {
  mock = createMock({ root, objectInfo, stepMs: 15 })
  url = `http://127.0.0.1:${await mock.listen()}/`
  browser = await openBrowser()
  page = browser.page
  await browser.open(url)
})
after(async () => {
  await browser?.close()
  await mock?.close()
})

const fresh = async () => {
  await page.goto(`${url}app.css`) // of the same origin, and without a page that saves its state
  await page.evaluate(() => localStorage.clear())
  await browser.open(url)
}
const set = (type, widget, value) =>
  page.evaluate(
    ([type, widget, value]) => {
      const node = graft.editor.nodes.find((n) => n.type === type)
      node.widgets.find((w) => w.name === widget).value = value
    },
    [type, widget, value],
  )
const idOf = (type) =>
  page.evaluate((type) => graft.editor.nodes.find((n) => n.type === type).id, type)
// Presses Queue; ends when the page has read the answer, so that it no longer shows the last run's end.
let queued
const queue = async (press = () => page.locator("#queue").click()) => {
  const answered = page.waitForResponse((r) => r.url().endsWith("/prompt"))
  const [answer] = await Promise.all([answered, press()])
  queued = (await answer.json()).prompt_id
  if (queued)
    await page.waitForFunction(
      (id) => graft.runner.titles.has(id) || graft.runner.run?.prompt === id,
      queued,
    )
}
// Resolves once the text has been there, however shortly.
const noticed = (selector, text) =>
  page.evaluate(
    ([selector, text]) => {
      const there = () => document.querySelector(selector)?.textContent.includes(text)
      window.noticed = new Promise((done) => {
        if (there()) return done()
        const watch = new MutationObserver(() => there() && (watch.disconnect(), done()))
        watch.observe(document.body, { subtree: true, childList: true, characterData: true })
      })
    },
    [selector, text],
  )
// What was queued last has, and the page says so.
const succeeded = () =>
  page.waitForFunction(
    (id) =>
      graft.runner.run?.prompt === id &&
      graft.runner.run.state === "success" && // the text may be the last run's for a moment
      /^(Done|Nothing changed)/.test(document.querySelector(".status-text").textContent),
    queued,
  )
const text = (selector) => page.locator(selector).textContent()

test("a warning stands at its node, in the status line and in the history, and goes with the next run", async () => {
  await set("CLIPTextEncode", "text", "apple, embedding:nowhere")
  const id = await idOf("CLIPTextEncode")
  await queue()
  await succeeded()
  assert.equal(await text(".status-notes"), "1 warning")
  // With the pointer: at the mark in the title.
  const right = await page.evaluate((id) => {
    const { size } = graft.editor.node(id)
    return (size[0] / 2 - 20) * graft.editor.canvas.ds.scale
  }, id)
  const title = await pointOf(page, id, "title")
  await page.mouse.move(title.x, title.y)
  assert.ok(await page.locator("#tip").isHidden())
  await page.mouse.move(title.x + right, title.y)
  assert.match(await text("#tip"), /^embedding "nowhere" is left out/)
  assert.ok(await page.locator("#tip").isVisible())
  await page.mouse.move(title.x, title.y + 300)
  assert.ok(await page.locator("#tip").isHidden())
  // With the keyboard: in the Node panel.
  await page.locator(".status-notes").focus()
  await page.keyboard.press("Enter")
  assert.match(await text(".inspector .fault.warned"), /"nowhere" is left out/)
  assert.ok(
    await page.evaluate(() => document.querySelector("#side").contains(document.activeElement)),
  )
  await page.locator("#tab-history").click()
  assert.match(await text(".history-error.warned"), /^Prompt: embedding "nowhere" is left out/)
  assert.equal(await page.locator(".history-card.failed").count(), 0)
  await set("CLIPTextEncode", "text", "apple")
  await queue()
  await succeeded()
  await page.waitForFunction(() => graft.editor.nodes.every((node) => !node.warnings))
  assert.ok(await page.locator(".status-notes").isHidden())
})

test("a file that is not there: which one and where, at node and input, until it is another", async () => {
  const [good] = objectInfo.CheckpointLoaderSimple.input.required.ckpt_name[0]
  await set("CheckpointLoaderSimple", "ckpt_name", "gone.safetensors")
  await queue()
  await page.locator(".faults").waitFor()
  assert.match(await text(".faults"), /no file “gone\.safetensors” in models\/checkpoints/)
  assert.equal(await text(".status-text"), "Not queued: 1 thing to fix first")
  assert.deepEqual(
    await page.evaluate(() =>
      graft.editor.nodes.flatMap((n) => (n.faults ?? []).map((f) => f.input)),
    ),
    ["ckpt_name"],
  )
  await page.locator(".fault-node").click()
  assert.match(await text(".inspector .fault"), /models\/checkpoints/)
  await set("CheckpointLoaderSimple", "ckpt_name", good)
  await queue()
  await succeeded()
  assert.equal(await page.locator(".faults").count(), 0)
  assert.equal(await page.locator("#status").getAttribute("data-state"), "success")
})

test("a run that failed is forgotten when the next one succeeds, queued before or after", async () => {
  const unmarked = () =>
    page.evaluate(() => graft.editor.nodes.every((n) => !n.faults && n.run?.state !== "error"))
  await set("KSampler", "cfg", 99)
  await queue()
  await page.locator(".faults", { hasText: "The run failed" }).waitFor()
  assert.match(await text(".status-text"), /^Failed: The sampler ran out of memory/)
  await set("KSampler", "cfg", 4)
  await queue()
  await page.locator(".faults").waitFor({ state: "detached" })
  await succeeded()
  assert.ok(await unmarked())
  // The second waits while the first fails; both take long enough for a busy machine.
  await set("KSampler", "steps", 120)
  await set("KSampler", "cfg", 99)
  await queue()
  await set("KSampler", "cfg", 4)
  await noticed(".faults", "The run failed")
  await queue()
  await page.evaluate(() => window.noticed)
  await succeeded()
  assert.equal(await page.locator(".faults").count(), 0)
  assert.ok(await unmarked())
})

test("what a lost request said is gone with the next one", async () => {
  await page.route("**/api/prompt", (route) => route.abort())
  await page.locator("#queue").click()
  await page.locator("#toast.show.error", { hasText: "cannot be reached" }).waitFor()
  assert.equal(await text(".status-text"), "Not queued: The server cannot be reached.")
  await page.unroute("**/api/prompt")
  await queue()
  assert.equal(await page.locator("#toast.show").count(), 0)
  await succeeded()
})

test("a run of a workflow that is no longer shown leaves the nodes of the other alone", async () => {
  await fresh()
  await set("KSampler", "steps", 60)
  await queue()
  await page.waitForFunction(() => graft.runner.run?.node && graft.runner.run.state === "running")
  await page.getByRole("button", { name: "Workflow" }).click()
  await page.getByRole("menuitem", { name: "Demo: text to picture" }).click()
  await page.waitForTimeout(150)
  await runEnded(page)
  const shown = () =>
    page.evaluate(
      () =>
        graft.editor.nodes.filter((n) => n.run || n.widgets?.some((w) => w.pictures?.length))
          .length,
    )
  assert.equal(await shown(), 0)
  await queue()
  await succeeded()
  assert.ok((await shown()) > 0)
})

const unknownNode = (more) => ({
  version: 0.4,
  nodes: [
    { id: 1, type: "Elsewhere", title: "Mine", pos: [0, 0], size: [200, 60], mode: 0, ...more },
  ],
  links: [],
})
const menuItem = async (name) => {
  await page.getByRole("button", { name: "Workflow" }).click()
  await page.getByRole("menuitem", { name }).click()
}
const saved = async (click) => {
  const [download] = await Promise.all([page.waitForEvent("download"), click()])
  const stream = await download.createReadStream()
  const parts = []
  for await (const part of stream) parts.push(part)
  return [download.suggestedFilename(), JSON.parse(Buffer.concat(parts).toString())]
}

test("saving for the API keeps values of unknown nodes, or says which it cannot keep", async () => {
  const prompt = {
    1: { class_type: "Elsewhere", inputs: { text: "hello", size: 5 }, _meta: { title: "Mine" } },
  }
  await page.evaluate((prompt) => graft.editor.load(prompt, "mine"), prompt)
  assert.deepEqual(await saved(() => menuItem("Download for the API")), ["mine.api.json", prompt])
  // Without names they are shown before anything is saved.
  await page.evaluate(
    (w) => graft.editor.load(w, "mine"),
    unknownNode({ widgets_values: ["hello", 5] }),
  )
  await menuItem("Download for the API")
  const dialog = page.getByRole("dialog", { name: "Some values would be lost" })
  assert.match(await dialog.textContent(), /Mine \(Elsewhere\)"hello", 5/)
  await page.keyboard.press("Escape")
  assert.equal(await dialog.count(), 0)
  await menuItem("Download for the API")
  const [name, workflow] = await saved(() => dialog.getByText("Download as a workflow").click())
  assert.equal(name, "mine.json")
  assert.deepEqual(workflow.nodes[0].widgets_values, ["hello", 5])
  await menuItem("Download for the API")
  const [, without] = await saved(() => dialog.getByText("Download without them").click())
  assert.deepEqual(without["1"].inputs, {})
})

// WCAG 2: contrast of two colours.
function contrast(a, b) {
  const light = (colour) =>
    [1, 3, 5]
      .map((i) => parseInt(colour.slice(i, i + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0)
  const [high, low] = [light(a), light(b)].sort((x, y) => y - x)
  return (high + 0.05) / (low + 0.05)
}
const far = (a, b) =>
  Math.hypot(
    ...[1, 3, 5].map((i) => parseInt(a.slice(i, i + 2), 16) - parseInt(b.slice(i, i + 2), 16)),
  )

test("links of every type can be seen and told apart, dark and light", async () => {
  await fresh()
  const linked =
    "MODEL CLIP VAE CONDITIONING LATENT IMAGE MASK CONTROL_NET SAMPLER SIGMAS NOISE GUIDER".split(
      " ",
    )
  for (const mode of ["dark", "light"]) {
    const { ground, types, rest } = await page.evaluate(() => ({
      ground: graft.editor.canvas.clear_background_color,
      types: { ...graft.editor.canvas.default_connection_color_byType },
      rest: graft.editor.canvas.default_link_color,
    }))
    for (const type of [...linked, "BoosterOfAPlugin"])
      assert.ok(
        contrast(types[type] ?? "#000000", ground) >= 3,
        `${type} on ${mode}: ${types[type]}`,
      )
    linked.forEach((a, i) => {
      assert.ok(far(types[a], rest) > 30, `${a}, and links of any kind: ${mode}`)
      for (const b of linked.slice(i + 1))
        assert.ok(far(types[a], types[b]) > 30, `${a} and ${b}: ${mode}`)
    })
    await page.locator("#theme").click()
  }
})

// The colour that the canvas has at points of the graph.
const drawnAt = (points) =>
  page.evaluate((points) => {
    const { ds, canvas } = graft.editor.canvas
    const ctx = canvas.getContext("2d")
    return points.map(([x, y]) => {
      const at = [(x + ds.offset[0]) * ds.scale, (y + ds.offset[1]) * ds.scale]
      const pixel = ctx.getImageData(Math.round(at[0]), Math.round(at[1]), 1, 1).data
      return (
        "#" +
        [...pixel]
          .slice(0, 3)
          .map((v) => v.toString(16).padStart(2, "0"))
          .join("")
      )
    })
  }, points)

test("a link back to the left goes around its nodes, and can be seen all the way", async () => {
  await fresh()
  const { way, colour } = await page.evaluate(() => {
    const { editor } = graft
    const of = (type) => editor.nodes.find((n) => n.type === type)
    const [from, to] = [of("VAEDecode"), of("SaveImage")]
    editor.canvas.ds.scale = 1
    editor.canvas.ds.offset[0] = -from.pos[0] + 200
    editor.canvas.ds.offset[1] = 0
    editor.canvas.setDirty(true, true)
    const [a, b] = [from.getOutputPos(0), to.getInputPos(0)]
    const y = (from.pos[1] + from.size[1] + to.pos[1] - 30) / 2
    const [left, right] = [to.pos[0] - 9, from.pos[0] + from.size[0] + 9]
    const way = [0.2, 0.5, 0.8].map((part) => [left + (right - left) * part, y])
    way.push([right, (a[1] + y) / 2], [left, (b[1] + y) / 2])
    return { way, colour: editor.canvas.default_connection_color_byType.IMAGE }
  })
  await page.waitForTimeout(150)
  for (const [i, seen] of (await drawnAt(way)).entries())
    assert.ok(far(seen, colour) < 40, `${seen} for ${colour} at ${way[i]}`)
})

test("title bars stand out from the canvas, dark and light", async () => {
  await fresh()
  for (const mode of ["dark", "light"]) {
    await page.waitForTimeout(150)
    const places = await page.evaluate(() => {
      const { pos, size } = graft.editor.nodes[0]
      return [
        [pos[0] + size[0] - 20, pos[1] - 15],
        [pos[0] - 9, pos[1] - 15],
      ]
    })
    const [title, ground] = await drawnAt(places)
    assert.ok(contrast(title, ground) >= 1.17, `${mode}: ${title} on ${ground}`)
    await page.locator("#theme").click()
  }
})

test("lists with more than is in view fade out where it goes on", async () => {
  await fresh()
  // Which ends fade, and whether there is more: by the list's own measure, and by its mask.
  const ends = (selector) =>
    page.evaluate((selector) => {
      const list = document.querySelector(selector)
      const { scrollTop, scrollHeight, clientHeight } = list
      const style = getComputedStyle(list)
      const more = [scrollTop > 1, scrollHeight - clientHeight - scrollTop > 1]
      const fades = ["--above", "--below"].map(
        (name) => parseFloat(style.getPropertyValue(name)) > 0,
      )
      return { more, fades, mask: style.maskImage.startsWith("linear-gradient") }
    }, selector)
  const check = async (selector, more) => {
    await page.waitForTimeout(150)
    assert.deepEqual(await ends(selector), { more, fades: more, mask: true }, selector)
  }
  const scroll = (selector, to) =>
    page.evaluate(
      ([selector, to]) => (document.querySelector(selector).scrollTop = to),
      [selector, to],
    )
  await page.locator("#canvas").focus()
  await page.keyboard.press("?")
  await check(".keys-list", [false, true])
  await scroll(".keys-list", 1e6)
  await check(".keys-list", [true, false])
  await page.getByRole("heading", { name: "Shortcuts" }).waitFor() // it stays in sight
  await page.keyboard.press("Escape")
  await page.locator("#canvas").focus()
  await page.keyboard.press("a")
  await check(".search ul", [false, true])
  await page.locator("dialog.search[open] input").fill("vae decode")
  await check(".search ul", [false, false])
  await page.locator("dialog.search[open] input").fill("")
  await scroll(".search ul", 30)
  await check(".search ul", [true, true])
  await page.keyboard.press("Escape")
  // A combo opens where its value is.
  const values = Array.from({ length: 60 }, (_, i) => `sampler ${i}`)
  await page.evaluate((values) => {
    const node = graft.editor.nodes.find((n) => n.type === "KSampler")
    const widget = node.widgets.find((w) => w.name === "sampler_name")
    widget.options.values = values
    widget.value = values[30]
  }, values)
  const at = await pointOf(page, await idOf("KSampler"), "widget", "sampler_name")
  await page.mouse.click(at.x, at.y)
  await page.locator(".picker li", { hasText: "sampler 30" }).waitFor()
  await check(".picker ul", [true, true])
  const clear = await page.evaluate(() => {
    const list = document.querySelector(".picker ul").getBoundingClientRect()
    const { top, bottom } = document.querySelector(".picker li.active").getBoundingClientRect()
    return [top - list.top, list.bottom - bottom]
  })
  for (const room of clear) assert.ok(room >= 32, `${clear}: what is chosen does not fade`)
  await page.keyboard.press("Escape")
})

const overlaps = () =>
  page.evaluate(() => {
    const { nodes } = graft.editor
    const boxes = nodes.map((n) => [
      n.pos[0],
      n.pos[1] - 30,
      n.pos[0] + n.size[0],
      n.pos[1] + n.size[1],
    ])
    const found = []
    boxes.forEach((a, i) =>
      boxes.slice(i + 1).forEach((b, k) => {
        if (a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3])
          found.push(`${nodes[i].title} and ${nodes[i + 1 + k].title}`)
      }),
    )
    return found
  })

test("a node that shows pictures hides none below it, and its group still holds them", async () => {
  await fresh()
  const sampler = await idOf("KSampler")
  const below = await page.evaluate((id) => {
    const { editor } = graft
    const node = editor.node(id)
    const column = ["EmptyLatentImage", "VAEDecode"].map((type) =>
      editor.nodes.find((n) => n.type === type),
    )
    let y = node.pos[1] + node.size[1] + 46
    for (const other of column) {
      other.pos = [node.pos[0] - 30, y]
      y += other.size[1] + 46
    }
    editor.canvas.setDirty(true, true)
    return column.map((n) => n.id)
  }, sampler)
  await page.waitForTimeout(50)
  await page.evaluate(
    (ids) => {
      const { editor } = graft
      editor.canvas.selectItems(ids.map((id) => editor.node(id)))
      editor.addGroup()
      editor.canvas.deselectAll()
    },
    [sampler, ...below],
  )
  await page.waitForTimeout(250)
  assert.deepEqual(await overlaps(), [])
  const before = await page.evaluate(() => graft.editor.graph.serialize())
  await queue()
  await succeeded()
  await page.waitForTimeout(250)
  assert.deepEqual(await overlaps(), [])
  assert.ok(
    (await page.evaluate((id) => graft.editor.node(id).size[1], sampler)) >
      before.nodes.find((n) => n.id === sampler).size[1] + 100,
  )
  const held = await page.evaluate((ids) => {
    const [group] = graft.editor.graph.groups
    const bottom = group.pos[1] + group.size[1]
    return ids.every((id) => graft.editor.node(id).pos[1] + graft.editor.node(id).size[1] <= bottom)
  }, below)
  assert.ok(held)
  // Room that was made is no step of its own: undo takes the group back, not the room.
  await page.keyboard.press("Control+z")
  await page.waitForTimeout(200)
  assert.equal(await page.evaluate(() => graft.editor.graph.groups.length), 0)
})

test("names of embeddings are completed while a prompt is typed", async () => {
  await fresh()
  const id = await idOf("CLIPTextEncode")
  const open = async () => {
    const point = await pointOf(page, id, "widget", "text")
    await page.mouse.click(point.x, point.y)
    await page.locator(".inline-editor").fill("")
  }
  const list = page.getByRole("listbox", { name: "Embeddings" })
  const names = () => list.getByRole("option").allTextContents()
  const value = () => page.locator(".inline-editor").inputValue()
  const chosen = () => list.locator("[aria-selected=true]").textContent()
  await open()
  await page.keyboard.type("apple, embedding:")
  await list.waitFor()
  assert.deepEqual(await names(), ["cat", "charming", "style/catlike", "style/oil"])
  await page.keyboard.type("ca")
  await page.waitForFunction(() => document.querySelectorAll(".completion li").length === 2)
  await page.keyboard.press("ArrowDown")
  assert.equal(await chosen(), "style/catlike")
  await page.keyboard.press("ArrowDown")
  assert.equal(await chosen(), "cat")
  const active = await page.locator(".inline-editor").getAttribute("aria-activedescendant")
  assert.equal(await page.locator(`#${active}`).textContent(), "cat")
  await page.keyboard.press("ArrowUp")
  await page.keyboard.press("Enter")
  assert.equal(await value(), "apple, embedding:style/catlike")
  assert.ok(await list.isHidden())
  // Escape closes the list, and only then the field; the name may be typed on.
  await page.keyboard.type(" embedding:c")
  await list.waitFor()
  await page.keyboard.press("Escape")
  assert.ok(await list.isHidden())
  await page.keyboard.type("h")
  await page.waitForTimeout(80)
  assert.ok(await list.isHidden())
  assert.equal(await value(), "apple, embedding:style/catlike embedding:ch")
  await page.keyboard.press("Escape")
  assert.equal(await page.locator(".inline-editor").count(), 0)
  // Ctrl+Enter queues what is typed, whatever the list would choose.
  await open()
  await page.keyboard.type("embedding:ch")
  await list.waitFor()
  await queue(() => page.keyboard.press("Control+Enter"))
  assert.equal(mock.state.prompts.at(-1).prompt[id].inputs.text, "embedding:ch")
  assert.equal(await list.count(), 0)
  await runEnded(page)
  // In the panel, with the mouse, in front of a weight.
  await page.locator("#tab-node").click()
  await page.getByRole("combobox", { name: "Node" }).selectOption(String(id))
  const area = page.locator(".inspector textarea")
  await area.fill("(embedding:st:1.2)")
  await area.evaluate((field) => field.setSelectionRange(13, 13))
  await page.keyboard.type("y")
  await list.getByText("style/oil").click()
  assert.equal(await area.inputValue(), "(embedding:style/oil:1.2)")
  assert.ok(await area.evaluate((field) => field === document.activeElement))
  // A list that went with the focus is gone: back in the field, Enter is a new line.
  await area.fill("embedding:st")
  await page.keyboard.type("y")
  await list.waitFor()
  await page.keyboard.press("Shift+Tab")
  assert.ok(await list.isHidden())
  await area.focus()
  await page.keyboard.press("Enter")
  assert.equal(await area.inputValue(), "embedding:sty\n")
})

test("names in nodes that are read from a prompt are whole", async () => {
  await page.evaluate(() => {
    const { prompt } = graft.editor.toPrompt()
    graft.editor.load(prompt, "again")
  })
  await page.waitForTimeout(150)
  const cut = await page.evaluate(() =>
    graft.editor.nodes.flatMap((node) =>
      (node.widgets ?? [])
        .filter((w) => w.type === "combo")
        .filter((w) => {
          const ctx = document.createElement("canvas").getContext("2d")
          ctx.font = "12px Inter, system-ui, sans-serif"
          const needed = ctx.measureText(w.name).width + ctx.measureText(String(w.value)).width
          return needed + 92 > node.size[0]
        })
        .map((w) => `${node.title}: ${w.name}`),
    ),
  )
  assert.deepEqual(cut, [])
})

test("focus goes into what opens and comes back when it closes", async () => {
  await fresh()
  const focus = () =>
    page.evaluate(() => {
      const at = document.activeElement
      return (
        at.closest("dialog")?.getAttribute("aria-label") ??
        at.closest("#side, .menu")?.className ??
        at.id
      )
    })
  const canvas = page.locator("#canvas")
  // Panels by their keys.
  for (const [key, tab] of [
    ["n", "node"],
    ["q", "queue"],
    ["h", "history"],
  ]) {
    await canvas.focus()
    await page.keyboard.press(key)
    assert.equal(await page.locator(`#tab-${tab}`).getAttribute("aria-selected"), "true")
    assert.ok(
      await page.evaluate(() =>
        document.querySelector("#side-body").contains(document.activeElement),
      ),
      key,
    )
    await page.keyboard.press("Escape")
    assert.equal(await focus(), "canvas", key)
    assert.ok(
      await page.evaluate(() => document.querySelector("#side").classList.contains("closed")),
    )
  }
  // Dialogs from the canvas, and from a button.
  await page.keyboard.press("a")
  assert.equal(await focus(), "Add a node")
  await page.keyboard.press("Escape")
  assert.equal(await focus(), "canvas")
  await page.locator("#name").focus()
  await page.keyboard.press("Enter")
  assert.equal(await focus(), "Rename")
  await page.keyboard.press("Escape")
  assert.equal(await focus(), "name")
  // A menu, and a dialog that one of its entries opens.
  const menu = page.getByRole("button", { name: "Workflow" })
  await menu.focus()
  await page.keyboard.press("Enter")
  await page.keyboard.press("End")
  await page.keyboard.press("ArrowDown")
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "New")
  await page.keyboard.press("Tab")
  assert.ok(await page.getByRole("menu").isHidden())
  await menu.focus()
  await page.keyboard.press("Enter")
  await page.getByRole("menuitem", { name: "Rename" }).press("Enter")
  assert.equal(await focus(), "Rename")
  await page.keyboard.press("Escape")
  assert.ok(await menu.evaluate((button) => button === document.activeElement))
  // What is wrong with a workflow can be closed from the keyboard.
  await set("CheckpointLoaderSimple", "ckpt_name", "gone")
  await canvas.focus()
  await page.keyboard.press("Control+Enter")
  await page.locator(".faults").waitFor()
  await page.locator(".faults .icon-button").focus()
  await page.keyboard.press("Escape")
  assert.equal(await page.locator(".faults").count(), 0)
  assert.equal(await focus(), "canvas")
})

test("no error reached the page", () => assert.deepEqual(browser.faults, []))
