// A browser with a fresh profile, and what all tests of the page do with it.
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"

const { chromium } = createRequire(join(process.cwd(), "package.json"))("playwright-core")
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
]

export async function openBrowser({ width = 1280, height = 800, theme = "dark", ...more } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "graft-browser-"))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM,
    headless: true,
    args: FLAGS,
    viewport: { width, height },
    colorScheme: theme,
    acceptDownloads: true,
    ...more,
  })
  const page = context.pages()[0] ?? (await context.newPage())
  context.setDefaultTimeout(60_000) // a busy machine takes its time
  // A pause ends when the page, too, has had its turn: two frames later.
  const pause = page.waitForTimeout.bind(page)
  page.waitForTimeout = async (ms) => {
    await pause(ms)
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  }
  const faults = []
  page.on("pageerror", (error) => faults.push(String(error.stack ?? error)))
  return {
    page,
    faults,
    async open(url) {
      await page.goto(url)
      await this.ready()
    },
    async ready() {
      await page.waitForSelector("html[data-ready]", { timeout: 60_000 })
      await page.waitForFunction(() => graft.editor.nodes.length > 0)
      await page.waitForTimeout(250)
    },
    async close() {
      await context.close()
      rmSync(profile, { recursive: true, force: true })
    },
  }
}

// Adds a node by its name with the keyboard; returns its id.
export async function addNode(page, name) {
  await page.locator("#canvas").focus()
  await page.keyboard.press("a")
  await page.locator("dialog.search[open] input").fill(name)
  await page.keyboard.press("Enter")
  return page.evaluate(() => graft.editor.selected[0].id)
}

// The point of the page where a slot or a widget of a node is drawn.
export function pointOf(page, id, what, index) {
  return page.evaluate(
    ([id, what, index]) => {
      const { editor } = graft
      const node = editor.node(id)
      const { ds, canvas } = editor.canvas
      const box = canvas.getBoundingClientRect()
      let at
      if (what === "title") at = [node.pos[0] + node.size[0] / 2, node.pos[1] - 15]
      else if (what === "widget") {
        const widget = node.widgets.find((w) => w.name === index)
        at = [node.pos[0] + node.size[0] / 2, node.pos[1] + widget.y + 12]
      } else at = what === "input" ? node.getInputPos(index) : node.getOutputPos(index)
      return {
        x: box.left + (at[0] + ds.offset[0]) * ds.scale,
        y: box.top + (at[1] + ds.offset[1]) * ds.scale,
      }
    },
    [id, what, index],
  )
}

export async function drag(page, from, to) {
  await page.mouse.move(from.x, from.y)
  await page.mouse.down()
  await page.mouse.move((from.x + to.x) / 2, (from.y + to.y) / 2, { steps: 4 })
  await page.mouse.move(to.x, to.y, { steps: 4 })
  await page.mouse.up()
}

// Until it shows what is wanted: two clicks are a double click only when the machine has time for
// both at once.
export async function doubleClick(page, at, wanted) {
  for (let i = 0; i < 10 && !(await wanted.count()); i++) {
    await page.mouse.dblclick(at.x, at.y)
    await page.waitForTimeout(500)
  }
  await wanted.waitFor()
}

export const runEnded = (page) =>
  page.waitForFunction(() => graft.runner.run && graft.runner.run.state !== "running", null, {
    timeout: 60_000,
  })

// Presses Run and waits for the end of that run: the one before it may have ended already.
export async function runOnce(page) {
  const before = await page.evaluate(() => graft.runner.run?.prompt)
  await page.locator("#queue").click()
  await page.waitForFunction(
    (before) => graft.runner.run?.state !== "running" && graft.runner.run?.prompt !== before,
    before,
    { timeout: 60_000 },
  )
}
