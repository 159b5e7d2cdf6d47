// The queue outlives the server; a job is stopped by its id and no other; progress can be followed.
// Needs the nodes of tests/host/testnodes.c, which can sleep.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { Socket, check, end, ended, equal, get, post, sleep, soon, start, until } from './server.mjs';

const options = { plugins: process.env.GRAFT_TEST_PLUGINS, args: ['--quiet'] };
let s = await start(options);

// Sleeps `steps` times 2 ms; `n` tells jobs apart, so that none comes from the cache.
const nap = (steps, n) => ({
  1: { class_type: 'TestSleep', inputs: { steps } },
  2: { class_type: 'TestInt', inputs: { value: n } },
  3: { class_type: 'TestAdd', inputs: { a: ['1', 0], b: ['2', 0] } },
  4: { class_type: 'TestShow', inputs: { value: ['3', 0] } },
});
const inputs = (await get(s, '/object_info')).json();
for (const c of ['TestSleep', 'TestInt', 'TestAdd', 'TestShow']) check(c in inputs, `${c} is there`);
const names = (c) => Object.keys({ ...inputs[c].input.required, ...inputs[c].input.optional });
function prompt(steps, n) {
  const p = nap(steps, n);
  const set = (id, values) => { p[id].inputs = Object.fromEntries(names(p[id].class_type).map((k, i) => [k, values[i]])); };
  set(1, [steps]); set(2, [n]); set(3, [['1', 0], ['2', 0]]); set(4, [['3', 0]]);
  return p;
}
const run = async (id, steps, n, more = {}) => {
  const r = await post(s, '/prompt', { prompt: prompt(steps, n), prompt_id: id, ...more });
  equal(r.status, 200, `queue ${id}: ${r.text}`);
};
const entry = async (id) => {
  const e = await ended(s, id);
  check(e, `${id} ends`);
  return e;
};
const running = async (id) =>
  check(await until(async () => (await get(s, '/queue')).json().queue_running[0]?.[1] === id), `${id} runs`);
const LONG = 100000; // steps of a job that will be ended

async function interrupt() {
  const w = new Socket(s, '?clientId=me');
  await w.until((m) => m.type === 'status');
  await run('a', LONG, 1, { client_id: 'me' });
  await run('b', 10, 2, { client_id: 'me' });
  await running('a');
  equal((await post(s, '/prompt', { prompt: prompt(1, 1), prompt_id: 'a' })).status, 409, 'an id that runs');
  equal((await post(s, '/prompt', { prompt: prompt(1, 1), prompt_id: 'b' })).status, 409, 'an id that waits');
  const progress = await w.until((m) => m.type === 'progress');
  equal([progress.data.prompt_id, progress.data.node, Number.isInteger(progress.data.value), progress.data.max], ['a', '1', true, LONG], 'progress');
  const job = (await get(s, '/api/jobs/a')).json();
  check(job.status === 'in_progress' && job.progress.max === LONG && job.progress.phase === 'sample', `progress by asking: ${JSON.stringify(job.progress)}`);
  // A client that comes back learns where its job stands.
  const again = new Socket(s, '?clientId=me');
  equal((await again.until((m) => m.type === 'executing')).data.node, '1', 'the running node is told again');
  await post(s, '/interrupt', { prompt_id: 'b' });
  await sleep(50);
  await running('a');
  await post(s, '/interrupt', { prompt_id: 'a' });
  const e = await entry('a');
  equal([e.status.status_str, e.status.completed, e.status.messages.at(-1)[0]], ['error', false, 'execution_interrupted'], 'interrupted');
  equal(e.status.messages.at(-1)[1].node_id, '1', 'where');
  check(await again.finished('a'), 'executing null');
  equal((await entry('b')).status.status_str, 'success', 'the next job is not hit');
  await post(s, '/interrupt');
  await run('c', 1, 3, { client_id: 'me' });
  equal((await entry('c')).status.status_str, 'success', 'an old interrupt does not hit a later job');
  equal((await get(s, '/api/jobs?status=cancelled')).json().jobs.map((j) => j.id), ['a'], 'cancelled');
  for (const x of [w, again]) x.close();
}

