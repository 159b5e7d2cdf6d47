// The panel for QuantizeModel: what each threshold costs and brings, seen before anything runs again.
import { Compare } from "../page/compare"
import { h, svg } from "../page/dom"
import {
  advice,
  assumption,
  fate,
  hasAttention,
  lowerDensity,
  parsePlan,
  predict,
  seesAttention,
  speed,
  unmeasured,
  type Plan,
  type PlanLayer,
  type Thresholds,
} from "../workflow/plan"
import { Axes, decades, HEIGHT, logPlace, logValue, mark, PAD, translate, WIDTH } from "../page/plot"
import { comparedOf, QUANTIZE, type Picture } from "../workflow/subject"
import type { Editor } from "../canvas/graph"
import { insertQuantize } from "../canvas/insert"
import type { GraftNode } from "../canvas/nodes"

interface Control {
  key: "conv" | "linear" | "attention" | "density"
  widget: string
  label: string
  use?: string // the widget that switches its kind on and off
  kind?: string // what that is, in words
  knob: number // where on its line
  least: number // where its slider leaves zero; from there on it is logarithmic
  max: number
}
const CONTROLS: Control[] = [
  {
    key: "conv",
    widget: "conv_mse_threshold",
    label: "Error limit, convolutions",
    use: "quantize_conv",
    kind: "convolutions",
    knob: WIDTH - PAD.right - 4,
    least: 1e-8,
    max: 1,
  },
  {
    key: "linear",
    widget: "linear_mse_threshold",
    label: "Error limit, linear layers",
    use: "quantize_linear",
    kind: "linear layers",
    knob: PAD.left + 8,
    least: 1e-8,
    max: 1,
  },
  {
    key: "attention",
    widget: "attention_mse_threshold",
    label: "Error limit, attention",
    use: "quantize_attention",
    kind: "attention",
    knob: PAD.left + 60,
    least: 1e-8,
    max: 1,
  },
  {
    key: "density",
    widget: "compute_density_threshold",
    label: "Least compute density",
    knob: PAD.top + 4,
    least: 1,
    max: 2000,
  },
]

const SLIDER = 1000 // places of a slider

export class QuantizePanel {
  readonly element = h("section", { class: "panel-body quantize" })
  private readonly plans = new Map<string, Plan>()
  private pictures: Picture[] = []
  private readonly compare = new Compare()
  private node: GraftNode | null = null
  private readonly sources = new Map<string, string>()
  private readonly comparison = h("div", {})
  private drawn = ""

  constructor(private readonly editor: Editor) {
    this.comparison.replaceChildren(...this.comparisonParts())
  }

  // A node showed something; its plan is kept.
  take(node: string, output: any) {
    const source = Array.isArray(output?.plan) ? output.plan[0] : output?.plan
    const text = typeof source === "string" ? source : JSON.stringify(source ?? null)
    if (this.sources.get(node) === text) return
    const plan = parsePlan(source)
    if (!plan) return
    this.sources.set(node, text)
    this.plans.set(node, plan)
    this.render(true)
  }

  setPictures(pictures: Picture[]) {
    const same =
      pictures.length === this.pictures.length &&
      pictures.every((p, i) => p.url === this.pictures[i].url)
    if (same) return
    this.pictures = pictures
    this.comparison.replaceChildren(...this.comparisonParts())
  }

  // Draws again when the node or its plan is another, or by force; else only the values follow.
  render(force = false) {
    const nodes = this.editor.nodes.filter((node) => node.type === QUANTIZE)
    this.node = this.editor.selected.find((node) => nodes.includes(node)) ?? nodes[0] ?? null
    const plan = this.plan()
    const key = `${this.node?.id}/${plan?.layers.length}/${this.prompted()}/${this.attention(plan)}`
    if (force || key !== this.drawn) {
      this.drawn = key
      this.element.replaceChildren(...this.content(plan), this.comparison)
    }
    this.update()
  }

  private plan(): Plan | null {
    const own = this.node && this.plans.get(String(this.node.id))
    return own ?? [...this.plans.values()].at(-1) ?? null
  }

