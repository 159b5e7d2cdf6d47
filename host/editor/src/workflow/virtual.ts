// Nodes that only an editor knows, and what they do there: host/prompt/virtual.def says it, for
// `graft run`, too.
import list from "../../../prompt/virtual.def"

export type Role = "silent" | "pass" | "first" | "value" | "set" | "get"

export const ROLES: ReadonlyMap<string, Role> = new Map(
  [...list.matchAll(/^VIRTUAL\("(.*)", (\w+)\)$/gm)].map(([, name, role]) => [
    name,
    role.toLowerCase() as Role,
  ]),
)

// How a node is that does not run: as if it were not there, or as if its input went straight on.
export const MUTED = 2
export const BYPASSED = 4
