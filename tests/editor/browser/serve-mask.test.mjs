// Masks that are painted over a picture, with the real server: what is painted is what a run gets.
import assert from "node:assert/strict"
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { drag, openBrowser, runOnce } from "./drive.mjs"
import { missing, start, stop } from "./server.mjs"

if (missing) console.log(`skipped: ${missing}`)
const skip = { skip: missing }

let server, url, folder, browser, page

before(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), "graft-mask-"))
  mkdirSync(join(folder, "input"))
  for (const name of ["apple.png", "outline.png"])
    copyFileSync(join(process.env.GRAFT_SOURCE_DIR, "input", name), join(folder, "input", name))
  ;({ child: server, url } = await start(folder, ["--input", join(folder, "input")]))
  browser = await openBrowser({ width: 1400, height: 850 })
  page = browser.page
  await browser.open(url)
  await page.evaluate(() => {
    const { editor } = graft
    editor.clear()
    const load = editor.add("LoadImage", [60, 80])
    load.widgets.find((w) => w.name === "image").value = "apple.png"
    load.widgets.find((w) => w.name === "image").callback("apple.png")
    const convert = editor.add("MaskToImage", [420, 80])
    const save = editor.add("SaveImage", [720, 80])
    load.connect(1, convert, 0)
    convert.connect(0, save, 0)
    editor.canvas.selectItems([load])
    editor.onChange()
  })
  await page.waitForTimeout(300)
})
after(async () => {
  await browser?.close()
  if (server) await stop(server)
  if (folder) rmSync(folder, { recursive: true, force: true })
})

const dialog = () => page.locator("dialog.mask")
const chosen = (type = "LoadImage") =>
  page.evaluate(
    (type) =>
      graft.editor.nodes.find((n) => n.type === type).widgets.find((w) => w.name === "image").value,
    type,
  )
const masks = () => {
  const kept = join(folder, "input/clipspace")
  return readdirSync(join(folder, "input")).includes("clipspace") ? readdirSync(kept) : []
}

// By the node's menu, with keys alone.
async function openMask() {
  await page.locator("#canvas").focus()
  await page.keyboard.press("Shift+F10")
  await page.locator(".litemenu-entry", { hasText: "Paint a mask…" }).waitFor()
  for (let i = 0; i < 20; i++) {
    if (/Paint a mask/.test(await page.evaluate(() => document.activeElement.textContent))) break
    await page.keyboard.press("ArrowDown")
  }
  await page.keyboard.press("Enter")
  await dialog().waitFor()
  await page.waitForTimeout(100)
}

// A point of the page over one of the picture, whose sides are 1.
async function at(x, y) {
  const box = await page.locator(".mask-paint").boundingBox()
  return { x: box.x + x * box.width, y: box.y + y * box.height }
}

// One channel of a file at points of it.
const channelAt = (query, channel, points) =>
  page.evaluate(
    async ([query, channel, points]) => {
      const blob = await (await fetch(`/api/view?${query}`)).blob()
      const picture = await createImageBitmap(blob, { premultiplyAlpha: "none" })
      const { width, height } = picture
      const ctx = new OffscreenCanvas(width, height).getContext("2d")
      ctx.drawImage(picture, 0, 0)
      return points.map(
        ([x, y]) =>
          ctx.getImageData(Math.floor(x * width), Math.floor(y * height), 1, 1).data[channel],
      )
    },
    [query, channel, points],
  )

test("what was not painted on is left without a question", skip, async () => {
  await openMask()
  assert.equal(await page.evaluate(() => document.activeElement.className), "mask-stage")
  await page.keyboard.press("Escape")
  await dialog().waitFor({ state: "detached" })
  assert.equal(await page.evaluate(() => document.activeElement.id), "canvas")
  assert.deepEqual(masks(), [])
})

