// Many of everything: requests, prompts, clients. Limits are for two cores; GRAFT_LOAD=full runs the
// long form, and prints figures.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { Socket, check, end, equal, folder, get, picture, post, sleep, start, timed } from './server.mjs';

const full = process.env.GRAFT_LOAD === 'full';
const slow = Number(process.env.GRAFT_SLOW ?? 1); // how much slower this build is, e.g. sanitizers
const dir = folder();
// The real nodes, and those of tests/host/testnodes.c, which can sleep.
const plugins = path.join(dir, 'plugins');
fs.mkdirSync(plugins);
for (const from of [process.env.GRAFT_PLUGINS, process.env.GRAFT_TEST_PLUGINS])
  for (const f of fs.readdirSync(from).filter((x) => x.endsWith('.so'))) fs.symlinkSync(path.join(from, f), path.join(plugins, f));
const s = await start({ dir, plugins, args: ['--quiet'] });
const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${s.process.pid}/status`, 'latin1'))[1]) / 1024;
// Seconds of computing that the server took so far, in all its threads.
const cpu = () => {
  const fields = fs.readFileSync(`/proc/${s.process.pid}/stat`, 'latin1').replace(/^.*\) /, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });

const request = (method, url, body) => new Promise((done, fail) => {
  const r = http.request({ host: '127.0.0.1', port: s.port, method, path: url, agent,
    headers: body ? { 'content-length': Buffer.byteLength(body) } : {} }, (res) => {
    let size = 0;
    res.on('data', (d) => { size += d.length; });
    res.on('end', () => done({ status: res.statusCode, size }));
  });
  r.on('error', fail);
  r.end(body);
});
// Seconds, without those for which others had the processors.
async function many(n, one) {
  let next = 0, bad = 0;
  const ms = await timed(s, () => Promise.all(Array.from({ length: 8 }, async () => {
    while (next < n) if ((await one(next++)).status !== 200) bad++;
  })));
  equal(bad, 0, 'all answered');
  return ms / 1000;
}

// Computing for an answer, in seconds, and how long all of them took.
async function cost(n, url) {
  const before = cpu();
  const seconds = await many(n, () => request('GET', url));
  return { spent: cpu() - before, seconds };
}

// What sending takes is the system's doing and differs between machines: a file of as many bytes is
// asked for in turns with the schemas, which must not cost much more.
async function schemas() {
  const n = full ? 10000 : 2000, rounds = 4;
  const { size } = await request('GET', '/object_info');
  equal((await request('POST', '/userdata/bytes.txt', Buffer.alloc(size, 'a'))).status, 200, 'bytes are kept');
  let spent = 0, plain = 0, seconds = 0;
  for (let i = 0; i < rounds; i++) {
    const info = await cost(n / rounds, '/object_info');
    spent += info.spent / n;
    seconds += info.seconds;
    plain += (await cost(n / rounds, '/userdata/bytes.txt')).spent / n;
  }
  const us = (v) => (v * 1e6).toFixed(0);
  console.log(`GET /object_info: ${us(spent)} µs of computing each, ${us(plain)} for as many bytes of a file`);
  check(seconds < n / 300 * slow, 'object_info is quick');
  check(spent < 1.2 * plain + 20e-6 * slow, `object_info costs little: ${us(spent)} µs`);
}

// The body is kept; a file that comes or goes makes another one.
async function files() {
  const folder = path.join(dir, 'models/checkpoints'), file = path.join(folder, 'new.safetensors');
  const ask = async (etag) => {
    const r = await fetch(`${s.base}/object_info`, { headers: etag ? { 'if-none-match': etag } : {} });
    return { status: r.status, etag: r.headers.get('etag'), text: await r.text() };
  };
  fs.mkdirSync(folder, { recursive: true });
  const before = await ask();
  equal((await ask(before.etag)).status, 304, 'the same again');
  fs.writeFileSync(file, 'x');
  await sleep(700);
  const with_it = await ask(before.etag);
  check(with_it.status === 200 && with_it.text.includes('new.safetensors'), 'a new file is seen');
  fs.unlinkSync(file);
  await sleep(700);
  const after = await ask(with_it.etag);
  check(after.status === 200 && after.text === before.text, 'and that it went');
}

// While a job runs requests may be gathered; a few do not wait for that, nor does what is large.
async function beside() {
  const [steps, value] = await Promise.all(['TestSleep', 'TestShow'].map(async (c) =>
    Object.keys((await get(s, `/object_info/${c}`)).json()[c].input.required)[0]));
  const quick = async (what, limit, run) => {
    const ms = await timed(s, run);
    check(ms < limit * slow, `${what}: ${ms.toFixed(0)} ms`);
    return ms;
  };
  const w = new Socket(s, '?clientId=beside');
  await w.opened;
  const thirty = async () => { for (let i = 0; i < 30; i++) await get(s, '/queue'); };
  const before = await quick('the same while nothing runs', 10000, thirty);
  const id = (await post(s, '/prompt', { client_id: 'beside', prompt: { 1: { class_type: 'TestSleep', inputs: { [steps]: 100000 } },
    2: { class_type: 'TestShow', inputs: { [value]: ['1', 0] } } } })).json().prompt_id;
  check(await w.until((m) => m.type === 'progress'), 'it runs');
  await sleep(1000); // a quiet time
  await quick('thirty requests, one after the other', 100 + 3 * before, thirty);
  // Pieces of 64 KB, ten milliseconds apart, would be five seconds.
  const bytes = Buffer.alloc(32 << 20, 'picture');
  const up = new FormData();
  up.append('image', new Blob([bytes]), 'large.png');
  await quick('a long body', 2500, async () => equal((await fetch(`${s.base}/upload/image`, { method: 'POST', body: up })).status, 200, 'an upload'));
  await quick('a long answer', 2500, async () => check(bytes.equals(Buffer.from(await (await fetch(`${s.base}/view?filename=large.png&type=input`)).arrayBuffer())), 'the same bytes'));
  const seconds = await many(1000, () => request('GET', '/object_info'));
  check(seconds < 5 * slow, `a thousand in ${seconds} s`);
  // Newcomers and messages need no round of the library's own, which would be a tenth of a second each.
  let asking = true;
  const others = Promise.all(Array.from({ length: 8 }, async () => {
    while (asking) await request('GET', '/object_info');
  }));
  await sleep(500);
  await quick('twenty connections while others ask', 1200, async () => {
    for (let i = 0; i < 20; i++)
      await new Promise((done, fail) => {
        http.get({ host: '127.0.0.1', port: s.port, path: '/queue', agent: false }, (r) => { r.resume(); r.on('end', done); }).on('error', fail);
      });
  });
  w.got.length = 0;
  await quick('twenty messages while others ask', 1200, async () => { while (w.got.filter((m) => m.type === 'progress').length < 20) await sleep(5); });
  asking = false;
  await others;
  w.got.length = 0;
  await quick('ten messages about steps', 1500, async () => { while (w.got.filter((m) => m.type === 'progress').length < 10) await sleep(5); });
  await quick('an interrupt', 1000, async () => { await post(s, '/interrupt', { prompt_id: id }); check(await w.finished(id), 'the job ends'); });
  w.close();
}

async function prompts() {
  const n = full ? 10000 : 2000;
  // The first one keeps the worker busy, so that the others wait.
  const [steps, value] = await Promise.all(['TestSleep', 'TestShow'].map(async (c) =>
    Object.keys((await get(s, `/object_info/${c}`)).json()[c].input.required)[0]));
  equal((await post(s, '/prompt', { prompt_id: 'slow', prompt: { 1: { class_type: 'TestSleep', inputs: { [steps]: 100000 } },
    2: { class_type: 'TestShow', inputs: { [value]: ['1', 0] } } } })).status, 200, 'a slow job');
  const before = rss();
  const seconds = await many(n, (i) => request('POST', '/prompt', JSON.stringify({ prompt: picture(i, 'load/q', 8, 8),
    prompt_id: `q${i}`, client_id: 'nobody' })));
  const grown = rss() - before;
  console.log(`${n} prompts accepted in ${seconds.toFixed(2)} s, ${grown.toFixed(0)} MB more`);
  check(seconds < 10 * slow, 'accepted quickly');
  check(grown < 200 * slow, 'memory grows little');
  equal((await get(s, '/prompt')).json().exec_info.queue_remaining, n + 1, 'all wait');
  equal((await post(s, '/queue', { clear: true })).status, 200, 'clear');
  await post(s, '/interrupt');
}

async function clients() {
  const list = Array.from({ length: 200 }, (_, i) => new Socket(s, `?clientId=c${i}`));
  equal((await Promise.all(list.map((w) => w.opened))).every((x) => x === 101), true, '200 clients');
  const id = (await post(s, '/prompt', { prompt: picture(3, 'load/c', 8, 8), client_id: 'c7' })).json().prompt_id;
  check(await list[7].finished(id), 'the owner is told');
  await sleep(50);
  check(list.every((w, i) => i === 7 || !w.got.some((m) => m.type === 'executing')), 'and nobody else');
  const before = cpu();
  await sleep(2000);
  const idle = (cpu() - before) / 2;
  console.log(`200 idle clients: ${(idle * 1e3).toFixed(1)} ms of computing a second`);
  check(idle < 0.03 * slow, `idle clients cost nothing: ${idle}`);
  for (const w of list) w.close();
}

async function soak() {
  const n = full ? 20000 : 500;
  const round = async (from, count) => {
    await many(count, (i) => request('POST', '/prompt', JSON.stringify({ prompt: picture((from + i) & 0xffffff, `soak/${i % 100}/s`, 8, 8) })));
    while ((await get(s, '/prompt')).json().exec_info.queue_remaining) await sleep(50);
  };
  await round(0, n / 2);
  const half = rss();
  const began = performance.now();
  await round(n, n / 2);
  console.log(`${n} prompts run, ${((performance.now() - began) / n * 2000).toFixed(0)} µs each, `
    + `${half.toFixed(0)} MB after one half, ${rss().toFixed(0)} MB after the other`);
  check(rss() < half + 40 * slow, 'memory stays');
}

for (const test of [schemas, files, beside, prompts, clients, soak]) await test();
agent.destroy();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
