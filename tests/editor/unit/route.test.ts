// Ways of links around nodes.
import assert from "node:assert/strict"
import { test } from "node:test"
import { Router, runsBelow, type Box, type Point } from "../../../host/editor/src/workflow/route"

const column = (x: number, ...spans: [number, number][]): Box[] =>
  spans.map(([top, bottom]) => [x, top, x + 100, bottom])
const outOf = ([, top, right]: Box): Point => [right - 9, top + 40]
const into = ([left, top]: Box): Point => [left + 10, top + 40]

// Lines of a way that lie on one of the boxes, but for the ends, which are on their own.
function covered(way: Point[], boxes: Box[], own: Box[]): number {
  let count = 0
  for (let i = 1; i < way.length; i++) {
    const [p, q] = [way[i - 1], way[i]]
    const first = i === 1 || i === way.length - 1
    for (const box of boxes) {
      if (first && own.includes(box)) continue
      const [left, right] = [Math.min(p[0], q[0]), Math.max(p[0], q[0])]
      const [top, bottom] = [Math.min(p[1], q[1]), Math.max(p[1], q[1])]
      if (right > box[0] && left < box[2] && bottom > box[1] && top < box[3]) count++
    }
  }
  return count
}
const isSquare = (way: Point[]) =>
  way.slice(1).every((q, i) => q[0] === way[i][0] || q[1] === way[i][1])

test("a curve runs below what lies on it, and below nothing else", () => {
  const [a, between, b] = [...column(0, [0, 80]), ...column(200, [0, 200]), ...column(400, [0, 80])]
  assert.ok(runsBelow(outOf(a), into(b), [between]))
  assert.ok(!runsBelow(outOf(a), into(b), [[200, 120, 300, 200]]))
})

test("the way goes over the node between two others, and one link keeps clear of the next", () => {
  const boxes = [...column(0, [0, 80]), ...column(200, [0, 200]), ...column(400, [0, 80])]
  const router = new Router(boxes)
  const [a, b] = [outOf(boxes[0]), into(boxes[2])]
  const first = router.route(a, b, "1 0")!
  assert.equal(covered(first, boxes, [boxes[0], boxes[2]]), 0)
  assert.deepEqual([first[0], first.at(-1)], [a, b])
  assert.ok(first[2][1] < 0, "above")
  const level = (way: Point[]) => way[2][1]
  const again = new Router(boxes).route(a, b, "1 0")!
  assert.deepEqual(again, first, "the same every time")
  const low: Point = [a[0], a[1] + 20]
  const second = router.route(low, [b[0], b[1] + 20], "1 1")!
  assert.ok(Math.abs(level(second) - level(first)) >= 8)
  const shared = router.route(a, [b[0], b[1] + 20], "1 0")!
  assert.equal(level(shared), level(first), "links of one output share their way")
})

test("a link that goes back runs in the gap between its two nodes", () => {
  const boxes: Box[] = [
    [0, 0, 100, 80],
    [0, 120, 100, 200],
  ]
  const way = new Router(boxes).route(outOf(boxes[0]), into(boxes[1]), "1 0")!
  assert.equal(way[2][1], 100)
  assert.equal(covered(way, boxes, boxes), 0)
})

test("links stand further apart where there is room, and closer before they run below a node", () => {
  const spans = Array.from({ length: 7 }, (_, i): [number, number] => [i * 120, i * 120 + 90])
  const boxes = [...column(0, ...spans), ...column(148, [0, 300], [330, 420])]
  const [upper, lower] = boxes.slice(-2)
  const router = new Router(boxes)
  const uprights: [x: number, top: number, bottom: number][] = []
  const add = (way: Point[]) =>
    way.slice(1).forEach(([x, y], i) => {
      const [before, from] = way[i]
      if (x === before && y !== from) uprights.push([x, Math.min(y, from), Math.max(y, from)])
    })
  spans.forEach((_, i) => {
    const way = router.route(outOf(boxes[i]), [upper[0] + 10, 40 + 20 * i], `${i}`)
    assert.ok(way, `link ${i}`)
    assert.equal(covered(way, boxes, [boxes[i], upper]), 0)
    add(way)
  })
  assert.equal(Math.abs(uprights[1][0] - uprights[0][0]), 12)
  const back = router.route(outOf(upper), into(lower), "back")
  assert.ok(back, "from the second column's first to its second")
  assert.equal(covered(back, boxes, [upper, lower]), 0)
  add(back)
  for (const [i, [x, top, bottom]] of uprights.entries())
    for (const [other, from, to] of uprights.slice(0, i))
      assert.ok(from >= bottom || to <= top || Math.abs(x - other) >= 4, `${x} ${other}`)
})

test("whatever the nodes: lines are level or upright, and on no node", () => {
  let state = 11
  const random = (below: number) => (state = (state * 16807) % 2147483647) % below
  let found = 0
  for (let round = 0; round < 400; round++) {
    const boxes: Box[] = []
    for (let x = 0; x < 1 + random(6); x++)
      for (let y = 0, top = random(60); y < 1 + random(4); y++) {
        const height = 50 + random(200)
        const left = x * 280 + random(30)
        boxes.push([left, top, left + 120 + random(100), top + height])
        top += height + 30 + random(40)
      }
    const router = new Router(boxes)
    for (let link = 0; link < 5; link++) {
      const [from, to] = [boxes[random(boxes.length)], boxes[random(boxes.length)]]
      if (from === to) continue
      const way = router.route(outOf(from), into(to), `${link}`)
      if (!way) continue
      found++
      assert.ok(isSquare(way), JSON.stringify(way))
      assert.equal(covered(way, boxes, [from, to]), 0, JSON.stringify([way, boxes]))
    }
  }
  assert.ok(found > 1000, `${found} ways`)
})
