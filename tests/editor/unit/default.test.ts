import assert from "node:assert/strict"
import { test } from "node:test"
import { defaultPrompt, needsCheckpoint } from "../../../host/editor/src/workflow/default"
import { parseObjectInfo } from "../../../host/editor/src/workflow/schema"

test("the first workflow has a checkpoint that needs no other files", () => {
  const withFiles = (...files: string[]) =>
    parseObjectInfo({
      CheckpointLoaderSimple: { input: { required: { ckpt_name: [files, {}] } }, output: [] },
    })
  const chosen = (files: string[], whole?: string) => {
    const prompt = defaultPrompt(withFiles(...files), whole)
    return [prompt[1].inputs.ckpt_name, prompt[4].inputs.width]
  }
  assert.deepEqual(chosen(["a.safetensors", "b.safetensors"], "b.safetensors"), ["b.safetensors", 512])
  assert.deepEqual(chosen(["a.safetensors", "b.safetensors"], ""), ["a.safetensors", 512])
  assert.deepEqual(chosen(["a.safetensors"], "gone.safetensors"), ["a.safetensors", 512])
  assert.deepEqual(chosen(["a.safetensors", "emoji-64.safetensors"], "a.safetensors"), [
    "emoji-64.safetensors",
    64,
  ])
  assert.equal(needsCheckpoint(withFiles("a.safetensors")), true)
  assert.equal(needsCheckpoint(withFiles("emoji-64.safetensors", "a.safetensors")), false)
  assert.equal(needsCheckpoint(withFiles()), false)
})
