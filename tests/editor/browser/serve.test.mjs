// The page and the real server together; left out where the server was not built.
import assert from "node:assert/strict"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { openBrowser, runEnded, runOnce } from "./drive.mjs"
import { missing, start, stop } from "./server.mjs"

if (missing) console.log(`skipped: ${missing}`)

let server, url, folder, browser, page

const clientOf = (page) => page.evaluate(() => sessionStorage.getItem("graft.client"))
before(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), "graft-serve-"))
  ;({ child: server, url } = await start(folder))
  browser = await openBrowser({ width: 1440, height: 900 })
  page = browser.page
  await browser.open(url)
})
after(async () => {
  await browser?.close()
  if (server) await stop(server)
  if (folder) rmSync(folder, { recursive: true, force: true })
})

test(
  "the demo: press Queue, see the picture, find it in the history",
  { skip: missing },
  async () => {
    await runOnce(page)
    await page.waitForFunction(
      () =>
        graft.editor.nodes.find((n) => n.type === "SaveImage").widgets.at(-1).pictures?.[0]
          ?.naturalWidth === 64,
    )
    assert.equal(readdirSync(join(folder, "output")).filter((f) => f.endsWith(".png")).length, 1)
    await browser.open(url)
    await page.locator("#tab-history").click()
    await page.locator(".history-card img").first().waitFor()
  },
)

test("a run that finds all in the cache leaves the last profile", { skip: missing }, async () => {
  await page.locator("#tab-profile").click()
  await page.evaluate(
    () =>
      (graft.editor.nodes
        .find((n) => n.type === "KSampler")
        .widgets.find((w) => w.name === "seed").value = 5),
  )
  await runOnce(page)
  await page.waitForFunction(() => !/ended at/.test(document.querySelector(".profile").textContent))
  const first = await page.locator(".profile-total").textContent()
  await page.locator("#queue").click()
  await page.locator(".status-text", { hasText: "Nothing changed" }).waitFor()
  assert.equal(await page.locator(".profile-total").textContent(), first)
  assert.ok(await page.locator(".profile .bars").first().isVisible())
  await page.locator("#tab-history").click()
})

test(
  "the same again comes from the cache; a fault is shown where it is",
  { skip: missing },
  async () => {
    await runOnce(page)
    await page.locator(".status-text", { hasText: /cache|Done/ }).waitFor()
    await page.evaluate(
      () =>
        (graft.editor.nodes
          .find((n) => n.type === "KSampler")
          .widgets.find((w) => w.name === "scheduler").value = "zzz"),
    )
    await page.locator("#queue").click()
    await page.locator(".faults", { hasText: "cannot be 'zzz'" }).waitFor()
  },
)

test(
  "an embedding and a picture that are not there: a warning, and a refusal that says where to look",
  { skip: missing },
  async () => {
    const change = (type, widget, value) =>
      page.evaluate(
        ([type, widget, value]) => {
          const node = graft.editor.nodes.find((n) => n.type === type)
          node.widgets.find((w) => w.name === widget).value = value
        },
        [type, widget, value],
      )
    await change("KSampler", "scheduler", "ddim_uniform")
    await change("CLIPTextEncode", "text", "embedding:nowhere apple")
    for (let seed = 21; seed < 23; seed++) {
      await change("KSampler", "seed", seed) // the second time the warned node comes from the cache
      await runOnce(page)
      await page.locator(".status-notes", { hasText: "1 warning" }).waitFor()
      await page.locator(".status-text", { hasText: "Done" }).waitFor()
      const warned = await page.evaluate(() => graft.editor.nodes.flatMap((n) => n.warnings ?? []))
      assert.equal(warned.length, 1)
      assert.match(warned[0], /"nowhere" is left out/)
    }
    await page.evaluate(() => {
      const load = graft.editor.add("LoadImage", [0, 700])
      load.widgets.find((w) => w.name === "image").value = "gone.png"
      load.connect(
        0,
        graft.editor.nodes.find((n) => n.type === "SaveImage"),
        0,
      )
    })
    await page.locator("#queue").click()
    await page.locator(".faults", { hasText: "no file “gone.png” in input" }).waitFor()
    await page.evaluate(() => {
      const { nodes, graph } = graft.editor
      graph.remove(nodes.find((n) => n.type === "LoadImage"))
      const of = (type) => nodes.find((n) => n.type === type)
      of("VAEDecode").connect(0, of("SaveImage"), 0)
    })
    await change("CLIPTextEncode", "text", "red apple, 3d")
    await runOnce(page)
    await page.locator(".faults").waitFor({ state: "detached" })
  },
)

