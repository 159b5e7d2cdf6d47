// node run.mjs unit|browser: bundles the tests of that folder with the page's own bundler, and runs
// them. Packages are looked for in the working directory (the page's build folder).
import { spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const folder = join(here, process.argv[2])
const out = mkdtempSync(join(tmpdir(), "graft-editor-"))
const require = createRequire(join(process.cwd(), "package.json"))
let esbuild
try {
  esbuild = require("esbuild")
} catch {
  console.log("skipped: the editor's packages are not installed")
  process.exit(77)
}
const tests = readdirSync(folder).filter((name) => name.endsWith(".test.ts"))
await esbuild.build({
  entryPoints: tests.map((name) => join(folder, name)),
  outdir: out,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "es2022",
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
})
const files = tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")))
const env = { ...process.env, GRAFT_SOURCE_DIR: resolve(here, "../..") }
const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit", env })
rmSync(out, { recursive: true, force: true })
process.exit(status ?? 1)
