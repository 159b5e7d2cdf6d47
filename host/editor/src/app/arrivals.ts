// What comes to the canvas from elsewhere: files that are dropped on it, pictures and texts that are
// pasted.
import { installClipboard } from "../canvas/clipboard"
import { byId, toast } from "../page/dom"
import { open } from "./files"
import type { Editor } from "../canvas/graph"
import type { GraftNode } from "../canvas/nodes"
import { isPicture, parsed, readFile } from "../workflow/read"
import { uploadTo } from "../canvas/widgets"

// A picture without a workflow becomes a node that loads it. Of several workflows the first is opened.
async function takeFiles(
  editor: Editor,
  given: File[],
  [x, y]: [number, number],
  changed: () => void,
) {
  const notes: string[] = []
  const pictures: File[] = []
  let opened = ""
  for (const file of given) {
    const found = await readFile(file)
    if (!found) pictures.push(file)
    else if (opened) notes.push(`${file.name} was not opened: ${opened} was.`)
    else {
      opened = file.name
      notes.push(editor.loadFound(found))
    }
  }
  for (const file of pictures) {
    const node = editor.add("LoadImage", opened ? editor.middle() : [x, y])
    const widget = node?.widgets?.find((w) => w.name === "image")
    if (!node || !widget) throw new Error(`${file.name} carries no workflow.`)
    if (await uploadTo(node, widget, file)) editor.makeWay(node)
    else editor.graph.remove(node)
    changed()
  }
  return notes.filter(Boolean).join(" ")
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
      if (/^\s*[[{]/.test(text))
        open(() => editor.load(parsed(text, "What was copied"), "pasted"))
      else toast("What was copied is a text, and no nodes.")
    },
    first: () => editor.frame(),
  })
}
