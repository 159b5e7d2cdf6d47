// Nodes of extensions of ComfyUI's editor, in files from there.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { doubleClick, openBrowser, pointOf } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
objectInfo.LoraLoader.input.required.lora_name[0] = ["one.safetensors", "sub/two.safetensors"]
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

const node = (id, type, pos, more = {}) => ({
  id,
  type,
  pos,
  size: [240, 130],
  mode: 0,
  flags: {},
  inputs: [],
  outputs: [],
  properties: {},
  ...more,
})
const image = (id, pos, more = {}) =>
  node(id, "EmptyImage", pos, {
    outputs: [{ name: "IMAGE", type: "IMAGE", links: [] }],
    widgets_values: [64, 64, 1, 255],
    ...more,
  })
const group = (title, bounding, color) => ({ title, bounding, color, font_size: 24, flags: {} })
const show = async (nodes, more = {}) => {
  await page.evaluate((data) => graft.editor.load(data), {
    nodes,
    links: [],
    groups: [],
    extra: {},
    version: 0.4,
    ...more,
  })
  await page.waitForTimeout(200)
}
const modes = () =>
  page.evaluate(() =>
    Object.fromEntries(graft.editor.nodes.map(({ id, mode }) => [id, mode]).sort()),
  )
const switches = (id) =>
  page.evaluate(
    (id) => graft.editor.node(id).widgets.map(({ name, value }) => [name, value]),
    id,
  )
const press = async (id, name) => {
  const { x, y } = await pointOf(page, id, "widget", name)
  await page.mouse.click(x, y)
  await page.waitForTimeout(400) // two clicks that are no double click
}

const GROUPS = [
  group("b one", [40, 60, 300, 240], "#3f789e"),
  group("a two", [40, 340, 300, 240], "#A1309B"),
]
const pair = () => [image(1, [60, 140]), image(2, [60, 420], { mode: 4 })]
const muter = (properties, type = "Fast Groups Muter (rgthree)") =>
  node(3, type, [420, 100], { properties, size: [300, 90] })

test("a switch a group mutes or bypasses what lies in it, and brings it back", async () => {
  await show([...pair(), muter({ toggleRestriction: "default" })], { groups: GROUPS })
  assert.deepEqual(await switches(3), [
    ["Enable b one", true],
    ["Enable a two", false],
  ])
  await press(3, "Enable b one")
  assert.deepEqual(await modes(), { 1: 2, 2: 4, 3: 0 })
  await press(3, "Enable a two")
  await press(3, "Enable b one")
  assert.deepEqual(await modes(), { 1: 0, 2: 0, 3: 0 })
  await page.locator("#undo").click()
  await page.waitForTimeout(200)
  assert.deepEqual(await modes(), { 1: 2, 2: 0, 3: 0 }, "it is a step that can be undone")
  await show([...pair(), muter({}, "Fast Groups Bypasser (rgthree)")], { groups: GROUPS })
  await press(3, "Enable b one")
  assert.deepEqual(await modes(), { 1: 4, 2: 4, 3: 0 })
})

test("the Node panel has the switches, for the keyboard", async () => {
  await show([...pair(), muter({})], { groups: GROUPS })
  await page.evaluate(() => graft.editor.canvas.selectItems([graft.editor.node(3)]))
  await page.locator("#tab-node").click()
  await page.locator('[data-widget="Enable a two"]').press("Space")
  assert.deepEqual(await modes(), { 1: 0, 2: 0, 3: 0 })
  await page.locator("#tab-node").click()
})

test("which groups have a switch, in which order, and how many may be on", async () => {
  const names = async (properties) => {
    await show([...pair(), muter(properties)], { groups: GROUPS })
    return (await switches(3)).map(([name]) => name.slice(7))
  }
  assert.deepEqual(await names({ sort: "alphanumeric" }), ["a two", "b one"])
  assert.deepEqual(await names({ sort: "custom alphabet", customSortAlphabet: "b,a" }), [
    "b one",
    "a two",
  ])
  assert.deepEqual(await names({ matchTitle: "^B" }), ["b one"])
  assert.deepEqual(await names({ matchTitle: "(" }), [])
  assert.deepEqual(await names({ matchColors: "a1309b" }), ["a two"])
  assert.deepEqual(await names({ matchColors: "pale_blue, red" }), ["b one"])
  await names({ toggleRestriction: "max one" })
  await press(3, "Enable a two")
  assert.deepEqual(await modes(), { 1: 2, 2: 0, 3: 0 })
  await press(3, "Enable a two")
  assert.deepEqual(await modes(), { 1: 2, 2: 2, 3: 0 })
  await names({ toggleRestriction: "always one" })
  await press(3, "Enable b one")
  assert.deepEqual(await modes(), { 1: 0, 2: 4, 3: 0 }, "the last stays on")
  await page.evaluate(() => (graft.editor.graph.groups[0].title = "renamed"))
  await page.evaluate(() => graft.editor.canvas.setDirty(true, true))
  await page.waitForTimeout(200)
  assert.equal((await switches(3))[0][0], "Enable renamed")
})

