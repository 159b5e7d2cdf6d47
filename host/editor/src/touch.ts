// Two fingers on the canvas: they move and zoom it. One finger is left to the canvas library.
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

export function installTouch(canvas: LGraphCanvas, moved: () => void) {
  const element = canvas.canvas
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
  }
  element.addEventListener("touchend", end)
  element.addEventListener("touchcancel", end)
}
