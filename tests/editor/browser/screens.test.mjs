// Screens of any resolution and size: what is drawn is where it can be clicked, and can be read.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { drag, openBrowser, pointOf } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
let mock, url

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo, stepMs: 10 })
  url = `http://127.0.0.1:${await mock.listen()}/`
})
after(() => mock?.close())

const sessions = new Map()

// The colour that the screen has at points of the page.
async function colours(page, points) {
  await page.waitForTimeout(150)
  // Not by page.screenshot, which would go back to the screen that the page began on.
  sessions.set(page, sessions.get(page) ?? (await page.context().newCDPSession(page)))
  const { data } = await sessions.get(page).send("Page.captureScreenshot", { format: "png" })
  return page.evaluate(
    async ([data, points]) => {
      const picture = await createImageBitmap(
        await (await fetch(`data:image/png;base64,${data}`)).blob(),
      )
      const ctx = new OffscreenCanvas(picture.width, picture.height).getContext("2d")
      ctx.drawImage(picture, 0, 0)
      const ratio = picture.width / innerWidth
      return points.map(({ x, y }) => {
        const pixel = ctx.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data
        return (
          "#" +
          [...pixel]
            .slice(0, 3)
            .map((v) => v.toString(16).padStart(2, "0"))
            .join("")
        )
      })
    },
    [data, points],
  )
}

const ids = (page) =>
  page.evaluate(() => graft.editor.nodes.filter((n) => n.title.length < 9).map((n) => n.id))

// Where a title bar has no text: its right end, one pixel of the page inside.
async function corner(page, id) {
  const half = await page.evaluate(
    (id) => (graft.editor.node(id).size[0] / 2 - 12) * graft.editor.canvas.ds.scale,
    id,
  )
  const { x, y } = await pointOf(page, id, "title")
  return { x: x + half, y }
}

// Every node in view is drawn where the page thinks that it is, to a pixel; links lie below.
async function drawnInPlace(page, what) {
  const title = await page.evaluate(() => LiteGraphTitle())
  const all = await ids(page)
  const points = await Promise.all(all.map((id) => corner(page, id)))
  const seen = await colours(page, points)
  for (const [i, colour] of seen.entries())
    assert.equal(colour, title, `${what}: node ${all[i]} at ${points[i].x} ${points[i].y}`)
  // Its upper edge: two pixels inside it is there, three outside it is not.
  const { x, y } = points[0]
  const scale = await page.evaluate(() => graft.editor.canvas.ds.scale)
  const edge = y - 15 * scale
  const [inside, outside] = await colours(page, [
    { x: x - 20, y: edge + 2 },
    { x: x - 20, y: edge - 3 },
  ])
  assert.equal(inside, title, `${what}: upper edge`)
  assert.notEqual(outside, title, `${what}: above`)
}

async function clickSelects(page, what, click = (at) => page.mouse.click(at.x, at.y)) {
  for (const id of (await ids(page)).slice(0, 3)) {
    await click(await pointOf(page, id, "title"))
    await page.waitForTimeout(60)
    assert.deepEqual(
      await page.evaluate(() => graft.editor.selected.map((n) => n.id)),
      [id],
      `${what}: a click selects`,
    )
  }
  await page.evaluate(() => graft.editor.canvas.deselectAll())
}

