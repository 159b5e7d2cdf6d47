// What strokes make of a mask.
import assert from "node:assert/strict"
import { test } from "node:test"
import { Mask } from "../../../host/editor/src/page/brush"
import { Near } from "../../../host/editor/src/page/near"
import { orientationOf } from "../../../host/editor/src/page/turned"
import { fileOf, isElsewhere, nameOf } from "../../../host/editor/src/canvas/chosen"

const at = (mask: Mask, x: number, y: number) => mask.values[y * mask.width + x]
const sum = (mask: Mask) => mask.values.reduce((all, value) => all + value, 0) / 255
const dot = (mask: Mask, x: number, y: number, radius: number, erase = false) => {
  const area = mask.line({ x, y }, { x, y }, radius, erase)
  mask.settle()
  return area
}

test("a dot is a disc of the brush's size, with an edge of one pixel", () => {
  const mask = new Mask(40, 30)
  const area = dot(mask, 20, 15, 6)
  assert.deepEqual(area, { left: 13, top: 8, right: 27, bottom: 22 })
  assert.equal(at(mask, 20, 15), 255)
  assert.equal(at(mask, 24, 15), 255)
  assert.equal(at(mask, 27, 15), 0)
  assert.ok(Math.abs(sum(mask) - Math.PI * 36) < 1, `${sum(mask)}`)
  const edge = at(mask, 24, 19)
  assert.ok(edge > 0 && edge < 255)
})

test("a line is as thick as the brush all along", () => {
  const mask = new Mask(100, 40)
  mask.line({ x: 20, y: 20 }, { x: 80, y: 20 }, 5)
  for (let x = 20; x < 80; x++) {
    assert.equal(at(mask, x, 16), 255)
    assert.equal(at(mask, x, 23), 255)
    assert.equal(at(mask, x, 13), 0)
    assert.equal(at(mask, x, 26), 0)
  }
  assert.ok(Math.abs(sum(mask) - (600 + Math.PI * 25)) < 1)
})

test("long lines are painted in pieces, which cannot be told", () => {
  const mask = new Mask(200, 120)
  mask.line({ x: 10, y: 12 }, { x: 190, y: 108 }, 2.5)
  assert.ok(Math.abs(sum(mask) - (5 * 204 + Math.PI * 6.25)) < 3, `${sum(mask)}`)
  mask.settle()
  mask.undo()
  assert.equal(sum(mask), 0)
})

test("painting twice adds nothing, erasing takes away", () => {
  const mask = new Mask(30, 30)
  dot(mask, 10, 10, 5)
  const once = mask.values.slice()
  dot(mask, 10, 10, 5)
  assert.deepEqual(mask.values, once)
  dot(mask, 10, 10, 7, true)
  assert.equal(sum(mask), 0)
})

test("beyond the picture's edges there is nothing to paint", () => {
  const mask = new Mask(20, 10)
  assert.deepEqual(dot(mask, 0, 0, 4), { left: 0, top: 0, right: 5, bottom: 5 })
  assert.equal(at(mask, 19, 0), 0)
  const before = sum(mask)
  dot(mask, -40, -40, 4)
  dot(mask, 400, 5, 4)
  assert.equal(sum(mask), before)
  assert.equal(mask.undo()?.right, 5)
  assert.equal(mask.canUndo, false)
})

test("the thinnest brush leaves a trace wherever it is put", () => {
  for (const shift of [0, 0.25, 0.5, 0.75]) {
    const mask = new Mask(9, 9)
    dot(mask, 4 + shift, 4 + shift, 0.5)
    assert.ok(sum(mask) > 0, `${shift}`)
  }
})

test("a mask goes on from the one it is given; invert and clear", () => {
  const mask = new Mask(4, 1, new Uint8Array([0, 100, 200, 255]))
  assert.equal(mask.isChanged, false)
  mask.invert()
  assert.deepEqual([...mask.values], [255, 155, 55, 0])
  mask.clear()
  assert.deepEqual([...mask.values], [0, 0, 0, 0])
  mask.undo()
  mask.undo()
  assert.deepEqual([...mask.values], [0, 100, 200, 255])
  assert.equal(mask.isChanged, false)
})

test("Undo and Redo go through strokes, each of which is one step", () => {
  const mask = new Mask(50, 50)
  const states = [mask.values.slice()]
  for (let i = 0; i < 4; i++) {
    mask.line({ x: 10, y: 10 * i + 5 }, { x: 25, y: 10 * i + 9 }, 7, i === 3)
    mask.line({ x: 25, y: 10 * i + 9 }, { x: 40, y: 10 * i + 5 }, 7, i === 3)
    mask.settle()
    states.push(mask.values.slice())
  }
  const steps = states.length - 1
  for (let i = steps - 1; i >= 0; i--) {
    assert.ok(mask.undo())
    assert.deepEqual(mask.values, states[i], `back to ${i}`)
  }
  assert.equal(mask.undo(), null)
  for (let i = 1; i <= steps; i++) {
    assert.ok(mask.redo())
    assert.deepEqual(mask.values, states[i], `on to ${i}`)
  }
  assert.equal(mask.redo(), null)
  mask.undo()
  dot(mask, 2, 48, 2)
  assert.equal(mask.canRedo, false)
})

test("what changes nothing is no step", () => {
  const mask = new Mask(20, 20)
  mask.clear()
  dot(mask, 10, 10, 3, true)
  assert.equal(mask.canUndo, false)
  assert.equal(mask.isChanged, false)
  mask.line({ x: 5, y: 5 }, { x: 6, y: 6 }, 2)
  assert.equal(mask.isChanged, true)
})

