// What tests of workflows are given: the nodes of the mock server, and cases.
import { readFileSync } from "node:fs"
import { parseObjectInfo } from "../../../host/editor/src/workflow/schema"

export const source = process.env.GRAFT_SOURCE_DIR!
export const info = JSON.parse(readFileSync(`${source}/tests/editor/mock/object_info.json`, "utf8"))
export const specs = parseObjectInfo(info)
// That tests/host/elsewhere.c has, too.
export const cases = (name: string): { name: string; graph: any; want: any }[] =>
  JSON.parse(readFileSync(`${source}/tests/host/elsewhere/${name}.json`, "utf8"))
// Without titles.
export const bare = (prompt: any) =>
  Object.fromEntries(
    Object.entries<any>(prompt).map(([id, n]) => [
      id,
      { class_type: n.class_type, inputs: n.inputs },
    ]),
  )
