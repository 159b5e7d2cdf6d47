// Steps back and forth through the states of the workflow. States are kept as text, so a step costs
// nothing until it is taken, and the same state is never kept twice in a row.

const LIMIT = 100

export class Undo {
  private states: string[] = []
  private at = -1

  // Notes the state after a change; true when it is a new one.
  note(state: string): boolean {
    if (this.states[this.at] === state) return false
    this.states.length = this.at + 1
    this.states.push(state)
    if (this.states.length > LIMIT) this.states.shift()
    this.at = this.states.length - 1
    return true
  }

  // Puts another text in place of the state that is shown: not everything is worth a step.
  amend(state: string) {
    if (this.at >= 0) this.states[this.at] = state
  }

  get canUndo(): boolean {
    return this.at > 0
  }
  get canRedo(): boolean {
    return this.at < this.states.length - 1
  }
  undo(): string | null {
    return this.canUndo ? this.states[--this.at] : null
  }
  redo(): string | null {
    return this.canRedo ? this.states[++this.at] : null
  }
}
