// Notes: what stands in them is shown, can be followed and written, and can do nothing to the page.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createMock } from "../mock/server.mjs"
import { doubleClick, openBrowser } from "./drive.mjs"

const objectInfo = JSON.parse(
  readFileSync(join(process.env.GRAFT_SOURCE_DIR, "tests/editor/mock/object_info.json"), "utf8"),
)
let mock, url, browser, page

before(async () => {
  mock = createMock({ root: process.env.GRAFT_EDITOR_DIR, objectInfo })
  url = `http://127.0.0.1:${await mock.listen()}/`
  browser = await openBrowser()
  page = browser.page
  await browser.open(url)
})
after(async () => {
  await browser?.close()
  await mock?.close()
})

const note = (id, type, text, more = {}) => ({
  id,
  type,
  pos: [40, 60],
  size: [420, 420],
  mode: 0,
  flags: {},
  inputs: [],
  outputs: [],
  properties: {},
  widgets_values: [text],
  ...more,
})
const show = async (...nodes) => {
  await page.evaluate((nodes) => {
    graft.editor.load({ nodes, links: [], groups: [], extra: {}, version: 0.4 })
  }, nodes)
  await page.waitForTimeout(200)
}
const body = () => page.locator(".note-text")

const TEXT = `# Title &amp; more
A [link](https://example.org/a?b=1), **bold**, \`code\` and <b>tags</b>.
second line

1. one
2. two
   - inner

- [x] done

> said

| a | b |
| --- | ---: |
| 1 | 2 |

\`\`\`
<i>block</i>
\`\`\`
`

test("a Markdown note shows headings, lists, links, code and tables", async () => {
  await show(note(1, "MarkdownNote", TEXT))
  assert.equal(await body().locator("h1").textContent(), "Title & more")
  assert.equal(await body().locator("strong").textContent(), "bold")
  assert.deepEqual(await body().locator("ol > li").count(), 2)
  assert.equal(await body().locator("ol ul li").textContent(), "inner")
  assert.ok(await body().locator("li.task input").isChecked())
  assert.equal(await body().locator("blockquote").textContent(), "said")
  assert.deepEqual(await body().locator("td").allTextContents(), ["1", "2"])
  assert.equal(await body().locator("pre code").textContent(), "<i>block</i>")
  assert.match(await body().locator("p").first().textContent(), /and tags\./)
  assert.equal(await body().locator("p br").count(), 1)
  const link = body().locator("a")
  assert.equal(await link.getAttribute("href"), "https://example.org/a?b=1")
  assert.equal(await link.getAttribute("target"), "_blank")
  assert.match(await link.getAttribute("rel"), /\bnoopener\b/)
  const box = await link.boundingBox()
  const top = await page.evaluate(
    ([x, y]) => document.elementFromPoint(x, y).tagName,
    [box.x + box.width / 2, box.y + box.height / 2],
  )
  assert.equal(top, "A", "it can be clicked")
})

test("what a note's text says is never run, nor loaded", async () => {
  const asked = []
  const listen = (request) => asked.push(request.url())
  page.on("request", listen)
  const text = [
    "<script>window.stained = 1</script>",
    '<img src="https://example.org/x.png" onerror="window.stained = 2">',
    "![picture](https://example.org/y.png)",
    "[a](javascript:window.stained=3) [b](  JaVaScRiPt:alert(1)) [c](data:text/html,x)",
    "<a href='javascript:window.stained=4'>d</a> <svg onload='window.stained=5'>",
    '[e](https://example.org/"onmouseover="window.stained=6)',
    "&lt;img src=x onerror=window.stained=7&gt;",
    "<iframe srcdoc='<script>parent.stained=8</script>'></iframe>",
  ].join("\n\n")
  await show(note(1, "MarkdownNote", text), note(2, "Note", text, { pos: [500, 60] }))
  await page.waitForTimeout(300)
  page.off("request", listen)
  assert.equal(await page.evaluate(() => window.stained), undefined)
  assert.deepEqual(asked, [])
  const made = await page.evaluate(() =>
    [...document.querySelectorAll(".note-text *")].map((element) => [
      element.tagName,
      element.getAttribute("href"),
      [...element.attributes].map(({ name }) => name).filter((name) => name.startsWith("on")),
    ]),
  )
  for (const [tag, href, listeners] of made) {
    assert.match(tag, /^(P|A|SPAN|DIV|BR)$/)
    assert.deepEqual(listeners, [])
    if (href !== null) assert.match(href, /^https:/)
  }
  assert.match(await body().nth(0).textContent(), /<img src=x onerror/)
  assert.match(await body().nth(1).textContent(), /^<script>window\.stained = 1<\/script>/)
})

