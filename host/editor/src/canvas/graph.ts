// The workflow on the canvas: loading, saving, and what changes about it.
import { LGraph, LGraphCanvas, LGraphGroup, LiteGraph, SubgraphNode } from "@comfyorg/litegraph"
import { isPrompt, isUiWorkflow, toPrompt, type Prompt, type UiWorkflow } from "../workflow/convert"
import { makeChoices } from "../workflow/choices"
import { fillFileNames } from "../workflow/filename"
import { fromPrompt } from "../workflow/import"
import { showPromoted } from "../workflow/promoted"
import { showInside, showInsideOf } from "./shown"
import { installDrawing } from "./draw"
import { boxOf, nearestRoom, viewOf } from "./place"
import { unknownNodes } from "../server/errors"
import { installBroadcasts } from "./broadcasts"
import { closeEditor, openEditor, placeEditor } from "./inline"
import { layout, type Space } from "../workflow/layout"
import { dress, heighten, widen, type GraftNode } from "./nodes"
import { placeNotes } from "./notes"
import { normalise } from "../workflow/normalise"
import { readFile, type Found } from "../workflow/read"
import { CONTROLS, type Specs } from "../workflow/schema"
import { withRoom } from "./room"
import { drawGrid } from "../page/theme"
import { nextValue } from "../workflow/values"

// How large nodes are whose text can be read: of nine pixels, on tablets. All of a workflow is shown
// where it is almost so, and in a wide window as long as it is more than a row of spots.
const READABLE = 0.75
const ALMOST = 0.68
const SPOTS = 0.35

export class Editor {
  readonly graph = new LGraph()
  readonly canvas: LGraphCanvas
  specs: Specs = new Map()
  name = "workflow"
  file = "" // its name on the server, where it was saved or opened
  onChange = () => {}
  onSelection = () => {}
  onView = () => {}
  onRemoved = (_node: GraftNode) => {}
  covered = () => 0 // pixels at the right of the canvas that lie under a panel
  // Other nodes are there: what was said about those before is void. `same`: of the same workflow.
  onLoad = (_same: boolean) => {}

  constructor(element: HTMLCanvasElement) {
    this.setOptions()
    this.canvas = new LGraphCanvas(element, this.graph)
    const { canvas } = this
    canvas.background_image = ""
    canvas.allow_searchbox = false
    canvas.show_info = false
    canvas.render_canvas_border = false
    canvas.zoom_modify_alpha = false
    canvas.render_connections_border = false
    canvas.linkMarkerShape = 0
    // The links of a selected node would turn white; their own colours tell more.
    Object.defineProperty(canvas, "highlighted_links", { get: () => ({}), set: () => {} })
    canvas.render_curved_connections = true
    canvas.connections_width = 2.5
    canvas.maximumFps = 60
    canvas.low_quality_zoom_threshold = 0.32
    canvas.prompt = ((title: string, value: unknown, done: (text: string) => void) => {
      this.ask(title, value, done)
      return document.createElement("div")
    }) as any
    canvas.onDrawBackground = (ctx, area) => drawGrid(ctx, area, canvas.ds.scale)
    canvas.onDrawForeground = () => {
      placeEditor()
      placeNotes(canvas)
    }
    installBroadcasts(canvas, this.graph, () => this.specs)
    // The library takes the canvas's own pixels for the page's.
    const { ds } = canvas
    const area = ds.computeVisibleArea.bind(ds)
    ds.computeVisibleArea = (view) =>
      area((view ?? [0, 0, element.width / this.ratio, element.height / this.ratio]) as any)
    canvas.onSelectionChange = () => this.onSelection()
    this.graph.events.addEventListener("subgraph-created", (event: any) =>
      this.learnSubgraph(event.detail.subgraph),
    )
    this.graph.onNodeAdded = (node) => {
      queueMicrotask(() => showInsideOf(node)) // once it has what it is a copy of
      this.onChange()
    }
    this.graph.onNodeRemoved = (node) => {
      this.onRemoved(node as GraftNode)
      this.onChange()
    }
    installDrawing(canvas)
    element.tabIndex = 0
  }