for (const ratio of [0.8, 1.25, 2])
  test(`a screen of ${ratio} pixels to one of the page`, async () => {
    const browser = await openBrowser({ deviceScaleFactor: ratio, hasTouch: true })
    try {
      const { page } = browser
      await page.addInitScript(() => {
        // The title bars' colour, which the page keeps to itself.
        window.LiteGraphTitle = () => graft.editor.nodes[0].constructor.title_color ?? "#2a3038"
      })
      await browser.open(url)
      assert.ok(Math.abs((await page.evaluate(() => devicePixelRatio)) - ratio) < 1e-3)
      const both = async (what) => {
        await drawnInPlace(page, what)
        await clickSelects(page, what)
      }
      await both("start")
      await page.setViewportSize({ width: 1111, height: 777 })
      await page.waitForTimeout(200)
      await both("another size")
      await page.locator("#canvas").focus()
      await page.keyboard.press("Alt+-")
      await both("zoomed by the keyboard")
      const middle = await pointOf(page, 5, "title")
      await page.mouse.move(middle.x, middle.y)
      await page.mouse.wheel(0, -100)
      await page.waitForTimeout(200)
      const under = await pointOf(page, 5, "title")
      assert.ok(
        Math.hypot(under.x - middle.x, under.y - middle.y) < 1,
        "the wheel zooms where it is",
      )
      await page.keyboard.press(".")
      await both("all of it")
      // All of the canvas is painted, to its lower right corner.
      const box = await page.locator("#canvas").boundingBox()
      const ground = await page.evaluate(() => [
        graft.editor.canvas.clear_background_color,
        "#252a2f", // a point of the grid
      ])
      const far = { x: box.x + box.width - 4, y: box.y + box.height - 4 } // inside of its outline
      for (const colour of await colours(page, [far])) assert.ok(ground.includes(colour), colour)
      await clickSelects(page, "a finger", (at) => page.touchscreen.tap(at.x, at.y))
      // Dragging moves a node as far as the pointer goes.
      const from = await pointOf(page, 7, "title")
      await drag(page, from, { x: from.x - 40, y: from.y + 60 })
      const to = await pointOf(page, 7, "title")
      await page.evaluate(() => graft.editor.canvas.deselectAll())
      assert.ok(Math.hypot(to.x - from.x + 40, to.y - from.y - 60) < 6, JSON.stringify([from, to]))
      await drawnInPlace(page, "after dragging")
      // The window goes to another screen.
      const cdp = sessions.get(page)
      await cdp.send("Emulation.setDeviceMetricsOverride", {
        width: 1110,
        height: 780,
        deviceScaleFactor: 1.5,
        mobile: false,
      })
      await page.waitForFunction(() => devicePixelRatio === 1.5)
      await page.waitForTimeout(200)
      await both("another screen")
      // Zoomed by the browser: as many pixels of the screen, fewer of the page.
      await cdp.send("Emulation.setDeviceMetricsOverride", {
        width: 888,
        height: 624,
        deviceScaleFactor: 1.5 * 1.25,
        mobile: false,
      })
      await page.waitForTimeout(300)
      await both("the page zoomed")
      assert.deepEqual(browser.faults, [])
    } finally {
      await browser.close()
    }
  })

test("on a tablet nodes can be read, and a panel does not cover them", async () => {
  const browser = await openBrowser({ width: 820, height: 1180 })
  try {
    const { page } = browser
    await browser.open(url)
    await onTablet(browser, page)
    assert.deepEqual(browser.faults, [])
  } finally {
    await browser.close()
  }
})

test("on a small screen a column that is too high is shown from its top, beside those that fit", async () => {
  const browser = await openBrowser({ width: 1024, height: 768 })
  try {
    const { page } = browser
    await browser.open(url)
    // Places of the first workflow's nodes; what of them is in view, whole or by its upper half.
    const look = (last) =>
      page.evaluate((last) => {
        const { editor } = graft
        const first = [0, 250, 550, 900].map((y) => [0, y])
        const places = [...first, [400, 0], [400, 420], [780, last]]
        for (const node of editor.nodes) node.pos = places[node.id - 1]
        editor.frame()
        const { ds, canvas } = editor.canvas
        const inView = (share) =>
          editor.nodes
            .filter(({ pos: [x, y], size: [w, h] }) => {
              const [left, top] = ds.convertOffsetToCanvas([x, y - 30])
              const [right, bottom] = ds.convertOffsetToCanvas([x + w, y + share * h])
              const { clientWidth, clientHeight } = canvas
              return left >= 0 && top >= 0 && right <= clientWidth && bottom <= clientHeight
            })
            .map((node) => node.id)
            .sort()
        return { scale: ds.scale, whole: inView(1), half: inView(0.5) }
      }, last)
    const upper = await look(0)
    assert.ok(upper.scale >= 0.68 && upper.scale <= 0.75, String(upper.scale))
    assert.deepEqual(upper.whole, [1, 2, 3, 5, 6, 7])
    const lower = await look(800) // the picture, which is to be seen in any case
    assert.ok(lower.scale >= 0.68, String(lower.scale))
    assert.ok(lower.half.includes(3) && lower.whole.includes(7), JSON.stringify(lower))
    assert.deepEqual(browser.faults, [])
  } finally {
    await browser.close()
  }
})

