// The rows of rgthree's loader of LoRAs.
import assert from "node:assert/strict"
import { test } from "node:test"
import { toPrompt } from "../../../host/editor/src/workflow/convert"
import { fromPrompt } from "../../../host/editor/src/workflow/import"
import { normalise } from "../../../host/editor/src/workflow/normalise"
import { parseObjectInfo } from "../../../host/editor/src/workflow/schema"
import { bare, cases, info, specs } from "./given"

// With and without a server that has the node.
for (const { name, graph, want } of cases("loras"))
  test(`rows of LoRAs: ${name}`, () => {
    const before = JSON.stringify(graph)
    assert.deepEqual(bare(toPrompt(graph, new Map()).prompt), want)
    assert.deepEqual(bare(toPrompt(graph, specs).prompt), want)
    const settled = toPrompt(normalise(graph, specs), specs)
    const values = (inputs: any) => Object.values(inputs).filter((value) => !Array.isArray(value))
    assert.deepEqual(values(settled.prompt[3].inputs), values(want[3].inputs))
    assert.deepEqual(settled.lost, [])
    assert.equal(JSON.stringify(graph), before)
  })

test("rows of LoRAs survive becoming a workflow and coming back", () => {
  const rows = {
    lora_1: { on: true, lora: "sub\\two.safetensors", strength: 0.5, strengthTwo: null },
    lora_3: { on: false, lora: "x.safetensors", strength: 1 },
  }
  const drawn = { PowerLoraLoaderHeaderWidget: { type: "PowerLoraLoaderHeaderWidget" }, "➕ Add": "" }
  const node = { class_type: "Power Lora Loader (rgthree)", inputs: { ...drawn, ...rows } }
  const files = structuredClone(info)
  files.LoraLoader.input.required.lora_name[0] = ["sub/two.safetensors"]
  for (const known of [specs, parseObjectInfo(files)]) {
    const workflow = normalise(fromPrompt({ 5: node } as any, known), known)
    const { inputs } = toPrompt(workflow, known).prompt[5]
    const there = known !== specs
    const lora = there ? "sub/two.safetensors" : rows.lora_1.lora
    assert.deepEqual(inputs, { lora_1: { ...rows.lora_1, lora }, lora_2: rows.lora_3 })
  }
})
