// What executing a prompt means: lazy inputs, undeclared ones, lists, blocked outputs, results that
// change, nodes that expand into others, nodes that run at once. The nodes are those of
// tests/plugins, joined to the real ones.
import fs from 'node:fs';
import net from 'node:net';
import { Socket, check, end, ended, equal, get, post, sleep, timed, until } from './server.mjs';
import { image, mask, node, output, save, show, startNodes } from './testnodes.mjs';

const { s, w, run } = await startNodes();
const slow = Number(process.env.GRAFT_SLOW ?? 1); // how much slower this build is, e.g. sanitizers
const sorted = (list) => [...list].sort();

async function lazy() {
  const graph = (value) => ({ 1: image('BLACK'), 2: image('WHITE'), 3: mask(value), 4: node('TestLazyMixImages',
    { image1: ['1', 0], image2: ['2', 0], mask: ['3', 0] }), 5: show('4') });
  let r = await run(graph(0));
  equal([sorted(r.ran), r.outputs[5].text], [['1', '3', '4', '4', '5'], ['0.0000']], 'only the first picture is made; the node is asked, and runs');
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
  equal([r.ran, r.outputs[5].text], [[], ['0.6000']], 'literals that nobody declares are not there');
  graph[4].inputs = { input1: ['1', 0], input3: ['2', 0], input4: ['2', 0], input2: ['2', 0], input6: ['1', 0] };
  r = await run(graph);
  equal(r.outputs[5].text, ['0.7500'], 'by number, up to the first that is missing');
}