  private content(plan: Plan | null): Node[] {
    const parts: Node[] = []
    if (!this.node) parts.push(this.invitation())
    if (this.node && plan) parts.push(this.more())
    if (this.node) parts.push(this.sliders(plan))
    if (this.node && plan) parts.push(this.plot(plan), this.cards())
    else if (this.node)
      parts.push(
        h(
          "div",
          { class: "empty" },
          h(
            "p",
            {},
            this.prompted()
              ? "Run once: QuantizeModel measures every layer and shows its plan here."
              : "Connect a prompt to the node's “positive” input and run once: QuantizeModel measures every layer and shows its plan here.",
          ),
          h(
            "p",
            { class: "muted" },
            "Each layer then is a point, by how much arithmetic it does for a byte and how much error it would cause. Moving a threshold shows at once what it brings; nothing is measured again.",
          ),
        ),
      )
    return parts
  }

  // A newcomer's plan may leave nearly all as it is: what to do about that stands first.
  private more(): Node {
    const density = CONTROLS.find(({ key }) => key === "density")!
    const lower = () => {
      const plan = this.plan()
      const found = plan && lowerDensity(plan, this.thresholds())
      if (!found) return
      this.set(density, found.density, true)
      this.element.querySelector<HTMLElement>("input[type=number][data-control=density]")?.focus()
    }
    return h(
      "div",
      { class: "more", "data-more": "", hidden: true },
      h("p", {}),
      h("button", { type: "button", class: "button", onclick: lower }),
    )
  }

  private updateMore(plan: Plan, t: Thresholds): boolean {
    const box = this.element.querySelector<HTMLElement>("[data-more]")
    const found = lowerDensity(plan, t)
    if (!box) return false
    box.hidden = !found
    if (!found) return false
    const share = Math.round(100 * found.share)
    box.querySelector("p")!.textContent = found.share
      ? `Only ${share ? `${share} %` : "a trace"} of the work is quantized: nearly all layers are below the least compute density.`
      : "Nothing is quantized: all layers are below the least compute density."
    const label = `Quantize more: lower the density to ${found.density}`
    box.querySelector("button")!.textContent = label
    return true
  }

  private prompted(): boolean {
    return !!this.node?.inputs?.some((slot) => slot.name === "positive" && slot.link != null)
  }

  private invitation(): Node {
    const offered = this.editor.specs.has(QUANTIZE)
    return h(
      "div",
      { class: "empty" },
      h("p", {}, "Quantization computes with 8-bit numbers where the picture does not suffer."),
      h(
        "p",
        { class: "muted" },
        offered
          ? "QuantizeModel stands between a checkpoint and a sampler. Run once, then tune its thresholds here."
          : "This server does not have the QuantizeModel node.",
      ),
      offered
        ? h(
            "button",
            {
              type: "button",
              class: "button",
              onclick: () => {
                insertQuantize(this.editor)
                this.render(true)
              },
            },
            "Add QuantizeModel",
          )
        : null,
    )
  }

  private widget(name: string): any {
    return this.node?.widgets?.find((w) => w.name === name)
  }

  // Whether the node can quantize attention and the plan, if there is one, has some to quantize.
  private attention(plan: Plan | null): boolean {
    const t = this.thresholds()
    return plan ? hasAttention(plan, t) : t.attention !== undefined
  }

  private on(name: string): boolean {
    const value = this.widget(name)?.value
    return value === undefined || value === true || value === "enable"
  }

  private thresholds(): Thresholds {
    const value = (name: string, fallback: number) => Number(this.widget(name)?.value ?? fallback)
    return {
      conv: value("conv_mse_threshold", 0.1),
      linear: value("linear_mse_threshold", 0.1),
      attention: this.widget("attention_mse_threshold") && value("attention_mse_threshold", 0.1),
      density: value("compute_density_threshold", 100),
      useConv: this.on("quantize_conv"),
      useLinear: this.on("quantize_linear"),
      useAttention: this.on("quantize_attention"),
    }
  }

