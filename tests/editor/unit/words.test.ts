// What the page says and offers: faults in words, names of embeddings, what a file can keep.
import assert from "node:assert/strict"
import { test } from "node:test"
import { matching as shelvesFor } from "../../../host/editor/src/page/browse"
import { matching, nameAt } from "../../../host/editor/src/workflow/embeddings"
import { toPrompt, type UiWorkflow } from "../../../host/editor/src/workflow/convert"
import { nodeFaults } from "../../../host/editor/src/server/errors"
import { fromPrompt } from "../../../host/editor/src/workflow/import"
import { promptFile } from "../../../host/editor/src/workflow/json"
import { apply, createRun } from "../../../host/editor/src/workflow/progress"
import { hrefOf } from "../../../host/editor/src/page/markdown"

const fault = (type: string, details: string, input_name = "image", folder?: string) =>
  nodeFaults({
    1: { errors: [{ type, message: "M", details, extra_info: { input_name, folder } }] },
  })[0].text

test("a link of a file that leads nowhere is said", () => {
  const notes: string[] = []
  const spec = { inputs: [{ name: "samples", type: "LATENT", widget: false }], outputs: [] }
  const prompt = { 3: { class_type: "VAEDecode", inputs: { samples: ["9", 0] } } }
  fromPrompt(prompt as any, new Map([["VAEDecode", spec as any]]), notes)
  assert.deepEqual(notes, ["Node 3 takes “samples” from node 9, which the file does not have."])
})

test("how long a run took is the server's to say, whatever the page saw", () => {
  for (const late of [0, 40]) {
    const run = createRun("a", 1000 + late)
    apply(run, "execution_start", { timestamp: 5000 }, 1000 + late)
    apply(run, "execution_success", { timestamp: 5200 }, 1210)
    assert.equal(run.ended! - run.started, 200)
  }
})

test("a file that is not there is named, with the folder it was looked for in", () => {
  const gone = "There is no file “x.png” in input. Put it there and press R, or choose another."
  const details = "image - Invalid image file: x.png"
  assert.equal(fault("custom_validation_failed", details, "image", "input"), gone)
  assert.equal(
    fault("custom_validation_failed", `${details} [output]`, "image", "output"),
    gone.replace("input", "output"),
  )
  assert.equal(
    fault(
      "value_not_in_list",
      "ckpt_name: 'a b.sft' not in ['c']",
      "ckpt_name",
      "models/checkpoints",
    ),
    "There is no file “a b.sft” in models/checkpoints. Put it there and press R, or choose another.",
  )
  assert.equal(
    fault("value_not_in_list", "ckpt_name: 'a.ckpt' not in []", "ckpt_name", "models/checkpoints"),
    "Files of PyTorch, as “a.ckpt”, are not loaded. “graft convert FILE” makes a .safetensors of one.",
  )
  assert.equal(
    fault("value_not_in_list", "ckpt_name: '' not in []", "ckpt_name", "models/checkpoints"),
    "There is no file in models/checkpoints yet. Put one there, then press R for new lists.",
  )
  assert.equal(
    fault("value_not_in_list", "mode: 'z' not in (list of length 42)", "mode"),
    "“mode” cannot be 'z' here. Choose one of the list.",
  )
})

test("what a node's own check says comes through, without the protocol's words", () => {
  assert.equal(
    fault("custom_validation_failed", "value - 13 is unlucky", "value"),
    "“value”: 13 is unlucky.",
  )
  assert.equal(
    fault("custom_validation_failed", "value", "value"),
    "“value”: The node does not take this value.",
  )
  assert.equal(fault("custom_validation_failed", "all is wrong", ""), "all is wrong.")
})

test("the name of an embedding at the caret", () => {
  const at = (text: string) => nameAt(text.replace("|", ""), text.indexOf("|"))
  assert.deepEqual(at("embedding:|"), { from: 10, typed: "" })
  assert.deepEqual(at("a cat, embedding:sty| here"), { from: 17, typed: "sty" })
  assert.deepEqual(at("(embedding:a/b|:1.2)"), { from: 11, typed: "a/b" })
  for (const text of [
    "embeddin|",
    "embedding: |",
    "xembedding:a|",
    "embedding:a |",
    "|embedding:a",
  ])
    assert.equal(at(text), null, text)
})

test("names that begin so come first, then files of folders, then the rest", () => {
  const names = ["a-cat", "cat", "dog", "style/cathedral", "Catalogue"]
  assert.deepEqual(matching(names, "cat"), ["cat", "Catalogue", "style/cathedral", "a-cat"])
  assert.deepEqual(matching(names, "style/"), ["style/cathedral"])
  assert.deepEqual(matching(names, ""), names)
  assert.deepEqual(matching(names, "zebra"), [])
})

