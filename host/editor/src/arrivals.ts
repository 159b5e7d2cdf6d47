// What comes to the canvas from elsewhere: files that are dropped on it, pictures and texts that are
// pasted.
import { installClipboard } from "./clipboard"
import { byId } from "./dom"
import { open } from "./files"
import type { Editor } from "./graph"
import type { GraftNode } from "./nodes"
import { isPicture, readFile, readText } from "./read"
import { uploadTo } from "./widgets"

const BELOW = 48 // pixels between nodes of several pictures

// A picture without a workflow becomes a node that loads it; several stand below each other.
async function takeFiles(
  editor: Editor,
  given: File[],
  [x, y]: [number, number],
  changed: () => void,
) {
  for (const file of given) {
    const found = await readFile(file)
    if (found) {
      const note = editor.load(found.data, found.name)
      return [found.note, note].filter(Boolean).join(" ")
    }
    const node = editor.add("LoadImage", [x, y])
    const widget = node?.widgets?.find((w) => w.name === "image")
    if (!node || !widget) throw new Error(`${file.name} carries no workflow.`)
    if (!(await uploadTo(node, widget, file))) editor.graph.remove(node)
    y += node.size[1] + BELOW
    changed()
  }
  return ""
}

export function installArrivals(editor: Editor, changed: () => void) {
  const stage = byId("stage")
  stage.addEventListener("dragover", (event) => {
    event.preventDefault()
    stage.classList.add("dropping")
  })
  stage.addEventListener("dragleave", () => stage.classList.remove("dropping"))
  stage.addEventListener("drop", (event) => {
    event.preventDefault()
    stage.classList.remove("dropping")
    const given = [...(event.dataTransfer?.files ?? [])]
    if (!given.length) return
    const box = stage.getBoundingClientRect()
    const [x, y] = editor.canvas.ds.convertCanvasToOffset([
      event.clientX - box.left,
      event.clientY - box.top,
    ])
    const node = editor.graph.getNodeOnPos(x, y) as GraftNode | null
    const input = node?.spec?.inputs.find((i) => i.options.image_upload)
    const widget = input && node!.widgets?.find((w) => w.name === input.name)
    if (widget && isPicture(given[0])) void uploadTo(node!, widget, given[0]).then(changed)
    else open(() => takeFiles(editor, given, [x, y], changed))
  })
  installClipboard(editor.canvas, {
    covered: () => editor.covered(),
    pictures: (given) => {
      const [x, y] = editor.canvas.graph_mouse
      open(() => takeFiles(editor, given, [x, y], changed))
    },
    text: (text) => {
      const data = readText(text)
      if (data) open(() => editor.load(data, "pasted"))
      return !!data
    },
  })
}
