// Colours of the canvas; those of the page are in app.css, under the same two names.
import { LGraphCanvas, LiteGraph } from "@comfyorg/litegraph"

export type ThemeName = "dark" | "light"

export interface CanvasTheme {
  background: string
  grid: string
  node: string
  title: string
  titleText: string
  text: string
  muted: string
  line: string
  field: string
  fieldLine: string
  accent: string
  danger: string
  warning: string
  shadow: string
  link: string
}

const THEMES: Record<ThemeName, CanvasTheme> = {
  dark: {
    background: "#14171a",
    grid: "#252a2f",
    node: "#20252b",
    title: "#2a3038",
    titleText: "#e6eaed",
    text: "#c3cad1",
    muted: "#9aa4ad",
    line: "#363e47",
    field: "#171b20",
    fieldLine: "#333b44",
    accent: "#4cc38a",
    danger: "#ff6b63",
    warning: "#f0b429",
    shadow: "rgba(0,0,0,.35)",
    link: "#8b959f",
  },
  light: {
    background: "#f3f4f1",
    grid: "#dcdfd8",
    node: "#ffffff",
    title: "#dae2d9",
    titleText: "#20262b",
    text: "#3b444c",
    muted: "#5c666e",
    line: "#cfd5cd",
    field: "#f6f7f5",
    fieldLine: "#d6dbd3",
    accent: "#157346",
    danger: "#c9302c",
    warning: "#a35f00",
    shadow: "rgba(32,40,34,.13)",
    link: "#7b858d",
  },
}

const TYPES: Record<ThemeName, Record<string, string>> = {
  dark: {
    MODEL: "#a79cf0",
    CLIP: "#e8c65a",
    VAE: "#f08a80",
    CONDITIONING: "#f2a65a",
    LATENT: "#f58bc4",
    IMAGE: "#6cb4f5",
    MASK: "#7fd1a0",
    INT: "#7fc8c2",
    FLOAT: "#9bd17f",
    STRING: "#b8c0c8",
    BOOLEAN: "#d6a4e0",
    COMBO: "#b8c0c8",
    CONTROL_NET: "#b4f2f0",
    SAMPLER: "#e35bf5",
    SIGMAS: "#55d63c",
    NOISE: "#c08a4e",
    GUIDER: "#f9ccd8",
  },
  light: {
    MODEL: "#6b5bd0",
    CLIP: "#a98300",
    VAE: "#cc4a3d",
    CONDITIONING: "#c06a10",
    LATENT: "#c43d8d",
    IMAGE: "#1f74c4",
    MASK: "#2d8a55",
    INT: "#23827b",
    FLOAT: "#4c8a2a",
    STRING: "#5c666f",
    BOOLEAN: "#93489f",
    COMBO: "#5c666f",
    CONTROL_NET: "#0b5566",
    SAMPLER: "#8a12c0",
    SIGMAS: "#4d6a00",
    NOISE: "#7a3414",
    GUIDER: "#1a1a92",
  },
}

// For types that plugins bring along: one of these by the type's name, always the same.
const OTHERS: Record<ThemeName, string[]> = {
  dark: ["#aa64d8", "#0b87da", "#3fa66a", "#f4508c", "#8f9a3c"],
  light: ["#98164a", "#5a3d8a", "#2f5a3a", "#6b5606", "#3d454c"],
}
const learned = new Set<string>()

let current: ThemeName = "dark"

export const theme = (): CanvasTheme => THEMES[current]
export const themeName = (): ThemeName => current

export function typeColor(type: string | number, name: ThemeName = current): string {
  const text = String(type)
  const known = TYPES[name][text]
  if (known) return known
  if (/^(\*|0|-1)?$/.test(text) || text.includes(",")) return THEMES[name].link // of any kind
  let hash = 0
  for (const letter of text) hash = (hash * 31 + letter.charCodeAt(0)) % 65521
  return OTHERS[name][hash % OTHERS[name].length]
}

// The canvas library looks colours up in tables, so these have to know every type there is.
export function learnTypes(types: Iterable<string>, canvas?: LGraphCanvas) {
  for (const type of types) learned.add(type)
  paintTypes(canvas)
}

function paintTypes(canvas?: LGraphCanvas) {
  const table = { ...TYPES[current] }
  for (const type of learned) table[type] = typeColor(type)
  Object.assign(LGraphCanvas.link_type_colors, table)
  if (!canvas) return
  Object.assign(canvas.default_connection_color_byType, table)
  Object.assign(canvas.default_connection_color_byTypeOff, table)
}

export function preferredTheme(): ThemeName {
  const saved = localStorage.getItem("graft.theme")
  if (saved === "dark" || saved === "light") return saved
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"
}

export function applyTheme(name: ThemeName, canvas?: LGraphCanvas) {
  current = name
  document.documentElement.dataset.theme = name
  const t = THEMES[name]
  Object.assign(LiteGraph, {
    NODE_DEFAULT_COLOR: t.title,
    NODE_DEFAULT_BGCOLOR: t.node,
    NODE_DEFAULT_BOXCOLOR: t.muted,
    NODE_TITLE_COLOR: t.titleText,
    NODE_SELECTED_TITLE_COLOR: t.titleText,
    NODE_TEXT_COLOR: t.text,
    NODE_TEXT_HIGHLIGHT_COLOR: t.titleText,
    NODE_BOX_OUTLINE_COLOR: t.accent,
    NODE_ERROR_COLOUR: t.danger,
    DEFAULT_SHADOW_COLOR: t.shadow,
    WIDGET_BGCOLOR: t.field,
    WIDGET_OUTLINE_COLOR: t.fieldLine,
    WIDGET_ADVANCED_OUTLINE_COLOR: t.fieldLine,
    WIDGET_TEXT_COLOR: t.titleText,
    WIDGET_SECONDARY_TEXT_COLOR: t.muted,
    WIDGET_DISABLED_TEXT_COLOR: t.muted,
    LINK_COLOR: t.link,
    EVENT_LINK_COLOR: t.link,
    CONNECTING_LINK_COLOR: t.accent,
    NODE_FONT: "Inter, system-ui, sans-serif",
    GROUP_FONT: "Inter, system-ui, sans-serif",
    ROUND_RADIUS: 9,
    NODE_TEXT_SIZE: 13,
    NODE_SUBTEXT_SIZE: 12,
  })
  paintTypes(canvas)
  if (!canvas) return
  canvas.node_title_color = t.titleText
  canvas.default_link_color = t.link
  canvas.clear_background_color = t.background
  Object.assign(canvas.default_connection_color, {
    input_off: t.muted,
    input_on: t.text,
    output_off: t.muted,
    output_on: t.text,
  })
  canvas.setDirty(true, true)
}

// Dots every 20 units, fewer when seen from afar.
export function drawGrid(ctx: CanvasRenderingContext2D, area: ArrayLike<number>, scale: number) {
  let gap = 20
  while (gap * scale < 14) gap *= 2
  const size = 1.6 / scale
  ctx.fillStyle = THEMES[current].grid
  const right = area[0] + area[2]
  const bottom = area[1] + area[3]
  for (let x = Math.floor(area[0] / gap) * gap; x < right; x += gap)
    for (let y = Math.floor(area[1] / gap) * gap; y < bottom; y += gap)
      ctx.fillRect(x, y, size, size)
}
