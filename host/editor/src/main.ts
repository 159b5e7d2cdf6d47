// Puts the page together.
import * as api from "./server/api"
import { defaultPrompt, needsCheckpoint, placeDemo } from "./workflow/default"
import { lastRun } from "./app/again"
import { installArrivals } from "./app/arrivals"
import { installContextMenus } from "./canvas/context"
import { byId, h, hideToast, icon, iconButton, toast } from "./page/dom"
import type { Fault } from "./server/errors"
import { Files, open } from "./app/files"
import type { LinkEnd } from "./workflow/find"
import { Editor } from "./canvas/graph"
import { HistoryPanel } from "./panels/history"
import { Inspector } from "./panels/inspector"
import { followHand, GESTURES, installShortcuts, showShortcuts, type Shortcut } from "./page/keys"
import { menuButton, type MenuItem } from "./page/menu"
import { openPictures } from "./page/lightbox"
import { installMenuKeys, openMenu } from "./canvas/menukeys"
import { registerNodes, type GraftNode } from "./canvas/nodes"
import { editLabel } from "./canvas/labels"
import { editNote } from "./canvas/notes"
import { ProfilePanel } from "./app/profile"
import { fraction } from "./workflow/progress"
import { QuantizePanel } from "./panels/quantize"
import { QueuePanel } from "./panels/queue"
import { Runner } from "./app/runner"
import { savedWorkflow } from "./app/saved"
import { openSearch } from "./canvas/search"
import { Sidebar } from "./page/sidebar"
import { StatusBar } from "./app/status"
import { Steps } from "./app/steps"
import { applyTheme, learnTypes, preferredTheme, type ThemeName, themeName } from "./page/theme"
import { installTips } from "./canvas/tips"
import { installTouch } from "./page/touch"
import { compatible } from "./workflow/schema"
import { virtualSpecs } from "./canvas/virtual"
import { pictureAt, picturesOf, setHooks } from "./canvas/widgets"

applyTheme(preferredTheme())
const editor = new Editor(byId<HTMLCanvasElement>("canvas"))
applyTheme(themeName(), editor.canvas)
const steps = new Steps(editor)
const files = new Files(editor, steps)
const runner = new Runner(editor)
const status = new StatusBar()
const queuePanel = new QueuePanel()
const inspector = new Inspector(editor)
const quantize = new QuantizePanel(editor)
const profile = new ProfilePanel()
const history = new HistoryPanel((workflow, name, outputs) =>
  open(() => {
    const note = editor.load(workflow, name)
    showOutputs(outputs)
    return note
  }),
)
const sidebar = new Sidebar(byId("side"), [
  {
    id: "node",
    label: "Node",
    icon: "node",
    element: inspector.element,
    shown: () => inspector.render(true),
  },
  { id: "queue", label: "Queue", icon: "queue", element: queuePanel.element },
  { id: "history", label: "History", icon: "history", element: history.element },
  {
    id: "quantize",
    label: "Quantize",
    icon: "quantize",
    element: quantize.element,
    shown: () => quantize.render(true),
  },
  {
    id: "profile",
    label: "Profile",
    icon: "profile",
    element: profile.element,
    shown: () => profile.render(),
  },
])

function newClient(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const id = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("")
  sessionStorage.setItem("graft.client", id)
  return id
}
let client = sessionStorage.getItem("graft.client") ?? newClient()

const { changed } = steps

// The name in the bar, and in the window's title how far the run is: it is read from other windows.
function showName() {
  const changed = steps.isChanged
  const bar = byId("name")
  bar.textContent = editor.name
  bar.classList.toggle("changed", changed)
  bar.title = changed ? "Changed since it was saved. Rename" : "Rename"
  const { run } = runner
  const done =
    run?.state === "running" ? `${Math.round(100 * fraction(run, runner.expected))} % · ` : ""
  document.title = `${done}${changed ? "• " : ""}${editor.name} · Graft`
}
function showHint() {
  byId("hint").hidden = editor.nodes.length > 0
}
function paintUndo() {
  byId<HTMLButtonElement>("undo").disabled = !steps.canUndo
  byId<HTMLButtonElement>("redo").disabled = !steps.canRedo
}
async function loadDemo() {
  const other = needsCheckpoint(editor.specs)
  const whole = other ? await api.wholeCheckpoint() : ""
  open(() => {
    const said = editor.load(defaultPrompt(editor.specs, whole), "text to picture")
    const apart =
      "No checkpoint here has a text encoder and a VAE in it: this workflow needs loaders for them."
    const note = other && !whole ? [said, apart].filter(Boolean).join(" ") : said
    placeDemo(editor.nodes as any, matchMedia("(max-width: 900px)").matches)
    editor.frame()
    changed()
    return note
  })
}