test("a switch for each node that is linked, also through a reroute", async () => {
  const input = (link) => ({ name: "", type: "*", link })
  await show(
    [
      ...pair(),
      node(4, "Reroute (rgthree)", [330, 300], {
        inputs: [input(2)],
        outputs: [{ name: "", type: "*", links: [3] }],
        size: [40, 30],
      }),
      node(3, "Fast Muter (rgthree)", [420, 100], { inputs: [input(1), input(3)] }),
    ],
    {
      links: [
        [1, 1, 0, 3, 0, "*"],
        [2, 2, 0, 4, 0, "*"],
        [3, 4, 0, 3, 1, "*"],
      ],
    },
  )
  const [first, second] = (await switches(3)).map(([, value]) => value)
  assert.deepEqual([first, second], [true, false])
  await press(3, "Enable EmptyImage")
  assert.deepEqual(await modes(), { 1: 2, 2: 4, 3: 0, 4: 0 })
})

test("nodes that this page does nothing for are kept as they were", async () => {
  const types = ["Mute / Bypass Repeater (rgthree)", "Node Collector (rgthree)", "Bookmark (rgthree)"]
  const given = types.map((type, i) =>
    node(i + 1, type, [60, 100 + 150 * i], {
      inputs: [{ name: "in", type: "*", link: null }],
      properties: { shortcut_key: "1" },
      widgets_values: ["1", 2],
    }),
  )
  await show(given)
  const saved = await page.evaluate(() => graft.editor.toWorkflow().nodes)
  for (const [i, { type, properties, widgets_values, inputs }] of saved.entries()) {
    assert.equal(type, types[i])
    assert.equal(properties.shortcut_key, "1")
    assert.deepEqual(widgets_values, ["1", 2])
    assert.equal(inputs[0].name, "in")
  }
})

test("a label is a text without a box, as its properties say, and can be written", async () => {
  const properties = { fontSize: 40, fontColor: "#ff0000", backgroundColor: "#0000ff", padding: 20 }
  await show([
    node(1, "Label (rgthree)", [100, 100], {
      title: "WWW\nW",
      properties: { ...properties, fontFamily: "monospace", textAlign: "left", borderRadius: 0 },
      color: "#fff0",
      bgcolor: "#fff0",
    }),
  ])
  const [width, height] = await page.evaluate(() => [...graft.editor.node(1).size])
  assert.equal(height, 2 * 40 + 2 * 20)
  assert.ok(width > 3 * 20 + 40 && width < 3 * 30 + 40, `${width}`)
  // What is seen: a corner of the paper, and red letters on it.
  const colours = await page.evaluate(() => {
    const { ds, canvas } = graft.editor.canvas
    const node = graft.editor.node(1)
    const at = [0, 1].map((i) => (node.pos[i] + ds.offset[i]) * ds.scale * devicePixelRatio)
    const size = [...node.size].map((side) => Math.floor(side * ds.scale * devicePixelRatio))
    const { data } = canvas.getContext("2d").getImageData(...at.map(Math.round), ...size)
    const count = (r, g, b) => {
      let n = 0
      for (let i = 0; i < data.length; i += 4)
        if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n++
      return n / (data.length / 4)
    }
    return { blue: count(0, 0, 255), red: count(255, 0, 0) }
  })
  assert.ok(colours.blue > 0.5 && colours.red > 0.02, JSON.stringify(colours))
  const { x, y } = await page.evaluate(() => {
    const { ds, canvas } = graft.editor.canvas
    const { left, top } = canvas.getBoundingClientRect()
    return {
      x: left + (110 + ds.offset[0]) * ds.scale,
      y: top + (160 + ds.offset[1]) * ds.scale,
    }
  })
  const field = page.locator(".inline-editor")
  await doubleClick(page, { x, y }, field)
  await field.fill("one\ntwo\nthree")
  await page.keyboard.press("Control+Enter")
  await page.waitForTimeout(200)
  const { title, size } = await page.evaluate(() => graft.editor.toWorkflow().nodes[0])
  assert.equal(title, "one\ntwo\nthree")
  assert.equal(size[1], 3 * 40 + 2 * 20)
})

