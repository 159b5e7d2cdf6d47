// What nodes showed before the page was loaded: the last run of their workflow is in the history.
import type { HistoryEntry } from "../server/api"
import type { Editor } from "../canvas/graph"

// The newest of the runs, which are newest first, whose nodes are those on the canvas.
export function lastRun(
  editor: Editor,
  entries: [string, HistoryEntry][],
): [string, HistoryEntry] | undefined {
  const classes = (prompt: Record<string, { class_type: string }>) =>
    Object.entries(prompt)
      .map(([id, node]) => `${id} ${node.class_type}`)
      .sort()
      .join()
  const own = classes(editor.toPrompt().prompt)
  return entries.find(
    ([, { prompt, outputs }]) =>
      Object.keys(outputs ?? {}).length > 0 && classes(prompt?.[2] ?? {}) === own,
  )
}