// Adds a node where the pointer is, joined to the link that was dropped there.
function addNode(at?: [number, number], end?: LinkEnd & { node: GraftNode; slot: number }) {
  const place = at ?? editor.middle()
  openSearch(
    new Map([...editor.specs, ...virtualSpecs]),
    (spec) => {
      const node = editor.add(
        spec.name,
        at ? [place[0] + 4, place[1] + 4] : [place[0] - 130, place[1] - 60],
      )
      if (!node) return
      if (!at) editor.makeWay(node)
      if (end) join(node, end)
      byId("canvas").focus()
    },
    end,
  )
}
function join(node: GraftNode, end: LinkEnd & { node: GraftNode; slot: number }) {
  if (end.from === "output") {
    const exact = node.inputs.findIndex((slot) => slot.type === end.type && !slot.widget)
    const slot = exact >= 0 ? exact : node.inputs.findIndex((s) => compatible(end.type, s.type))
    if (slot >= 0) end.node.connect(end.slot, node, slot)
  } else {
    const slot = node.outputs.findIndex((s) => compatible(s.type, end.type))
    if (slot >= 0) node.connect(slot, end.node, end.slot)
    node.pos = [node.pos[0] - node.size[0], node.pos[1]]
  }
  changed()
}

// A model that was put into its folder since the page was opened.
async function refreshChoices() {
  try {
    editor.updateChoices(await api.objectInfo())
    inspector.render(true)
    toast("The lists of files are up to date.")
  } catch (error) {
    toast((error as Error).message, "error")
  }
}

function setTheme(name: ThemeName) {
  applyTheme(name, editor.canvas)
  byId("theme").replaceChildren(icon(name === "dark" ? "sun" : "moon"))
}
function toggleTheme() {
  const name = themeName() === "dark" ? "light" : "dark"
  localStorage.setItem("graft.theme", name)
  setTheme(name)
}

const count = h("input", {
  type: "number",
  min: "1",
  max: "999",
  value: "1",
  "aria-label": "How many times to run",
  title: "How many times to run",
  onchange: () => (count.value = String(times())),
})
const times = () => Math.min(999, Math.max(1, Math.round(Number(count.value) || 1)))
const queueRun = (front = false) => {
  count.value = String(times())
  void runner.submit(client, times(), front).then(() => changed())
}

