// Bundles the page: node build.mjs [OUT_DIR]. Modules are looked for beside this file and in the
// working directory's node_modules, so that a build can keep its packages out of the source tree.
import { createRequire } from "node:module"
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"

const here = dirname(fileURLToPath(import.meta.url))
const out = resolve(process.argv[2] ?? join(here, "dist"))
const modules = [join(process.cwd(), "node_modules"), join(here, "node_modules")]
const require = createRequire(join(process.cwd(), "package.json"))
const esbuild = require("esbuild")
const litegraph = join(dirname(require.resolve("@comfyorg/litegraph")), "..")

// The library evaluates what is typed into a number field; a number is all that we accept there. And
// it draws the rectangle that selects nodes as if no page were ever zoomed out, unlike all else.
const mend = {
  name: "mend",
  setup(build) {
    build.onLoad({ filter: /litegraph\.es\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8")
      const contents = text
        .replaceAll(/\beval\(v\)/g, "Number(v)")
        .replaceAll("Math.max(1, window.devicePixelRatio)", "window.devicePixelRatio")
      return { contents, loader: "js" }
    })
  },
}

await mkdir(out, { recursive: true })
await esbuild.build({
  entryPoints: { app: join(here, "src/main.ts") },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  nodePaths: modules,
  plugins: [mend],
  loader: { ".def": "text" },
  legalComments: "none",
  logLevel: "warning",
})
await esbuild.build({
  entryPoints: { app: join(here, "src/app.css") },
  outdir: out,
  bundle: true,
  minify: true,
  target: "es2022",
  nodePaths: modules,
  logLevel: "warning",
})
await copyFile(join(here, "src/index.html"), join(out, "index.html"))
const packages = [
  ["@comfyorg/litegraph", litegraph, "LICENSE"],
  ["marked", join(dirname(require.resolve("marked")), ".."), "LICENSE"],
]
const notices = packages.map(async ([name, folder, file]) => {
  const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"))
  const licence = await readFile(join(folder, file), "utf8")
  return `The editor page contains ${name} ${version} under this licence:\n\n${licence}`
})
await writeFile(join(out, "NOTICE"), (await Promise.all(notices)).join("\n\n"))
// The server sends these to whoever takes them; it does not compress files itself.
for (const name of ["index.html", "app.js", "app.css"]) {
  const packed = gzipSync(await readFile(join(out, name)), { level: 9 })
  await writeFile(join(out, `${name}.gz`), packed)
}
