// The server under load: bench/serve.mjs BUILD [PAIRS [PARTS]]. Figures go to BUILD/bench.json, in the form of
// bench/record.h. Everything runs on one machine, so the load costs the sampling what answering costs
// the server and what asking costs this script; the server's own share is measured apart.
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
const SECONDS = 2; // that a sampling takes, about

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

// Seconds of computing by the thread that answers: the main one.
const answering = (s) => {
  const f = fs.readFileSync(`/proc/${s.process.pid}/task/${s.process.pid}/stat`, 'latin1').replace(/^.*\) /, '').split(' ');
  return (Number(f[11]) + Number(f[12])) / 100;
};

function sampling(seed, steps) {
  const prompt = JSON.parse(fs.readFileSync(path.join(source, 'workflows/txt2img.json'), 'utf8'));
  for (const node of Object.values(prompt))
    if (node.class_type === 'KSampler') Object.assign(node.inputs, { seed, steps });
  return prompt;
}

// Seconds that the server took for one prompt, by its own clock.
async function timed(s, w, seed, steps) {
  const r = await post(s, '/prompt', { prompt: sampling(seed, steps), client_id: 'bench' });
  if (r.status !== 200) throw new Error(r.text);
  const id = r.json().prompt_id;
  await w.finished(id, 300000);
  const messages = (await get(s, `/history/${id}`)).json()[id].status.messages;
  if (messages.at(-1)[0] !== 'execution_success') throw new Error(JSON.stringify(messages.at(-1)));
  return (messages.at(-1)[1].timestamp - messages[0][1].timestamp) / 1000;
}

// Requests at an even pace over a few connections; answers are counted by their size, not read.
async function load(s, size) {
  const request = `GET /object_info HTTP/1.1\r\nHost: ${s.host}\r\n\r\n`;
  const idle = Array.from({ length: IDLE }, (_, i) => new Socket(s, `?clientId=idle${i}`));
  await Promise.all(idle.map((w) => w.opened));
  let asked = 0, got = 0;
  const links = await Promise.all(Array.from({ length: 8 }, () => new Promise((done) => {
    const c = net.connect(s.port, '127.0.0.1', () => done(c));
    c.on('data', (d) => { got += d.length; });
    c.on('error', () => {});
  })));
  const began = performance.now(), cpu = answering(s);
  const timer = setInterval(() => {
    const due = Math.floor((performance.now() - began) / 1000 * PER_SECOND);
    // No more than a hundred wait: a server that cannot keep up is seen in the rate.
    while (asked < due && asked - got / size < 100) links[asked++ % links.length].write(request);
  }, 5);
  return async () => {
    clearInterval(timer);
    const seconds = (performance.now() - began) / 1000, computing = answering(s) - cpu;
    for (const c of [...links, ...idle.map((w) => w.socket)]) c.destroy();
    await sleep(100);
    return { rate: got / size / seconds, share: computing / seconds };
  };
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

async function slowdown() {
  const s = await start({ models: path.join(source, 'models'), args: ['--quiet', '--preview', 'none'] });
  const w = new Socket(s, '?clientId=bench');
  await w.opened;
  const size = (await wire(s, '/object_info')).all.length;
  await timed(s, w, 1, 20); // loads, compiles, tunes
  const steps = Math.max(10, Math.min(2000, Math.round(20 * SECONDS / await timed(s, w, 2, 20))));
  const ratios = [], rates = [], shares = [];
  for (let i = 0; i < pairs; i++) {
    const one = {};
    for (const loaded of i % 2 ? [true, false] : [false, true]) {
      const stop = loaded ? await load(s, size) : null;
      one[loaded] = await timed(s, w, 10 + 2 * i + loaded, steps);
      if (!stop) continue;
      const { rate, share } = await stop();
      rates.push(rate);
      shares.push(share);
    }
    ratios.push((one[true] / one[false] - 1) * 100);
    console.log(`  ${one[false].toFixed(2)} s, under load ${one[true].toFixed(2)} s: ${ratios.at(-1).toFixed(1)} %`);
  }
  ratios.sort((a, b) => a - b);
  const rate = rates.reduce((a, b) => a + b) / rates.length;
  record('serve_slowdown', round(at(ratios, 0.5)), '%', `median of ${pairs} pairs, ${round(at(ratios, 0.25))} to ${round(at(ratios, 0.75))} between `
    + `quartiles; ${Math.round(rate)} answers a second of ${(size / 1024).toFixed(0)} KiB, ${IDLE} idle clients; the clients run on the same processors`);
  record('serve_answering_percent', round(shares.reduce((a, b) => a + b) / shares.length * 100), '% of a processor',
    'what the answers alone cost the server during that');
  w.close();
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}

async function queue() {
  const s = await start({ models: path.join(source, 'models'), args: ['--quiet', '--preview', 'none'] });
  const busy = await post(s, '/prompt', { prompt: sampling(1, 10000) });
  const id = busy.json().prompt_id;
  await sleep(1000); // it samples by now
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
  await post(s, '/interrupt', { prompt_id: id });
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

const parts = { ready, editor, queue, slowdown };
for (const name of process.argv[4]?.split(",") ?? Object.keys(parts)) await parts[name]();