  private setOptions() {
    LiteGraph.search_filter_enabled = false
    LiteGraph.release_link_on_empty_shows_menu = false // search.ts answers instead
    LiteGraph.alt_drag_do_clone_nodes = true
    LiteGraph.snaps_for_comfy = true
    LiteGraph.snap_highlights_node = true
    LiteGraph.ctrl_alt_click_do_break_link = true
    LiteGraph.middle_click_slot_add_default_node = false
    LiteGraph.ctrl_shift_v_paste_connect_unselected_outputs = true
    LiteGraph.dialog_close_on_mouse_leave = false
    LiteGraph.saveViewportWithGraph = true
    LGraphGroup.defaultColour = "#5f9a7e"
  }

  // A sub-graph of a file becomes a node type of its own.
  private learnSubgraph(subgraph: any) {
    const editor = this
    class Instance extends SubgraphNode {
      constructor() {
        super(editor.graph, subgraph, {
          id: -1,
          type: subgraph.id,
          pos: [0, 0],
          size: [220, 80],
          inputs: [],
          outputs: [],
          properties: {},
          flags: {},
          mode: 0,
          order: 0,
        } as any)
        this.serialize_widgets = true // the library leaves out what its own inputs have
        this.title_buttons = [] // drawn with a font that the page does not have
        dress(this as unknown as GraftNode)
      }
    }
    LiteGraph.registerNodeType(subgraph.id, Instance as any)
    Object.assign(Instance, { category: "sub-graph", title: subgraph.name || "Sub-graph" })
  }

  // The canvas asks for a value: over the widget when there is one, else in a field at the pointer.
  private ask(title: string, value: unknown, done: (text: string) => void) {
    const at = this.canvas.node_widget
    const finish = (text: string) => {
      if (text !== String(value)) done(text)
      this.onChange()
    }
    if (at)
      return openEditor(this.canvas, at[0], at[1], { value: String(value ?? ""), done: finish })
    const [x, y] = this.canvas.graph_mouse
    const place: any = { name: title, y: 0, width: 240 }
    const anchor: any = { pos: [x, y], size: [240, 30], title }
    openEditor(this.canvas, anchor, place, { value: String(value ?? ""), done: finish })
  }

  // The graph on the canvas: the workflow, or a sub-graph that was opened.
  private get shown(): LGraph {
    return (this.canvas.graph ?? this.graph) as LGraph
  }
  get inSubgraph(): boolean {
    return this.shown !== this.graph
  }
  openSubgraph(node: GraftNode) {
    const { subgraph } = node as unknown as SubgraphNode
    if (subgraph) this.canvas.openSubgraph(subgraph)
  }
  leaveSubgraph() {
    showInside(this.graph) // a node that is shown may be gone, or have a link for its value
    this.canvas.setGraph(this.graph)
    this.fit()
  }

  get nodes(): GraftNode[] {
    return this.graph.nodes as GraftNode[]
  }
  get selected(): GraftNode[] {
    return [...this.canvas.selectedItems].filter((item): item is GraftNode => this.isNode(item))
  }
  private isNode(item: unknown): item is GraftNode {
    return !!item && typeof item === "object" && "inputs" in item && "outputs" in item
  }

  node(id: string | number): GraftNode | null {
    // Nodes of a sub-graph have ids like 5:2 or 5.0.2; the first part is the node that one sees.
    const outer = String(id).split(/[:.]/)[0]
    return (this.graph.getNodeById(Number(outer)) ??
      this.graph.getNodeById(outer)) as GraftNode | null
  }

  private ratio = 1 // pixels of the canvas to one of the page

