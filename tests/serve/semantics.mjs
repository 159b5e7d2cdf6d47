// What executing a prompt means: lazy inputs, undeclared ones, lists, blocked outputs, results that
// change. The nodes are those of tests/plugins/comfy_testnodes.c, joined to the real ones.
import fs from 'node:fs';
import path from 'node:path';
import { Socket, check, end, equal, folder, get, post, start } from './server.mjs';

const dir = folder();
const plugins = path.join(dir, 'plugins');
fs.mkdirSync(plugins);
for (const from of [process.env.GRAFT_PLUGINS, process.env.GRAFT_COMFY_PLUGINS])
  for (const f of fs.readdirSync(from).filter((x) => x.endsWith('.so'))) fs.symlinkSync(path.join(from, f), path.join(plugins, f));
const s = await start({ dir, plugins, args: ['--quiet'] });
const w = new Socket(s, '?clientId=one');
equal(await w.opened, 101, 'handshake');

const node = (class_type, inputs) => ({ class_type, inputs });
const image = (content, more = {}) => node('StubImage', { content, height: 8, width: 8, batch_size: 1, ...more });
const mask = (value) => node('StubMask', { value, height: 8, width: 8, batch_size: 1 });
const save = (from, slot = 0) => node('SaveImage', { images: [from, slot], filename_prefix: 'semantics' });
const show = (from) => node('TestOutputNodeWithSocketOutput', { image: [from, 0], value: 1 });

// {ran, cached, outputs, status, errors} of a prompt.
async function run(prompt, more = {}) {
  w.got.length = 0;
  const r = await post(s, '/prompt', { prompt, client_id: 'one', ...more });
  if (r.status !== 200) return { refused: r.json() };
  const id = r.json().prompt_id;
  check(await w.finished(id), 'the run ends');
  const of = (type) => w.got.filter((m) => m.type === type).map((m) => m.data);
  const entry = (await get(s, `/history/${id}`)).json()[id];
  return { ran: of('executing').map((d) => d.node).filter((x) => x !== null), cached: of('execution_cached')[0].nodes.sort(),
    outputs: entry.outputs, status: entry.status.status_str, errors: of('execution_error'), messages: entry.status.messages };
}
const sorted = (list) => [...list].sort();

async function lazy() {
  const graph = (value) => ({ 1: image('BLACK'), 2: image('WHITE'), 3: mask(value), 4: node('TestLazyMixImages',
    { image1: ['1', 0], image2: ['2', 0], mask: ['3', 0] }), 5: show('4') });
  let r = await run(graph(0));
  equal([sorted(r.ran), r.outputs[5].text], [['1', '3', '4', '5'], ['0.0000']], 'only the first picture is made');
  r = await run(graph(1));
  equal([sorted(r.ran).includes('1'), r.outputs[5].text], [false, ['1.0000']], 'only the second picture is made');
  r = await run(graph(0.25));
  equal([r.status, r.outputs[5].text], ['success', ['0.2500']], 'both are mixed');
}

async function undeclared() {
  const graph = { 1: image('BLACK'), 2: image('WHITE'), 3: image('WHITE', { batch_size: 1 }), 4: node('TestVariadicAverage',
    { input1: ['1', 0], input2: ['2', 0], input3: ['3', 0], input4: ['1', 0] }), 5: show('4') };
  let r = await run(graph);
  equal([r.status, r.outputs[5].text], ['success', ['0.5000']], 'four pictures, one of them declared');
  graph[4].inputs.input5 = ['2', 0];
  r = await run(graph);
  equal([r.ran, r.outputs[5].text], [['4', '5'], ['0.6000']], 'one more makes another result');
  graph[4].inputs.input6 = ['77', 0];
  r = await run(graph);
  equal(r.refused.node_errors['4'].errors.length, 1, 'their links are checked, too');
  graph[4].inputs.input6 = 'text';
  r = await run(graph);
  equal([r.status, r.errors[0].node_id], ['error', '4'], 'the node is told what it gets');
}

async function lists() {
  const graph = { 1: image('BLACK'), 2: image('WHITE'), 3: node('TestMakeListNode', { value1: ['1', 0], value2: ['2', 0], value3: ['1', 0] }),
    4: show('3'), 5: save('4') };
  const r = await run(graph);
  equal([r.status, r.outputs[4].text, r.outputs[5].images.length], ['success', ['0.0000', '1.0000', '0.0000'], 3], 'once for each element');
  equal(r.ran.filter((x) => x === '4').length, 1, 'as one node');
  const pair = { 1: node('TestMakeListNode', { value1: 3, value2: 4, value3: 5 }), 2: node('TestMakeListNode', { value1: 10, value2: 20 }),
    3: node('TestIntMathOperation', { a: ['1', 0], b: ['2', 0], operation: 'add' }), 4: node('StubConstantImage', { value: 1, height: ['3', 0], width: 8, batch_size: 1 }), 5: save('4') };
  const q = await run(pair);
  equal([q.status, q.outputs[5].images.length], ['success', 3], 'the shorter list repeats its last element');
}