async function lists() {
  const graph = { 1: image('BLACK'), 2: image('WHITE'), 3: node('TestMakeListNode', { value1: ['1', 0], value2: ['2', 0], value3: ['1', 0] }),
    4: show('3'), 5: save('4') };
  const r = await run(graph);
  equal([r.status, r.outputs[4].text, r.outputs[5].images.length], ['success', ['0.0000', '1.0000', '0.0000'], 3], 'once for each element');
  equal(r.ran.filter((x) => x === '4').length, 1, 'as one node');
  const rebatched = await run({ 1: image('BLACK', { batch_size: 3 }), 2: image('WHITE', { batch_size: 2 }), 3: node('TestMakeListNode', { value1: ['1', 0], value2: ['2', 0] }),
    4: node('RebatchImages', { images: ['3', 0], batch_size: 4 }), 5: show('4'), 6: save('4') });
  equal([rebatched.outputs[5].text, rebatched.outputs[6].images.length], [['0.2500', '1.0000'], 5], 'five pictures in fours');
  const latents = await run({ 1: node('EmptyLatentImage', { width: 16, height: 16, batch_size: 5 }), 2: node('RebatchLatents', { latents: ['1', 0], batch_size: 2 }),
    3: node('LatentFromBatch', { samples: ['2', 0], batch_index: 0, length: 1 }), 4: node('RebatchLatents', { latents: ['3', 0], batch_size: 2 }),
    5: node('SaveLatent', { samples: ['4', 0], filename_prefix: 'semantics' }) });
  equal([latents.status, latents.outputs[5].latents.length], ['success', 2], 'five samples in twos, the first of each in twos again');
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
  const { prompt_id, executed, ...event } = r.errors.find((e) => e.node_id === '3');
  equal(event, { node_id: '3', node_type: 'SaveImage', exception_message: 'Execution Blocked: Blocked Execution', exception_type: 'ExecutionBlocked',
    traceback: [], current_inputs: [], current_outputs: [] }, 'the event');
  check(prompt_id && Array.isArray(executed), 'with the prompt and what had run');
  equal(r.messages.map((m) => m[0]), ['execution_start', 'execution_cached', 'execution_success'], 'which the history does not keep: the prompt succeeds');
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
  r = await run({ 1: image('WHITE'), 2: output('1'), 3: show('2'), 4: save('2') });
  equal([r.status, Object.keys(r.outputs)], ['success', ['3', '4']], 'an output that feeds others, and shows nothing');
  equal((await run({ 1: image('WHITE', { width: 11 }), 2: output('1') })).ran, ['1', '2'], 'is run for its own sake');
  r = await run({ 1: image('WHITE'), 2: output('1'), 3: save('2'), 4: show('1') }, { partial_execution_targets: ['4'] });
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

async function accumulating() {
  const graph = (index) => ({ 1: image('BLACK'), 2: image('WHITE'), 3: node('TestAccumulateNode', { to_add: ['1', 0] }),
    4: node('TestAccumulateNode', { to_add: ['2', 0], accumulation: ['3', 0] }), 5: node('TestAccumulationToListNode', { accumulation: ['4', 0] }), 6: show('5'),
    7: node('TestAccumulationGetItemNode', { accumulation: ['4', 0], index }), 8: show('7') });
  let r = await run(graph(1));
  equal([r.outputs[6].text, r.outputs[8].text], [['0.0000', '1.0000'], ['1.0000']], 'values one by one, as a list and singly');
  r = await run(graph(2));
  equal([r.status, r.errors[0].node_id], ['error', '7'], 'no third one');
  r = await run({ 1: node('TestMakeListNode', { value1: ['2', 0], value2: ['3', 0] }), 2: image('BLACK'), 3: image('WHITE'),
    4: node('TestListToAccumulationNode', { list: ['1', 0] }), 5: node('TestAccumulationTailNode', { accumulation: ['4', 0] }), 6: show('5', 1),
    7: node('TestAccumulationHeadNode', { accumulation: ['4', 0] }), 8: show('7', 1),
    9: node('TestAccumulationSetItemNode', { accumulation: ['4', 0], index: 0, value: ['3', 0] }), 10: node('TestAccumulationToListNode', { accumulation: ['9', 0] }), 11: show('10') });
  equal([r.outputs[6].text, r.outputs[8].text, r.outputs[11].text], [['1.0000'], ['0.0000'], ['1.0000', '1.0000']], 'ends, and one replaced');
}

async function expansion() {
  const graph = (input1) => ({ 1: node('TestMixedExpansionReturns', { input1 }), 2: show('1', 0), 3: show('1', 1) });
  for (const [v, text] of [[0.05, '0.1000'], [0.15, '0.2000'], [0.5, '0.3000']]) {
    const r = await run(graph(v));
    equal([r.status, r.outputs[2].text, r.outputs[3].text], ['success', [text], ['1.0000']], `values and nodes: ${v}`);
    if (v < 0.5) continue;
    check(r.ran.includes('1.0.0.mix') && r.ran.includes('1.0.0.mask'), `nodes by their parent: ${r.ran}`);
    const shown = w.got.filter((m) => m.type === 'executing' && m.data.node?.startsWith('1.0')).map((m) => m.data.display_node);
    equal([shown.length, ...new Set(shown)], [5, '1'], 'shown under their parent, the mixture also when it is asked');
    const state = w.got.filter((m) => m.type === 'progress_state').at(-1).data.nodes['1.0.0.mix'];
    equal([state.display_node_id, state.parent_node_id, state.real_node_id, state.state], ['1', '1', '1', 'finished'], 'in the progress, too');
  }
  const r = await run(graph(0.5));
  equal([r.ran, r.cached], [[], ['1', '2', '3']], 'all of it is kept');
  await run({ 1: show('2'), 2: image('WHITE', { width: 7 }) }); // nothing of it is kept
  const both = await run({ 1: node('TestMakeListNode', { value1: 0.5, value2: 0.05, value3: 0.6 }), 2: node('TestMixedExpansionReturns', { input1: ['1', 0] }), 3: show('2') });
  equal(both.outputs[3].text, ['0.3000', '0.1000', '0.3000'], 'once for each element, in order');
  check(both.ran.includes('2.0.0.mix') && both.ran.includes('2.2.0.mix') && !both.ran.includes('2.1.0.mix'), 'by the number of the call');
  const kept = await run({ 1: node('TestMakeListNode', { value1: 0.5, value2: 0.15, value3: 0.6 }), 2: node('TestMixedExpansionReturns', { input1: ['1', 0] }), 3: show('2') });
  equal([kept.outputs[3].text, kept.ran], [['0.3000', '0.2000', '0.3000'], ['1', '2', '3']], 'what it expands into is kept as well');
  const cycle = await run({ 1: image('BLACK'), 2: image('WHITE'), 3: node('TestDynamicDependencyCycle', { input1: ['1', 0], input2: ['2', 0] }), 4: show('3'), 5: show('1') });
  equal([cycle.status, cycle.errors[0].node_id, cycle.errors[0].node_type], ['error', '3', 'TestDynamicDependencyCycle'], 'a cycle');
  check(/cycle/.test(cycle.errors[0].exception_message), cycle.errors[0].exception_message);
}

async function loops() {
  // Four rounds of: mean of what there is and white.
  const graph = (remaining, body) => ({ 1: image('BLACK'), 2: image('WHITE'), open: node('TestForLoopOpen', { remaining, initial_value1: ['1', 0] }),
    mean: node('TestVariadicAverage', { input1: ['open', 2], input2: [body, 0] }), close: node('TestForLoopClose', { flow_control: ['open', 0], initial_value1: ['mean', 0] }), 9: show('close') });
  let r = await run(graph(4, '2'));
  equal([r.status, r.outputs[9].text], ['success', ['0.9375']], 'four rounds');
  const means = w.got.filter((m) => m.type === 'executing' && m.data.display_node === 'mean');
  equal(means.length, 4, 'each round is shown at the nodes of the prompt');
  r = await run(graph(4, '2'));
  equal(r.ran, [], 'kept');
  r = await run(graph(6, '2'));
  equal(r.outputs[9].text, ['0.9844'], 'six rounds');
  r = await run({ ...graph(30, '2'), 9: node('PreviewImage', { images: ['close', 0] }) });
  equal([r.status, r.outputs[9].images.length], ['success', 1], 'thirty');
  const fails = await run({ ...graph(3, 'bad'), bad: node('TestSyncError', { value: ['open', 2] }) });
  equal([fails.status, fails.errors[0].node_id], ['error', 'bad'], 'a failure in the first round');
  // An outer loop of three around an inner loop of two: six halvings.
  r = await run({ 1: image('BLACK', { width: 9 }), 2: image('WHITE', { width: 9 }), o: node('TestForLoopOpen', { remaining: 3, initial_value1: ['1', 0] }),
    i: node('TestForLoopOpen', { remaining: 2, initial_value1: ['o', 2] }), m: node('TestVariadicAverage', { input1: ['i', 2], input2: ['2', 0] }),
    ic: node('TestForLoopClose', { flow_control: ['i', 0], initial_value1: ['m', 0] }), oc: node('TestForLoopClose', { flow_control: ['o', 0], initial_value1: ['ic', 0] }), 9: show('oc') });
  equal([r.status, r.outputs[9]?.text], ['success', ['0.9844']], 'a loop in a loop');
  // While: double until it is more than 100.
  r = await run({ o: node('TestWhileLoopOpen', { condition: true, initial_value0: 3 }), d: node('TestIntMathOperation', { a: ['o', 1], b: 2, operation: 'multiply' }),
    c: node('TestIntConditions', { a: ['d', 0], b: 100, operation: '<' }), e: node('TestWhileLoopClose', { flow_control: ['o', 0], condition: ['c', 0], initial_value0: ['d', 0] }),
    s: node('StubConstantImage', { value: 1, height: ['e', 0], width: 8, batch_size: 1 }), 9: node('PreviewImage', { images: ['s', 0] }) });
  equal([r.status, r.outputs[9].images.length], ['success', 1], 'a while loop');
}

async function sampling() {
  // OpenMP's threads are not known to ThreadSanitizer, which drowns the engine in warnings.
  if (process.env.GRAFT_SANITIZE === 'thread') return console.log('skipped: sampling, which ThreadSanitizer slows down too much');
  const load = node('CheckpointLoaderSimple', { ckpt_name: 'emoji-64.safetensors' });
  const graph = (seed) => ({ 1: load, 2: node('TestSamplingInExpansion', { model: ['1', 0], clip: ['1', 1], vae: ['1', 2], seed, steps: 2, cfg: 4,
    prompt: 'red apple', negative_prompt: '' }), 3: save('2') });
  let r = await run(graph(2 ** 53 - 1));
  equal([r.status, r.outputs[3]?.images.length], ['success', 1], 'a picture');
  const steps = w.got.filter((m) => m.type === 'progress_state').at(-1).data.nodes['2.0.0.sample'];
  equal([steps.value, steps.max, steps.display_node_id], [2, 2, '2'], 'its steps');
  // Previews are thinned out, but clients go on showing the last one.
  const last = w.got.findIndex((m) => m.type === 'progress' && m.data.node === '2.0.0.sample' && m.data.value === 2);
  check(last >= 0 && w.got.slice(last).some(Buffer.isBuffer), 'a preview of the last step');
  r = await run(graph(7));
  equal([r.status, sorted(r.ran)], ['success', ['2', '2.0.0.decode', '2.0.0.sample', '3']], 'another seed: what does not depend on it is kept');
  return undefined;
}

async function together() {
  const running = (ids) => w.got.some((m) => m.type === 'progress_state' && ids.every((id) => m.data.nodes[id]?.state === 'running'));
  const graph = (width) => ({ 1: image('BLACK', { width }), 2: image('WHITE', { width }), 3: node('TestParallelSleep', { image1: ['1', 0], image2: ['2', 0], image3: ['1', 0],
    sleep1: 0.5, sleep2: 0.5, sleep3: 0.5 }), 4: show('3') });
  let r = await run(graph(8));
  equal([r.status, r.outputs[4].text], ['success', ['0.3333']], 'three sleep and are joined');
  check(running(['3.0.0.sleep1', '3.0.0.sleep2', '3.0.0.sleep3']), 'at once');
  const steps = new Set(w.got.filter((m) => m.type === 'progress').map((m) => m.data.node));
  equal(sorted(steps), ['3.0.0.sleep1', '3.0.0.sleep2', '3.0.0.sleep3'], 'each shows its own progress');
  r = await run({ 1: image('BLACK'), 2: node('TestDynamicAsyncGeneration', { image1: ['1', 0], image2: ['1', 0], num_async_nodes: 8, sleep_duration: 0.3 }), 3: show('2') });
  equal([r.status, running([1, 2, 3, 4, 5, 6, 7, 8].map((i) => `2.0.0.sleep${i}`))], ['success', true], 'eight, made by one that runs beside others itself');
  // One fails, the other is ended; a failed prompt leaves nothing behind.
  let ms = await timed(s, async () => { r = await run({ 1: image('BLACK'), 2: node('TestAsyncError', { value: ['1', 0], error_after: 0.1 }), 3: node('TestSleep', { value: ['1', 0], seconds: 30 }), 4: show('2'), 5: show('3'), 6: show('1') }); });
  equal([r.status, r.errors[0].node_id, Object.keys(r.outputs)], ['error', '2', ['6']], 'one of them fails');
  check(ms < 5000 * slow, 'and nobody waits for the other');
  r = await run({ 1: image('BLACK'), 2: node('TestAsyncTimeout', { value: ['1', 0], timeout: 0.1, operation_time: 0.5 }), 3: show('2') });
  equal(r.errors[0].exception_message, 'Operation timed out after 0.1 seconds\n', 'a time-out');
  r = await run({ 1: node('TestAsyncValidation', { value: 12, threshold: 10 }), 2: show('1') });
  equal(r.refused.node_errors['1'].errors[0].details, 'value - Value 12 exceeds 10', 'checked before it runs');
  r = await run({ 1: image('BLACK'), 2: node('TestAsyncLazyCheck', { input1: ['1', 0], input2: ['3', 0], condition: true }), 3: node('TestSyncError', { value: ['1', 0] }), 4: show('2') });
  equal([r.status, r.outputs[4].text], ['success', ['1.0000']], 'lazy inputs');
  // The calls of one over a list start together; blocked elements are passed over.
  const list = (seconds, block) => ({ 1: image('WHITE', { width: 12 }), 2: node('TestMakeListNode', { value1: 1, value2: 2, value3: 3, value4: 4, value5: 5, value6: 6 }),
    3: node('TestIntConditions', { a: ['2', 0], b: block, operation: '==' }), 4: node('TestExecutionBlocker', { input: ['1', 0], block: ['3', 0], verbose: false }),
    5: node('TestSleep', { value: ['4', 0], seconds }), 6: show('5') });
  for (const [block, left] of [[0, 6], [3, 5]]) {
    ms = await timed(s, async () => { r = await run(list(1, block)); });
    const at = Object.fromEntries(r.messages.map(([name, data]) => [name, data.timestamp]));
    equal([r.status, r.outputs[6].text.length], ['success', left], 'as many as were not blocked');
    check(Math.min(ms, at.execution_success - at.execution_start) < 3500 * slow, 'six of a second each take less than six');
  }
  // An interrupt ends all of them.
  w.got.length = 0;
  const id = (await post(s, '/prompt', { client_id: 'one', prompt: { 1: image('BLACK', { width: 10 }), 2: node('TestSleep', { value: ['1', 0], seconds: 30 }),
    3: node('TestSleep', { value: ['1', 0], seconds: 31 }), 4: show('2'), 5: show('3'), ...Object.fromEntries(Object.entries(list(32, 3)).map(([k, v]) => [`1${k}`,
      { ...v, inputs: Object.fromEntries(Object.entries(v.inputs).map(([n, x]) => [n, Array.isArray(x) ? [`1${x[0]}`, x[1]] : x])) }])) } })).json().prompt_id;
  await w.until((m) => m.type === 'progress' && m.data.node === '3');
  check(await w.until((m) => m.type === 'progress' && m.data.node === '15'), 'the list waits, too');
  await post(s, '/interrupt', { prompt_id: id });
  check(await w.finished(id), 'interrupted');
  equal((await get(s, `/history/${id}`)).json()[id].status.messages.at(-1)[0], 'execution_interrupted', 'and said so');
}

// Which faults are found, and how they are told.
async function faults() {
  const save = (images, more) => ({ ...more, 2: node('SaveImage', { images, filename_prefix: 'x' }) });
  for (const [what, prompt, id, type, details] of [
    ['a link to nobody', save(['9', 0]), '2', 'exception_during_validation', "'9'"],
    ['an inner one', save(['1', 0], { 1: node('TestVariadicAverage', { input1: ['9', 0] }) }), '1', 'exception_during_inner_validation', "'9'"],
    ['no such slot', save(['1', 7], { 1: image('WHITE') }), '2', 'exception_during_validation', 'tuple index out of range'],
    ['no slot', save(['1', -1], { 1: image('WHITE') }), '2', 'exception_during_validation', 'tuple index out of range'],
    ['another type', save(['1', 0], { 1: node('StubInt', { value: 1 }) }), '2', 'return_type_mismatch', 'images, received_type(INT) mismatch input_type(IMAGE)'],
    ['a circle', save(['1', 0], { 1: node('TestVariadicAverage', { input1: ['1', 0] }) }), '1', 'dependency_cycle', '1 (TestVariadicAverage) -> 1 (TestVariadicAverage)'],
    ['not in the list', save(['1', 0], { 1: image('RED') }), '1', 'value_not_in_list', "content: 'RED' not in ['WHITE', 'BLACK', 'NOISE']"],
    ['three numbers', save(['1', 0], { 1: image('WHITE', { width: [1, 2, 3] }) }), '1', 'bad_linked_input', 'width'],
    ['an object', save(['1', 0], { 1: image('WHITE', { width: { a: [1, null, true, 0.5, "it's"] } }) }), '1', 'invalid_input_type',
      "width, {'a': [1, None, True, 0.5, \"it's\"]}, int() argument must be a string, a bytes-like object or a real number, not 'dict'"],
    ['null', save(['1', 0], { 1: image('WHITE', { width: null }) }), '1', 'invalid_input_type',
      "width, None, int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"],
  ]) {
    const r = await run(prompt), entry = r.refused?.node_errors[id];
    equal([entry?.errors[0].type, entry?.errors[0].details, entry?.dependent_outputs], [type, details, ['2']], what);
  }
  for (const targets of [[], ['1'], ['nobody']])
    equal((await run(save(['1', 0], { 1: image('WHITE') }), { partial_execution_targets: targets })).refused.error.type, 'prompt_no_outputs', `targets ${targets}`);
  const part = await run({ 1: image('WHITE', { width: 12 }), 2: show('1'), 3: image('WHITE', { width: 0 }), 4: show('3') });
  equal([part.status, Object.keys(part.outputs)], ['success', ['2']], 'what is good runs');
  for (const [width, what] of [[' 25 ', 'a text'], [26.9, 'a fraction'], [true, 'a truth'], [{ __value__: 24 }, 'wrapped']])
    equal((await run({ 1: image('WHITE', { width }), 2: show('1') })).status, 'success', `a number from ${what}`);
  const list = await run({ 1: image('BLACK'), 2: image('WHITE'), 3: node('TestMakeListNode', { value1: 0, value2: 0.5, value3: 1 }), 4: mask(['3', 0]),
    5: node('TestLazyMixImages', { image1: ['1', 0], image2: ['2', 0], mask: ['4', 0] }), 6: show('5') });
  equal(list.outputs[6].text, ['0.0000', '0.5000', '1.0000'], 'lazy inputs, asked for by each element');
}

// Which prompt comes next; and whom the client is told of.
async function line() {
  const names = {}, send = async (name, width, more, seconds = 0) => {
    const r = await post(s, '/prompt', { prompt: { 1: image('WHITE', { width }), 2: node('TestSleep', { value: ['1', 0], seconds }), 3: show('2') }, client_id: 'one', ...more });
    names[r.json().prompt_id] = name;
    return r.json().prompt_id;
  };
  w.got.length = 0;
  // One that runs until all others wait.
  const a = await send('a', 39, {}, 60);
  await w.until((m) => m.type === 'execution_start' && m.data.prompt_id === a);
  for (const [i, [name, more]] of [['b', {}], ['late', { number: 1e6 }], ['front', { front: true }], ['first', { number: -1e6 }], ['later', { number: 1e6 }]].entries())
    await send(name, 40 + i, more);
  const q = (await get(s, '/queue')).json();
  check(q.queue_running.every((x) => x.length === 5) && q.queue_pending.every((x) => x.length === 5), 'five members each');
  equal(q.queue_pending.map((x) => names[x[1]]), ['first', 'front', 'b', 'late', 'later'], 'by number, then as they came');
  const last = q.queue_pending.at(-1)[1];
  equal((await post(s, '/interrupt', { prompt_id: last })).status, 200, 'an interrupt for one that waits');
  await post(s, '/interrupt', { prompt_id: a });
  check(await w.finished(last), 'all run');
  equal(w.got.filter((m) => m.type === 'execution_start').map((m) => names[m.data.prompt_id]), ['a', 'first', 'front', 'b', 'late', 'later'], 'in this order');
  equal((await get(s, `/history/${last}`)).json()[last].status.status_str, 'success', 'and did not stop it');
  const inner = await send('inner', 50, { client_id: undefined, extra_data: { client_id: 'one' } });
  check(await w.finished(inner), 'a client that is named in extra_data only');
}

// A client that reads nothing is given up; its prompt runs on, and nobody waits for it.
async function deaf() {
  const c = net.connect(s.port, '127.0.0.1');
  let bytes = 0, closed = false;
  c.on('error', () => {});
  c.on('close', () => { closed = true; });
  c.write(`GET /ws?clientId=deaf HTTP/1.1\r\nHost: ${s.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
  c.pause();
  // Long names make long messages.
  const [open, mean, close] = ['open', 'mean', 'close'].map((name) => name.padEnd(3000, '_'));
  const prompt = (width) => ({ 1: image('BLACK', { width }), 2: image('WHITE', { width }), [open]: node('TestForLoopOpen', { remaining: 18, initial_value1: ['1', 0] }),
    [mean]: node('TestVariadicAverage', { input1: [open, 2], input2: ['2', 0] }), [close]: node('TestForLoopClose', { flow_control: [open, 0], initial_value1: [mean, 0] }), 9: show(close) });
  for (const width of [20]) {
    const id = (await post(s, '/prompt', { prompt: prompt(width), client_id: 'deaf' })).json().prompt_id;
    const entry = await ended(s, id);
    equal(entry?.status.status_str, 'success', 'a prompt whose client reads nothing');
  }
  c.on('data', (d) => { bytes += d.length; });
  c.resume();
  await until(() => closed);
  check(closed, `the connection was closed after ${bytes} bytes`);
  c.destroy();
}

for (const test of [lazy, undeclared, lists, accumulating, blocked, changing, expansion, loops, sampling, together, rest, faults, line, deaf]) await test();
w.close();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