test("values of unknown nodes keep their names from prompt to prompt", () => {
  const prompt = {
    "3": {
      class_type: "Elsewhere",
      inputs: { text: "hello", seed: 5, list: { __value__: ["a", 1] }, from: ["4", 0] },
      _meta: { title: "Mine" },
    },
    "4": { class_type: "Further", inputs: {}, _meta: { title: "Further" } },
  } as any
  const again = toPrompt(fromPrompt(prompt, new Map()), new Map())
  assert.deepEqual(again.prompt, prompt)
  assert.deepEqual(again.lost, [])
  assert.deepEqual(again.unknown.sort(), ["Elsewhere", "Further"])
})

const alone = (inputs: string[], widgets_values: unknown): UiWorkflow => ({
  nodes: [
    {
      id: 1,
      type: "Elsewhere",
      title: "Mine",
      inputs: inputs.map((name) => ({ name, type: "INT", link: null, widget: { name } })),
      widgets_values,
    },
  ],
  links: [],
})

test("values of unknown nodes in a workflow are named by its inputs, or it is said that they are lost", () => {
  const saved = (inputs: string[], values: unknown) => {
    const { prompt, lost } = toPrompt(alone(inputs, values), new Map())
    return lost.length ? lost : prompt["1"].inputs
  }
  assert.deepEqual(saved(["seed", "steps"], [7, "randomize", 20]), { seed: 7, steps: 20 })
  assert.deepEqual(saved(["seed", "steps"], [7, 20]), { seed: 7, steps: 20 })
  assert.deepEqual(saved(["a", "b"], { a: 1, b: [1, 2] }), { a: 1, b: { __value__: [1, 2] } })
  assert.deepEqual(saved([], undefined), {})
  assert.deepEqual(saved([], []), {})
  assert.deepEqual(saved(["a", "b"], []), {})
  assert.deepEqual(saved([], [1, "x"]), [{ title: "Mine", type: "Elsewhere", values: [1, "x"] }])
  assert.deepEqual(saved(["a"], [1, 2]), [{ title: "Mine", type: "Elsewhere", values: [1, 2] }])
  assert.deepEqual(saved(["a", "b"], [1]), [{ title: "Mine", type: "Elsewhere", values: [1] }])
})

test("a prompt's file has large seeds as numbers", () => {
  if (!("rawJSON" in JSON)) return console.log("skipped: this JavaScript cannot write such numbers")
  const prompt = {
    "1": { class_type: "K", inputs: { seed: "18446744073709551615", text: "1".repeat(18) } },
  }
  const text = promptFile(prompt, (_type, input) => input === "seed")
  assert.match(text, /"seed": 18446744073709551615,\n {6}"text": "1{18}"/)
})

test("warnings of a run: each once for a node, under the node that is shown", () => {
  const run = createRun("p", 0)
  const warn = (node: string, text: string, display_node = node) =>
    apply(run, "graft.warning", { node, display_node, text }, 1)
  warn("2", "left out")
  warn("2", "left out")
  warn("3", "left out")
  warn("7.0.0.body", "odd", "7")
  assert.deepEqual(run.warnings, [
    { node: "2", text: "left out" },
    { node: "3", text: "left out" },
    { node: "7", text: "odd" },
  ])
  assert.equal(run.state, "running")
})

test("a workflow is found by its title first, by its file's name and by what others call it", () => {
  const offer = (title: string, file: string, text: string) => ({ title, file, text, open() {} })
  const shelves = [
    {
      title: "Prompts",
      offers: [
        offer("Text to picture", "txt2img", "Not picture to picture."),
        offer("Two passes", "hires-fix", "Samples small."),
      ],
    },
    {
      title: "Pictures",
      offers: [
        offer("Inpaint", "inpaint", "Repaints a part."),
        offer("Picture to picture", "img2img", "Begins with a picture."),
      ],
    },
  ]
  const first = (query: string) => shelvesFor(shelves, query)[0]?.offers[0].file
  for (const [query, file] of [
    ["picture to picture", "img2img"],
    ["txt2img", "txt2img"],
    ["hires", "hires-fix"],
    ["outpaint", "inpaint"],
    ["repaints", "inpaint"],
    ["nothing of the kind", undefined],
    ["", "txt2img"],
  ])
    assert.equal(first(query!), file, query)
})

test("a link of the wrong type is said in a sentence", () => {
  const details = "model, received_type(CONDITIONING) mismatch input_type(MODEL)"
  assert.equal(
    fault("return_type_mismatch", details, "model"),
    "“model” takes a MODEL; what is linked to it gives a CONDITIONING.",
  )
})

test("links of notes lead to the web or to a letter, and nowhere else", () => {
  assert.equal(hrefOf("https://example.org/a b"), "https://example.org/a%20b")
  assert.equal(hrefOf("mailto:a@example.org"), "mailto:a@example.org")
  for (const text of [
    "javascript:alert(1)",
    " java\nscript:alert(1)",
    "JAVASCRIPT:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:https://example.org/x",
    "/view?filename=x",
    "#part",
    "",
  ])
    assert.equal(hrefOf(text), null, text)
})