  // Arrow keys: five per cent up or down, with Shift half as much again.
  private nudge(control: Control, event: KeyboardEvent) {
    const up = event.key === "ArrowUp" || event.key === "ArrowRight"
    if (!up && event.key !== "ArrowDown" && event.key !== "ArrowLeft") return
    if (event.target instanceof HTMLInputElement && /Left|Right/.test(event.key)) return
    event.preventDefault()
    const low = control.key === "density" ? 1 : 1e-5
    const now = Math.max(low, this.thresholds()[control.key] ?? 0)
    const factor = event.shiftKey ? 1.5 : 1.05
    this.set(control, up ? now * factor : now / factor)
  }

  private set(control: Control, value: number, typed = false) {
    const widget = this.widget(control.widget)
    if (!widget) return
    const tidy =
      typed || !value
        ? value
        : control.key === "density"
          ? Math.round(value)
          : Number(value.toPrecision(2))
    const max = widget.options.max ?? control.max
    widget.value = Math.min(max, Math.max(0, tidy))
    this.changed()
  }

  private turn(name: string, on: boolean) {
    const widget = this.widget(name)
    if (!widget) return
    widget.value = typeof widget.value === "boolean" ? on : on ? "enable" : "disable"
    this.changed()
  }

  private changed() {
    this.editor.canvas.setDirty(true)
    this.editor.onChange()
    this.update()
  }

  // Where there are three kinds, each has a switch of its own.
  private toggle({ use, kind }: Control): Node {
    const box = h("input", {
      type: "checkbox",
      role: "switch",
      class: "switch",
      "data-switch": use,
      "aria-label": `Quantize ${kind}`,
      title: `Quantize ${kind}`,
      onchange: () => this.turn(use!, box.checked),
    })
    return box
  }

  private sliders(plan: Plan | null): Node {
    const switches = this.attention(plan)
    const shown = CONTROLS.filter(({ key }) => key !== "attention" || switches)
    const rows = shown.map((control) => {
      const field = (type: string, more: Record<string, unknown>) =>
        h("input", {
          type,
          min: "0",
          "data-control": control.key,
          "aria-label": control.label,
          ...more,
        })
      const slider = field("range", {
        max: String(SLIDER),
        step: "1",
        oninput: () => {
          const place = Number(slider.value) / SLIDER
          this.set(control, place ? logValue(place, control.least, control.max) : 0)
        },
      })
      const exact = field("number", {
        max: String(this.widget(control.widget)?.options.max ?? control.max),
        step: "any",
        oninput: () => exact.value !== "" && this.set(control, Number(exact.value), true),
        onkeydown: (event: KeyboardEvent) => this.nudge(control, event),
      })
      return h(
        "div",
        { class: `threshold ${control.key}` },
        h("span", { class: "threshold-label" }, control.label),
        switches && control.use ? this.toggle(control) : null,
        slider,
        exact,
      )
    })
    return h("div", { class: "thresholds" }, ...rows)
  }

  private axes(plan: Plan): Axes {
    const t = this.thresholds()
    const densities = plan.layers.map((layer) => layer.density)
    const errors = plan.layers.map((layer) => layer.mse).filter((mse) => mse > 1e-9)
    return new Axes(decades(densities, 10, Math.max(1000, t.density)), decades(errors, 1e-4, 1))
  }

