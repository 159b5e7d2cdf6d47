import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { isPrompt, isUiWorkflow, toPrompt } from "../../../host/editor/src/workflow/convert"
import { fillFileNames, formatDate } from "../../../host/editor/src/workflow/filename"
import { fromPrompt } from "../../../host/editor/src/workflow/import"
import { normalise } from "../../../host/editor/src/workflow/normalise"
import { showPromoted } from "../../../host/editor/src/workflow/promoted"
import { parseJson } from "../../../host/editor/src/workflow/json"
import {
  alignValues,
  compatible,
  defaultValue,
  parseObjectInfo,
  widgetPlaces,
} from "../../../host/editor/src/workflow/schema"
import { bare, cases, info, source, specs } from "./given"
import { node } from "./node"

const file = (name: string) => parseJson(readFileSync(`${source}/workflows/${name}`, "utf8"))

const image = (id: number, more: any = {}) =>
  node(id, "EmptyImage", {
    outputs: [{ name: "IMAGE", type: "IMAGE", links: [] }],
    widgets_values: [64, 64, 1, 255],
    ...more,
  })
const input = (name: string, type: string, link: number | null, widget = false) => ({
  name,
  type,
  link,
  ...(widget ? { widget: { name } } : {}),
})

test("the editor's file of the demo gives the same prompt as its API file", () => {
  const { prompt, unknown } = toPrompt(file("txt2img.editor.json"), specs)
  assert.deepEqual(bare(prompt), bare(file("txt2img.json")))
  assert.deepEqual(unknown, [])
  assert.equal(prompt["5"]._meta?.title, "Sampler")
})

test("a prompt survives becoming a workflow and coming back", () => {
  for (const name of [
    "txt2img.json",
    "img2img.json",
    "inpaint.json",
    "hires-fix.json",
    "lora.json",
    "compile.json",
    "swap-weights.json",
  ]) {
    const prompt = file(name)
    const back = toPrompt(normalise(fromPrompt(prompt, specs), specs), specs).prompt
    for (const [id, n] of Object.entries<any>(prompt))
      for (const [key, value] of Object.entries(n.inputs))
        assert.deepEqual(back[id].inputs[key], value, `${name} ${id}.${key}`)
  }
})

test("ids that are no numbers get numbers, and links follow", () => {
  const prompt = {
    "a:1": { class_type: "EmptyImage", inputs: { width: 1, height: 1, batch_size: 1, color: 0 } },
    "1": { class_type: "SaveImage", inputs: { images: ["a:1", 0], filename_prefix: "x" } },
  }
  const back = toPrompt(fromPrompt(prompt, specs), specs).prompt
  assert.deepEqual(Object.keys(back).sort(), ["1", "2"])
  assert.deepEqual(back["1"].inputs.images, ["2", 0])
})

test("values of a sampler: the control after the seed is stepped over, also where a file has none", () => {
  const places = widgetPlaces(specs.get("KSampler")!)
  assert.deepEqual(
    places.map((p) => p.name),
    ["seed", "control_after_generate", "steps", "cfg", "sampler_name", "scheduler", "denoise"],
  )
  assert.deepEqual(alignValues(places, [5, "randomize", 20, 8, "euler", "normal", 1]), [
    5,
    "randomize",
    20,
    8,
    "euler",
    "normal",
    1,
  ])
  for (const [old, control] of [
    [true, "randomize"],
    [false, "fixed"],
  ])
    assert.deepEqual(alignValues(places, [5, old, 20, 8, "euler", "normal", 1]).slice(0, 3), [
      5,
      control,
      20,
    ])
  assert.deepEqual(alignValues(places, [5, 20, 8, "euler", "normal", 1]), [
    5,
    undefined,
    20,
    8,
    "euler",
    "normal",
    1,
  ])
  assert.deepEqual(alignValues(places, { seed: 5, cfg: 2 }), [
    5,
    undefined,
    undefined,
    2,
    undefined,
    undefined,
    undefined,
  ])
  assert.deepEqual(
    alignValues(places, null),
    places.map(() => undefined),
  )
})

test("an upload's trailing entry is not a value", () => {
  const workflow: any = {
    nodes: [node(1, "LoadImage", { widgets_values: ["apple.png", "image"] })],
    links: [],
  }
  assert.deepEqual(toPrompt(workflow, specs).prompt["1"].inputs, { image: "apple.png" })
})