test("a stroke becomes the mask of a run, where it was painted", skip, async () => {
  await openMask()
  await drag(page, await at(0.2, 0.25), await at(0.8, 0.25))
  await page.keyboard.press("Enter")
  await dialog().waitFor({ state: "detached" })
  const value = await chosen()
  assert.match(value, /^clipspace\/clipspace-mask-\d+\.png \[input\]$/)
  assert.equal(masks().length, 1)
  const points = [
    [0.5, 0.25],
    [0.25, 0.25],
    [0.5, 0.6],
    [0.05, 0.95],
  ]
  const file = `filename=${masks()[0]}&subfolder=clipspace&type=input`
  assert.deepEqual(await channelAt(file, 3, points), [0, 0, 255, 255])
  // The colours below are those of the picture still.
  assert.deepEqual(
    await channelAt(`${file}&channel=rgb`, 0, points),
    await channelAt("filename=apple.png&type=input", 0, points),
  )
  await page.waitForFunction(
    (name) =>
      graft.editor.nodes
        .find((n) => n.type === "LoadImage")
        .widgets.find((w) => w.name === "$pictures")
        .pictures.every((p) => p.naturalWidth > 0 && p.src.includes(name)),
    masks()[0],
  )
  await runOnce(page)
  assert.equal(await page.evaluate(() => graft.runner.run.state), "success")
  const [result] = readdirSync(join(folder, "output")).filter((name) => name.endsWith(".png"))
  assert.deepEqual(await channelAt(`filename=${result}`, 0, points), [255, 255, 0, 0])
})

test("the page does not take the file for one that is not there", skip, async () => {
  await page.locator("#tab-node").click()
  assert.equal(await page.locator('.field.bad [data-widget="image"]').count(), 0)
  await page.locator("#tab-node").click()
})

test("Undo brings the old picture back in one step, Redo the masked one", skip, async () => {
  const masked = await chosen()
  const shown = () =>
    page.evaluate(
      () =>
        graft.editor.nodes
          .find((n) => n.type === "LoadImage")
          .widgets.find((w) => w.name === "$pictures").pictures[0].src,
    )
  await page.locator("#canvas").focus()
  await page.keyboard.press("Control+z")
  assert.equal(await chosen(), "apple.png")
  assert.match(await shown(), /filename=apple\.png/)
  await page.keyboard.press("Control+Shift+z")
  assert.equal(await chosen(), masked)
  assert.match(await shown(), /filename=clipspace-mask/)
})

test(
  "a mask goes on from the one that is there; eraser, size and steps by keys",
  skip,
  async () => {
    await page.evaluate(() =>
      graft.editor.canvas.selectItems([graft.editor.nodes.find((n) => n.type === "LoadImage")]),
    )
    await openMask()
    // How much of the overlay is painted at points.
    const painted = (...points) =>
      page.evaluate((points) => {
        const canvas = document.querySelector(".mask-paint")
        const ctx = canvas.getContext("2d")
        return points.map(
          ([x, y]) => ctx.getImageData(x * canvas.width, y * canvas.height, 1, 1).data[3],
        )
      }, points)
    assert.deepEqual(await painted([0.5, 0.25], [0.5, 0.6]), [255, 0])
    const size = () => page.locator(".mask-size").textContent()
    const before = await size()
    await page.keyboard.press("]")
    assert.notEqual(await size(), before)
    await page.keyboard.press("[")
    await page.keyboard.press("x")
    assert.equal(
      await page.getByRole("button", { name: "Erase" }).getAttribute("aria-pressed"),
      "true",
    )
    await drag(page, await at(0.5, 0.1), await at(0.5, 0.4))
    assert.deepEqual(await painted([0.5, 0.25], [0.25, 0.25]), [0, 255])
    await page.keyboard.press("Control+z")
    assert.deepEqual(await painted([0.5, 0.25]), [255])
    await page.keyboard.press("Control+Shift+z")
    assert.deepEqual(await painted([0.5, 0.25]), [0])
    // By the button, which can do no more then: keys are heard all the same.
    await dialog().getByRole("button", { name: "Undo" }).focus()
    await page.keyboard.press("Enter")
    assert.deepEqual(await painted([0.5, 0.25]), [255])
    await page.keyboard.press("Control+Shift+z")
    assert.deepEqual(await painted([0.5, 0.25]), [0])
    await page.keyboard.press("x")
    const corner = await at(0.9, 0.9)
    await page.mouse.click(corner.x, corner.y)
    assert.deepEqual(await painted([0.9, 0.9]), [255])
    await page.mouse.click(corner.x, corner.y, { button: "right" })
    assert.deepEqual(await painted([0.9, 0.9]), [0])
    await page.getByRole("button", { name: "Invert" }).click()
    assert.deepEqual(await painted([0.25, 0.25], [0.9, 0.9]), [0, 255])
    await page.getByRole("button", { name: "Clear" }).click()
    assert.deepEqual(await painted([0.25, 0.25], [0.9, 0.9]), [0, 0])
  },
)

test("the question before painted things are lost", skip, async () => {
  const question = page.locator("dialog", { hasText: "Leave the mask?" }).last()
  await page.keyboard.press("Escape")
  await question.waitFor()
  await page.keyboard.press("Escape")
  await question.waitFor({ state: "detached" })
  assert.ok(await dialog().isVisible())
  await dialog().getByRole("button", { name: "Cancel" }).click()
  await question.getByRole("button", { name: "Leave" }).click()
  await dialog().waitFor({ state: "detached" })
  assert.equal(masks().length, 1)
})

