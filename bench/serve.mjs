// The server under load: bench/serve.mjs BUILD [PAIRS [PARTS]]. Figures go to BUILD/bench.json, in the form of
// bench/record.h. Everything runs on one machine, so the load costs the sampling what answering costs
// the server and what asking costs the program that asks; both shares are measured, too.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import zlib from 'node:zlib';

const source = path.resolve(path.dirname(new URL(import.meta.url).pathname), '..');
const build = path.resolve(process.argv[2] ?? path.join(source, 'build'));
const pairs = Number(process.argv[3] ?? 8);
process.env.GRAFT_PROGRAM ??= path.join(build, 'bin/graft');
process.env.GRAFT_PLUGINS ??= path.join(build, 'lib/graft');
process.env.GRAFT_SOURCE_DIR ??= source;
process.env.OMP_WAIT_POLICY ??= 'passive'; // threads that spin would count the load twice
const { Socket, get, post, sleep, start } = await import('../tests/serve/server.mjs');

const PER_SECOND = 1000;
const IDLE = 200;
const STEPS = 10000; // of a sampling that does not end by itself
const FOREIGN = 0.1; // processors that others may use while a pair is timed

function record(name, value, unit, note = '') {
  const file = path.join(build, 'bench.json');
  let all = {};
  try { all = JSON.parse(fs.readFileSync(file, 'utf8')); } catch { /* a new one */ }
  const cpu = fs.readFileSync('/proc/cpuinfo', 'utf8');
  const model = /model name\s*: (.*)/.exec(cpu)?.[1] ?? 'unknown processor';
  delete all[name];
  all[name] = { value, unit, how: `bench/serve.mjs${note && `; ${note}`}`,
    machine: `${model.slice(0, 80)}, ${cpu.match(/^processor/gm)?.length ?? 0} processors`, date: new Date().toISOString().slice(0, 10) };
  fs.writeFileSync(file, `${JSON.stringify(all, null, '\t')}\n`);
  console.log(`${name.padEnd(24)} ${String(value).padStart(9)} ${unit}${note && `  (${note})`}`);
}
const round = (x, digits = 2) => Number(x.toFixed(digits));
const at = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
const rss = (s) => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${s.process.pid}/status`, 'latin1'))[1]) / 1024;

// Seconds that a thread, or a process (number 0), has computed.
const computed = (pid, thread) => {
  const folder = thread ? `/proc/${pid}/task/${thread}` : `/proc/${pid}`;
  if (thread) return Number(fs.readFileSync(`${folder}/schedstat`, 'latin1').split(' ')[0]) / 1e9;
  const f = fs.readFileSync(`${folder}/stat`, 'latin1').replace(/^.*\) /, '').split(' ');
  return (Number(f[11]) + Number(f[12])) / 100;
};
const answering = (s) => computed(s.process.pid, s.process.pid); // by the thread that answers: the main one
const machine = () => fs.readFileSync('/proc/stat', 'latin1').split('\n')[0].trim().split(/\s+/)
  .reduce((sum, x, i) => ([1, 2, 3, 6, 7, 8].includes(i) ? sum + Number(x) / 100 : sum), 0);

// The workflow, with more steps than will run.
function sampling(seed, steps, more = {}) {
  const prompt = JSON.parse(fs.readFileSync(path.join(source, 'workflows/txt2img.json'), 'utf8'));
  for (const node of Object.values(prompt)) {
    if (node.class_type === 'KSampler') Object.assign(node.inputs, { seed, steps, sampler_name: 'euler', scheduler: 'normal' });
    Object.assign(node.inputs, more[node.class_type]);
  }
  return prompt;
}

// A program of its own asks: this one would need more of the processors than the server does.
async function load(s, as) {
  const c = spawn(path.join(build, 'bin/graft-bench-serve-load'), [String(s.port), '--as', as, '--rate', String(PER_SECOND), '--idle', String(IDLE)],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  c.stdout.on('data', (d) => { text += d; });
  const ended = new Promise((done) => { c.on('close', done); });
  while (!text.includes('ready') && c.exitCode === null) await sleep(10);
  return { pid: c.pid, stop: async () => { c.kill('SIGTERM'); await ended; return JSON.parse(text.split('\n')[1]); } };
}

// One long sampling, of which parts are timed by its own messages.
class Sampling {
  constructor(s, prompt) {
    Object.assign(this, { s, prompt, seed: 1, w: new Socket(s, '?clientId=bench') });
  }
  async begin() {
    if (this.id) {
      await post(this.s, '/interrupt', { prompt_id: this.id });
      await this.w.finished(this.id, 60000);
    }
    const r = await post(this.s, '/prompt', { prompt: this.prompt(this.seed++, STEPS), client_id: 'bench' });
    if (r.status !== 200) throw new Error(r.text);
    this.id = r.json().prompt_id;
    for (let i = 0; i < 3; i++) await this.step(); // the first one binds the weights
  }
  async step() {
    this.w.got.length = 0;
    const m = await this.w.until((x) => x.type === 'progress' && x.data.prompt_id === this.id && x.data.max === STEPS, 120000);
    if (!m) throw new Error('the sampling ended');
    return { value: m.data.value, at: performance.now() / 1000 };
  }
  // Steps a second, and how much the rest of the machine computed meanwhile.
  async rate(seconds, others = []) {
    const mine = () => [0, ...others, this.s.process.pid, process.pid].reduce((sum, pid) => (pid ? sum + computed(pid, 0) : sum));
    const first = await this.step(), before = machine() - mine(), main = answering(this.s);
    await sleep(seconds * 1000);
    const last = await this.step(), time = last.at - first.at, rate = (last.value - first.value) / time;
    const r = { rate, main: (answering(this.s) - main) / time, foreign: (machine() - mine() - before) / time };
    if (last.value > STEPS - 4 * rate * seconds - 100) await this.begin();
    return r;
  }
}

// Bytes of one answer with its headers, as they come over the wire.
const wire = (s, url, headers = '') => new Promise((done) => {
  let all = Buffer.alloc(0);
  const c = net.connect(s.port, '127.0.0.1', () => c.write(`GET ${url} HTTP/1.1\r\nHost: ${s.host}\r\n${headers}\r\n`));
  c.on('data', (d) => {
    all = Buffer.concat([all, d]);
    const end = all.indexOf('\r\n\r\n'), length = /content-length: (\d+)/i.exec(all.toString('latin1'))?.[1];
    if (end >= 0 && length && all.length >= end + 4 + Number(length)) { c.destroy(); done({ all, body: all.subarray(end + 4) }); }
  });
});

// How much longer a step takes while others ask: pairs of two short times within one sampling, so that what
// changes slowly on the machine is in both. Pairs in which other programs computed do not count.
async function slower(name, { models, prompt, seconds, kinds }) {
  const s = await start({ models, args: ['--quiet', '--preview', 'none'] });
  const run = new Sampling(s, prompt);
  await run.w.opened;
  await run.begin();
  for (const [as, suffix] of Object.entries(kinds)) {
    const ratios = [], loads = [], shares = [];
    for (let tries = 0; ratios.length < pairs && tries < 4 * pairs; tries++) {
      const one = {};
      let asked;
      for (const loaded of tries % 2 ? [true, false] : [false, true]) {
        const asker = loaded ? await load(s, as) : null;
        one[loaded] = await run.rate(seconds, asker ? [asker.pid] : []);
        asked = await asker?.stop() ?? asked;
      }
      if (Math.max(one[true].foreign, one[false].foreign) > FOREIGN) continue;
      ratios.push((one[false].rate / one[true].rate - 1) * 100);
      loads.push(asked);
      shares.push(one[true].main * 100);
    }
    if (!ratios.length) { console.log(`skipped: ${name}${suffix}: other programs computed all the time`); continue; }
    ratios.sort((a, b) => a - b);
    const mean = (list) => list.reduce((a, b) => a + b) / list.length;
    const note = `median of ${ratios.length} pairs, ${round(at(ratios, 0.25))} to ${round(at(ratios, 0.75))} between quartiles; `
      + `${Math.round(mean(loads.map((x) => x.rate)))} answers a second of ${(loads[0].bytes / 1024).toFixed(1)} KiB, ${IDLE} idle clients; `
      + `the program that asks takes ${round(mean(loads.map((x) => x.share)) * 100, 1)} % of one of the same processors`;
    record(`${name}${suffix}`, round(at(ratios, 0.5)), '%', note);
    record(`${name.replace('slowdown', 'answering')}${suffix}_percent`, round(mean(shares)), '% of a processor',
      'what the thread that answers computed during that');
  }
  run.w.close();
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}

// As npm's clients ask, as a browser that has the answer already, and without compression.
const slowdown = () => slower('serve_slowdown', { models: path.join(source, 'models'), prompt: sampling, seconds: 1,
  kinds: { npm: '', browser: '_browser', plain: '_plain' } });

// A model of real size, where operators take long.
async function sd15() {
  const file = process.env.GRAFT_SD15 ?? path.join(build, 'models/checkpoints/sd15.safetensors');
  if (!fs.existsSync(file)) { console.log(`skipped: serve_slowdown_sd15: there is no ${file}`); return; }
  const prompt = (seed, steps) => {
    const p = sampling(seed, steps, { CheckpointLoaderSimple: { ckpt_name: path.basename(file) }, EmptyLatentImage: { width: 256, height: 256 } });
    p.compile = { class_type: 'CompileModel', inputs: { model: ['1', 0], precision: 'bf16', tuning: 'off', max_memory_mb: 0, device: 'auto', cache: 'disable' } };
    for (const node of Object.values(p)) if (node.class_type === 'KSampler') node.inputs.model = ['compile', 0];
    return p;
  };
  await slower('serve_slowdown', { models: path.dirname(path.dirname(file)), prompt, seconds: 5, kinds: { npm: '_sd15' } });
}

// What the gathering of requests costs those who ask, while a sampling runs and others ask, too.
async function latency() {
  const s = await start({ models: path.join(source, 'models'), args: ['--quiet', '--preview', 'none'] });
  const run = new Sampling(s, sampling);
  await run.w.opened;
  await run.begin();
  const asker = await load(s, 'npm');
  const times = [], late = [];
  const again = async () => { // before the sampling's steps are used up and those behind it have their turn
    await post(s, '/queue', { clear: true });
    await run.begin();
  };
  for (let i = 0; i < 300; i++) {
    if (i % 100 === 99) await again();
    const began = performance.now();
    const r = await post(s, '/prompt', { prompt: sampling(1000 + i, 20) });
    times.push(performance.now() - began);
    if (r.status !== 200) throw new Error(r.text);
    await sleep(10 + 7 * (i % 5));
  }
  for (let i = 0, last = 0; i < 300; i++) {
    if (i % 100 === 0) {
      await again();
      last = 0;
    }
    const { at: now } = await run.step();
    if (last) late.push((now - last) * 1000);
    last = now;
  }
  await asker.stop();
  for (const [name, list, what] of [['serve_prompt_p99_ms', times, 'from sending a prompt to the answer'],
    ['serve_progress_p99_ms', late, 'between two messages about steps, which are 20 ms apart at least']]) {
    list.sort((a, b) => a - b);
    record(name, round(at(list, 0.99), 1), 'ms', `${what}, median ${round(at(list, 0.5), 1)} ms, while a sampling runs and ${PER_SECOND} other answers a second are given`);
  }
  await post(s, '/queue', { clear: true });
  run.w.close();
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}

async function queue() {
  const s = await start({ models: path.join(source, 'models'), args: ['--quiet', '--preview', 'none'] });
  const run = new Sampling(s, sampling);
  await run.w.opened;
  await run.begin(); // what the model takes is no growth
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const ask = (body) => new Promise((done, fail) => {
    const r = http.request({ host: '127.0.0.1', port: s.port, method: 'POST', path: '/prompt', agent, headers: { 'content-length': Buffer.byteLength(body) } },
      (res) => { res.resume(); res.on('end', () => (res.statusCode === 200 ? done() : fail(new Error(`status ${res.statusCode}`)))); });
    r.on('error', fail);
    r.end(body);
  });
  const n = 10000, before = rss(s), began = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (next < n) await ask(JSON.stringify({ prompt: sampling(100 + next++, 20) }));
  }));
  const seconds = (performance.now() - began) / 1000;
  record('serve_queue_10000_s', round(seconds), 's', 'while a sampling runs');
  record('serve_queue_growth_mb', round(rss(s) - before, 1), 'MB', 'resident memory after 10000 prompts');
  await post(s, '/queue', { clear: true });
  await post(s, '/interrupt', { prompt_id: run.id });
  run.w.close();
  agent.destroy();
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}

async function ready() {
  const times = [];
  for (let i = 0; i < 7; i++) {
    const began = performance.now();
    const s = await start({ models: path.join(source, 'models'), args: ['--quiet'] });
    await get(s, '/prompt');
    times.push(performance.now() - began);
    await s.stop();
    fs.rmSync(s.dir, { recursive: true });
  }
  times.sort((a, b) => a - b);
  record('serve_ready_ms', round(at(times, 0.5), 1), 'ms', `from the start of the process to the first answer, median of ${times.length}`);
}

async function editor() {
  const s = await start({ args: ['--quiet'] });
  const gzip = 'Accept-Encoding: gzip\r\n';
  const page = await wire(s, '/', gzip);
  const packed = (answer) => /content-encoding: gzip/i.test(answer.all.toString('latin1', 0, answer.all.length - answer.body.length));
  const html = (packed(page) ? zlib.gunzipSync(page.body) : page.body).toString();
  let bytes = page.body.length;
  for (const [, url] of html.matchAll(/(?:src|href)="([^"#:]+)"/g))
    bytes += (await wire(s, url.startsWith('/') ? url : `/${url}`, gzip)).body.length;
  record('editor_gzip_kb', round(bytes / 1000, 1), 'kB', 'the page and all that it loads, as sent');
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}

const parts = { ready, editor, queue, latency, slowdown, sd15 };
for (const name of process.argv[4]?.split(",") ?? Object.keys(parts)) await parts[name]();