test("muted nodes are left out, and what they fed has no value", () => {
  const workflow: any = {
    nodes: [
      image(1, { mode: 2 }),
      node(2, "SaveImage", { inputs: [input("images", "IMAGE", 1)], widgets_values: ["x"] }),
    ],
    links: [[1, 1, 0, 2, 0, "IMAGE"]],
  }
  assert.deepEqual(bare(toPrompt(workflow, specs).prompt), {
    "2": { class_type: "SaveImage", inputs: { filename_prefix: "x" } },
  })
})

test("a bypassed node passes on the input of the output's type", () => {
  const workflow: any = {
    nodes: [
      image(1),
      node(2, "ImageScale", {
        mode: 4,
        inputs: [input("width", "INT", null, true), input("image", "IMAGE", 1)],
        outputs: [{ name: "IMAGE", type: "IMAGE", links: [2] }],
      }),
      node(3, "SaveImage", { inputs: [input("images", "IMAGE", 2)], widgets_values: ["x"] }),
    ],
    links: [
      [1, 1, 0, 2, 1, "IMAGE"],
      [2, 2, 0, 3, 0, "IMAGE"],
    ],
  }
  const { prompt } = toPrompt(workflow, specs)
  assert.deepEqual(Object.keys(prompt), ["1", "3"])
  assert.deepEqual(prompt["3"].inputs.images, ["1", 0])
})

test("reroutes are followed, primitives become values, notes vanish", () => {
  const workflow: any = {
    nodes: [
      image(1, { inputs: [input("width", "INT", 3, true)] }),
      node(2, "Reroute", {
        inputs: [input("", "*", 1)],
        outputs: [{ name: "", type: "IMAGE", links: [2] }],
      }),
      node(3, "SaveImage", { inputs: [input("images", "IMAGE", 2)], widgets_values: ["x"] }),
      node(4, "PrimitiveNode", {
        outputs: [{ name: "INT", type: "INT", links: [3] }],
        widgets_values: [320, "fixed"],
      }),
      node(5, "Note", { widgets_values: ["remember"] }),
    ],
    links: [
      [1, 1, 0, 2, 0, "IMAGE"],
      [2, 2, 0, 3, 0, "IMAGE"],
      [3, 4, 0, 1, 0, "INT"],
    ],
  }
  const { prompt } = toPrompt(workflow, specs)
  assert.deepEqual(Object.keys(prompt), ["1", "3"])
  assert.equal(prompt["1"].inputs.width, 320)
  assert.deepEqual(prompt["3"].inputs.images, ["1", 0])
})

test("a loop of reroutes ends", () => {
  const workflow: any = {
    nodes: [
      node(1, "Reroute", { inputs: [input("", "*", 2)], outputs: [{ name: "", type: "*" }] }),
      node(2, "Reroute", { inputs: [input("", "*", 1)], outputs: [{ name: "", type: "*" }] }),
      node(3, "SaveImage", { inputs: [input("images", "IMAGE", 3)], widgets_values: ["x"] }),
    ],
    links: [
      [1, 1, 0, 2, 0, "*"],
      [2, 2, 0, 1, 0, "*"],
      [3, 1, 0, 3, 0, "*"],
    ],
  }
  assert.equal("images" in toPrompt(workflow, specs).prompt["3"].inputs, false)
})

