// A text field laid over a widget on the canvas while its value is typed.
import type { LGraphCanvas, LGraphNode } from "@comfyorg/litegraph"
import { Completion } from "./complete"
import { h } from "../page/dom"

interface Open {
  field: HTMLInputElement | HTMLTextAreaElement
  place(): void
  close(keep: boolean): void
}
let open: Open | null = null

export interface EditorOptions {
  multiline?: boolean
  value?: string
  at?: { clientX: number; clientY: number } // where the pointer was: the cursor goes there
  done?(text: string): void
}

// Puts the open field back over its widget after the canvas moved.
export function placeEditor() {
  open?.place()
}

export function closeEditor(keep = true) {
  open?.close(keep)
}

function caretAt(field: Open["field"], at: EditorOptions["at"]): [number, number] {
  const found = at && (document as any).caretPositionFromPoint?.(at.clientX, at.clientY)
  const place = found?.offsetNode === field ? found.offset : field.value.length
  return [place, place]
}

export function openEditor(
  canvas: LGraphCanvas,
  node: LGraphNode,
  widget: any,
  options: EditorOptions,
) {
  closeEditor()
  const { multiline } = options
  const label = `${widget.label ?? widget.name} of ${node.title}`
  const field = h(multiline ? "textarea" : "input", {
    class: "inline-editor",
    "aria-label": label,
    spellcheck: "false",
  })
  field.value = options.value ?? String(widget.value ?? "")
  if (field instanceof HTMLTextAreaElement) new Completion(field)
  const place = () => {
    const { scale, offset } = canvas.ds
    const margin = 15
    const width = (widget.width || node.size[0]) - 2 * margin
    const height = multiline ? widget.computedHeight - 6 : 22
    Object.assign(field.style, {
      left: `${(node.pos[0] + margin + offset[0]) * scale}px`,
      top: `${(node.pos[1] + widget.y + offset[1]) * scale}px`,
      width: `${width}px`,
      height: `${height}px`,
      transform: `scale(${scale})`,
    })
  }
  let closed = false
  const close = (keep: boolean) => {
    if (closed) return
    closed = true
    open = null
    widget.editing = false
    const text = field.value
    field.remove()
    if (keep) {
      if (multiline) widget.value = text
      options.done?.(text)
    }
    canvas.setDirty(true, true)
    canvas.canvas.focus()
  }
  field.addEventListener("keydown", (event) => {
    const key = (event as KeyboardEvent).key
    if (key === "Escape")
      close(!!multiline) // a text that was written is kept, a number is not
    else if (key === "Enter" && (!multiline || (event as KeyboardEvent).ctrlKey)) close(true)
    else {
      event.stopPropagation() // the canvas must not see what is typed
      return
    }
    if (!(event as KeyboardEvent).ctrlKey) event.stopPropagation()
    event.preventDefault()
  })
  field.addEventListener("blur", () => close(true))
  widget.editing = true
  canvas.canvas.parentElement!.append(field)
  open = { field, place, close }
  place()
  field.focus()
  // A click into a long text must not select all of it: the next key would replace the text.
  if (multiline) field.setSelectionRange(...caretAt(field, options.at))
  else field.select()
  canvas.setDirty(true, true)
}
