// Inputs that count only while a choice is this or that.
import assert from "node:assert/strict"
import { test } from "node:test"
import { toPrompt } from "../../../host/editor/src/workflow/convert"
import { fromPrompt } from "../../../host/editor/src/workflow/import"
import { normalise } from "../../../host/editor/src/workflow/normalise"
import { parseObjectInfo, widgetPlaces } from "../../../host/editor/src/workflow/schema"
import { bare, cases } from "./given"

// As tests/host/testnodes.c has it.
const size = { when: { how: ["to size"] } }
const crop = { default: "center", when: { how: ["to size", "like other"] } }
const required = {
  how: [["to size", "by factor", "like other"], {}],
  "how.width": ["INT", { default: 512, ...size }],
  "how.height": ["INT", { default: 256, ...size }],
  "how.factor": ["FLOAT", { default: 1, when: { how: ["by factor"] } }],
  "how.crop": [["disabled", "center"], crop],
  "how.other": ["INT", { forceInput: true, when: { how: ["like other"] } }],
  method: [["a", "b", "it's"], { default: "a" }],
}
const varied = { input: { required }, output: ["STRING"], output_name: ["STRING"] }
const specs = parseObjectInfo({ TestVaried: varied })

for (const { name, graph, want } of cases("varied"))
  test(`inputs that do not always count: ${name}`, () => {
    const before = JSON.stringify(graph)
    assert.deepEqual(bare(toPrompt(graph, specs).prompt), want)
    assert.deepEqual(bare(toPrompt(normalise(graph, specs), specs).prompt), want)
    const back = toPrompt(normalise(fromPrompt(want, specs), specs), specs)
    assert.deepEqual(bare(back.prompt), want)
    assert.equal(JSON.stringify(graph), before)
  })

test("places are those of the inputs that count", () => {
  const spec = specs.get("TestVaried")!
  const names = (values?: unknown) => widgetPlaces(spec, values).map(({ name }) => name)
  assert.equal(names().length, 6)
  assert.deepEqual(names(["by factor", 2, "b"]), ["how", "how.factor", "method"])
  assert.deepEqual(names(["like other", "center", "b"]), ["how", "how.crop", "method"])
  // Without a value, and with one that is not in the list.
  assert.deepEqual(names(null), ["how", "how.width", "how.height", "how.crop", "method"])
  assert.deepEqual(names(["by magic", "b"]), ["how", "method"])
})

test("what a choice brings has its own values at first", () => {
  const node = { id: 3, type: "TestVaried", widgets_values: ["by factor"] }
  const [fixed] = normalise({ nodes: [node], links: [] } as any, specs).nodes
  assert.deepEqual(fixed.widgets_values, ["by factor", 1, "a"])
})