test("nearer by the wheel and moved by Space: strokes go where the mouse is", skip, async () => {
  await page.evaluate(() =>
    graft.editor.canvas.selectItems([graft.editor.nodes.find((n) => n.type === "LoadImage")]),
  )
  await openMask()
  await dialog().getByRole("button", { name: "Clear" }).click()
  const paint = page.locator(".mask-paint")
  const whole = await paint.boundingBox()
  const near = () => page.locator(".mask-near").textContent()
  const first = await near()
  // A mouse is at whole pixels.
  const round = ({ x, y }) => ({ x: Math.round(x), y: Math.round(y) })
  const spot = round(await at(0.4, 0.4))
  const [u, v] = [(spot.x - whole.x) / whole.width, (spot.y - whole.y) / whole.height]
  await page.mouse.move(spot.x, spot.y)
  await page.mouse.wheel(0, -600)
  await page.waitForFunction((first) => document.querySelector(".mask-near").textContent !== first, first)
  let box = await paint.boundingBox()
  assert.ok(box.width > 2 * whole.width, `${box.width} of ${whole.width}`)
  const stays = await at(u, v)
  assert.ok(Math.hypot(stays.x - spot.x, stays.y - spot.y) < 1, JSON.stringify([spot, stays]))
  // Space and the left button move; nothing is painted.
  await page.keyboard.down(" ")
  await drag(page, spot, { x: spot.x + 40, y: spot.y + 30 })
  await page.keyboard.up(" ")
  const moved = await at(u, v)
  assert.ok(Math.hypot(moved.x - spot.x - 40, moved.y - spot.y - 30) < 1)
  const value = (x, y) =>
    page.evaluate(
      ([x, y]) => {
        const canvas = document.querySelector(".mask-paint")
        const [left, top] = [x * canvas.width, y * canvas.height]
        return canvas.getContext("2d").getImageData(left, top, 1, 1).data[3]
      },
      [x, y],
    )
  assert.equal(await value(0.4, 0.4), 0)
  await page.mouse.click(moved.x, moved.y)
  assert.equal(await value(0.4, 0.4), 255)
  assert.equal(await value(0.75, 0.75), 0)
  // A soft brush: less at the edge than in the middle.
  await page.keyboard.press("Control+z")
  await page.getByRole("slider", { name: "Softness" }).fill("100")
  await page.mouse.click(moved.x, moved.y)
  const size = parseInt(await page.locator(".mask-size").textContent())
  const side = await page.evaluate(() => document.querySelector(".mask-paint").width)
  const edge = await value(0.4 + (0.35 * size) / side, 0.4)
  assert.ok((await value(0.4, 0.4)) > 200 && edge > 0 && edge < 140, `${edge}`)
  await page.locator(".mask-stage").focus()
  await page.keyboard.press("0")
  box = await paint.boundingBox()
  assert.ok(Math.abs(box.width - whole.width) < 1)
  assert.equal(await near(), first)
  await page.keyboard.press("Escape")
  await page.getByRole("button", { name: "Leave" }).click()
  await dialog().waitFor({ state: "detached" })
})

test("Tab stays in the dialog; a picture of LoadImageMask becomes its alpha", skip, async () => {
  await page.evaluate(() => {
    const node = graft.editor.add("LoadImageMask", [60, 500])
    const set = (name, value) => (node.widgets.find((w) => w.name === name).value = value)
    set("image", "apple.png")
    set("channel", "red")
    graft.editor.canvas.selectItems([node])
  })
  await openMask()
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press("Tab")
    assert.ok(
      await page.evaluate(() => !document.activeElement.closest("#bar, #stage, #side")),
      `after ${i + 1}`,
    )
  }
  await drag(page, await at(0.3, 0.3), await at(0.6, 0.6))
  await page.getByRole("button", { name: "Use" }).click()
  await dialog().waitFor({ state: "detached" })
  assert.match(await chosen("LoadImageMask"), /^clipspace\//)
  const channel = await page.evaluate(
    () =>
      graft.editor.nodes
        .find((n) => n.type === "LoadImageMask")
        .widgets.find((w) => w.name === "channel").value,
  )
  assert.equal(channel, "alpha")
})