const subgraph = {
  id: "5c6a7c1e-0000-4000-8000-000000000001",
  name: "two pictures",
  inputs: [
    { name: "width", type: "INT" },
    { name: "picture", type: "IMAGE" },
  ],
  outputs: [
    { name: "IMAGE", type: "IMAGE" },
    { name: "through", type: "IMAGE" },
  ],
  nodes: [
    image(1, { inputs: [input("width", "INT", 11, true)] }),
    node(2, "ImageInvert", {
      inputs: [input("image", "IMAGE", 13)],
      outputs: [{ name: "IMAGE", type: "IMAGE", links: [14] }],
    }),
  ],
  links: [
    { id: 11, origin_id: -10, origin_slot: 0, target_id: 1, target_slot: 0, type: "INT" },
    { id: 12, origin_id: 1, origin_slot: 0, target_id: -20, target_slot: 0, type: "IMAGE" },
    { id: 13, origin_id: -10, origin_slot: 1, target_id: 2, target_slot: 0, type: "IMAGE" },
    { id: 14, origin_id: 2, origin_slot: 0, target_id: -20, target_slot: 1, type: "IMAGE" },
  ],
}
const withSubgraph = (instance: any = {}): any => ({
  version: 1,
  nodes: [
    image(4),
    node(5, subgraph.id, {
      inputs: [input("width", "INT", null, true), input("picture", "IMAGE", 1)],
      widgets_values: [99],
      ...instance,
    }),
    node(6, "SaveImage", { inputs: [input("images", "IMAGE", 2)], widgets_values: ["x"] }),
    node(7, "SaveImage", { inputs: [input("images", "IMAGE", 3)], widgets_values: ["y"] }),
  ],
  links: [
    { id: 1, origin_id: 4, origin_slot: 0, target_id: 5, target_slot: 1, type: "IMAGE" },
    { id: 2, origin_id: 5, origin_slot: 0, target_id: 6, target_slot: 0, type: "IMAGE" },
    { id: 3, origin_id: 5, origin_slot: 1, target_id: 7, target_slot: 0, type: "IMAGE" },
  ],
  definitions: { subgraphs: [subgraph] },
})

test("a sub-graph is unfolded; its promoted value wins", () => {
  const { prompt, unknown } = toPrompt(withSubgraph(), specs)
  assert.deepEqual(unknown, [])
  assert.deepEqual(Object.keys(prompt).sort(), ["4", "5:1", "5:2", "6", "7"])
  assert.equal(prompt["5:1"].inputs.width, 99)
  assert.deepEqual(prompt["5:2"].inputs.image, ["4", 0])
  assert.deepEqual(prompt["6"].inputs.images, ["5:1", 0])
  assert.deepEqual(prompt["7"].inputs.images, ["5:2", 0])
})

test("a muted sub-graph is left out whole; a bypassed one passes its picture on", () => {
  assert.deepEqual(Object.keys(toPrompt(withSubgraph({ mode: 2 }), specs).prompt), ["4", "6", "7"])
  const { prompt } = toPrompt(
    withSubgraph({
      mode: 4,
      outputs: [
        { name: "IMAGE", type: "IMAGE" },
        { name: "through", type: "IMAGE" },
      ],
    }),
    specs,
  )
  assert.deepEqual(prompt["6"].inputs.images, ["4", 0])
})

// Two instances with values of their own for a node inside, one of them with one for its own input.
const withShown = (...values: unknown[][]): any => ({
  version: 1,
  nodes: values.map((widgets_values, i) =>
    node(5 + i, subgraph.id, {
      inputs: [input("width", "INT", null, true), input("picture", "IMAGE", null)],
      properties: {
        proxyWidgets: [
          ["1", "height"],
          ["-1", "width"],
        ],
      },
      widgets_values,
    }),
  ),
  links: [],
  definitions: { subgraphs: [subgraph] },
})

test("values that an instance shows for nodes inside it count, for each instance its own", () => {
  const sizes = (workflow: any) => {
    const { prompt } = toPrompt(normalise(workflow, specs), specs)
    return [5, 6].map((id) => [prompt[`${id}:1`]?.inputs.width, prompt[`${id}:1`]?.inputs.height])
  }
  const before = JSON.stringify(subgraph)
  const [[width, height]] = sizes(withShown([]))
  assert.notEqual(height, 96)
  assert.deepEqual(sizes(withShown([96, 32], [160, 48])), [
    [32, 96],
    [48, 160],
  ])
  assert.deepEqual(sizes(withShown([96, 32], [])), [
    [32, 96],
    [width, height],
  ])
  assert.deepEqual(sizes(withShown([null, 32]))[0], [32, height])
  assert.equal(JSON.stringify(subgraph), before)
})