const shortcuts: Shortcut[] = [
  { keys: "Ctrl+Enter", text: "Queue the workflow", run: () => queueRun(), typing: true },
  {
    keys: "Ctrl+Shift+Enter",
    text: "Queue it before all others",
    run: () => queueRun(true),
    typing: true,
  },
  {
    keys: "Ctrl+Alt+Enter",
    text: "Interrupt the run",
    run: () => runner.interrupt(),
    typing: true,
  },
  { keys: "A", text: "Add a node (or double-click the canvas)", run: () => addNode() },
  {
    keys: "Ctrl+S",
    text: "Save the workflow on the server",
    run: () => void files.save(),
    typing: true,
  },
  { keys: "Ctrl+O", text: "Open a workflow", run: () => void files.browse(), typing: true },
  { keys: "Ctrl+Z", text: "Undo", run: () => steps.by("undo") },
  { keys: "Ctrl+Y or Ctrl+Shift+Z", text: "Redo", run: () => steps.by("redo") },
  { keys: "Ctrl+C", text: "Copy the selected nodes" },
  { keys: "Ctrl+X", text: "Cut the selected nodes", run: () => editor.cut() },
  { keys: "Ctrl+V", text: "Paste" },
  { keys: "Ctrl+Shift+V", text: "Paste with the links from outside" },
  { keys: "Delete", text: "Delete the selected nodes" },
  { keys: "Ctrl+A", text: "Select all nodes", run: () => editor.selectAll() },
  { keys: "Ctrl+G", text: "Group the selected nodes", run: () => editor.addGroup() },
  { keys: "Ctrl+M", text: "Mute or unmute the selected nodes", run: () => editor.setMode(2) },
  { keys: "Ctrl+B", text: "Bypass the selected nodes, or end that", run: () => editor.setMode(4) },
  { keys: "Alt+C", text: "Collapse or expand the selected nodes", run: () => editor.collapse() },
  { keys: "F2", text: "Rename the selected node", run: () => editor.renameSelected() },
  { keys: "P", text: "Pin or unpin the selected nodes", run: () => editor.pin() },
  ...(["Left", "Right", "Up", "Down"] as const).map((way, i) => ({
    keys: `Arrow${way}`,
    text: "",
    on: "canvas",
    run: () => editor.move([-10, 10, 0, 0][i], [0, 0, -10, 10][i]),
  })),
  { keys: "Arrows", text: "Move the selected nodes, or the view" },
  {
    keys: "Shift+F10 or ContextMenu",
    text: "Menu of the selected nodes, or of the canvas",
    on: "canvas",
    run: () => openMenu(editor),
  },
  { keys: "Alt+= or Alt+-", text: "Zoom in or out" },
  { keys: "Alt+=", text: "", run: () => editor.zoom(1.2) },
  { keys: "Alt+-", text: "", run: () => editor.zoom(1 / 1.2) },
  { keys: ".", text: "Show all nodes", run: () => editor.fit() },
  { keys: "R", text: "Refresh the lists of models and pictures", run: () => void refreshChoices() },
  { keys: "N", text: "Node panel, open or closed", run: () => sidebar.toggle("node") },
  { keys: "Q", text: "Queue, open or closed", run: () => sidebar.toggle("queue") },
  { keys: "H", text: "History, open or closed", run: () => sidebar.toggle("history") },
  { keys: "?", text: "This help", run: () => showShortcuts(shortcuts) },
  ...GESTURES,
]

function workflowMenu(): (MenuItem | null)[] {
  const clear = () => {
    editor.clear()
    editor.name = "workflow"
    editor.file = ""
    changed()
  }
  const arrange = () => {
    editor.arrange()
    editor.fit()
    changed()
  }
  return [
    { label: "New", run: clear },
    { label: "Demo: text to picture", run: () => void loadDemo() },
    { label: "Open…", keys: "Ctrl+O", run: () => void files.browse() },
    { label: "Open a file…", run: () => files.pickFile() },
    { label: "Refresh lists of files", keys: "R", run: () => void refreshChoices() },
    null,
    { label: "Save", keys: "Ctrl+S", run: () => void files.save() },
    { label: "Save as…", run: () => void files.saveAs() },
    { label: "Rename…", run: () => void files.rename() },
    null,
    { label: "Download", run: files.download },
    { label: "Download as format 1.0", run: files.download1 },
    { label: "Download for the API", run: () => files.downloadApi() },
    null,
    { label: "Arrange nodes", run: arrange },
    { label: "Group selected nodes", keys: "Ctrl+G", run: () => editor.addGroup() },
  ]
}

function runButtons(): Node[] {
  const interrupt = {
    class: "button danger",
    id: "interrupt",
    title: "Interrupt the run (Ctrl+Alt+Enter)",
    onclick: () => runner.interrupt(),
  }
  const queue = {
    class: "button primary",
    id: "queue",
    title: "Queue the workflow (Ctrl+Enter)",
    onclick: () => queueRun(),
  }
  const button = (attributes: object, symbol: string, text: string) =>
    h("button", { type: "button", ...attributes }, icon(symbol), h("span", {}, text))
  return [
    button({ ...interrupt, hidden: true }, "stop", "Interrupt"),
    h("div", { class: "queue-group" }, count, button(queue, "play", "Run")),
  ]
}

