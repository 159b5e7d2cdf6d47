// What the nodes of tests/plugins are by the names under which ComfyUI's tests know them: what they
// declare, compute and refuse; and how the server tells of it.
import fs from 'node:fs';
import { check, end, equal, get, post } from './server.mjs';
import { image, mask, node, output, save, show, startNodes } from './testnodes.mjs';

const { s, w, run } = await startNodes();

// [class, input, type, default, min, max, step]; undefined: not there.
async function declared() {
  const info = (await get(s, '/object_info')).json();
  const size = (c) => ['height', 'width'].map((x) => [c, x, 'INT', 512, 1, 4096, 1]).concat([[c, 'batch_size', 'INT', 1, 1, 1024, 1]]);
  const whole = (c) => ['a', 'b'].map((x) => [c, x, 'INT', 0, -(2 ** 63), 2 ** 63, 1]);
  for (const [c, input, type, initial, min, max, step] of [
    ['TestOutputNodeWithSocketOutput', 'value', 'FLOAT', 1, 0, 10], ['TestIsChangedWithConstants', 'value', 'FLOAT', 1, 0, 10],
    ['TestParallelSleep', 'sleep1', 'FLOAT', 0.5, 0, 10], ['TestParallelSleep', 'sleep3', 'FLOAT', 0.5, 0, 10],
    ...size('StubImage'), ...size('StubConstantImage'), ...size('StubMask'), ['StubConstantImage', 'value', 'FLOAT', 0.5, 0, 1, 0.01],
    ['StubMask', 'value', 'FLOAT', 0.5, 0, 1, 0.01], ['StubInt', 'value', 'INT', 0, -0xffffffff, 0xffffffff, 1], ['StubFloat', 'value', 'FLOAT', 0, -1e38, 1e38, 0.01],
    ['TestCustomIsChanged', 'should_change', 'BOOL'], ['TestCustomValidation5', 'input1', 'FLOAT', 0, 0, 1], ['TestCustomValidation5', 'input2', 'FLOAT', 0, 0, 1],
    ['TestMakeListNode', 'value1', '*'], ['TestMakeListNode', 'value9', '*'], ...whole('TestIntMathOperation'), ...whole('TestIntConditions'),
    ['TestFloatConditions', 'a', 'FLOAT', 0, -999999999999, 999999999999], ['TestExecutionBlocker', 'block', 'BOOLEAN', false],
    ['TestSleep', 'seconds', 'FLOAT', 1, 0, 9999, 0.01], ['TestAsyncError', 'error_after', 'FLOAT', 1, 0, 10], ['TestAsyncTimeout', 'timeout', 'FLOAT', 1, 0.1, 10],
    ['TestAsyncTimeout', 'operation_time', 'FLOAT', 2, 0.1, 10], ['TestDynamicAsyncGeneration', 'sleep_duration', 'FLOAT', 0.2, 0.1, 1],
    ['TestAsyncBatchProcessing', 'process_time_per_item', 'FLOAT', 0.1, 0.01, 1], ['TestAsyncConcurrentLimit', 'duration', 'FLOAT', 0.5, 0.1, 2],
    ['TestAsyncConcurrentLimit', 'node_id', 'INT', 0], ['TestAsyncResourceUser', 'resource_id', 'STRING', 'resource_0'], ['TestAsyncResourceUser', 'duration', 'FLOAT', 0.1, 0, 1],
  ]) {
    const { required = {}, optional = {} } = info[c].input, got = required[input] ?? optional[input] ?? [];
    const o = got[1] ?? {};
    equal([got[0], o.default, o.min, o.max], [type, initial, min, max], `${c}.${input}`);
    if (step) equal(o.step, step, `the step of ${c}.${input}`);
  }
  const flag = (c) => info[c].output_node, list = (c, input) => info[c].input.required[input][0];
  equal(['TestParallelSleep', 'TestOutputNodeWithSocketOutput', 'TestSleep'].map(flag), [true, true, false], 'output nodes');
  equal([list('TestIntMathOperation', 'operation'), list('TestBoolOperationNode', 'op')],
    [['add', 'subtract', 'multiply', 'divide', 'modulo', 'power'], ['a AND b', 'a OR b', 'a XOR b', 'NOT a']], 'operations');
  equal(list('TestStringConditions', 'operation'), ['a == b', 'a != b', 'a IN b', 'a MATCH REGEX(b)', 'a BEGINSWITH b', 'a ENDSWITH b'], 'on texts');
  equal([Object.keys(info.TestMakeListNode.input.required), Object.keys(info.TestForLoopOpen.input.optional)],
    [['value1'], ['initial_value1', 'initial_value2', 'initial_value3', 'initial_value4']], 'what is required, and what is not shown');
}