  // The canvas has the screen's pixels. Both of the library's layers are drawn scaled by their ratio,
  // so that all places (of nodes on the page, of the pointer, of the view) are in pixels of the page.
  resize() {
    const { canvas, ctx } = this.canvas
    const ratio = window.devicePixelRatio || 1
    const { left, top, right, bottom, width, height } =
      canvas.parentElement!.getBoundingClientRect()
    const pixels = (from: number, to: number) => Math.round(to * ratio) - Math.round(from * ratio)
    const [w, tall] = [pixels(left, right), pixels(top, bottom)] // as browsers round edges
    canvas.style.width = `${width}px`
    canvas.style.height = `${height}px`
    if (canvas.width === w && canvas.height === tall && this.ratio === ratio) return
    const all = this.showsAll(canvas.width / this.ratio, canvas.height / this.ratio)
    this.ratio = ratio
    this.canvas.resize(w, tall)
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0) // the lower layer has it from the library
    this.canvas.setDirty(true, true)
    // A view that nobody chose, or that showed everything, goes with the window.
    if (this.isFitted()) this.again()
    else if (all && !this.showsAll(width, height)) this.frame()
  }

  private bounds(nodes: GraftNode[]): [number, number, number, number] {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity]
    for (const { pos, size } of nodes) {
      left = Math.min(left, pos[0])
      top = Math.min(top, pos[1] - LiteGraph.NODE_TITLE_HEIGHT)
      right = Math.max(right, pos[0] + size[0])
      bottom = Math.max(bottom, pos[1] + size[1])
    }
    return [left, top, right, bottom]
  }
  private showsAll(width: number, height: number): boolean {
    const { scale, offset } = this.canvas.ds
    const [left, top, right, bottom] = this.bounds(this.nodes)
    return (
      (left + offset[0]) * scale >= 0 &&
      (top + offset[1]) * scale >= 0 &&
      (right + offset[0]) * scale <= width &&
      (bottom + offset[1]) * scale <= height
    )
  }
  private fitted = ""
  private again = () => {} // what made that view
  private viewText(): string {
    const { scale, offset } = this.canvas.ds
    return `${scale} ${offset[0]} ${offset[1]}`
  }
  isFitted(): boolean {
    return this.fitted === this.viewText()
  }

  // Brings all nodes, or those given, into view; never larger than life.
  fit(nodes: GraftNode[] = this.nodes) {
    if (!nodes.length) return
    this.look(nodes, 40, 0.15)
    if (nodes === this.nodes) this.remember(() => this.fit())
    this.onView()
  }

  // The view until somebody chooses another: all nodes or, where they would be too small to be read,
  // the last columns of them. Beside a panel that covers others it is what is selected.
  frame() {
    if (!this.nodes.length) return
    const narrow = matchMedia("(max-width: 1100px)").matches // as in frame.css
    const margin = narrow ? 16 : 40
    const { nodes } = this
    const { selected } = this
    if (this.covered() > 0 && selected.length) this.look(selected, margin, READABLE)
    else if (this.scaleOf(nodes, margin) >= (narrow ? ALMOST : SPOTS))
      this.look(nodes, margin, 0.15)
    else this.lookAtLast(margin)
    this.remember(() => this.frame())
    this.onView()
  }

  // As many of the last columns as there is width for. Of those that are too high the top is in view, or
  // as much of it as leaves room for the columns that are not.
  private lookAtLast(margin: number) {
    const { nodes } = this
    const lefts = [...new Set(nodes.map((node) => node.pos[0]))].sort((a, b) => a - b)
    const ends = lefts.map((left) => nodes.filter((node) => node.pos[0] >= left))
    const output = nodes.filter((node) => node.spec?.output).slice(-1)
    const whole =
      ends.find((some) => this.scaleOf(some, margin) >= READABLE) ??
      (output.length ? output : nodes.slice(-1))
    const wide = ends.find((some) => this.widthScale(some, margin) >= ALMOST) ?? whole
    if (wide.length <= whole.length) return this.look(whole, margin, READABLE)
    this.look(wide, margin, Math.min(READABLE, this.widthScale(wide, margin)))
    const { ds, canvas } = this.canvas
    if (this.scaleOf(wide, margin) >= ds.scale) return
    const top = this.bounds(wide)[1] - margin / ds.scale
    const low = this.bounds(whole)[3] + (margin - canvas.clientHeight) / ds.scale
    ds.offset[1] = -Math.max(top, low)
  }

  // There is more room for the nodes, or less; a view that somebody moved stays.
  reframe() {
    if (this.isFitted()) this.again()
  }

  centre(node: GraftNode) {
    const { ds, canvas } = this.canvas
    const [left, top, right, bottom] = this.bounds([node])
    ds.offset[0] = (canvas.clientWidth - this.covered()) / ds.scale / 2 - (left + right) / 2
    ds.offset[1] = canvas.clientHeight / ds.scale / 2 - (top + bottom) / 2
    this.canvas.setDirty(true, true)
  }

  // How large nodes can be that are all to be in view.
  private scaleOf(nodes: GraftNode[], margin: number): number {
    const [, top, , bottom] = this.bounds(nodes)
    const { clientHeight } = this.canvas.canvas
    return Math.min(this.widthScale(nodes, margin), (clientHeight - 2 * margin) / (bottom - top))
  }
  private widthScale(nodes: GraftNode[], margin: number): number {
    const [left, , right] = this.bounds(nodes)
    const room = this.canvas.canvas.clientWidth - this.covered() - 2 * margin
    return Math.min(1, room / (right - left))
  }

  private look(nodes: GraftNode[], margin: number, least: number) {
    const [left, top, right, bottom] = this.bounds(nodes)
    const { clientWidth, clientHeight } = this.canvas.canvas
    const { ds } = this.canvas
    ds.scale = Math.max(least, this.scaleOf(nodes, margin))
    ds.offset[0] = (clientWidth - this.covered()) / ds.scale / 2 - (left + right) / 2
    ds.offset[1] = clientHeight / ds.scale / 2 - (top + bottom) / 2
    this.canvas.setDirty(true, true)
  }

  private remember(again: () => void) {
    this.again = again
    this.fitted = this.viewText()
  }

  // A view that was saved; it still goes with the window when nobody had chosen it.
  private restore({ scale, offset }: { scale: number; offset: number[] }) {
    const { ds } = this.canvas
    this.frame()
    const off = [scale / ds.scale - 1, ds.offset[0] - offset[0], ds.offset[1] - offset[1]]
    if (Math.abs(off[0]) < 1e-3 && Math.abs(off[1]) < 2 && Math.abs(off[2]) < 2) return
    this.fitted = ""
    ds.scale = scale
    ds.offset[0] = offset[0]
    ds.offset[1] = offset[1]
  }

  clear() {
    closeEditor(false)
    this.graph.clear()
    this.canvas.deselectAll()
    this.onLoad(false)
    this.onChange()
  }

  toWorkflow(): UiWorkflow {
    const data = this.serialised()
    showPromoted(data, this.specs)
    return data
  }
  private serialised(): UiWorkflow {
    closeEditor()
    const data: any = structuredClone(this.graph.serialize())
    const { ds, ...extra } = data.extra ?? {}
    const view = this.isFitted() ? {} : { ds } // one that nobody chose is made anew
    data.extra = { ...extra, ...view, frontendVersion: "graft" }
    return data
  }

  // The newer form of the same file.
  toWorkflow1(): unknown {
    closeEditor()
    const data: any = structuredClone({ ...this.graph.asSerialisable(), version: 1 })
    data.extra = { ...data.extra, frontendVersion: "graft" }
    if (this.isFitted()) delete data.extra?.ds
    showPromoted(data, this.specs)
    return data
  }

  // What is to be run, and the file that says so: in both, what was chosen of prompts.
  toPrompt(now = new Date(), random = Math.random) {
    const workflow = this.serialised()
    makeChoices(workflow, this.specs, random)
    const converted = toPrompt(workflow, this.specs)
    fillFileNames(converted.prompt, workflow, now)
    showPromoted(workflow, this.specs)
    return { ...converted, workflow }
  }

  // Takes a workflow of any form. Returns a line about what could not be loaded, or "".
  load(data: unknown, name?: string, keepView = false): string {
    const api = !isUiWorkflow(data)
    if (api && !isPrompt(data)) throw new Error("This is not a workflow.")
    const notes: string[] = []
    const workflow = normalise(
      api ? fromPrompt(data as Prompt, this.specs, notes) : (data as UiWorkflow),
      this.specs,
      notes,
    )
    closeEditor(false)
    const view = { scale: this.canvas.ds.scale, offset: [...this.canvas.ds.offset] }
    this.canvas.deselectAll()
    if (workflow.version === undefined) workflow.version = 0.4
    withRoom(() => {
      this.graph.configure(structuredClone(workflow) as any)
      if (!keepView) this.nodes.forEach(heighten)
    })
    const missing = this.markUnknown()
    showInside(this.graph)
    this.onLoad(keepView)
    if (api) this.nodes.forEach(widen) // the file has no sizes
    if (api || this.nodes.every((node) => !node.pos[0] && !node.pos[1])) this.arrange()
    const ds: any = (workflow.extra as any)?.ds
    if (keepView) {
      this.canvas.ds.scale = view.scale
      this.canvas.ds.offset[0] = view.offset[0]
      this.canvas.ds.offset[1] = view.offset[1]
    } else if (ds?.scale > 0 && Array.isArray(ds.offset) && this.visible(ds)) this.restore(ds)
    else this.frame()
    if (name) {
      this.name = name
      this.file = ""
    }
    this.canvas.setDirty(true, true)
    this.onChange()
    if (missing.length) notes.push(unknownNodes(missing))
    return notes.join(" ")
  }

  // Whether a saved view would show at least the middle of one node here.
  private visible(ds: { scale: number; offset: number[] }): boolean {
    const { clientWidth: width, clientHeight: height } = this.canvas.canvas
    return this.nodes.some(({ pos, size }) => {
      const x = (pos[0] + size[0] / 2 + ds.offset[0]) * ds.scale
      const y = (pos[1] + size[1] / 2 + ds.offset[1]) * ds.scale
      return x > 0 && y > 0 && x < width && y < height
    })
  }

  private markUnknown(): string[] {
    const missing = new Set<string>()
    for (const node of this.nodes) {
      if (!node.has_errors || !node.last_serialization) continue
      missing.add(String(node.last_serialization.type))
      node.type = String(node.last_serialization.type)
      node.title ||= node.type
      const [width, height] = node.computeSize() // its name is all that is known of it: whole, then
      node.setSize([Math.max(node.size[0], width), Math.max(node.size[1], height)])
      dress(node)
    }
    return [...missing]
  }

  async loadFile(file: File): Promise<string> {
    const found = await readFile(file)
    if (!found) throw new Error(`${file.name} carries no workflow.`)
    return this.loadFound(found)
  }
  loadFound({ data, name, note }: Found): string {
    return [note, this.load(data, name)].filter(Boolean).join(" ")
  }

  arrange() {
    const places = layout(
      this.nodes.map((node) => ({
        id: node.id,
        width: node.size[0],
        height: node.size[1],
        from: (node.inputs ?? [])
          .map((slot) => this.graph.getLink(slot.link)?.origin_id)
          .filter((id) => id !== undefined),
      })),
      this.space(),
    )
    for (const node of this.nodes) {
      const place = places.get(node.id)
      if (place) node.pos = [place[0] + 40, place[1] + 60]
    }
    this.canvas.setDirty(true, true)
  }

  // What there is room for, and how small things may be in it.
  private space(): Space {
    const narrow = matchMedia("(max-width: 1100px)").matches // as in frame.css
    const margin = narrow ? 16 : 40
    const { clientWidth, clientHeight } = this.canvas.canvas
    const width = clientWidth - this.covered() - 2 * margin
    return { width, height: clientHeight - 2 * margin, least: narrow ? ALMOST : SPOTS }
  }

  add(type: string, at: [number, number]): GraftNode | null {
    const node = LiteGraph.createNode(type) as GraftNode | null
    if (!node) return null
    node.pos = [at[0], at[1]]
    this.shown.add(node)
    this.canvas.selectItems([node])
    this.onChange()
    return node
  }

  // A node that was added without a place goes where there is room, and the view goes with it.
  makeWay(node: GraftNode) {
    const others = this.shown.nodes.filter((other) => other !== node) as GraftNode[]
    const view = viewOf(this.canvas, this.covered())
    const [x, y] = nearestRoom(boxOf(node), others.map(boxOf), view)
    node.pos = [node.pos[0] + x, node.pos[1] + y]
    const [left, top, right, bottom] = boxOf(node)
    if (left < view[0] || top < view[1] || right > view[2] || bottom > view[3]) this.centre(node)
  }

  addGroup() {
    const group = new LGraphGroup("Group")
    group.color = LGraphGroup.defaultColour // its own choice is a blue on which its title is hard to read
    const nodes = this.selected
    if (nodes.length) group.resizeTo([...this.canvas.selectedItems], 16)
    else {
      const [x, y] = this.middle()
      group.pos = [x - 160, y - 100]
      group.size = [320, 200]
    }
    this.shown.add(group)
    this.onChange()
  }

  // The canvas position in the middle of the window.
  middle(): [number, number] {
    const { clientWidth, clientHeight } = this.canvas.canvas
    const { scale, offset } = this.canvas.ds
    return [clientWidth / scale / 2 - offset[0], clientHeight / scale / 2 - offset[1]]
  }

  selectAll() {
    this.canvas.selectItems()
    this.canvas.setDirty(true, true)
  }

  cut() {
    this.canvas.copyToClipboard()
    this.canvas.deleteSelected()
  }

  // All of them, unless they are all so already.
  collapse() {
    const all = this.selected.every((node) => node.flags.collapsed)
    for (const node of this.selected) if (!!node.flags.collapsed === all) node.collapse(true)
    this.onChange()
  }
  pin() {
    const all = this.selected.every((node) => node.pinned)
    for (const node of this.selected) node.pin(!all)
    this.canvas.setDirty(true, true)
    this.onChange()
  }

  // Moves what is selected, or, when nothing is, the view.
  move(dx: number, dy: number) {
    const { ds, selectedItems } = this.canvas
    if (selectedItems.size)
      for (const item of selectedItems) !(item as any).pinned && (item as any).move(dx, dy)
    else {
      ds.offset[0] -= (4 * dx) / ds.scale
      ds.offset[1] -= (4 * dy) / ds.scale
    }
    this.canvas.setDirty(true, true)
    this.onChange()
  }

  zoom(factor: number) {
    const { ds, canvas } = this.canvas
    ds.changeScale(ds.scale * factor, [canvas.clientWidth / 2, canvas.clientHeight / 2], false)
    this.canvas.setDirty(true, true)
    this.onView()
  }

  // The name of a group or a node, typed where it stands.
  private typeName(what: string, of: any, y: number, width: number, empty: string) {
    const place: any = { name: `Name of the ${what}`, y, width }
    const anchor: any = { pos: of.pos, size: of.size, title: of.title }
    const done = (text: string) => {
      const name = text.trim() || empty
      if (name === of.title) return
      of.title = name
      this.canvas.setDirty(true, true)
      this.onChange()
    }
    openEditor(this.canvas, anchor, place, { value: of.title, done })
  }
  renameGroup(group: LGraphGroup) {
    this.typeName("group", group, 0, group.size[0], group.title)
  }
  renameNode(node: GraftNode) {
    const y = 3 - LiteGraph.NODE_TITLE_HEIGHT
    this.typeName("node", node, y, node.renderingSize[0], node.spec?.title ?? node.type)
  }
  renameSelected() {
    const node = this.selected.at(-1)
    if (node) this.renameNode(node)
  }

  // Lists of files as they are now. The widgets on the canvas share them with the specs.
  updateChoices(specs: Specs) {
    for (const [name, spec] of specs) {
      const known = this.specs.get(name)
      for (const input of spec.inputs) {
        const choices = known?.inputs.find((i) => i.name === input.name)?.choices
        if (choices && input.choices) choices.splice(0, choices.length, ...input.choices)
      }
    }
    this.canvas.setDirty(true)
    this.onChange()
  }

  setMode(mode: number) {
    const nodes = this.selected
    const all = nodes.every((node) => node.mode === mode)
    for (const node of nodes) node.mode = all ? 0 : mode
    this.canvas.setDirty(true, true)
    this.onChange()
  }

  // Seeds move on after a run was queued, as each seed's control says.
  // Inside sub-graphs as well; what an instance shows of a node inside is that node's.
  advanceSeeds(graph: LGraph = this.graph, done = new Set<LGraph>()) {
    if (done.has(graph)) return
    done.add(graph)
    for (const node of graph.nodes as (GraftNode & { subgraph?: LGraph })[]) {
      const widgets = (node.widgets ?? []).filter((widget: any) => !widget.inside)
      widgets.forEach((control, i) => {
        if (control.name !== "control_after_generate" || !CONTROLS.includes(String(control.value)))
          return
        const target: any = widgets[i - 1]
        if (target) target.value = nextValue(target, String(control.value))
      })
      if (node.subgraph) this.advanceSeeds(node.subgraph, done)
    }
    this.canvas.setDirty(true)
  }
}
