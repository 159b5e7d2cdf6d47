// Workflows as files: those kept on the server, those that come with it, and those of the user's disk.
import * as api from "../server/api"
import { askText, askYes } from "../page/ask"
import { openBrowse, type Offer, type Shelf } from "../page/browse"
import { download, h, toast } from "../page/dom"
import type { Editor } from "../canvas/graph"
import { promptFile } from "../workflow/json"
import { confirmLoss } from "../page/loss"
import type { Steps } from "./steps"

const pretty = (data: unknown) => JSON.stringify(data, null, 2) + "\n"
const when = (seconds: number) =>
  new Date(1000 * seconds).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })

const LONGEST = 200 // bytes of one part of a name, below what file systems take

// What is wrong with a name, "" when nothing is. Slashes make folders.
export function problemOf(name: string): string {
  const parts = name.split("/")
  if (!name.trim()) return "It needs a name."
  if (parts.some((part) => !part.trim())) return "A folder needs a name, too."
  if (parts.some((part) => part.startsWith("."))) return "A name cannot begin with a dot."
  if (parts.some((part) => new TextEncoder().encode(part).length > LONGEST))
    return "The name is too long."
  return ""
}

// Runs something that loads a workflow, and says what went wrong.
export function open(load: () => string | Promise<string>) {
  Promise.resolve()
    .then(load)
    .then((note) => note && toast(note, "error"))
    .catch((error: Error) => toast(error.message, "error"))
}

export class Files {
  onName = () => {}

  constructor(
    private readonly editor: Editor,
    private readonly steps: Steps,
  ) {}

  // By Save: in its place on the server, which is asked for another workflow's.
  async save(name = this.editor.name) {
    const { editor } = this
    const problem = problemOf(name)
    if (problem) return toast(problem, "error")
    try {
      const text = pretty(editor.toWorkflow())
      const state = this.steps.now()
      if (!(await api.saveWorkflow(name, text, editor.file === name))) {
        const question = `There is another workflow “${name}” on the server.`
        if (!(await askYes("Replace it?", question, "Replace"))) return
        await api.saveWorkflow(name, text, true)
      }
      editor.file = editor.name = name
      this.onName()
      this.steps.saved(state)
      toast(`Saved on the server as “${name}”.`)
    } catch (error) {
      toast((error as Error).message, "error")
    }
  }

  async saveAs() {
    const name = await this.askName("Save as", "Save")
    if (name) await this.save(name)
  }
  async rename() {
    const name = await this.askName("Rename", "Rename")
    if (!name) return
    this.editor.name = name
    this.onName()
  }
  private async askName(title: string, go: string): Promise<string | null> {
    const { name } = this.editor
    return askText(title, { label: "Name of the workflow", value: name, go, problemOf })
  }

  private fileName(): string {
    return this.editor.name.replace(/[^\w.-]+/g, "-") || "workflow"
  }
  download = () => download(`${this.fileName()}.json`, pretty(this.editor.toWorkflow()))
  download1 = () => download(`${this.fileName()}.json`, pretty(this.editor.toWorkflow1()))
  downloadApi() {
    const { prompt, lost } = this.editor.toPrompt()
    const text = promptFile(prompt, (type, input) => this.isInteger(type, input))
    const go = () => download(`${this.fileName()}.api.json`, text)
    if (lost.length) confirmLoss(lost, go, this.download)
    else go()
  }
  // Of nodes that the server does not know a seed is all that can be guessed.
  private isInteger(type: string, input: string): boolean {
    const spec = this.editor.specs.get(type)
    if (!spec) return /seed/.test(input)
    return spec.inputs.some((known) => known.name === input && known.type === "INT")
  }

  pickFile() {
    const accept = ".json,.png,.webp,application/json,image/png,image/webp"
    const input = h("input", { type: "file", accept })
    input.onchange = () => input.files?.[0] && open(() => this.editor.loadFile(input.files![0]))
    input.click()
  }

  // What is on the server, to be chosen from.
  async browse() {
    const [saved, templates] = await Promise.all([api.savedWorkflows(), api.templates()]).catch(
      (error: Error) => {
        toast(error.message, "error")
        return [[], []] as [api.SavedFile[], api.TemplateGroup[]]
      },
    )
    if (document.querySelector("dialog[open]")) return // asked twice, or for something else meanwhile
    const shelves: Shelf[] = [
      {
        title: "Saved on the server",
        offers: saved.map((file) => this.savedOffer(file)),
        empty: "Nothing yet: Save keeps a workflow here.",
      },
      ...templates.map((group) => ({
        title: group.title,
        offers: group.workflows.map((template) => this.templateOffer(template)),
      })),
    ]
    openBrowse(shelves, () => this.pickFile())
  }

  private savedOffer({ name, modified }: api.SavedFile): Offer {
    const { editor } = this
    return {
      title: name,
      text: "",
      note: when(modified),
      open: () =>
        open(async () => {
          const note = editor.load(await api.readWorkflow(name), name)
          editor.file = name
          this.steps.hasOpened()
          return note
        }),
      remove: async () => {
        await api.deleteWorkflow(name)
        if (editor.file !== name) return
        editor.file = ""
        this.onName()
      },
    }
  }

  private templateOffer({ name, title, description, models }: api.Template): Offer {
    const wanting = (models ?? []).filter((model) => !this.has(model))
    return {
      title: title ?? name,
      text: description ?? "",
      file: name,
      note: wanting.length ? `needs ${wanting.join(", ")}` : "",
      wanting: wanting.length > 0,
      open: () => open(async () => this.editor.load(await api.template(name), title ?? name)),
    }
  }

  private has(file: string): boolean {
    for (const { inputs } of this.editor.specs.values())
      if (inputs.some(({ choices }) => choices?.includes(file))) return true
    return false
  }
}