test("the names of files that a node loads", () => {
  const file = { filename: "b c.png", subfolder: "clipspace", type: "input" }
  assert.deepEqual(fileOf("clipspace/b c.png [input]", "output"), file)
  assert.equal(nameOf(file), "clipspace/b c.png [input]")
  assert.deepEqual(fileOf("a.png", "output"), {
    filename: "a.png",
    subfolder: "",
    type: "output",
  })
  assert.equal(nameOf(fileOf("a.png", "output")!), "a.png [output]")
  assert.equal(fileOf("", "input"), null)
  assert.deepEqual(["a.png", "x/a.png", "a.png [temp]", "a [b].png"].map(isElsewhere), [
    false,
    true,
    true,
    false,
  ])
})

test("which side of a photograph is up", () => {
  const photo = (little: boolean, value: number) => {
    const short = (n: number) => (little ? [n & 255, n >> 8] : [n >> 8, n & 255])
    const long = (n: number) => (little ? [...short(n), 0, 0] : [0, 0, ...short(n)])
    const order = little ? [0x49, 0x49] : [0x4d, 0x4d]
    const entry = [...short(0x0112), ...short(3), ...long(1), ...short(value), 0, 0]
    const other = [...short(0x010f), ...short(2), ...long(1), 65, 0, 0, 0]
    const tiff = [...order, ...short(42), ...long(8), ...short(2), ...other, ...entry, ...long(0)]
    const exif = [0x45, 0x78, 0x69, 0x66, 0, 0, ...tiff]
    const size = exif.length + 2
    return new Uint8Array([
      ...[0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2],
      ...[0xff, 0xe1, size >> 8, size & 255, ...exif],
      ...[0xff, 0xda],
    ])
  }
  for (let value = 1; value <= 8; value++) {
    assert.equal(orientationOf(photo(true, value)), value)
    assert.equal(orientationOf(photo(false, value)), value)
  }
  assert.equal(orientationOf(photo(true, 9)), 1)
  const whole = photo(false, 6)
  for (let n = 0; n < whole.length - 20; n++) assert.equal(orientationOf(whole.slice(0, n)), 1)
  assert.equal(orientationOf(new Uint8Array([0x89, 0x50, 0x4e, 0x47])), 1)
})

test("a soft edge falls from the middle outwards, within the brush's size", () => {
  const mask = new Mask(60, 60)
  mask.line({ x: 30, y: 30 }, { x: 30, y: 30 }, 20, false, 1)
  const row = Array.from({ length: 25 }, (_, i) => at(mask, 30 + i, 30))
  for (let i = 1; i < row.length; i++) assert.ok(row[i] <= row[i - 1], `${row}`)
  assert.ok(row[0] > 245 && Math.abs(row[10] - 128) < 8 && row[19] < 14, `${row}`)
  assert.equal(row[21], 0)
  // Half as soft: whole up to half of the radius.
  const half = new Mask(60, 60)
  half.line({ x: 30, y: 30 }, { x: 30, y: 30 }, 20, false, 0.5)
  assert.equal(at(half, 39, 30), 255)
  assert.ok(at(half, 45, 30) > 100 && at(half, 45, 30) < 156)
  // The eraser is as soft, and a stroke over it is not added up.
  half.line({ x: 30, y: 30 }, { x: 30, y: 30 }, 20, true, 0.5)
  half.line({ x: 30, y: 30 }, { x: 30, y: 30 }, 20, true, 0.5)
  assert.equal(at(half, 39, 30), 0)
  assert.ok(at(half, 45, 30) > 100 && at(half, 45, 30) < 156)
})

test("a stroke that was not meant leaves nothing, and no step", () => {
  const mask = new Mask(40, 40)
  dot(mask, 10, 10, 5)
  const before = mask.values.slice()
  const area = mask.line({ x: 12, y: 12 }, { x: 30, y: 20 }, 4)
  assert.notDeepEqual(mask.values, before)
  const dropped = mask.drop()!
  assert.ok(dropped.left <= area.left && dropped.right >= area.right)
  assert.deepEqual(mask.values, before)
  assert.equal(mask.drop(), null)
  mask.undo()
  assert.equal(sum(mask), 0)
  assert.ok(!mask.canUndo && mask.canRedo)
})

test("what is under the mouse stays there, and the picture in its room", () => {
  const near = new Near({ width: 1000, height: 500 })
  near.fit({ width: 500, height: 500 })
  assert.equal(near.scale, 0.5)
  assert.ok(near.isWhole)
  // Where a point of the picture, told from its middle, is seen.
  const seen = (x: number, y: number) => ({
    x: near.offset.x + x * near.scale,
    y: near.offset.y + y * near.scale,
  })
  assert.deepEqual(seen(100, 50), { x: 50, y: 25 })
  near.zoom(4, { x: 50, y: 25 })
  assert.equal(near.scale, 2)
  assert.deepEqual(seen(100, 50), { x: 50, y: 25 })
  near.move(-5000, 30)
  assert.equal(near.offset.x, -(2000 - 500) / 2)
  assert.equal(near.offset.y, -75 + 30)
  near.zoom(1e9, { x: 0, y: 0 })
  assert.equal(near.scale, 32)
  near.zoom(0, { x: 3, y: 4 })
  assert.deepEqual([near.scale, near.offset.x + 0, near.offset.y + 0], [0.5, 0, 0])
  // A small picture fills its room, and goes no nearer than that.
  const small = new Near({ width: 8, height: 8 })
  small.fit({ width: 800, height: 400 })
  small.zoom(2, { x: 1, y: 1 })
  assert.deepEqual([small.scale, small.isWhole], [50, true])
})