function buildBar() {
  const symbol = themeName() === "dark" ? "sun" : "moon"
  const off = { disabled: true }
  byId("bar").replaceChildren(
    h("div", { class: "brand" }, icon("leaf"), h("span", {}, "Graft")),
    menuButton("Workflow", "menu", workflowMenu(), "icon-button"),
    h("button", {
      type: "button",
      class: "name",
      id: "name",
      title: "Rename",
      onclick: () => void files.rename(),
    }),
    h("span", { class: "grow" }),
    iconButton("plus", "Add a node (A)", () => addNode()),
    iconButton("undo", "Undo (Ctrl+Z)", () => steps.by("undo"), { id: "undo", ...off }),
    iconButton("redo", "Redo (Ctrl+Y)", () => steps.by("redo"), { id: "redo", ...off }),
    iconButton("fit", "Show all nodes (.)", () => editor.fit()),
    iconButton(symbol, "Light or dark", toggleTheme, { id: "theme" }),
    iconButton("help", "Shortcuts (?)", () => showShortcuts(shortcuts)),
    h("span", { class: "divider" }),
    ...runButtons(),
  )
  showName()
}

// To a node that something is said about, and to what is said.
function goTo(id: string) {
  const node = editor.node(id)
  if (!node) return
  editor.canvas.selectItems([node])
  sidebar.show("node", { focus: true })
  editor.centre(node)
}

function showFaults(faults: Fault[], title?: string) {
  document.querySelector(".faults")?.remove()
  inspector.render(true)
  if (!faults.length) return
  hideToast()
  const close = () => {
    if (box.contains(document.activeElement)) byId("canvas").focus()
    box.remove()
  }
  const onkeydown = (event: KeyboardEvent) => event.key === "Escape" && close()
  const box = h(
    "section",
    { class: "faults", onkeydown, role: "alert", "aria-label": "What is wrong" },
    h(
      "header",
      {},
      icon("warning"),
      h(
        "h2",
        {},
        title ??
          (faults.length === 1
            ? "The workflow cannot run"
            : `${faults.length} things keep the workflow from running`),
      ),
      iconButton("close", "Close", close),
    ),
    h(
      "ul",
      {},
      ...faults.slice(0, 20).map((fault) => {
        const node = fault.node ? editor.node(fault.node) : null
        return h(
          "li",
          {},
          node
            ? h(
                "button",
                { type: "button", class: "fault-node", onclick: () => goTo(fault.node) },
                node.title,
              )
            : null,
          h("span", {}, fault.text),
        )
      }),
    ),
  )
  byId("stage").append(box)
}

// The bottom line is a run's while that lasts.
function sayTyped(text: string) {
  if (!text) return status.endHint()
  if (runner.run?.state === "running") toast(text)
  else status.hint(text)
}