// Files name the inputs that were there when the instance was last looked at, in any order, and have a
// value for each of these or for all that it shows.
test("an instance has all inputs of its sub-graph, and the values of its own", () => {
  const want = (inputs: any[], properties: any, widgets_values: any, width: number) => {
    const workflow = withSubgraph({ inputs, properties, widgets_values })
    const settled = normalise(workflow, specs)
    const instance = settled.nodes.find(({ id }) => id === 5)!
    assert.deepEqual(
      instance.inputs!.map(({ name, widget, link }) => [name, !!widget, link]),
      [
        ["width", true, null],
        ["picture", false, 1],
      ],
    )
    assert.deepEqual((instance.widgets_values as unknown[] | undefined)?.[0] ?? 64, width)
    const { prompt } = toPrompt(settled, specs)
    assert.equal(prompt["5:1"].inputs.width, width)
    assert.deepEqual(prompt["5:2"].inputs.image, ["4", 0])
  }
  const [width, picture] = [input("width", "INT", null, true), input("picture", "IMAGE", 1)]
  const both = { proxyWidgets: [["1", "height"], ["-1", "width"]] } // prettier-ignore
  want([width, picture], {}, [99], 99)
  want([width, picture], both, [99], 99)
  want([width, picture], both, [48, 99], 99)
  want([width, picture], both, { width: 99 }, 99)
  want([width, picture], both, [], 64)
  want([width, picture], both, [48, null], 64)
  want([picture], both, [48, 99], 99)
  want([picture], both, [], 64)
})

test("a link of an instance leads to the place that its input gets", () => {
  const workflow = withSubgraph({ inputs: [input("picture", "IMAGE", 1)], widgets_values: [] })
  workflow.links[0].target_slot = 0
  assert.equal((normalise(workflow, specs).links[0] as any).target_slot, 1)
  workflow.links[0] = [1, 4, 0, 5, 0, "IMAGE"]
  assert.equal((normalise(workflow, specs).links[0] as any)[4], 1)
})

test("a back-slash in the name of a file is the server's slash", () => {
  const choices = ["a/b.safetensors", "c\\d.safetensors", "c/d.safetensors"]
  const given = new Map(specs)
  const spec = structuredClone(specs.get("CheckpointLoaderSimple")!)
  spec.inputs[0].choices = choices
  given.set("CheckpointLoaderSimple", spec)
  for (const [name, want] of [
    ["a\\b.safetensors", "a/b.safetensors"],
    ["c\\d.safetensors", "c\\d.safetensors"],
    ["x\\b.safetensors", "x\\b.safetensors"],
  ]) {
    const nodes = [node(1, "CheckpointLoaderSimple", { widgets_values: [name] })]
    const settled = normalise({ nodes, links: [] } as any, given)
    assert.deepEqual(settled.nodes[0].widgets_values, [want])
  }
})

test("a picture's name has slashes, also where no list has it", () => {
  const [have] = specs.get("LoadImage")!.inputs[0].choices!
  for (const [name, want] of [
    ["a\\b\\c.png [output]", "a/b/c.png [output]"],
    [have, have],
  ]) {
    const nodes = [node(1, "LoadImage", { widgets_values: [name, "image"] })]
    const settled = normalise({ nodes, links: [] } as any, specs)
    assert.deepEqual(settled.nodes[0].widgets_values, [want, "image"])
  }
})

test("a value at a socket is kept, by a node that can be changed", () => {
  const show = { input: { required: { any: ["*", {}] } }, output: [], output_node: true }
  const text = { input: { required: { text: ["STRING", { forceInput: true }] } }, output: ["STRING"] }
  const known = parseObjectInfo({ ...info, Show: show, Text: text })
  for (const value of ["words", 0, 7, -2.5, true, false, "18446744073709551615"]) {
    const prompt: any = {
      a: { class_type: "Show", inputs: { any: value } },
      4: { class_type: "Text", inputs: { text: "hello" } },
      5: { class_type: "Show", inputs: { any: ["4", 0] } },
    }
    const workflow = normalise(fromPrompt(prompt, known), known)
    const back = bare(toPrompt(workflow, known).prompt)
    const ids = Object.keys(back).filter((id) => back[id].inputs.any === value)
    assert.equal(ids.length, 1)
    assert.deepEqual(back[4].inputs, { text: "hello" })
    assert.deepEqual(back[5].inputs, { any: ["4", 0] })
    const givers = workflow.nodes.filter(({ type }) => type === "PrimitiveNode")
    assert.deepEqual(givers.map((giver) => giver.widgets_values).sort(), [[value], ["hello"]].sort())
    assert.equal(new Set(workflow.nodes.map(({ id }) => id)).size, workflow.nodes.length)
    assert.equal((workflow as any).last_node_id, Math.max(...workflow.nodes.map((n) => Number(n.id))))
  }
})

test("places of links that are gone are passed over", () => {
  const { links } = normalise({ nodes: [], links: [null, [1, 2, 0, 3, 0, "X"], undefined] }, specs)
  assert.deepEqual(links, [[1, 2, 0, 3, 0, "X"]])
})