test("a double click writes a note, and the file has the text", async () => {
  await show(note(1, "MarkdownNote", "# Old"), note(2, "Note", "", { pos: [500, 60] }))
  const box = await body().first().boundingBox()
  const field = page.locator(".inline-editor")
  await doubleClick(page, { x: box.x + box.width / 2, y: box.y + box.height / 2 }, field)
  assert.equal(await field.inputValue(), "# Old")
  assert.equal(await body().count(), 1, "the text is not shown below its own field")
  assert.equal(await page.locator(".side-body:visible").count(), 0, "no panel opens")
  await field.fill("## New *one*")
  await page.keyboard.press("Control+Enter")
  await page.waitForTimeout(200)
  assert.equal(await body().locator("h2 em").textContent(), "one")
  const saved = await page.evaluate(() =>
    Object.fromEntries(graft.editor.toWorkflow().nodes.map((n) => [n.id, n.widgets_values])),
  )
  assert.deepEqual(saved, { 1: ["## New *one*"], 2: [""] })
  await page.locator("#undo").click()
  await page.waitForTimeout(200)
  assert.equal(await body().locator("h1").textContent(), "Old")
})

test("a plain note is shown as it is written, with links", async () => {
  await show(note(1, "Note", "# no heading\n  see https://example.org/x. *so*"))
  assert.equal(await body().textContent(), "# no heading\n  see https://example.org/x. *so*")
  assert.equal(await body().locator("a").getAttribute("href"), "https://example.org/x")
})

test("notes go with the view and their node; another node over one hides it", async () => {
  await show(note(1, "MarkdownNote", "text"), note(2, "Note", "x", { pos: [240, 200] }))
  const placed = () =>
    page.evaluate(() => {
      const { ds, canvas } = graft.editor.canvas
      const node = graft.editor.node(1)
      const { left, top } = canvas.getBoundingClientRect()
      const text = document.querySelector(".note-text").getBoundingClientRect()
      const x = left + (node.pos[0] + 8 + ds.offset[0]) * ds.scale
      const y = top + (node.pos[1] + node.widgets[0].y + ds.offset[1]) * ds.scale
      return Math.hypot(text.x - x, text.y - y)
    })
  assert.ok((await placed()) < 1)
  await page.evaluate(() => {
    const { ds } = graft.editor.canvas
    ds.scale = 0.6
    ds.offset[0] += 130
    graft.editor.node(1).pos = [90, 110]
    graft.editor.canvas.setDirty(true, true)
  })
  await page.waitForTimeout(150)
  assert.ok((await placed()) < 1)
  const clips = await page.evaluate(() =>
    [...document.querySelectorAll(".note-text")].map((text) => text.style.clipPath),
  )
  assert.match(clips[0], /^path\(/)
  assert.equal(clips[1], "none")
  await page.evaluate(() => graft.editor.node(1).collapse())
  await page.waitForTimeout(150)
  assert.equal(await body().count(), 1)
  await page.evaluate(() => graft.editor.clear())
  await page.waitForTimeout(150)
  assert.equal(await body().count(), 0)
})

test("a long note scrolls by the wheel when it is selected", async () => {
  const text = Array.from({ length: 80 }, (_, i) => `line ${i}`).join("\n\n")
  await show(note(1, "MarkdownNote", text))
  const scale = () => page.evaluate(() => graft.editor.canvas.ds.scale)
  const at = await body().boundingBox()
  assert.match(await body().getAttribute("class"), /goes-on/)
  await page.mouse.move(at.x + 50, at.y + 50)
  const before = await scale()
  await page.evaluate(() => graft.editor.canvas.selectItems([graft.editor.node(1)]))
  await page.mouse.wheel(0, 200)
  await page.waitForTimeout(150)
  assert.ok((await body().evaluate((element) => element.scrollTop)) > 50)
  assert.equal(await scale(), before)
  await page.evaluate(() => graft.editor.canvas.deselectAll())
  await page.mouse.wheel(0, 200)
  await page.waitForTimeout(150)
  assert.notEqual(await scale(), before)
})

test("nothing went wrong on the page", () => assert.deepEqual(browser.faults, []))
