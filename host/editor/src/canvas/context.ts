// What a right click offers.
import { LGraphCanvas, LiteGraph } from "@comfyorg/litegraph"
import { chosenPicture } from "./chosen"
import { duplicate } from "./clipboard"
import type { Editor } from "./graph"
import { linkAt } from "../page/hover"
import { openPictures, savePicture } from "../page/lightbox"
import { paintMask } from "./mask"
import type { GraftNode } from "./nodes"
import { pictureAt, picturesOf } from "./widgets"

interface Entry {
  content: string
  has_submenu?: boolean
  callback?: (...given: any[]) => void
}

export interface ContextActions {
  add(at: [number, number]): void
  group(): void
  settings(): void
  changed(): void
}

function nodeEntries(editor: Editor, actions: ContextActions, node: GraftNode): (Entry | null)[] {
  const { canvas } = editor
  // Each entry is about the selection, of which the node is made a part first.
  const act = (run: () => void) => () => {
    if (!editor.selected.includes(node)) canvas.selectItems([node])
    run()
    actions.changed()
  }
  const entries: (Entry | null)[] = [
    { content: "Settings", callback: act(actions.settings) },
    { content: node.flags.collapsed ? "Expand" : "Collapse", callback: act(() => node.collapse()) },
    { content: node.pinned ? "Unpin" : "Pin", callback: act(() => node.pin()) },
    { content: "Colour", has_submenu: true, callback: LGraphCanvas.onMenuNodeColors },
    { content: "Rename", callback: () => editor.renameNode(node) },
    null,
    { content: node.mode === 4 ? "End bypass" : "Bypass", callback: act(() => editor.setMode(4)) },
    { content: node.mode === 2 ? "Unmute" : "Mute", callback: act(() => editor.setMode(2)) },
    null,
    { content: "Copy", callback: act(() => canvas.copyToClipboard()) },
    { content: "Duplicate", callback: act(() => duplicate(canvas)) },
    { content: "Delete", callback: act(() => canvas.deleteSelected()) },
  ]
  if ("subgraph" in node)
    entries.unshift({ content: "Open", callback: () => editor.openSubgraph(node) })
  if (editor.selected.length > 1)
    entries.splice(4, 0, {
      content: "Make a sub-graph",
      callback: act(() => editor.graph.convertToSubgraph(canvas.selectedItems)),
    })
  const mask = chosenPicture(node)
    ? [{ content: "Paint a mask…", callback: () => void paintMask(node) }]
    : []
  const pictures = picturesOf(node)
  if (pictures.length) {
    const [x, y] = canvas.graph_mouse
    const at = Math.max(0, pictureAt(node, x, y))
    entries.unshift(
      { content: "Open the picture", callback: () => openPictures(pictures, at) },
      { content: "Save the picture", callback: () => savePicture(pictures[at]) },
      ...mask,
      null,
    )
  }
  return entries
}

// Where the pointer is on a link, what can be done with that.
function linkEntries(canvas: LGraphCanvas, actions: ContextActions): (Entry | null)[] {
  const { graph } = canvas
  const [x, y] = canvas.graph_mouse
  const on = linkAt(canvas, x, y)
  if (!on || !graph) return []
  const then = (run: () => void) => () => {
    run()
    canvas.setDirty(true, true)
    actions.changed()
  }
  const link = "origin_id" in on ? on : null
  return [
    { content: "Add a bend", callback: then(() => graph.createReroute([x, y], on)) },
    ...(link
      ? [{ content: "Remove this link", callback: then(() => graph.removeLink(link.id)) }]
      : []),
    null,
  ]
}

export function installContextMenus(editor: Editor, actions: ContextActions) {
  const { canvas } = editor
  const add = () => actions.add([canvas.graph_mouse[0], canvas.graph_mouse[1]])
  const paste = () =>
    canvas.pasteFromClipboard({ position: [canvas.graph_mouse[0], canvas.graph_mouse[1]] })
  canvas.getCanvasMenuOptions = () =>
    [
      ...linkEntries(canvas, actions),
      { content: "Add a node…", callback: add },
      { content: "Add a group", callback: actions.group },
      null,
      { content: "Paste", callback: paste },
      { content: "Show all nodes", callback: () => editor.fit() },
    ] as any
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") LiteGraph.closeAllContextMenus()
  })
  canvas.getNodeMenuOptions = (node) => nodeEntries(editor, actions, node as GraftNode) as any
}