test("a sub-graph that an instance gets for itself has a UUID, too", () => {
  const id = "5d25e2b7-9ab3-4a1c-8f5e-ffffffffffff"
  const workflow = withShown([96, 32], [160, 48])
  workflow.definitions.subgraphs = [{ ...subgraph, id }]
  for (const instance of workflow.nodes) instance.type = id
  const { definitions, nodes } = normalise(workflow, specs)
  const ids = definitions!.subgraphs!.map((one) => one.id)
  assert.deepEqual(ids, [id, "5d25e2b7-9ab3-4a1c-8f5e-000000000000"])
  assert.deepEqual(nodes.map(({ type }) => type).sort(), [...ids].sort())
})

test("what an instance shows of an instance inside it counts, too", () => {
  const workflow = withShown([96, 32])
  const [inner] = workflow.nodes
  workflow.definitions.subgraphs = [
    { id: "outer", name: "outer", nodes: [{ ...inner, widgets_values: [] }], links: [] },
    subgraph,
  ]
  workflow.nodes = [
    node(9, "outer", { properties: { proxyWidgets: [["5", "height"]] }, widgets_values: [224] }),
  ]
  assert.equal(toPrompt(normalise(workflow, specs), specs).prompt["9:5:1"].inputs.height, 224)
})

test("what is shown of an instance inside may be one of its own inputs, listed or not", () => {
  for (const proxyWidgets of [undefined, [["-1", "width"]]]) {
    const workflow = withShown([])
    const inner = { ...workflow.nodes[0], widgets_values: [32] }
    inner.properties = proxyWidgets ? { proxyWidgets } : {}
    workflow.definitions.subgraphs = [
      { id: "outer", name: "outer", nodes: [inner], links: [] },
      subgraph,
    ]
    const outer = (values: unknown[]) =>
      node(9, "outer", { properties: { proxyWidgets: [["5", "width"]] }, widgets_values: values })
    for (const [values, want] of [
      [[224], 224],
      [[], 32],
    ] as [number[], number][]) {
      workflow.nodes = [outer(values)]
      const settled = normalise(workflow, specs)
      assert.equal(toPrompt(settled, specs).prompt["9:5:1"].inputs.width, want)
      if (proxyWidgets) continue
      showPromoted(settled, specs)
      assert.deepEqual(settled.nodes[0].widgets_values, [want])
    }
  }
})

test("of a PrimitiveNode inside an instance shows the value, not what becomes of it after a run", () => {
  const inside = node(1, "PrimitiveNode", {
    outputs: [{ name: "INT", type: "INT", links: [1] }],
    widgets_values: [64, "fixed"],
  })
  const shown = (widget: string, value: unknown): any => ({
    version: 1,
    nodes: [node(9, "s", { properties: { proxyWidgets: [["1", widget]] }, widgets_values: [value] })],
    links: [],
    definitions: {
      subgraphs: [
        {
          id: "s",
          nodes: [inside, image(2, { inputs: [input("width", "INT", 1, true)] })],
          links: [[1, 1, 0, 2, 0, "INT"]],
        },
      ],
    },
  })
  const width = (workflow: any) =>
    toPrompt(normalise(workflow, specs), specs).prompt["9:2"].inputs.width
  assert.equal(width(shown("value", 96)), 96)
  assert.equal(width(shown("control_after_generate", "randomize")), 64)
})