// Whoever hears that a job is cancelled does not find it completed, even when all came from the cache.
async function cancelled() {
  await run('once', 1, 8, { client_id: 'cancels' });
  await entry('once');
  for (let i = 0; i < 5; i++) {
    await run(`again-${i}`, 1, 8, { client_id: 'cancels' });
    const answer = (await post(s, `/api/jobs/again-${i}/cancel`)).json().cancelled;
    await until(async () => (await get(s, '/prompt')).json().exec_info.queue_remaining === 0);
    const job = await get(s, `/api/jobs/again-${i}`), status = job.status === 404 ? 'cancelled' : job.json().status;
    equal(status, answer ? 'cancelled' : 'completed', `cancelled: ${answer}`);
  }
}

// A client that was away for a moment misses no end of a run: neither what was told to everybody meanwhile, nor what
// its last socket had not taken when it broke or gave way to the next one.
async function away() {
  const join = async () => {
    const w = new Socket(s, '?clientId=away');
    await w.until((m) => m.type === 'status');
    return w;
  };
  let w = await join();
  const told = (type, id) => w.got.some((m) => m.type === type && m.data.prompt_id === id);
  let id = await soon(async (i) => {
    const id = `away-${i}`;
    await run(id, LONG, 4, { client_id: 'away' });
    await running(id);
    w.close();
    await post(s, '/interrupt', { prompt_id: id });
    await entry(id);
    w = await join();
    return id;
  });
  check(await w.finished(id), 'the end is told afterwards');
  check(told('execution_interrupted', id), 'and that it was an interruption');
  for (const gives_way of [false, true]) {
    id = await soon(async (i) => {
      const id = `unread-${gives_way}-${i}`, big = prompt(1, 5 + gives_way);
      big['x'.repeat(300000)] = big[4]; // the id is in most of the messages
      delete big[4];
      w.close(); // for a socket that has read much the system itself keeps all of this
      w = await join();
      w.socket.pause();
      await post(s, '/prompt', { prompt: big, prompt_id: id, client_id: 'away' });
      await entry(id);
      const last = w;
      if (!gives_way) last.close();
      w = await join();
      last.close();
      return id;
    });
    await run(`after-${id}`, 1, 7, { client_id: 'away' });
    check(await w.finished(`after-${id}`), 'a run after it');
    check(told('execution_success', id), `the end of ${id} that was not read`);
  }
  w.close();
}

async function failure() {
  const w = new Socket(s, '?clientId=f');
  await w.until((m) => m.type === 'status');
  const p = prompt(1, 1);
  p[2] = { class_type: 'TestFail', inputs: { [names('TestFail')[0]]: 1 } };
  await post(s, '/prompt', { prompt: p, prompt_id: 'f', client_id: 'f' });
  const x = (await w.until((m) => m.type === 'execution_error')).data;
  equal([x.node_id, x.node_type, x.exception_type, x.exception_message], ['2', 'TestFail', 'ValueError', 'this never works\n'], 'the error');
  check(Array.isArray(x.traceback) && 'code' in x.current_inputs && Array.isArray(x.executed), 'its details');
  check(await w.finished('f'), 'executing null after an error');
  equal((await entry('f')).status.messages.at(-1)[0], 'execution_error', 'the history tells');
  equal((await get(s, '/api/jobs/f')).json().execution_error.node_id, '2', 'the job tells');
  w.close();
}