// Many small prompts in one: what each [class, inputs] shows.
async function values(list) {
  const prompt = {};
  list.forEach(([c, inputs], i) => { prompt[`n${i}`] = node(c, inputs); prompt[`s${i}`] = show(`n${i}`); });
  const r = await run({ ...prompt, black: image('BLACK'), white: image('WHITE'), mask: mask(0), grey: mask(0.5) });
  return list.map((_, i) => r.outputs?.[`s${i}`]?.text?.[0]);
}

async function computed() {
  const math = (a, operation, b) => ['TestIntMathOperation', { a, b, operation }];
  equal(await values([math(-7, 'divide', 2), math(7, 'divide', -2), math(-7, 'modulo', 2), math(7, 'modulo', -2), math(-8, 'divide', 2), math(3, 'power', 4), math(-2, 'power', 63), math(2, 'power', 0)]),
    [-4, -4, 1, -1, -4, 81, '-9223372036854775808', 1].map((x) => `INT ${x}`), 'whole numbers, rounded down');
  equal((await run({ 1: node(...math(1, 'modulo', 0)), 2: show('1') })).status, 'error', 'no division by zero');
  const text = (a, operation, b, case_sensitive = true) => ['TestStringConditions', { a, b, operation, case_sensitive }];
  equal(await values([text('abc', 'a == b', 'ABC'), text('abc', 'a == b', 'ABC', false), text('abc', 'a != b', 'abcd'), text('bc', 'a IN b', 'abcd'), text('abcd', 'a IN b', 'bc'),
    text('abc', 'a MATCH REGEX(b)', 'a.'), text('abc', 'a MATCH REGEX(b)', 'b.'), text('abc', 'a MATCH REGEX(b)', '('), text('ABC', 'a MATCH REGEX(b)', 'a', false),
    text('abc', 'a BEGINSWITH b', 'ab'), text('abc', 'a BEGINSWITH b', 'bc'), text('abc', 'a ENDSWITH b', 'bc'), text('c', 'a ENDSWITH b', 'bc'), text('aBC', 'a ENDSWITH b', 'bc', false)]),
    [0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1].map((x) => `BOOLEAN ${!!x}`), 'texts');
  equal(await values([['TestToBoolNode', { value: ['black', 0] }], ['TestToBoolNode', { value: ['white', 0] }], ['TestToBoolNode', { value: ['mask', 0] }], ['TestToBoolNode', { value: ['grey', 0], invert: true }]]),
    [false, true, false, false].map((x) => `BOOLEAN ${x}`), 'pictures as truths');
  equal(await values([['TestAsyncValidation', { value: 3, threshold: 10 }], ['TestAsyncValidationError', { value: 3, max_value: 4 }],
    ['TestAsyncLazyCheck', { input1: ['white', 0], input2: ['white', 0], condition: false }], ['TestAsyncBatchProcessing', { images: ['white', 0], process_time_per_item: 0.01 }]]), ['0.3000', '0.7500', '1.0000', '0.0000'], 'pictures of asynchronous nodes');
  const of = (index, more = {}) => run({ 1: image('BLACK'), 2: image('WHITE'), 3: node('TestAccumulateNode', { to_add: ['1', 0] }), 4: node('TestAccumulateNode', { to_add: ['2', 0], accumulation: ['3', 0] }),
    5: node('TestAccumulationGetItemNode', { accumulation: ['4', 0], index }), 6: show('5'), ...more });
  equal([(await of(-1)).outputs[6].text, (await of(-2)).outputs[6].text, (await of(-3)).status], [['1.0000'], ['0.0000'], 'error'], 'from the end');
  const set = await of(0, { 7: node('TestAccumulationSetItemNode', { accumulation: ['4', 0], index: -1, value: ['1', 0] }), 8: node('TestAccumulationToListNode', { accumulation: ['7', 0] }), 9: show('8') });
  equal(set.outputs[9].text, ['0.0000', '0.0000'], 'the last one is replaced');
  const ends = await run({ 1: image('BLACK'), 2: node('TestAccumulateNode', { to_add: ['1', 0] }), 3: node('TestAccumulationTailNode', { accumulation: ['2', 0] }),
    4: node('TestAccumulationTailNode', { accumulation: ['3', 0] }), 5: node('TestAccumulationGetLengthNode', { accumulation: ['4', 1] }), 6: show('5'),
    7: node('TestAccumulationHeadNode', { accumulation: ['3', 0] }), 8: node('TestAccumulationGetLengthNode', { accumulation: ['7', 0] }), 9: show('8') });
  equal([ends.outputs[6]?.text, ends.outputs[9]?.text], [['INT 0'], ['INT 0']], 'both ends of an empty one');
  const list = await run({ 1: node('TestMakeListNode', { value3: 3, value9: 9, value1: 1, value2: 2 }), 2: show('1') });
  equal(list.outputs[2].text, [1, 2, 3, 9].map((x) => `INT ${x}`), 'a list in the order of numbers');
  const noise = [16, 17].map((width) => ({ 1: image('NOISE', { width: 16, height: width }), 2: show('1') }));
  const first = (await run(noise[0])).outputs[2].text;
  await run(noise[1]);
  check((await run(noise[0])).outputs[2].text[0] !== first[0], 'noise is new each time');
}