async function onTablet(browser, page) {
  // What is in view, left of an open panel, and how large.
  const view = () =>
    page.evaluate(() => {
      const { editor } = graft
      const { ds, canvas } = editor.canvas
      const panel = document.getElementById("side-body").getBoundingClientRect()
      const right = panel.width ? panel.left : canvas.clientWidth
      const shown = editor.nodes.filter(
        ({ pos, size }) =>
          (pos[0] + ds.offset[0]) * ds.scale >= 0 &&
          (pos[0] + size[0] + ds.offset[0]) * ds.scale <= right,
      )
      return { scale: ds.scale, shown: shown.map((n) => n.title).sort() }
    })
  const open = async (tab) => {
    await page.locator(`#tab-${tab}`).click()
    await page.waitForTimeout(200)
    return view()
  }
  const includes = ({ scale, shown }, ...titles) => {
    for (const title of titles) assert.ok(shown.includes(title), `${title} in ${shown}`)
    assert.ok(scale >= 0.68, String(scale))
  }
  const first = await view()
  includes(first, "Prompt", "Sampler", "Picture")
  assert.ok(first.scale >= 0.75, String(first.scale))
  includes(await open("history"), "Decode", "Picture")
  assert.deepEqual(await open("history"), first)
  // With a node selected it is that one which is looked at.
  await page.mouse.click(...Object.values(await pointOf(page, 5, "title")))
  includes(await open("node"), "Sampler")
  assert.deepEqual(await open("node"), first)
  // The same after the page was loaded again.
  await page.waitForTimeout(200)
  await browser.open(url)
  assert.deepEqual(await view(), first)
  includes(await open("history"), "Picture")
  await open("history")
  // All of it is shown to whoever asks for it, and again when the window grows.
  await page.locator("#canvas").focus()
  await page.keyboard.press(".")
  assert.equal((await view()).shown.length, 7)
  assert.equal((await open("history")).shown.length, 7)
  await open("history")
  await page.setViewportSize({ width: 1024, height: 1180 })
  await page.waitForTimeout(200)
  const landscape = await view()
  assert.equal(landscape.shown.length, 7)
  includes(landscape)
  await page.evaluate(() => graft.editor.frame())
  includes(await open("quantize"), "Sampler", "Picture")
  await open("quantize")
  // A view that somebody moved stays.
  await page.evaluate(() => (graft.editor.canvas.ds.offset[0] -= 90))
  const moved = await view()
  assert.equal((await open("node")).scale, moved.scale)
  await page.locator("#tab-node").click()
  assert.deepEqual(await view(), moved)
}

test("on a telephone all tools are within the window, and a key closes the panel it opened", async () => {
  const browser = await openBrowser({ width: 360, height: 700 })
  try {
    const { page } = browser
    await browser.open(url)
    for (const id of ["queue", "theme", "undo", "tab-node", "tab-profile"]) {
      const { x, y, width, height } = await page.locator(`#${id}`).boundingBox()
      assert.ok(x >= 0 && y >= 0 && x + width <= 360 && y + height <= 700, id)
    }
    await page.locator("#canvas").click({ position: { x: 20, y: 30 } })
    const outline = await page.locator("#canvas").evaluate((e) => getComputedStyle(e).outlineStyle)
    assert.equal(outline, "none")
    for (const shown of [true, false]) {
      await page.keyboard.press("h")
      assert.equal(await page.locator("#side-body").isVisible(), shown)
    }
  } finally {
    await browser.close()
  }
})
