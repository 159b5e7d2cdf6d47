// The page's folders, bottom first: each imports itself and those before it.
import assert from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import { test } from "node:test"

const source = `${process.env.GRAFT_SOURCE_DIR}/host/editor/src`
const folders = ["workflow", "server", "page", "canvas", "app", "panels"]

function* imports(): Generator<[string, string]> {
  for (const folder of folders)
    for (const name of readdirSync(`${source}/${folder}`))
      for (const [, path] of readFileSync(`${source}/${folder}/${name}`, "utf8").matchAll(/"(\.\.?\/[^"]+)"/g))
        if (path.startsWith("../") && !path.startsWith("../../../")) // which is no part of the page
          yield [`${folder}/${name}`, path.slice(3)]
}

test("every file but the first is in a folder that has a place", () => {
  const there = readdirSync(source, { withFileTypes: true })
  assert.deepEqual(there.filter((f) => f.isDirectory()).map((f) => f.name).sort(), [...folders].sort())
  assert.deepEqual(there.filter((f) => f.name.endsWith(".ts")).map((f) => f.name), ["main.ts"])
})

test("folders import what is below them", () => {
  const all = [...imports()]
  assert.ok(all.length > 100)
  for (const [file, path] of all) {
    const [from, to] = [file, path].map((p) => folders.indexOf(p.split("/")[0]))
    assert.ok(to >= 0 && to < from, `${file} imports ${path}`)
  }
})
