// Comments and choices in prompts. The texts are those of tests/host/choices.c.
import assert from "node:assert/strict"
import { test } from "node:test"
import { chooseText, makeChoices } from "../../../host/editor/src/workflow/choices"
import { toPrompt } from "../../../host/editor/src/workflow/convert"
import { specs } from "./given"
import { node } from "./node"

// All that can come out, by every row of numbers up to six.
function all(text: string): string[] {
  const out = new Set<string>()
  for (let row = 0; row < 4 ** 6; row++) {
    let rest = row
    out.add(
      chooseText(text, () => {
        const drawn = (rest % 4) / 4
        rest = Math.floor(rest / 4)
        return drawn
      }),
    )
  }
  return [...out].sort()
}

test("a text gives what it may give, and all of it", () => {
  for (const [text, ...wanted] of [
    ["a (red:1.2) \\(apple\\)", "a (red:1.2) \\(apple\\)"],
    ["{red|green|blue} apple", "blue apple", "green apple", "red apple"],
    ["{a|{b|c} d}{|!}", "a", "a!", "b d", "b d!", "c d", "c d!"],
    ["{one}", "one"],
    ["{}", ""],
    ["\\{a\\|b\\} {c\\|d|e\\}}", "{a|b} c|d", "{a|b} e}"],
    ["\\\\{a|b}", "\\\\a", "\\\\b"],
    ["{a|b", "a", "b"],
    ["a|b} c\\", "a|b} c\\"],
    ["red // not green\napple /* nor\nblue */, 3d", "red \napple , 3d"],
    ["{a//|b}\n|c}", "a\n", "c"],
    ["/* never ends", "/* never ends"],
    ["a / b * c", "a / b * c"],
  ])
    assert.deepEqual(all(text), wanted, text)
  chooseText("{".repeat(2000) + "}".repeat(2000), Math.random) // ends
})

const text = (link: number | null) => ({ name: "text", type: "STRING", link, widget: { name: "text" } })

test("what is sent is what the file says: of a node, of a primitive, of an instance of a sub-graph", () => {
  const inner = node(1, "CLIPTextEncode", { inputs: [text(9)], widgets_values: ["{inner}"] })
  const workflow: any = {
    version: 1,
    nodes: [
      node(1, "CLIPTextEncode", { inputs: [text(null)], widgets_values: ["{a|b} \\{x\\}"] }),
      node(2, "CLIPTextEncode", { inputs: [text(1)], widgets_values: [""] }),
      node(3, "CLIPTextEncode", { inputs: [text(2)], widgets_values: [""] }),
      node(4, "PrimitiveNode", { widgets_values: ["{c|d} \\{y\\}", "fixed"] }),
      node(5, "s", { inputs: [text(null)], widgets_values: ["{e|f}"] }),
      node(6, "SaveImage", { widgets_values: ["{g|h}"] }),
      node(7, "Note", { widgets_values: ["{i|j} // k"] }),
    ],
    links: [
      [1, 4, 0, 2, 1, "STRING"],
      [2, 4, 0, 3, 1, "STRING"],
    ],
    definitions: {
      subgraphs: [
        {
          id: "s",
          nodes: [inner],
          inputs: [{ name: "text", type: "STRING" }],
          links: [{ id: 9, origin_id: -10, origin_slot: 0, target_id: 1, target_slot: 1, type: "STRING" }],
        },
      ],
    },
  }
  makeChoices(workflow, specs, () => 0.75)
  const { prompt } = toPrompt(workflow, specs)
  const texts = Object.fromEntries(Object.entries(prompt).map(([id, n]) => [id, n.inputs.text]))
  assert.deepEqual(texts, { 1: "b {x}", 2: "d {y}", 3: "d {y}", "5:1": "f", 6: undefined })
  const values = workflow.nodes.map((n: any) => n.widgets_values[0])
  assert.deepEqual(values, ["b {x}", "", "", "d {y}", "f", "{g|h}", "{i|j} // k"])
})