async function waiting() {
  const use = (resource_id, from) => node('TestAsyncResourceUser', { value: [from, 0], resource_id, duration: 0.3 });
  let r = await run({ 1: image('BLACK'), 2: use('a', '1'), 3: use('b', '1'), 4: show('2'), 5: show('3') });
  equal(r.status, 'success', 'two resources');
  r = await run({ 1: image('WHITE'), 2: use('a', '1'), 3: use('a', '1'), 4: show('2'), 5: show('3') });
  equal([r.status, r.errors[0]?.exception_type], ['error', 'RuntimeError'], 'one that is in use');
  equal((await run({ 1: image('WHITE'), 2: use('a', '1'), 3: show('2') })).status, 'success', 'is free again');
  const progress = () => w.got.filter((m) => m.type === 'progress').map((m) => [m.data.value, m.data.max]);
  await run({ 1: image('BLACK'), 2: node('TestSleep', { value: ['1', 0], seconds: 1.2 }), 3: show('2') });
  equal(progress(), [[0, 2], [1, 2], [2, 2]], 'seconds');
  await run({ 1: image('BLACK'), 2: node('TestSyncProgressUpdate', { value: ['1', 0], sleep_seconds: 0.1 }), 3: show('2') });
  equal(progress(), [[0, 1], [1, 1]], 'from 0 to 1');
  await run({ 1: image('BLACK', { batch_size: 3 }), 2: node('TestAsyncBatchProcessing', { images: ['1', 0], process_time_per_item: 0.05 }), 3: show('2') });
  equal(progress(), [[1, 3], [2, 3], [3, 3]], 'a picture each');
  const loop = await run({ 1: image('BLACK'), open: node('TestForLoopOpen', { remaining: 2, initial_value1: ['1', 0] }),
    close: node('TestForLoopClose', { flow_control: ['open', 0], initial_value1: ['open', 2] }), 3: show('close') });
  equal([loop.status, loop.outputs[3]?.text], ['success', ['0.0000']], 'a loop');
  equal((await run({ 1: image('BLACK'), 2: node('TestParallelSleep', { image1: ['1', 0], image2: ['1', 0], image3: ['1', 0], sleep1: 0, sleep2: 0, sleep3: 0 }) })).status, 'success', 'an output by itself');
}

// A node's own check sees literals as they are written, and links by their types.
async function checks() {
  const graph = (type, input1, input2) => `{"1":{"class_type":"TestCustomValidation${type}","inputs":{"input1":${input1},"input2":${input2}}},
    "2":{"class_type":"TestShowValue","inputs":{"value":["1",0]}},"3":{"class_type":"StubInt","inputs":{"value":5}},"4":{"class_type":"StubImage","inputs":{"content":"WHITE","height":8,"width":8,"batch_size":1}},
    "5":{"class_type":"StubFloat","inputs":{"value":0.5}},"6":{"class_type":"StubMask","inputs":{"value":0.5,"height":8,"width":8,"batch_size":1}}}`;
  const shown = async (...args) => (await run(graph(...args))).outputs?.[2]?.text?.[0];
  const faults = async (...args) => (await run(graph(...args))).refused?.node_errors['1']?.errors.map((e) => `${e.type} ${e.details}`);
  const custom = (reason) => ['input1', 'input2'].map((x) => `custom_validation_failed ${x}${reason && ` - ${reason}`}`);
  for (const type of [1, 2]) {
    equal([await shown(type, '5.0', '0.5'), await shown(type, '1e0', '0.5'), await shown(type, '["4",0]', '0.5'), await shown(type, '["5",0]', '5.0')], ['2.5000', '0.5000', '0.5000', '2.5000'], `numbers with a point and pictures: ${type}`);
    for (const bad of ['5', '"foo"', 'true']) equal(await faults(type, bad, '0.5'), custom('Invalid type of input1'), `${bad}: ${type}`);
    equal(await faults(type, '0.5', '7'), custom('Invalid type of input2'), `of the other: ${type}`);
  }
  equal(await faults(1, '["3",0]', '0.5'), ['return_type_mismatch input1, received_type(INT) mismatch input_type(IMAGE,FLOAT)'], 'a link is left to the engine');
  equal(await faults(2, '["3",0]', '0.5'), custom('Invalid type of input1'), 'a link is told by its type');
  equal(await faults(2, '0.5', '["6",0]'), custom('Invalid type of input2'), 'another');
  equal([await shown(3, '["4",0]', '["5",0]'), await faults(3, '["3",0]', '0.5')], ['0.5000', ['custom_validation_failed input_types - Invalid type of input1']], 'types alone');
  equal([await shown(4, '-1.0', '0.5'), await shown(4, '5', '1')], ['-0.5000', '5.0000'], 'converted before they are checked');
  equal(await faults(4, '"foo"', '0.5'), ["invalid_input_type input1, foo, could not convert string to float: 'foo'"], 'or not');
  equal([await shown(5, '0.5', '5.0'), await faults(5, '0.1', '7.0')], ['2.5000', custom('7 is not a number to multiply with')], 'a range is left to who takes the input');
  const changed = (should_change) => run({ 1: image('BLACK'), 2: node('TestCustomIsChanged', { image: ['1', 0], should_change }), 3: show('2') });
  equal([(await changed(true)).status, (await changed('yes')).refused?.node_errors['2'].errors[0].type], ['success', 'custom_validation_failed'], 'a type of which the host knows nothing');
  const kinds = await run('{"1":{"class_type":"TestShowValue","inputs":{"value":5.0}},"2":{"class_type":"TestShowValue","inputs":{"value":5}},"3":{"class_type":"TestShowValue","inputs":{"value":1e2}}}');
  equal([1, 2, 3].map((i) => kinds.outputs[i].text[0]), ['FLOAT 5', 'INT 5', 'FLOAT 100'], 'any type, by how it is written; also after the queue');
}