test("an interrupted run stops soon", { skip: missing }, async () => {
  await page.evaluate(() => {
    const sampler = graft.editor.nodes.find((n) => n.type === "KSampler")
    const set = (name, value) => (sampler.widgets.find((w) => w.name === name).value = value)
    set("scheduler", "ddim_uniform")
    set("steps", 900)
  })
  await page.locator("#queue").click()
  await page.waitForFunction(() => graft.runner.run?.state === "running" && graft.runner.run.node)
  await page.locator("#interrupt").click()
  await runEnded(page)
  assert.equal(await page.evaluate(() => graft.runner.run.state), "interrupted")
})

test(
  "the queue survives the server; the page learns that its run was ended",
  { skip: missing },
  async () => {
    const id = await clientOf(page)
    await page.locator("#queue").click()
    await page.waitForFunction(() => graft.runner.run?.state === "running" && graft.runner.run.node)
    await stop(server)
    const port = new URL(url).port
    ;({ child: server } = await start(folder, ["--port", port]))
    await page.waitForSelector(".status-server:not(.down)", { timeout: 60_000 })
    await runEnded(page)
    assert.equal(await page.evaluate(() => graft.runner.run.state), "interrupted")
    assert.equal(await clientOf(page), id)
    await page.locator("#tab-history").click()
    await page.locator("#tab-history").click()
    await page.locator(".history-card").first().waitFor()
  },
)

test("a copy of the page does not take turns with it", { skip: missing }, async () => {
  const id = await clientOf(page)
  const copy = await page.context().newPage()
  await copy.addInitScript((id) => sessionStorage.setItem("graft.client", id), id)
  await copy.goto(url)
  await copy.waitForSelector(".status-server:not(.down)")
  await page.waitForFunction((id) => sessionStorage.getItem("graft.client") !== id, id)
  await page.waitForSelector(".status-server:not(.down)")
  assert.equal(await clientOf(copy), id)
  await page.evaluate(() => {
    const sampler = graft.editor.nodes.find((n) => n.type === "KSampler")
    sampler.widgets.find((w) => w.name === "steps").value = 2
  })
  await page.locator("#queue").click()
  await page.waitForFunction(() => graft.runner.run?.state === "success")
  assert.equal(await copy.evaluate(() => graft.runner.run), null)
  await copy.close()
})

test("much that happens does not keep the page from looking", { skip: missing }, async () => {
  const asked = page.waitForRequest(/api\/queue/)
  await page.evaluate(() => {
    window.often = setInterval(() => graft.runner.event("status", {}), 20)
  })
  await asked
  await page.evaluate(() => clearInterval(window.often))
})

test("a server with a token opens for who has it", { skip: missing }, async () => {
  const { child, url: closed } = await start(folder, [
    "--token",
    "s3cret-s3cret",
    "--state",
    join(folder, "state2"),
  ])
  const other = await openBrowser()
  try {
    await other.open(`${closed}?token=s3cret-s3cret`)
    assert.ok(!other.page.url().includes("s3cret"))
    await runOnce(other.page)
    await other.page.waitForFunction(
      () =>
        graft.editor.nodes.find((n) => n.type === "SaveImage").widgets.at(-1).pictures?.[0]
          ?.naturalWidth === 64,
    )
    assert.deepEqual(other.faults, [])
  } finally {
    await other.close()
    await stop(child)
  }
})

test("no error reached the page", { skip: missing }, () => assert.deepEqual(browser.faults, []))
