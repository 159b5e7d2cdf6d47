// Work that is asked for more often than it is worth: at once where the last time is long enough
// ago, else once after that, however often it was asked for.
export class Paced {
  private timer?: ReturnType<typeof setTimeout>
  private last = -Infinity

  constructor(
    private readonly work: () => void,
    private readonly every: number, // ms
  ) {}

  ask() {
    if (this.timer) return
    const wait = this.last + this.every - performance.now()
    if (wait <= 0) return this.now()
    this.timer = setTimeout(() => this.now(), wait)
  }

  now() {
    clearTimeout(this.timer)
    this.timer = undefined
    this.last = performance.now()
    this.work()
  }
}