// The same file as tests/host/elsewhere.c has.
test("links by name, reroutes and switches of extensions lead to what they stand for", () => {
  const show = (id: number, link: number) =>
    node(id, "SaveImage", { inputs: [input("images", "IMAGE", link)], widgets_values: ["x"] })
  const set = (id: number, type: string, link: number, name: string, more: any = {}) =>
    node(id, type, { inputs: [input("", "IMAGE", link)], widgets_values: [name], ...more })
  const get = (id: number, type: string, name: string) => node(id, type, { widgets_values: [name] })
  const workflow: any = {
    nodes: [
      image(1),
      set(2, "SetNode", 1, "n"),
      node(3, "Reroute (rgthree)", { inputs: [input("", "*", 2)] }),
      show(4, 3),
      get(5, "GetNode", "n"),
      get(6, "GetNode", "other"),
      show(7, 4),
      node(8, "Fast Groups Bypasser (rgthree)"),
      node(9, "Label (rgthree)"),
      node(10, "s"),
      set(11, "easy setNode", 6, "n"),
      set(12, "easy setNode", 5, "other", { mode: 2 }),
    ],
    links: [
      [1, 1, 0, 2, 0, "IMAGE"],
      [2, 5, 0, 3, 0, "IMAGE"],
      [3, 3, 0, 4, 0, "IMAGE"],
      [4, 6, 0, 7, 0, "IMAGE"],
      [5, 1, 0, 12, 0, "IMAGE"],
      [6, 10, 0, 11, 0, "IMAGE"],
    ],
    definitions: {
      subgraphs: [
        { id: "s", nodes: [get(1, "easy getNode", "n"), show(2, 1)], links: [[1, 1, 0, 2, 0, "IMAGE"]] },
      ],
    },
  }
  const { prompt, unknown } = toPrompt(workflow, specs)
  assert.deepEqual(unknown, [])
  assert.deepEqual(Object.keys(prompt).sort(), ["1", "10:2", "4", "7"])
  assert.deepEqual(prompt["4"].inputs.images, ["1", 0])
  assert.equal(prompt["7"].inputs.images, undefined)
  assert.deepEqual(prompt["10:2"].inputs.images, ["1", 0])
  // A name that leads back to itself ends.
  const ring: any = {
    nodes: [set(1, "SetNode", 1, "n"), get(2, "GetNode", "n"), show(3, 1)],
    links: [[1, 2, 0, 1, 0, "*"]],
  }
  assert.equal(toPrompt(ring, specs).prompt["3"].inputs.images, undefined)
})

test("a switch gives what the first of its inputs gets that gets anything", () => {
  const any = (id: number, ...links: (number | null)[]) =>
    node(id, "Any Switch (rgthree)", {
      inputs: links.map((link, i) => input(`any_0${i + 1}`, "IMAGE", link)),
      outputs: [{ name: "*", type: "IMAGE", links: [] }],
    })
  const save = (id: number, link: number) =>
    node(id, "SaveImage", { inputs: [input("images", "IMAGE", link)], widgets_values: ["x"] })
  const workflow: any = {
    nodes: [
      image(1),
      image(2, { mode: 2 }),
      node(3, "ImageInvert", {
        mode: 4,
        inputs: [input("image", "IMAGE", null)],
        outputs: [{ name: "IMAGE", type: "IMAGE", links: [] }],
      }),
      any(4, null, 2, 3, 8, 1), // 8 is the empty switch
      save(5, 5),
      any(6, 2, 7), // feeds itself
      save(7, 6),
      any(8, null, 2),
      save(9, 9),
    ],
    links: [
      [1, 1, 0, 4, 4, "IMAGE"],
      [2, 2, 0, 4, 1, "IMAGE"],
      [3, 3, 0, 4, 2, "IMAGE"],
      [5, 4, 0, 5, 0, "IMAGE"],
      [6, 6, 0, 7, 0, "IMAGE"],
      [7, 6, 0, 6, 1, "IMAGE"],
      [8, 8, 0, 4, 3, "IMAGE"],
      [9, 8, 0, 9, 0, "IMAGE"],
    ],
  }
  const { prompt, unknown } = toPrompt(workflow, specs)
  assert.deepEqual(unknown, [])
  assert.deepEqual(Object.keys(prompt), ["1", "5", "7", "9"])
  assert.deepEqual(prompt["5"].inputs.images, ["1", 0])
  assert.equal(prompt["7"].inputs.images, undefined)
  assert.equal(prompt["9"].inputs.images, undefined)
  // Each is looked at once: else 60 behind each other would take longer than anybody waits.
  const row = Array.from({ length: 60 }, (_, i) => any(i + 1, i + 2, i + 2))
  const links = row.map((_, i) => [i + 1, i + 1, 0, i, 0, "IMAGE"])
  const deep: any = { nodes: [save(0, 1), ...row], links }
  assert.equal(toPrompt(deep, specs).prompt["0"].inputs.images, undefined)
})

// Cases that tests/host/elsewhere.c has, too: what one side makes of a graph the other does as well.
for (const { name, graph, want } of cases("everywhere"))
  test(`Use Everywhere: ${name}`, () => {
    const before = JSON.stringify(graph)
    assert.deepEqual(bare(toPrompt(graph, specs).prompt), want)
    assert.equal(JSON.stringify(graph), before)
  })

