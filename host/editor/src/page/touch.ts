// Two fingers on the canvas move and zoom it; one that rests opens the menu that a right click opens.
// All else is left to the canvas library.
import type { LGraphCanvas } from "@comfyorg/litegraph"

interface Grip {
  distance: number
  x: number
  y: number
}

function gripOf(touches: TouchList, box: DOMRect): Grip {
  const [a, b] = [touches[0], touches[1]]
  return {
    distance: Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)),
    x: (a.clientX + b.clientX) / 2 - box.left,
    y: (a.clientY + b.clientY) / 2 - box.top,
  }
}

const REST_MS = 550
const REST_DRIFT = 8 // pixels

function installLongPress(canvas: LGraphCanvas) {
  const element = canvas.canvas
  let timer = 0
  let down: PointerEvent | null = null
  const cancel = () => {
    clearTimeout(timer)
    down = null
  }
  const open = () => {
    const event = down as any // the library has put its own coordinates into it
    cancel()
    if (!event || canvas.linkConnector.isConnecting) return
    const node = canvas.graph?.getNodeOnPos(event.canvasX, event.canvasY) ?? undefined
    canvas.pointer.reset() // else the finger would drag what lies below the menu
    canvas.dragging_canvas = false
    if (node && !canvas.selectedItems.has(node)) canvas.selectItems([node])
    canvas.processContextMenu(node, event)
  }
  // The library stops what it has dealt with, so this looks first.
  const first = { capture: true }
  element.addEventListener(
    "pointerdown",
    (event) => {
      cancel()
      if (event.pointerType !== "touch" || !event.isPrimary) return
      down = event
      timer = window.setTimeout(open, REST_MS)
    },
    first,
  )
  element.addEventListener(
    "pointermove",
    (event) => {
      if (!down || event.pointerId !== down.pointerId) return
      const drift = Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY)
      if (drift > REST_DRIFT) cancel()
    },
    first,
  )
  for (const type of ["pointerup", "pointercancel"]) element.addEventListener(type, cancel, first)
  element.addEventListener("touchstart", (event) => event.touches.length > 1 && cancel())
}

export function installTouch(canvas: LGraphCanvas, moved: () => void) {
  const element = canvas.canvas
  installLongPress(canvas)
  let last: Grip | null = null
  const stop = (event: Event) => {
    if (!last) return
    event.stopImmediatePropagation()
    event.preventDefault()
  }
  // While two fingers are down the library must not take the first one for a drag.
  for (const type of ["pointermove", "pointerdown"])
    element.addEventListener(
      type,
      (event) => last && (event as PointerEvent).pointerType === "touch" && stop(event),
      true,
    )
  element.addEventListener(
    "touchstart",
    (event) => {
      if (event.touches.length !== 2) return
      canvas.pointer.reset()
      canvas.dragging_canvas = false
      last = gripOf(event.touches, element.getBoundingClientRect())
      event.preventDefault()
    },
    { passive: false },
  )
  element.addEventListener(
    "touchmove",
    (event) => {
      if (!last || event.touches.length !== 2) return
      event.preventDefault()
      const now = gripOf(event.touches, element.getBoundingClientRect())
      const { ds } = canvas
      const scale = Math.min(3, Math.max(0.1, (ds.scale * now.distance) / last.distance))
      // The point under the fingers stays under them.
      ds.offset[0] += now.x / scale - last.x / ds.scale
      ds.offset[1] += now.y / scale - last.y / ds.scale
      ds.scale = scale
      last = now
      canvas.setDirty(true, true)
      moved()
    },
    { passive: false },
  )
  const end = (event: TouchEvent) => {
    if (event.touches.length < 2) last = null
    // A tap may have opened something under the finger. The click that browsers make of it would
    // go there, and close it or choose from it.
    if (event.cancelable) event.preventDefault()
  }
  element.addEventListener("touchend", end)
  element.addEventListener("touchcancel", end)
}