function wire() {
  setHooks({
    changed,
    moved: () => steps.hasMoved(),
    hint: sayTyped,
  })
  inspector.onHint = sayTyped
  editor.onChange = changed
  // In a narrow window a panel lies over the canvas.
  editor.covered = () => {
    const panel = byId("side-body").getBoundingClientRect()
    return panel.width ? Math.max(0, byId("stage").getBoundingClientRect().right - panel.left) : 0
  }
  sidebar.onToggle = () => editor.reframe()
  editor.onLoad = (same) => {
    runner.loaded(same)
    if (same) return
    steps.forget()
    hideToast()
    if (runner.run?.state !== "running") status.ready()
  }
  editor.onRemoved = (node) => steps.remember(node)
  files.onName = () => {
    showName()
    steps.keep()
    changed()
  }
  steps.onSettle = () => {
    showHint()
    runner.recheck()
    inspector.render()
    quantize.render()
  }
  steps.onStep = () => {
    showName()
    paintUndo()
  }
  steps.onEdit = () => status.endFailure()
  steps.onRestore = () => {
    status.endFailure()
    showHint()
    inspector.render(true)
    quantize.render(true)
  }
  steps.onOther = showAgain
  steps.isRunning = () => runner.run?.state === "running"
  editor.onSelection = () => {
    inspector.render()
    quantize.render()
  }
  const canvas = byId<HTMLCanvasElement>("canvas")
  // The library stops what it has dealt with on the canvas, so this looks first.
  for (const type of ["pointerup", "pointercancel", "keyup", "paste"])
    window.addEventListener(type, changed, true)
  canvas.addEventListener("litegraph:canvas", (event: any) => {
    const { detail } = event
    if (detail.subType === "empty-double-click")
      addNode([detail.originalEvent.canvasX, detail.originalEvent.canvasY])
    if (detail.subType === "empty-release") dropLink(detail)
    if (detail.subType === "group-double-click") {
      const { canvasX, canvasY } = detail.originalEvent
      if (canvasY < detail.group.pos[1] + detail.group.titleHeight) editor.renameGroup(detail.group)
      else addNode([canvasX, canvasY])
    }
    if (detail.subType === "node-double-click") {
      const { canvasX, canvasY } = detail.originalEvent
      const picture = pictureAt(detail.node, canvasX, canvasY)
      const editText = (node: GraftNode, at: MouseEvent) =>
        editNote(editor.canvas, node, at) || editLabel(editor.canvas, node, at)
      if (detail.node.subgraph) editor.openSubgraph(detail.node)
      else if (picture >= 0) openPictures(picturesOf(detail.node), picture)
      else if (canvasY < detail.node.pos[1]) editor.renameNode(detail.node)
      else if (!editText(detail.node, detail.originalEvent)) sidebar.show("node")
    }
  })
  const back = h("button", {
    type: "button",
    class: "button back",
    hidden: true,
    onclick: () => editor.leaveSubgraph(),
  })
  back.append("← Whole workflow")
  const hint = "Double-click here to add a node, or drop a workflow or a picture."
  byId("stage").append(back, h("p", { class: "stage-hint", id: "hint", hidden: true }, hint))
  canvas.addEventListener("litegraph:set-graph", () => {
    back.hidden = !editor.inSubgraph
  })
  installTouch(editor.canvas, changed)
  installMenuKeys(editor)
  installTips(editor.canvas)
  installContextMenus(editor, {
    add: (at) => addNode(at),
    group: () => editor.addGroup(),
    settings: () => sidebar.show("node"),
    changed,
  })
  new ResizeObserver(() => editor.resize()).observe(byId("stage"))
  followRatio()
  installArrivals(editor, changed)
  wireRunner()
}

// The window goes to another screen, or the page is zoomed.
function followRatio() {
  const same = matchMedia(`(resolution: ${devicePixelRatio}dppx)`)
  const change = () => {
    editor.resize()
    followRatio()
  }
  same.addEventListener("change", change, { once: true })
}

function dropLink(detail: any) {
  const link = editor.canvas.linkConnector.renderLinks[0] as any
  const { originalEvent: event } = detail
  if (!link || !event || !link.node?.inputs) return
  const from = editor.canvas.linkConnector.state.connectingTo === "input" ? "output" : "input"
  addNode([event.canvasX, event.canvasY], {
    type: link.fromSlot.type,
    from,
    of: link.node.type,
    node: link.node,
    slot: link.fromSlotIndex,
  })
}

const ASK_AGAIN = 400 // ms between two looks at the queue, however much happens in it