async function cycles() {
  const r = await run({ a: node('TestVariadicAverage', { input1: ['b', 0] }), b: node('TestVariadicAverage', { input1: ['c', 0] }), c: node('TestVariadicAverage', { input1: ['b', 0] }),
    d: show('a') });
  const errors = r.refused.node_errors;
  equal(Object.keys(errors), ['b', 'c'], 'who is part of it');
  equal(errors.c.errors[0], { type: 'dependency_cycle', message: 'Dependency cycle detected', details: 'b (TestVariadicAverage) -> c (TestVariadicAverage) -> b (TestVariadicAverage)',
    extra_info: { node_id: 'c', cycle_nodes: ['b', 'c'] } }, 'and how it goes round');
  equal(errors.b.dependent_outputs, ['d'], 'what depends on it');
}

// Whoever has the last event of a prompt finds the prompt in the history.
async function history() {
  for (let i = 0; i < 60; i++) {
    w.got.length = 0;
    const bad = i % 3 === 1;
    const prompt = bad ? { 1: image('WHITE', { width: 100 + i }), 2: node('TestSyncError', { value: ['1', 0] }), 3: save('2') } : { 1: image('WHITE', { width: 100 + i }), 2: show('1') };
    const id = (await post(s, '/prompt', { prompt, client_id: 'one' })).json().prompt_id;
    const last = await w.until((m) => (m.type === 'execution_success' || m.type === 'execution_error') && m.data.prompt_id === id);
    const entry = (await get(s, `/history/${id}`)).json()[id];
    if (!equal([last.type, entry?.status.messages.at(-1)[0]], Array(2).fill(bad ? 'execution_error' : 'execution_success'), 'the entry is there')) break;
    check(await w.finished(id), 'the end');
    // The server sends a `status` now and then by itself.
    const types = w.got.map((m) => m.type), order = types.slice(types.lastIndexOf(last.type)).filter((t, k, all) => t !== 'status' || all[k - 1] !== t);
    equal(order.slice(0, 3), [last.type, 'status', 'executing'], 'what comes after it');
  }
}

async function errors() {
  const r = await run({ 1: node('TestMakeListNode', { value1: 1, value2: 2, value3: 3 }), 2: image('WHITE'), 3: node('TestIntMathOperation', { a: ['1', 0], b: 0, operation: 'divide' }),
    4: save('2'), 5: show('3') });
  const { exception_type, current_inputs, node_id } = r.errors[0];
  equal([node_id, exception_type, current_inputs], ['3', 'RuntimeError', { a: [1, 2, 3], b: [0], operation: ['divide'] }], 'all that came along a link');
  const objects = await run({ 1: image('WHITE'), 2: node('TestSyncError', { value: ['1', 0] }), 3: save('2') });
  equal([objects.errors[0].exception_type, objects.errors[0].current_inputs], ['RuntimeError', { value: ['IMAGE'] }], 'objects by their types');
  const count = async (prompt) => (await get(s, `/api/jobs/${(await run(prompt)).id}`)).json().outputs_count;
  equal([await count({ 1: image('WHITE'), 2: show('1'), 3: show('1') }), await count({ 1: image('WHITE'), 2: show('1'), 3: save('1') })], [2, 1], 'texts count where there is nothing else');
}

for (const test of [declared, computed, waiting, checks, cycles, history, errors]) await test();
w.close();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
