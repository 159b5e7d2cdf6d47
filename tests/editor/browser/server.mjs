// The real server, for tests of the page with it.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"

const {
  GRAFT_PROGRAM: program = "",
  GRAFT_PLUGINS: plugins,
  GRAFT_SOURCE_DIR: source,
} = process.env
const models = join(source, "models")

// Why it cannot be started; false where it can.
export const missing = !existsSync(program)
  ? "the program is not built"
  : !existsSync(join(plugins, "graft_nodes.so"))
    ? "the nodes are not built"
    : !existsSync(join(models, "checkpoints/emoji-64.safetensors"))
      ? "the demo checkpoint is not there"
      : false

// With its output and its state in `folder`, and more options.
export function start(folder, more = []) {
  const child = spawn(
    program,
    [
      "serve",
      "--port",
      "0",
      "--plugins",
      plugins,
      "--models",
      models,
      "--input",
      join(source, "input"),
      "--output",
      join(folder, "output"),
      "--state",
      join(folder, "state"),
      "--web-root",
      process.env.GRAFT_EDITOR_DIR,
      ...more,
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  )
  return new Promise((done, fail) => {
    let text = ""
    const read = (data) => {
      text += data
      const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(text)
      if (found) done({ child, url: found[0] })
    }
    child.stdout.on("data", read)
    child.stderr.on("data", read)
    child.on("exit", () => fail(new Error(`the server ended: ${text}`)))
  })
}

export const stop = (child) =>
  new Promise((done) => {
    if (child.exitCode !== null) return done()
    child.removeAllListeners("exit")
    child.on("exit", done)
    child.kill("SIGTERM")
  })