  private plot(plan: Plan): Node {
    const axes = this.axes(plan)
    const most = Math.max(1, ...plan.layers.map((layer) => layer.flops))
    const last = (layer: PlanLayer) => Number(layer.kind === "attention") // few among many: on top
    const measured = plan.layers
      .filter((layer) => !Number.isNaN(layer.mse))
      .sort((a, b) => last(a) - last(b))
    const points = measured.map((layer) =>
      this.point(layer, axes.px(layer.density), axes.py(layer.mse), most),
    )
    const attention = seesAttention(plan, this.thresholds())
    const lines = CONTROLS.filter(({ key }) => key !== "attention" || attention).map((control) =>
      this.line(control, axes),
    )
    return h(
      "figure",
      { class: "plot" },
      svg(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          role: "group",
          "aria-label": "Layers by compute density and error",
        },
        ...axes.draw(),
        svg("g", {}, ...points),
        // Knobs lie above all grips, so that lines of the same value can be told apart.
        ...lines.map(({ grip }) => grip),
        ...lines.map(({ line }) => line),
      ),
      h(
        "figcaption",
        { class: "legend" },
        h("span", { class: "key conv" }, "convolution"),
        h("span", { class: "key linear" }, "linear"),
        attention ? h("span", { class: "key attention" }, "attention") : null,
        h("span", { class: "key off" }, "left as it is"),
      ),
    )
  }

  private point(layer: PlanLayer, x: number, y: number, most: number): SVGElement {
    const r = 2.2 + 4 * Math.sqrt(layer.flops / most)
    const [heads, size, queries, keys] = layer.kind === "attention" ? layer.shape : []
    const shape = keys ? `, ${heads} heads of ${size}, ${queries} queries by ${keys} keys` : ""
    const title = `${layer.name}\n${layer.kind}${shape}, density ${layer.density.toPrecision(3)}, error ${layer.mse.toPrecision(2)}${layer.reason ? `\n${layer.reason}` : ""}`
    const dot = mark(
      layer.kind,
      r,
      { transform: translate(x, y), class: `point ${layer.kind}` },
      svg("title", {}, title),
    )
    dot.dataset.layer = layer.name
    return dot
  }

  // A threshold in the plot: dragged, or moved with the arrow keys.
  private line(control: Control, axes: Axes): { grip: SVGElement; line: SVGElement } {
    const vertical = control.key === "density"
    const line = svg("g", {
      class: `line ${control.key}`,
      tabindex: "0",
      role: "slider",
      "aria-label": control.label,
      "aria-orientation": vertical ? "horizontal" : "vertical",
      "aria-valuemin": "0",
      "aria-valuemax": String(control.max),
      "data-line": control.key,
    })
    const shape = svg(
      "line",
      vertical ? { y1: PAD.top, y2: HEIGHT - PAD.bottom } : { x1: PAD.left, x2: WIDTH - PAD.right },
    )
    const grip = shape.cloneNode() as SVGElement
    grip.setAttribute("class", `grip ${control.key}`)
    const knob = mark(control.key, 4.5, { class: "knob" })
    line.append(shape, knob)
    ;(line as any).place = (value: number) => {
      const place = vertical ? axes.px(value) : axes.py(value)
      for (const element of [shape, grip])
        for (const end of vertical ? ["x1", "x2"] : ["y1", "y2"])
          element.setAttribute(end, String(place))
      const [x, y] = vertical ? [place, control.knob] : [control.knob, place]
      knob.setAttribute("transform", translate(x, y))
      line.setAttribute("aria-valuenow", String(value))
    }
    line.addEventListener("keydown", (event) => this.nudge(control, event))
    for (const handle of [grip, knob])
      handle.addEventListener("pointerdown", (event) => {
        event.preventDefault()
        ;(line as unknown as HTMLElement).focus()
        this.follow(handle, event.pointerId, (x, y) =>
          this.set(control, vertical ? axes.densityAt(x) : axes.errorAt(y)),
        )
      })
    return { grip, line }
  }

  // Tells where in the plot the pointer is, until it lets go.
  private follow(handle: SVGElement, pointer: number, moved: (x: number, y: number) => void) {
    handle.setPointerCapture(pointer)
    const box = handle.ownerSVGElement!.getBoundingClientRect()
    const move = (e: PointerEvent) =>
      moved(
        ((e.clientX - box.left) / box.width) * WIDTH,
        ((e.clientY - box.top) / box.height) * HEIGHT,
      )
    handle.addEventListener("pointermove", move)
    const end = () => handle.removeEventListener("pointermove", move)
    handle.addEventListener("lostpointercapture", end, { once: true })
  }

  private cards(): Node {
    const card = (id: string, label: string) =>
      h(
        "div",
        { class: "card" },
        h("strong", { "data-card": id }, "–"),
        h("span", { "data-card": `${id}-label` }, label),
      )
    return h(
      "div",
      {},
      h(
        "div",
        { class: "cards", "aria-live": "polite" },
        card("speedup", "predicted speed"),
        card("size", "size of weights"),
        card("count", "layers"),
        card("error", "worst layer error"),
      ),
      h("p", { class: "muted", "data-card": "advice" }),
    )
  }

  // What shows the thresholds follows their values.
  private updateControls(t: Thresholds) {
    for (const { key, use, least, max } of CONTROLS) {
      const value = t[key] ?? 0
      for (const input of this.element.querySelectorAll<HTMLInputElement>(
        `input[data-control=${key}]`,
      ))
        if (input.type === "range") {
          input.value = String(Math.round(logPlace(value, least, max) * SLIDER))
          input.setAttribute("aria-valuetext", String(value))
        } else if (Number(input.value) !== value || input.value === "") input.value = String(value)
      const line: any = this.element.querySelector(`[data-line=${key}]`)
      line?.place(value)
      const box = this.element.querySelector<HTMLInputElement>(`[data-switch=${use}]`)
      if (!use || !box) continue
      box.checked = this.on(use)
      for (const part of [box.parentElement, line]) part?.classList.toggle("idle", !box.checked)
    }
  }

  // Everything that follows from the thresholds, without building anything anew.
  private update() {
    const t = this.thresholds()
    this.updateControls(t)
    const plan = this.plan()
    if (!plan) return
    const byName = new Map(plan.layers.map((layer) => [layer.name, layer]))
    for (const dot of this.element.querySelectorAll<SVGElement>(".point")) {
      const layer = byName.get(dot.dataset.layer!)
      if (layer) dot.classList.toggle("off", fate(layer, t) !== "chosen")
    }
    const p = predict(plan, t)
    const put = (id: string, text: string) => {
      const element = this.element.querySelector(`[data-card=${id}]`)
      if (element) element.textContent = text
    }
    const more = this.updateMore(plan, t)
    const nothing = unmeasured(plan, t)
    const fast = speed(plan, t)
    put("speedup", nothing ? "–" : fast.value)
    put("speedup-label", nothing ? "predicted speed" : fast.label)
    put("size", nothing || p.size === null ? "–" : `${Math.round(p.size * 100)} %`)
    put("count", nothing ? "–" : `${p.count} of ${plan.layers.length}`)
    put("error", nothing ? "–" : p.count ? p.error.toPrecision(2) : "0")
    if (nothing) return put("advice", nothing)
    const together = Number(plan.joint?.mse ?? 0)
    const sentences = [
      fast.note,
      more ? "" : advice(p),
      fast.label.startsWith("measured") ? "" : assumption(plan, t),
      together > 0
        ? `All layers of the plan together caused an error of ${together.toPrecision(2)}.`
        : "",
    ]
    put("advice", sentences.filter(Boolean).join(" "))
  }

  private comparisonParts(): Node[] {
    const title = h("h3", {}, "Before and after")
    const compared = this.pictures.some((p) => p.quantized) && comparedOf(this.pictures)
    if (!compared) {
      const text =
        "Once a quantized workflow has run, its picture is held against one from before here."
      return [title, h("p", { class: "muted" }, text)]
    }
    const { before, after } = compared
    const choice = (label: string, chosen: Picture, change: () => void) =>
      h(
        "label",
        { class: "field" },
        h("span", {}, label),
        h(
          "select",
          { onchange: change },
          ...this.pictures.map((p) =>
            h("option", { value: p.url, selected: p === chosen }, p.label),
          ),
        ),
      )
    const show = () =>
      this.compare.show(first.querySelector("select")!.value, second.querySelector("select")!.value)
    const first = choice("Before", before, () => show())
    const second = choice("After", after, () => show())
    this.compare.show(before.url, after.url)
    return [title, this.compare.element, first, second]
  }
}