const EVERYWHERE = [
  node(1, "CheckpointLoaderSimple", [0, 60], {
    outputs: ["MODEL", "CLIP", "VAE"].map((type) => ({ name: type, type, links: [] })),
    widgets_values: ["emoji-64.safetensors"],
  }),
  node(2, "Anything Everywhere", [400, 60], {
    inputs: [{ name: "MODEL", type: "*", link: 1 }],
    size: [200, 60],
  }),
  node(3, "KSampler", [700, 60], {
    inputs: [
      { name: "model", type: "MODEL", link: null },
      { name: "seed", type: "INT", link: null, widget: { name: "seed" } },
    ],
    size: [260, 300],
    widgets_values: [1, "fixed", 20, 7, "euler", "normal", 1],
  }),
  node(4, "Seed Everywhere", [400, 300], {
    outputs: [{ name: "INT", type: "INT", links: [] }],
    widgets_values: [5, "increment"],
  }),
]

test("Use Everywhere's links count, also after saving; they are drawn for what is selected", async () => {
  const prompt = () => page.evaluate(() => graft.editor.toPrompt().prompt)
  await show(EVERYWHERE, { links: [[1, 1, 0, 2, 0, "*"]] })
  const before = await prompt()
  assert.deepEqual(Object.keys(before), ["1", "3"])
  assert.deepEqual(before[3].inputs.model, ["1", 0])
  assert.equal(before[3].inputs.seed, 5)
  await page.evaluate(() => graft.editor.load(graft.editor.toWorkflow()))
  assert.deepEqual(await prompt(), before)
  await page.evaluate(() => graft.editor.load(graft.editor.toWorkflow1()))
  assert.deepEqual(await prompt(), before)
  await page.evaluate(() => graft.editor.advanceSeeds())
  const added = await page.evaluate(() => graft.editor.add("KSampler", [700, 500]).id)
  const after = await prompt()
  assert.equal(after[3].inputs.seed, 6)
  assert.deepEqual(after[added].inputs.model, ["1", 0])
  assert.notEqual(after[added].inputs.seed, 6, "of a new node no value gives way")
  await page.evaluate(() => graft.editor.node(2).disconnectInput(0))
  assert.equal((await prompt())[3].inputs.model, undefined)
})

test("links that nobody drew are shown for the nodes at their ends", async () => {
  await show(EVERYWHERE, { links: [[1, 1, 0, 2, 0, "*"]] })
  await page.evaluate(() => {
    graft.dashed = 0
    const { prototype } = CanvasRenderingContext2D
    const stroke = prototype.stroke
    prototype.stroke = function (...given) {
      if (this.getLineDash().length) graft.dashed++
      return stroke.apply(this, given)
    }
  })
  const dashed = async (...ids) => {
    await page.evaluate((ids) => {
      const { editor } = graft
      editor.canvas.deselectAll()
      if (ids.length) editor.canvas.selectItems(ids.map((id) => editor.node(id)))
    }, ids)
    await page.waitForTimeout(400)
    await page.evaluate(() => {
      graft.dashed = 0
      graft.editor.canvas.draw(true, true)
    })
    return page.evaluate(() => graft.dashed)
  }
  assert.equal(await dashed(), 0)
  assert.equal(await dashed(3), 2)
  assert.equal(await dashed(2), 1)
  assert.equal(await dashed(4), 1)
})

const GROUPED = {
  nodes: [
    node(5, "workflow>two pictures", [60, 80], {
      inputs: [{ name: "image", type: "IMAGE", link: null }],
      outputs: [{ name: "IMAGE", type: "IMAGE", links: [1] }],
      widgets_values: [96, 32, 1, 7, "picture"],
    }),
    node(6, "SaveImage", [420, 80], {
      inputs: [{ name: "images", type: "IMAGE", link: 1 }],
      widgets_values: ["x"],
    }),
  ],
  links: [[1, 5, 0, 6, 0, "IMAGE"]],
  extra: {
    groupNodes: {
      "two pictures": {
        nodes: [
          { ...image(-1, [0, 0]), index: 0 },
          {
            ...node(-1, "SaveImage", [300, 0], { widgets_values: ["y"] }),
            inputs: [{ name: "images", type: "IMAGE", link: null }],
            index: 1,
          },
        ],
        links: [[0, 0, 1, 0, 1, "IMAGE"]],
        external: [[0, 0, "IMAGE"]],
      },
    },
  },
}