async function blocked() {
  const graph = (block, verbose) => ({ 1: image('WHITE'), 2: node('TestExecutionBlocker', { input: ['1', 0], block, verbose }),
    3: save('2'), 4: show('1'), 5: show('2') });
  let r = await run(graph(false, false));
  equal([r.status, Object.keys(r.outputs)], ['success', ['3', '4', '5']].map((x) => x), 'not blocked');
  r = await run(graph(true, false));
  equal([r.status, Object.keys(r.outputs), r.errors.length], ['success', ['4'], 0], 'blocked silently');
  r = await run(graph(true, true));
  equal([r.status, Object.keys(r.outputs), sorted(r.errors.map((e) => e.node_id))], ['success', ['4'], ['3', '5']], 'blocked with a message');
  equal([r.errors[0].exception_type, r.errors[0].exception_message, r.errors[0].traceback], ['ExecutionBlocked', 'Blocked Execution\n', []], 'the event');
  equal(r.messages.at(-1)[0], 'execution_success', 'and the prompt succeeds');
  const chain = { ...graph(true, true), 1: image('WHITE', { width: 9 }), 6: node('TestVariadicAverage', { input1: ['2', 0] }), 7: show('6') };
  r = await run(chain);
  equal(sorted(r.errors.map((e) => e.node_id)), ['3', '5', '6'], 'what is behind a blocked node is blocked silently');
  const part = { 1: image('WHITE'), 2: node('TestMakeListNode', { value1: 1, value2: 2, value3: 3 }),
    3: node('TestIntConditions', { a: ['2', 0], b: 2, operation: '==' }), 4: node('TestExecutionBlocker', { input: ['1', 0], block: ['3', 0], verbose: false }), 5: show('4') };
  r = await run(part);
  equal([r.status, r.outputs[5].text.length], ['success', 2], 'one element of a list is blocked');
}

async function changing() {
  const graph = (should_change) => ({ 1: image('NOISE'), 2: node('TestCustomIsChanged', { image: ['1', 0], should_change }), 3: show('2') });
  await run(graph(false));
  equal((await run(graph(false))).ran, [], 'nothing changed');
  await run(graph(true));
  const r = await run(graph(true));
  equal([r.ran, r.cached], [['2', '3'], ['1']], 'never the same');
  const other = await run({ a: image('NOISE'), b: node('TestCustomIsChanged', { image: ['a', 0], should_change: false }), c: show('b') });
  equal(other.ran, ['b', 'c'], 'the first node is found under another id');
}

async function rest() {
  let r = await run({ 1: image('WHITE'), 2: node('TestSyncError', { value: ['1', 0] }), 3: save('2'), 4: show('1') });
  equal([r.status, r.errors[0].node_id, r.errors[0].exception_message], ['error', '2', 'Sync error from the test node\n'], 'an error');
  r = await run({ 1: image('WHITE'), 2: show('1'), 3: show('2'), 4: save('3') });
  equal([r.status, Object.keys(r.outputs)], ['success', ['2', '3', '4']], 'an output that feeds others');
  r = await run({ 1: image('WHITE'), 2: show('1'), 3: save('2'), 4: show('1') }, { partial_execution_targets: ['4'] });
  equal([r.status, Object.keys(r.outputs)], ['success', ['4']], 'only the outputs that are wanted');
  r = await run({ 1: node('TestVariadicAverage', { input1: ['2', 0] }), 2: node('TestVariadicAverage', { input1: ['1', 0] }), 3: save('1') });
  check(r.refused, 'a cycle is refused');
  // Two clients do not see each other's progress.
  const other = new Socket(s, '?clientId=two');
  await other.opened;
  await run({ 1: node('TestSleep', { value: ['2', 0], seconds: 0.1 }), 2: image('BLACK', { width: 9 }), 3: save('1') });
  check(!other.got.some((m) => m.type.startsWith('progress') || m.type.startsWith('execut')), 'only the owner sees progress');
  other.close();
}

for (const test of [lazy, undeclared, lists, blocked, changing, rest]) await test();
w.close();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