async function order() {
  await run('slow', LONG, 1);
  await running('slow');
  await run('x1', 1, 10);
  await run('x2', 1, 11, { number: -5 });
  await run('x3', 1, 12, { front: true });
  await run('x4', 1, 13);
  equal((await get(s, '/queue')).json().queue_pending.map((q) => q[1]), ['x3', 'x2', 'x1', 'x4'], 'by number');
  await post(s, '/queue', { delete: ['x1', 'nobody'] });
  equal((await post(s, '/api/jobs/x2/cancel')).json(), { cancelled: true }, 'cancel a waiting job');
  equal((await get(s, '/queue')).json().queue_pending.map((q) => q[1]), ['x3', 'x4'], 'two are gone');
  await post(s, '/queue', { clear: true });
  equal((await get(s, '/queue')).json().queue_pending, [], 'cleared');
  await running('slow');
  await post(s, '/interrupt');
  await entry('slow');
}

async function killed() {
  await run('k0', LONG, 1);
  await running('k0');
  for (let i = 1; i <= 5; i++) await run(`k${i}`, 1, 20 + i, { number: 10 - i });
  await post(s, '/settings/kept', '{"x":18446744073709551615}');
  await s.kill();
  const dir = s.dir;
  s = await start({ ...options, dir });
  const e = await entry('k0');
  equal([e.status.status_str, e.status.messages.at(-1)[0]], ['error', 'execution_interrupted'], 'what ran is marked');
  for (let i = 1; i <= 5; i++) equal((await entry(`k${i}`)).status.status_str, 'success', `k${i} runs after all`);
  const ids = Object.keys((await get(s, '/history')).json()).filter((k) => k[0] === 'k');
  equal(ids, ['k0', 'k5', 'k4', 'k3', 'k2', 'k1'], 'once each, in order');
  equal((await get(s, '/settings/kept')).text, '{"x":18446744073709551615}', 'settings');
  // Two servers never share a queue.
  let refused = '';
  await start({ ...options, dir }).then((x) => x.stop(), (x) => { refused = x.message; });
  check(refused.includes('another server uses'), refused);
  // An ending in order interrupts what runs and keeps what waits.
  await run('t0', LONG, 1);
  await running('t0');
  await run('t1', 1, 30);
  equal((await s.stop()).code, 0, 'ends in order');
  s = await start({ ...options, dir });
  equal((await entry('t0')).status.messages.at(-1)[0], 'execution_interrupted', 'stopped');
  equal((await entry('t1')).status.status_str, 'success', 'kept');
}

// While there is no room on the disk a job goes on to run; then it is in the history as what it was, and the next one runs.
async function full() {
  const grow = (bytes) => spawnSync('prlimit', ['--pid', String(s.process.pid), `--fsize=${bytes}:`]).status === 0;
  if (spawnSync('prlimit', ['--version']).error) return console.log('skipped: prlimit is not installed');
  const w = new Socket(s, '?clientId=full'), about = (id) => w.got.filter((m) => m.data.prompt_id === id).map((m) => m.type);
  await w.until((m) => m.type === 'status');
  await run('room', 500, 40, { client_id: 'full' });
  await run('next', 1, 41, { client_id: 'full' });
  await running('room');
  check(grow(0), 'no file may grow');
  await until(() => s.log().includes('the database of jobs'));
  await sleep(1200); // it has been tried again
  equal((await get(s, '/queue')).json().queue_running.map((q) => q[1]), ['room'], 'it runs while it cannot be written down');
  equal((await get(s, '/history/room')).text, '{}', 'and is in no history');
  check(!about('room').includes('execution_success'), 'nor told to have ended');
  check(grow('unlimited'), 'now they may');
  equal((await entry('room')).status.status_str, 'success', 'afterwards the history has it');
  equal((await entry('next')).status.status_str, 'success', 'and the next one');
  check(await w.finished('next'), 'its end is told');
  check(about('room').includes('execution_success'), 'and that of the one before');
  equal((await get(s, '/prompt')).json().exec_info.queue_remaining, 0, 'nothing is left');
  w.close();
}

for (const test of [interrupt, cancelled, away, failure, order, full, killed]) {
  const began = performance.now();
  await test();
  console.log(`${test.name} ${Math.round(performance.now() - began)} ms`);
}
await s.stop();
fs.rmSync(s.dir, { recursive: true });
end();
