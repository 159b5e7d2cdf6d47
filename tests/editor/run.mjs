// node run.mjs unit PACKAGES_OF_THE_PAGE: bundles the tests of that folder with the page's own bundler
// and runs them. node run.mjs browser [serve | page]: the tests in a browser, or only those of the server, or all but those.
// Packages of the tests themselves go to the working directory. Exits with 77 when something that is needed is missing,
// and says what.
import { spawn, spawnSync } from "node:child_process"
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const [kind, which = ""] = process.argv.slice(2)
const folder = join(here, kind)
const env = { ...process.env, GRAFT_SOURCE_DIR: resolve(here, "../..") }

function skip(why) {
  console.log(`skipped: ${why}`)
  process.exit(77)
}

// One file of tests; its output comes when it has ended.
function runFile(file) {
  const child = spawn(process.execPath, ["--test", "--test-reporter=spec", file], {
    stdio: ["ignore", "pipe", "pipe"],
    env,
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => (output += text))
  return new Promise((done) =>
    child.on("close", (status) => {
      console.log(output)
      done(status ?? 1)
    }),
  )
}

// Browsers wait most of the time: two files at once take half as long.
async function run(files) {
  const left = [...files]
  const ends = []
  const work = async () => {
    while (left.length) ends.push(await runFile(left.shift()))
  }
  await Promise.all([work(), work()])
  return Math.max(...ends)
}

async function unit() {
  let esbuild
  try {
    esbuild = createRequire(join(which, "package.json"))("esbuild")
  } catch {
    skip("the editor's packages are not installed")
  }
  mkdirSync("bundles", { recursive: true })
  const out = mkdtempSync(join("bundles", "unit-"))
  const tests = readdirSync(folder).filter((name) => name.endsWith(".test.ts"))
  await esbuild.build({
    entryPoints: tests.map((name) => join(folder, name)),
    outdir: out,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    outExtension: { ".js": ".mjs" },
    loader: { ".def": "text" },
    nodePaths: [join(which, "node_modules")],
    logLevel: "warning",
  })
  const status = await run(tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs"))))
  rmSync(out, { recursive: true, force: true })
  return status
}

async function browser() {
  // The first has no window system to serve, which takes two fifths of the time away.
  env.CHROMIUM ??=
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
      .map((name) => join("/usr/bin", name))
      .find(existsSync) ?? ""
  if (!existsSync(env.CHROMIUM)) skip("Chromium is not installed (set CHROMIUM to its path)")
  if (!existsSync(join(env.GRAFT_EDITOR_DIR ?? "", "app.js"))) skip("the editor was not built")
  if (!existsSync("node_modules/playwright-core")) {
    for (const name of ["package.json", "package-lock.json"]) copyFileSync(join(here, name), name)
    const npm = [
      "ci",
      "--ignore-scripts",
      "--prefer-offline",
      "--no-audit",
      "--no-fund",
      "--loglevel=error",
    ]
    const { status } = spawnSync("npm", npm, { stdio: "inherit" })
    if (status !== 0) skip("npm could not fetch the packages of the browser tests")
  }
  if (which === "serve") console.log("skipped: the page without the server, which the plain build tries")
  if (which === "page") console.log("skipped: the page with the server, which sanitizers' build tries")
  return run(
    readdirSync(folder)
      .filter((name) => name.endsWith(".test.mjs"))
      .filter((name) => !which || name.startsWith("serve") === (which === "serve"))
      .map((name) => join(folder, name)),
  )
}

process.exit(kind === "unit" ? await unit() : await browser())