function wireRunner() {
  runner.onWarnings = () => inspector.render()
  runner.onQueued = () => status.say("Queued…", "idle")
  runner.onRefused = (text) => status.say(`Not queued: ${text}`, "refused")
  status.onNotes = () => {
    const { run } = runner
    const warned = run?.warnings.find(({ node }) => runner.nodeOf(run.prompt, node))
    if (warned) goTo(warned.node)
    else sidebar.show("history", { focus: true })
  }
  runner.onMended = () => status.ready()
  runner.onConnected = (up) => status.connected(up)
  runner.onRun = (run, titles) => {
    byId("interrupt").hidden = false
    steps.hasRun()
    profile.start(
      run,
      titles.size ? titles : new Map(editor.nodes.map((n) => [String(n.id), n.title])),
    )
  }
  let frame = 0
  runner.onProgress = () => {
    profile.look()
    cancelAnimationFrame(frame)
    frame = requestAnimationFrame(() => {
      const whose = runner.away ? "Another workflow · " : ""
      status.show(runner.run, (id) => whose + runner.titleOf(id), runner.expected)
      showName()
    })
  }
  runner.onEnd = () => {
    byId("interrupt").hidden = true
    profile.finish()
    void history.refresh()
  }
  let asking = 0
  let asked = -ASK_AGAIN
  runner.onQueue = () => {
    const wait = Math.max(60, asked + ASK_AGAIN - performance.now())
    asking ||= window.setTimeout(() => {
      asking = 0
      asked = performance.now()
      void queuePanel.refresh()
      void history.refresh()
    }, wait)
  }
  runner.onOutput = (node, output) => quantize.take(node, output)
  runner.onFaults = showFaults
  queuePanel.onQueue = (entries) => {
    sidebar.badge("queue", entries.length ? String(entries.length) : "")
    void runner.queued(entries)
  }
  let first = true // look at the history; a run that goes on shows its own
  history.onEntries = () => {
    if (first && !runner.run && picturesWanted) showAgain()
    first = false
    quantize.setPictures(history.pictures())
    for (const [, entry] of history.entries)
      for (const [node, output] of Object.entries(entry.outputs ?? {}))
        if (output.plan) return quantize.take(node, output)
  }
}

let picturesWanted = false // of a workflow that was here before
function showAgain() {
  const found = lastRun(editor, history.entries)
  if (!found) return
  showOutputs(found[1].outputs)
}
function showOutputs(outputs: api.HistoryEntry["outputs"]) {
  steps.hasRun() // nobody wants that undone
  for (const [id, output] of Object.entries(outputs)) {
    const node = editor.node(id)
    if (node) runner.show(node, output)
  }
}

async function firstWorkflow() {
  const saved = savedWorkflow()
  if (!saved) return loadDemo()
  picturesWanted = true
  open(() => {
    const note = editor.load(saved.workflow, saved.name)
    editor.file = saved.file ?? ""
    if (!saved.changed) steps.hasOpened()
    // A panel may be there that was not, of which another page has taken note.
    if (saved.fitted) editor.frame()
    return note
  })
}

// A page that goes away (closed, reloaded, put aside on a tablet) keeps what was changed last.
function keepOnLeaving() {
  const leave = () => {
    if (editor.nodes.length) steps.keep()
  }
  window.addEventListener("pagehide", leave)
  document.addEventListener("visibilitychange", () => document.hidden && leave())
}

// In a narrow window an open panel covers the canvas, so it opens there only when asked for; in a
// wide one the panel that was open last is. The colours are the system's until somebody chooses.
function followWindow() {
  const narrow = matchMedia("(max-width: 1100px)") // as in frame.css
  const arrange = () =>
    sidebar.show(narrow.matches ? "" : (localStorage.getItem("graft.panel") ?? ""), {
      remember: false,
    })
  narrow.addEventListener("change", arrange)
  arrange()
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () =>
    setTheme(preferredTheme()),
  )
}

async function start() {
  buildBar()
  wire()
  followWindow()
  installShortcuts(shortcuts)
  followHand()
  editor.resize()
  status.connected(false)
  try {
    editor.specs = await api.objectInfo()
  } catch (error) {
    toast((error as Error).message, "error")
    setTimeout(() => location.reload(), 5000)
    return
  }
  registerNodes(editor.specs)
  learnTypes(
    [...editor.specs.values()].flatMap(({ inputs, outputs }) =>
      [...inputs, ...outputs].map(({ type }) => type),
    ),
    editor.canvas,
  )
  await firstWorkflow()
  keepOnLeaving()
  new api.Connection(client, runner, () => (client = newClient()))
  void history.refresh()
  document.documentElement.dataset.ready = "yes"
}
Object.assign(window, { graft: { editor, runner } }) // for tests and for the curious
void start()