test("a group node is opened as a sub-graph that shows its values", async () => {
  const prompt = () => page.evaluate(() => graft.editor.toPrompt().prompt)
  await show(GROUPED.nodes, { links: GROUPED.links, extra: GROUPED.extra })
  const first = await prompt()
  assert.deepEqual(Object.keys(first).sort(), ["5:1", "5:2", "6"])
  assert.deepEqual(first["5:1"].inputs, { width: 96, height: 32, batch_size: 1, color: 7 })
  assert.deepEqual(first["5:2"].inputs, { filename_prefix: "picture", images: ["5:1", 0] })
  assert.deepEqual(first[6].inputs.images, ["5:1", 0])
  const names = await page.evaluate(() => graft.editor.node(5).widgets.map(({ name }) => name))
  assert.deepEqual(names, ["width", "height", "batch_size", "color", "filename_prefix"])
  assert.equal(await page.evaluate(() => graft.editor.node(5).title), "two pictures")
  await page.evaluate(() => {
    const widget = graft.editor.node(5).widgets.find(({ name }) => name === "height")
    widget.value = 48
  })
  assert.equal((await prompt())["5:1"].inputs.height, 48)
  const saved = await page.evaluate(() => graft.editor.toWorkflow())
  assert.equal(saved.extra.groupNodes, undefined)
  assert.equal(saved.definitions.subgraphs[0].name, "two pictures")
  await page.evaluate((saved) => graft.editor.load(saved), saved)
  assert.equal((await prompt())["5:1"].inputs.height, 48)
  await page.evaluate(() => graft.editor.openSubgraph(graft.editor.node(5)))
  await page.waitForTimeout(200)
  assert.deepEqual(
    await page.evaluate(() => graft.editor.canvas.graph.nodes.map(({ type }) => type).sort()),
    ["EmptyImage", "SaveImage"],
  )
  await page.evaluate(() => graft.editor.leaveSubgraph())
})

test("a group node whose values do not fit is said", async () => {
  const nodes = structuredClone(GROUPED.nodes)
  nodes[0].widgets_values.push(1)
  const data = { ...GROUPED, nodes, groups: [], version: 0.4 }
  const note = await page.evaluate((data) => graft.editor.load(data), data)
  assert.match(note, /values of “two pictures” could not be told/)
})

const loras = (values, more = {}) =>
  node(1, "Power Lora Loader (rgthree)", [100, 100], {
    inputs: [
      { name: "model", type: "MODEL", link: null },
      { name: "clip", type: "CLIP", link: null },
    ],
    outputs: [
      { name: "MODEL", type: "MODEL", links: [] },
      { name: "CLIP", type: "CLIP", links: [] },
    ],
    size: [400, 160],
    widgets_values: values,
    ...more,
  })
const ROWS = [
  { on: true, lora: "one.safetensors", strength: 0.5, strengthTwo: null },
  { on: false, lora: "gone.safetensors", strength: 1, strengthTwo: 0.25 },
]
const DRAWN = [{}, { type: "PowerLoraLoaderHeaderWidget" }, ...ROWS, {}, ""]
const loraInputs = () => page.evaluate(() => graft.editor.toPrompt().prompt[1].inputs)
// A place of a row, in pixels from its left edge or, below 0, from its right one.
const clickRow = async (name, x) => {
  const at = await page.evaluate(
    ([name, x]) => {
      const node = graft.editor.node(1)
      const { ds, canvas } = graft.editor.canvas
      const { left, top } = canvas.getBoundingClientRect()
      const widget = node.widgets.find((w) => w.name === name)
      const place = x < 0 ? node.size[0] + x : x
      return {
        x: left + (node.pos[0] + place + ds.offset[0]) * ds.scale,
        y: top + (node.pos[1] + widget.y + 10 + ds.offset[1]) * ds.scale,
      }
    },
    [name, x],
  )
  await page.mouse.click(at.x, at.y)
  await page.waitForTimeout(400)
}