// The nodes of tests/host/testnodes.c that these cases use.
const number = (more = {}) => ["INT", { default: 0, ...more }]
const testSpecs = parseObjectInfo({
  TestInt: { input: { required: { value: number() } }, output: ["INT"] },
  TestAdd: { input: { required: { a: number(), b: number() } }, output: ["INT"] },
  TestSeed: {
    input: {
      required: { seed: number({ control_after_generate: true }), mode: [["a", "b"], {}] },
      optional: { strength: ["FLOAT", { default: 0.5 }] },
    },
    output: ["STRING"],
  },
  TestShow: { input: { required: { any: ["*", {}] } }, output: [], output_node: true },
})
for (const { name, graph, want } of cases("groupnodes"))
  test(`group nodes: ${name}`, () => {
    const before = JSON.stringify(graph)
    const notes: string[] = []
    const settled = normalise(graph, testSpecs, notes)
    assert.deepEqual(bare(toPrompt(settled, testSpecs).prompt), want)
    assert.deepEqual(notes, [])
    assert.equal(settled.extra?.groupNodes, undefined)
    assert.equal(JSON.stringify(graph), before)
  })

test("a group node whose values do not fit its definition is said, and shows those of that", () => {
  const inner = { type: "TestAdd", index: 0, outputs: [], widgets_values: [1, 2] }
  const workflow: any = {
    nodes: [node(5, "workflow>one", { widgets_values: [7, 8, 9] })],
    links: [],
    extra: { groupNodes: { one: { nodes: [inner], links: [] } }, other: 1 },
  }
  const notes: string[] = []
  const settled = normalise(workflow, testSpecs, notes)
  assert.deepEqual(toPrompt(settled, testSpecs).prompt["5:1"].inputs, { a: 1, b: 2 })
  assert.match(notes[0], /“one”/)
  assert.deepEqual(settled.extra, { other: 1 })
  const id = settled.definitions!.subgraphs![0].id
  assert.match(id, /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  assert.equal(normalise(workflow, testSpecs).definitions!.subgraphs![0].id, id, "each time the same")
  workflow.extra.groupNodes.one.nodes.push({ type: "workflow>one", index: 1 })
  assert.throws(() => normalise(workflow, testSpecs), /too many group nodes/)
})

test("which widgets of an old file could get a link is kept when all are listed", () => {
  const seeds = node(9, "Seed Everywhere", { widgets_values: [77, "fixed"] })
  const sampler = (id: number, inputs: any[]) =>
    node(id, "KSampler", { inputs, widgets_values: [5, "fixed", 20, 8, "euler", "normal", 1] })
  const workflow: any = {
    nodes: [seeds, sampler(1, [input("seed", "INT", null, true)]), sampler(2, [])],
    links: [],
  }
  const settled: any = normalise(workflow, specs)
  assert.ok(settled.nodes[2].inputs.some((slot: any) => slot.name === "seed"))
  settled.extra = { frontendVersion: "graft" }
  for (const file of [workflow, settled, normalise(settled, specs)]) {
    const { prompt } = toPrompt(file as any, specs)
    assert.deepEqual([prompt["1"].inputs.seed, prompt["2"].inputs.seed], [77, 5])
  }
})

test("a sub-graph that contains itself is refused", () => {
  const workflow = withSubgraph()
  workflow.definitions.subgraphs = [{ ...subgraph, nodes: [node(1, subgraph.id)], links: [] }]
  assert.throws(() => toPrompt(workflow, specs), /nested/)
})

test("lists are wrapped, links are not", () => {
  const workflow: any = {
    nodes: [node(1, "PrimitiveString", { widgets_values: [["a", 0]] })],
    links: [],
  }
  assert.deepEqual(toPrompt(workflow, specs).prompt["1"].inputs.value, { __value__: ["a", 0] })
})

test("nodes that the server lacks are named and keep their links", () => {
  const workflow: any = {
    nodes: [image(1), node(2, "NoSuchNode", { inputs: [input("a", "IMAGE", 1)] })],
    links: [[1, 1, 0, 2, 0, "IMAGE"]],
  }
  const { prompt, unknown } = toPrompt(workflow, specs)
  assert.deepEqual(unknown, ["NoSuchNode"])
  assert.deepEqual(prompt["2"].inputs, { a: ["1", 0] })
})

test("normalise adds what a file lacks and keeps the order of slots", () => {
  const fixed = normalise(file("txt2img.editor.json"), specs)
  const sampler = fixed.nodes.find((n) => n.type === "KSampler")!
  assert.deepEqual(
    sampler.inputs!.slice(0, 4).map((s) => s.name),
    ["model", "positive", "negative", "latent_image"],
  )
  assert.deepEqual(
    sampler.inputs!.slice(4).map((s) => s.widget?.name),
    ["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"],
  )
  const short = normalise(
    { nodes: [node(1, "EmptyLatentImage", { widgets_values: [64] })], links: [] } as any,
    specs,
  )
  assert.deepEqual(short.nodes[0].widgets_values, [64, 512, 1])
})

test("kinds of files are told apart", () => {
  assert.ok(isUiWorkflow(file("txt2img.editor.json")) && !isPrompt(file("txt2img.editor.json")))
  assert.ok(isPrompt(file("txt2img.json")) && !isUiWorkflow(file("txt2img.json")))
  for (const bad of [null, 3, "x", [], {}, { a: 1 }, { a: null }])
    assert.ok(!isPrompt(bad) && !isUiWorkflow(bad))
})

test("schemas of either version", () => {
  const { inputs } = parseObjectInfo({
    X: {
      input: {
        required: {
          a: ["COMBO", { options: ["p", "q"] }],
          b: [["r"]],
          c: ["INT", { min: 3 }],
          d: ["STRING", { forceInput: true }],
        },
      },
    },
  } as any).get("X")!
  assert.deepEqual(
    inputs.map((i) => [i.type, i.widget, defaultValue(i)]),
    [
      ["COMBO", true, "p"],
      ["COMBO", true, "r"],
      ["INT", true, 3],
      ["STRING", false, ""],
    ],
  )
  for (const spec of specs.values())
    for (const i of spec.inputs)
      assert.notEqual(defaultValue(i), undefined, `${spec.name}.${i.name}`)
})

test("types that fit", () => {
  assert.ok(
    compatible("IMAGE", "IMAGE") &&
      compatible("*", "VAE") &&
      compatible("IMAGE,MASK", "MASK") &&
      compatible("INT", "FLOAT,INT"),
  )
  assert.ok(!compatible("IMAGE", "MASK") && !compatible("MODEL", "MODELS"))
})

test("file names get the date and values of nodes, as graft run fills them in", () => {
  const now = new Date(2026, 2, 7, 4, 9, 5)
  for (const [format, want] of [
    ["yyyy-MM-dd", "2026-03-07"],
    ["yy.M.d", "26.3.7"],
    ["hhmmss", "040905"],
    ["h_m_s", "4_9_5"],
    ["yyyyMMddhhmmss", "20260307040905"],
    ["y yyy MMM ddd x", "y yyy MMM ddd x"],
    ["", ""],
  ])
    assert.equal(formatDate(format, now), want)
  const names: [string, string][] = [
    ["%date:yyyy-MM-dd%/x", "2026-03-07/x"],
    ["%My picture.width%_%EmptyImage.color%", "64_255"],
    ["%Search.height%", "64"],
    ["%Load Image.image%", "a.png"],
    ["%width%_%date:%_%Nobody.x%_5%", "%width%_%date:%_%Nobody.x%_5%"],
    ["100%%date:yy%", "100%26"],
    ["%SaveImage.images%", "%SaveImage.images%"],
    ["%Other.filename_prefix%", ".._a_b_"],
  ]
  for (const [prefix, want] of names) {
    const workflow = {
      nodes: [
        image(1, { title: "My picture", properties: { "Node name for S&R": "Search" } }),
        node(2, "SaveImage", {
          inputs: [input("images", "IMAGE", 7)],
          widgets_values: [prefix],
        }),
        node(3, "SaveImage", { title: "Other", widgets_values: ["../a:b?"] }),
        node(4, "LoadImage", { widgets_values: ["a.png", "image"] }), // its class's title
      ],
      links: [[7, 1, 0, 2, 0, "IMAGE"]],
    }
    const { prompt } = toPrompt(workflow as any, specs)
    fillFileNames(prompt, workflow as any, now)
    assert.equal(prompt["2"].inputs.filename_prefix, want)
  }
})