// Two fingers go apart, to twice their distance. The first alone would have painted.
async function pinch(page, box) {
  const client = await page.context().newCDPSession(page)
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  const touch = (type, ...points) =>
    client.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: points.map(([dx, id]) => ({ x: x + dx, y, id })),
    })
  await touch("touchStart", [-50, 0])
  await touch("touchStart", [-50, 0], [50, 1])
  for (let i = 1; i <= 10; i++) await touch("touchMove", [-50 - 5 * i, 0], [50 + 5 * i, 1])
  await touch("touchEnd")
  await client.detach()
  await page.waitForTimeout(50)
}

test("a finger paints in a small window", skip, async () => {
  const phone = await openBrowser({ width: 390, height: 780, hasTouch: true, theme: "light" })
  try {
    await phone.open(url)
    await phone.page.evaluate(() => {
      graft.editor.clear()
      const node = graft.editor.add("LoadImage", [20, 60])
      node.widgets.find((w) => w.name === "image").value = "apple.png"
      graft.editor.canvas.selectItems([node])
    })
    await phone.page.locator("#canvas").focus()
    await phone.page.keyboard.press("Shift+F10")
    await phone.page.locator(".litemenu-entry", { hasText: "Paint a mask…" }).tap()
    const paint = phone.page.locator(".mask-paint")
    await paint.waitFor()
    await phone.page.waitForTimeout(100)
    const box = await paint.boundingBox()
    assert.ok(box.x >= 0 && box.x + box.width <= 390 && box.width > 300)
    await pinch(phone.page, box)
    const spread = await paint.boundingBox()
    assert.ok(spread.width > 1.8 * box.width, `${spread.width} of ${box.width}`)
    const steps = phone.page.locator(".mask-steps button").first()
    assert.ok(await steps.isDisabled()) // nothing was painted
    await phone.page.getByRole("button", { name: "See it whole" }).tap()
    await phone.page.touchscreen.tap(box.x + box.width / 4, box.y + box.height / 4)
    const use = phone.page.getByRole("button", { name: "Use" })
    const place = await use.boundingBox()
    assert.ok(place.x + place.width <= 390 && place.y + place.height <= 780)
    const before = masks().length
    await use.tap()
    await phone.page.locator("dialog.mask").waitFor({ state: "detached" })
    assert.equal(masks().length, before + 1)
    assert.deepEqual(phone.faults, [])
  } finally {
    await phone.close()
  }
})

test("a photograph that lies on its side is painted on upright, and stays so", skip, async () => {
  await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(80, 40)
    const ctx = canvas.getContext("2d")
    ctx.fillStyle = "#f00" // the left end, which is the upper one once it is turned
    ctx.fillRect(0, 0, 40, 40)
    ctx.fillStyle = "#00f"
    ctx.fillRect(40, 0, 40, 40)
    const plain = new Uint8Array(
      await (await canvas.convertToBlob({ type: "image/jpeg" })).arrayBuffer(),
    )
    const exif = [0xff, 0xe1, 0, 34, 0x45, 0x78, 0x69, 0x66, 0, 0, 0x4d, 0x4d, 0, 42, 0, 0, 0, 8]
    const entry = [0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0]
    const parts = [plain.slice(0, 2), new Uint8Array([...exif, ...entry]), plain.slice(2)]
    const form = new FormData()
    form.append("image", new Blob(parts), "photo.jpg")
    await fetch("/api/upload/image", { method: "POST", body: form })
    const node = graft.editor.nodes.find((n) => n.type === "LoadImage")
    const widget = node.widgets.find((w) => w.name === "image")
    widget.value = "photo.jpg"
    widget.callback("photo.jpg")
    graft.editor.canvas.selectItems([node])
  })
  await openMask()
  const box = await page.locator(".mask-paint").boundingBox()
  assert.ok(Math.abs(box.height / box.width - 2) < 0.05)
  const corner = await at(0.2, 0.1)
  await page.mouse.click(corner.x, corner.y)
  await page.keyboard.press("Enter")
  await dialog().waitFor({ state: "detached" })
  const file = `filename=${(await chosen()).slice(10, -8)}&subfolder=clipspace&type=input`
  const points = [
    [0.2, 0.1],
    [0.8, 0.1],
    [0.2, 0.9],
    [0.8, 0.9],
  ]
  assert.deepEqual(await channelAt(file, 3, points), [0, 255, 255, 255])
  const [upper, , lower] = await channelAt(`${file}&channel=rgb`, 0, points)
  assert.ok(upper > 200 && lower < 50, `${upper} ${lower}`)
})

test("no error reached the page", skip, () => assert.deepEqual(browser.faults, []))
