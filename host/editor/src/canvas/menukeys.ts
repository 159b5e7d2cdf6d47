// The canvas library's menus by keyboard: arrows move, Enter chooses, Escape goes back.
import { ContextMenu, LGraphCanvas, LiteGraph } from "@comfyorg/litegraph"
import type { Editor } from "./graph"

type Menu = ContextMenu<unknown>

const entriesOf = (menu: Menu) =>
  Array.from(
    menu.root.querySelectorAll<HTMLElement>(":scope > [role=menuitem]:not([aria-disabled=true])"),
  )

// A click that tells where it was, since sub-menus open there.
function choose(entry: HTMLElement) {
  const box = entry.getBoundingClientRect()
  entry.dispatchEvent(
    new MouseEvent("click", { bubbles: true, clientX: box.left + 10, clientY: box.top + 10 }),
  )
}

// Closes one menu; what opened it has the focus again.
function leave(menu: Menu, opener: HTMLElement) {
  const parent = menu.parentMenu
  menu.close(undefined, true)
  if (parent) {
    parent.lock = false
    parent.current_submenu = undefined
  }
  opener.focus()
}

function moveBy(menu: Menu, steps: number) {
  const entries = entriesOf(menu)
  const now = entries.indexOf(document.activeElement as HTMLElement)
  entries[(now + steps + entries.length) % entries.length]?.focus()
}

function press(menu: Menu, opener: HTMLElement, key: string): boolean {
  const entry = document.activeElement as HTMLElement
  const opens = entry.classList.contains("has_submenu")
  if (key === "ArrowDown") moveBy(menu, 1)
  else if (key === "ArrowUp") moveBy(menu, -1)
  else if (key === "Home") entriesOf(menu)[0]?.focus()
  else if (key === "End") entriesOf(menu).at(-1)?.focus()
  else if (key === "Enter" || key === " " || (key === "ArrowRight" && opens)) choose(entry)
  else if (key === "Escape" || key === "Tab" || (key === "ArrowLeft" && menu.parentMenu))
    leave(menu, opener)
  else return false
  return true
}

export function installMenuKeys(editor: Editor) {
  const stage = editor.canvas.canvas
  class KeyMenu extends ContextMenu<unknown> {
    constructor(...given: ConstructorParameters<typeof ContextMenu<unknown>>) {
      super(...given)
      const before = document.activeElement
      const opener = this.parentMenu?.root.contains(before) ? (before as HTMLElement) : stage
      this.root.setAttribute("role", "menu")
      for (const entry of entriesOf(this)) entry.tabIndex = -1
      this.root.addEventListener("contextmenu", (event) => event.preventDefault())
      this.root.addEventListener("keydown", (event) => {
        if (!press(this, opener, event.key)) return
        event.preventDefault()
        event.stopPropagation()
        if (document.activeElement === document.body) stage.focus() // the menu that had it is gone
      })
      entriesOf(this)[0]?.focus({ preventScroll: true })
    }
  }
  LiteGraph.ContextMenu = KeyMenu as unknown as typeof ContextMenu
}

const within = (place: number, least: number, most: number) =>
  Math.max(least, Math.min(place, most))

// The menu of the selected nodes, at the last of them or as near as the view has it, or that of the
// canvas, in its middle.
export function openMenu(editor: Editor) {
  const { canvas } = editor
  const { ds } = canvas
  const box = canvas.canvas.getBoundingClientRect()
  const node = editor.selected.at(-1)
  const [x, y] = node
    ? [node.pos[0] + 20, node.pos[1] - 10]
    : [box.width / 2 / ds.scale - ds.offset[0], box.height / 2 / ds.scale - ds.offset[1]]
  const event = new MouseEvent("contextmenu", {
    clientX: within(box.left + (x + ds.offset[0]) * ds.scale, box.left, box.right),
    clientY: within(box.top + (y + ds.offset[1]) * ds.scale, box.top, box.bottom),
  })
  LGraphCanvas.active_canvas = canvas // as a pointer above it would do
  canvas.graph_mouse[0] = x
  canvas.graph_mouse[1] = y
  canvas.processContextMenu(node, Object.assign(event, { canvasX: x, canvasY: y }) as any)
}
