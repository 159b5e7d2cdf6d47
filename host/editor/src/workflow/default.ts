// What a newcomer sees first: text to picture with the demo checkpoint.
import type { Prompt } from "./convert"
import type { Specs } from "./schema"

const DEMO: Prompt = {
  "1": {
    class_type: "CheckpointLoaderSimple",
    inputs: { ckpt_name: "emoji-64.safetensors" },
    _meta: { title: "Checkpoint" },
  },
  "2": {
    class_type: "CLIPTextEncode",
    inputs: { text: "red apple, 3d", clip: ["1", 1] },
    _meta: { title: "Prompt" },
  },
  "3": {
    class_type: "CLIPTextEncode",
    inputs: { text: "", clip: ["1", 1] },
    _meta: { title: "Negative prompt" },
  },
  "4": {
    class_type: "EmptyLatentImage",
    inputs: { width: 64, height: 64, batch_size: 1 },
    _meta: { title: "Size" },
  },
  "5": {
    class_type: "KSampler",
    inputs: {
      seed: 1,
      steps: 20,
      cfg: 4,
      sampler_name: "ddim",
      scheduler: "ddim_uniform",
      denoise: 1,
      model: ["1", 0],
      positive: ["2", 0],
      negative: ["3", 0],
      latent_image: ["4", 0],
    },
    _meta: { title: "Sampler" },
  },
  "6": {
    class_type: "VAEDecode",
    inputs: { samples: ["5", 0], vae: ["1", 2] },
    _meta: { title: "Decode" },
  },
  "7": {
    class_type: "SaveImage",
    inputs: { filename_prefix: "picture", images: ["6", 0] },
    _meta: { title: "Picture" },
  },
}

const OWN = "emoji-64.safetensors"

const checkpoints = (specs: Specs) =>
  specs.get("CheckpointLoaderSimple")?.inputs.find((i) => i.name === "ckpt_name")?.choices ?? []

// Whether another checkpoint has to take the place of the demo's.
export const needsCheckpoint = (specs: Specs): boolean =>
  checkpoints(specs).length > 0 && !checkpoints(specs).includes(OWN)

// The demo; when its checkpoint is not there with another, at a usual size: `whole`, which needs no
// other files, or else the server's first.
export function defaultPrompt(specs: Specs, whole = ""): Prompt {
  const prompt = structuredClone(DEMO)
  const choices = checkpoints(specs)
  if (needsCheckpoint(specs)) {
    const chosen = choices.includes(whole) ? whole : choices[0]
    prompt["1"].inputs.ckpt_name = chosen
    if (chosen !== "emoji-32.safetensors")
      Object.assign(prompt["4"].inputs, { width: 512, height: 512 })
  }
  return prompt
}

// Where the demo's nodes stand, and how large they are.
const PLACES: Record<number, [number, number, number, number]> = {
  1: [0, 60, 290, 100],
  4: [0, 230, 290, 110],
  2: [330, 60, 300, 150],
  3: [330, 270, 300, 150],
  5: [690, 60, 260, 270],
  6: [990, 60, 280, 50],
  7: [990, 170, 280, 330],
}

// In a narrow window, in two rows.
const NARROW: typeof PLACES = {
  ...PLACES,
  5: [0, 530, 290, 270],
  6: [330, 530, 300, 50],
  7: [330, 640, 300, 330],
}

export function placeDemo(
  nodes: {
    id: string | number
    pos: ArrayLike<number>
    setSize(size: [number, number]): void
    computeSize(): ArrayLike<number>
  }[],
  narrow = false,
) {
  for (const node of nodes) {
    const place = (narrow ? NARROW : PLACES)[Number(node.id)]
    if (!place) continue
    node.pos = [place[0], place[1]]
    const least = node.computeSize()
    node.setSize([Math.max(place[2], least[0]), Math.max(place[3], least[1])])
  }
}