test("rows of LoRAs are shown, changed, added and removed, and kept in files", async () => {
  await show([loras(DRAWN)])
  assert.deepEqual(await loraInputs(), { lora_1: ROWS[0], lora_2: ROWS[1] })
  await clickRow("lora_2", 26)
  assert.equal((await loraInputs()).lora_2.on, true)
  await clickRow("lora_1", -15 - 22 - 7) // the arrow that adds
  assert.equal((await loraInputs()).lora_1.strength, 0.55)
  await clickRow("lora_2", -15 - 22 - 68 - 61) // the other one of the first of two strengths
  assert.deepEqual(await loraInputs(), {
    lora_1: { ...ROWS[0], strength: 0.55 },
    lora_2: { ...ROWS[1], on: true, strength: 0.95 },
  })
  await clickRow("lora_1", -15 - 22 - 34) // the number itself
  await page.locator(".inline-editor").fill("-2")
  await page.keyboard.press("Enter")
  await page.waitForTimeout(200)
  assert.equal((await loraInputs()).lora_1.strength, -2)
  await clickRow("lora_2", 100)
  await page.getByRole("option", { name: "sub/two.safetensors" }).click()
  assert.equal((await loraInputs()).lora_2.lora, "sub/two.safetensors")
  await page.locator("#undo").click()
  await page.waitForTimeout(200)
  assert.equal((await loraInputs()).lora_2.lora, "gone.safetensors", "it can be undone")
  await press(1, "add")
  await page.getByRole("option", { name: "one.safetensors" }).click()
  const added = { on: true, lora: "one.safetensors", strength: 1, strengthTwo: null }
  assert.deepEqual((await loraInputs()).lora_3, added)
  await clickRow("lora_1", -26)
  const left = { lora_1: { ...ROWS[1], on: true, strength: 0.95 }, lora_2: added }
  assert.deepEqual(await loraInputs(), left)
  const saved = await page.evaluate(() => graft.editor.toWorkflow())
  assert.deepEqual(saved.nodes[0].widgets_values, Object.values(left))
  await page.evaluate((saved) => graft.editor.load(saved), saved)
  assert.deepEqual(await loraInputs(), left)
})

test("a row whose file is not there is marked, also by its name in another folder", async () => {
  const marked = (lora, on) =>
    page.evaluate(
      (row) => {
        graft.editor.node(1).widgets[0].value = row
        return graft.editor.node(1).widgets[0].isMissing()
      },
      { lora, on, strength: 1 },
    )
  await show([loras(ROWS)])
  assert.equal(await marked("gone.safetensors", true), true)
  assert.equal(await marked("gone.safetensors", false), false)
  assert.equal(await marked("x\\two", true), false)
  assert.equal(await marked("None", true), false)
})

test("the Node panel has the rows, for the keyboard", async () => {
  await show([loras(ROWS)])
  await page.evaluate(() => graft.editor.canvas.selectItems([graft.editor.node(1)]))
  await page.locator("#tab-node").click()
  await page.getByLabel("lora_2: on").press("Space")
  await page.getByLabel("lora_1: file").selectOption("sub/two.safetensors")
  await page.getByLabel("lora_1: strength for the text encoder").fill("0.25")
  await page.getByLabel("lora_2: strength", { exact: true }).fill("much")
  await page.getByLabel("lora_2: strength for the text encoder").fill("")
  await page.getByLabel("lora_2: on").focus()
  assert.deepEqual(await loraInputs(), {
    lora_1: { ...ROWS[0], lora: "sub/two.safetensors", strengthTwo: 0.25 },
    lora_2: { ...ROWS[1], on: true, strengthTwo: null },
  })
  await page.getByRole("button", { name: "Add LoRA" }).click()
  assert.deepEqual((await loraInputs()).lora_3, {
    on: true,
    lora: "None",
    strength: 1,
    strengthTwo: null,
  })
  await page.getByRole("group", { name: "lora_1" }).getByRole("button", { name: "Remove" }).click()
  assert.deepEqual(Object.keys(await loraInputs()), ["lora_1", "lora_2"])
  await page.locator("#tab-node").click()
})

test("a node that is too low for its widgets in a file gets their height, and room", async () => {
  await show([image(1, [100, 100], { size: [240, 40] }), image(2, [100, 240], { size: [240, 300] })])
  const [low, below] = await page.evaluate(() =>
    graft.editor.nodes.map((node) => ({
      height: node.size[1],
      least: node.computeSize()[1],
      top: node.pos[1],
    })),
  )
  assert.ok(low.least > 100, `${low.least}`)
  assert.equal(low.height, low.least)
  assert.equal(below.height, 300)
  assert.ok(below.top > low.top + low.height, `${below.top}`)
})

test("nothing went wrong on the page", () => assert.deepEqual(browser.faults, []))
