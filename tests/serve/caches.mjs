// `graft serve --cache`: which results a later prompt finds.
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { check, end, equal, post } from './server.mjs';
import { image, node, show, startNodes } from './testnodes.mjs';

const graph = (width) => ({ 1: image('WHITE', { width }), 2: node('TestVariadicAverage', { input1: ['1', 0], input2: ['1', 0] }), 3: show('2') });
const all = ['1', '2', '3'];

// What runs of each of these prompts, by their widths.
async function ran(args, widths, more = async () => {}) {
  const { s, w, run } = await startNodes(args);
  const got = [];
  for (const width of widths) {
    const r = await run(graph(width));
    equal([r.status, r.outputs[3].text], ['success', ['1.0000']], `a run with ${args.join(' ')}`);
    equal([...r.ran, ...r.cached].sort(), all, 'each node ran, or was found');
    got.push(r.ran.join(''));
  }
  await more(s, run);
  w.close();
  equal((await s.stop()).code, 0, 'the server ends in order');
  fs.rmSync(s.dir, { recursive: true });
  return got;
}

equal(await ran([], [8, 8, 9, 8]), ['123', '', '123', '123'], 'those of the last prompt');
equal(await ran(['--cache', 'classic'], [8, 8, 9, 8]), ['123', '', '123', '123'], 'the same, said');
equal(await ran(['--cache', 'none'], [8, 8], async (s, run) => {
  // Within a prompt results are shared, and a loop still works.
  const r = await run({ ...graph(8), open: node('TestForLoopOpen', { remaining: 3, initial_value1: ['2', 0] }),
    mean: node('TestVariadicAverage', { input1: ['open', 2], input2: ['1', 0] }), close: node('TestForLoopClose', { flow_control: ['open', 0], initial_value1: ['mean', 0] }), 9: show('close') });
  equal([r.status, r.cached, r.outputs[9].text, r.ran.filter((x) => x === '2').length], ['success', [], ['1.0000'], 1], 'a loop');
}), ['123', '123'], 'none');
equal(await ran(['--cache=lru=100'], [8, 9, 8, 10, 11, 9], async (s, run) => {
  equal((await post(s, '/free', { free_memory: true })).status, 200, 'all is dropped');
  equal((await run(graph(9))).ran, all, 'when a client says so');
}), ['123', '123', '', '123', '123', ''], 'those of earlier prompts, too');
equal(await ran(['--cache', 'lru=0'], [8, 9, 8]), ['123', '123', '123'], 'no more than the last prompt');
// Two prompts of three results each fit; the first, which was used again, stays when the third comes.
equal(await ran(['--cache', 'lru=3'], [8, 9, 8, 10, 8, 9]), ['123', '123', '', '123', '', '123'], 'as many as were asked for, those used last');
// What a node expanded into is found after another prompt, too.
equal(await ran(['--cache', 'lru=50'], [8], async (s, run) => {
  const mixed = (input1) => ({ 1: node('TestMixedExpansionReturns', { input1 }), 2: show('1') });
  await run(mixed(0.5));
  await run(graph(9));
  equal((await run(mixed(0.5))).ran, [], 'a node that expands');
  await run(graph(10));
  equal((await run(mixed(0.6))).ran, ['1', '2'], 'another that expands into the same');
}), ['123'], 'expansions');
// A node that uses its own id is found under that id only.
equal(await ran(['--cache', 'lru=50'], [8], async (s, run) => {
  const sleeping = (id) => ({ 1: image('BLACK'), [id]: node('TestSleep', { value: ['1', 0], seconds: 0 }), 3: show(id) });
  await run(sleeping('a'));
  await run(graph(9));
  equal((await run(sleeping('b'))).ran, ['b', '3'], 'under another id');
  equal((await run(sleeping('a'))).ran, [], 'under its own');
}), ['123'], 'ids');

for (const bad of ['all', 'lru', 'lru=', 'lru=-1', 'lru=1x', 'lru=1000000000', '']) {
  const r = spawnSync(process.env.GRAFT_PROGRAM, ['serve', '--port', '0', '--cache', bad], { encoding: 'utf8' });
  equal(r.status, 2, `--cache ${bad}`);
  check(/--cache/.test(r.stderr), r.stderr);
}
end();
