// Starts `graft serve` for a test and ends it by its process id; a small WebSocket client that can
// also misbehave; checks that count. Needs nothing but node.
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const program = process.env.GRAFT_PROGRAM;
const plugins = process.env.GRAFT_PLUGINS;
export const source = process.env.GRAFT_SOURCE_DIR;

let checks = 0;
let failures = 0;
export function check(condition, what) {
  checks++;
  if (condition) return true;
  failures++;
  console.error(`not true: ${what}\n${new Error().stack.split('\n')[2]}`);
  return false;
}
export function equal(got, wanted, what) {
  const a = JSON.stringify(got), b = JSON.stringify(wanted);
  return check(a === b, `${what}: ${a} is not ${b}`);
}
export function end() {
  console.log(`${checks} checks, ${failures} failed`);
  process.exitCode = failures || !checks ? 1 : 0;
}
export function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// How long to wait for what must come. It is no claim about speed: other programs may take the processors.
export const PATIENCE = 180000;
// Asks until the answer is true, or there is no patience left; gives the last answer.
export async function until(test, ms = PATIENCE) {
  for (const stop = Date.now() + ms; ; await sleep(20)) {
    const answer = await test();
    if (answer || Date.now() > stop) return answer;
  }
}
// Events wait ten seconds for a client that is away. `run(attempt)` ends when it is back; where others had the
// processors for so long that those are over, it is run again. Gives what the last one gave.
export async function soon(run) {
  for (let attempt = 0; ; attempt++) {
    const began = performance.now(), result = await run(attempt);
    if (performance.now() - began < 8000 || attempt === 9) return result;
  }
}
export const ended = (s, id) => until(async () => (await get(s, `/history/${id}`)).json()[id]);

// Milliseconds that threads of these processes were ready to run while others had the processors.
const delayed = (pids) => pids.flatMap((pid) => fs.readdirSync(`/proc/${pid}/task`).map((t) => `/proc/${pid}/task/${t}/schedstat`))
  .reduce((sum, file) => { try { return sum + Number(fs.readFileSync(file, 'latin1').split(' ')[1]) / 1e6; } catch { return sum; } }, 0);
// Milliseconds that `run` takes, without those for which the server and this program were kept waiting.
export async function timed(s, run) {
  const pids = [s.process.pid, process.pid], before = delayed(pids), began = performance.now();
  await run();
  return Math.max(0, performance.now() - began - (delayed(pids) - before));
}

export function folder() {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'graft-serve-'));
}

// {base, host, port, dir, process, stop(), kill()}; `dir` survives stop() so that a second server
// can go on with it.
export async function start(options = {}) {
  const dir = options.dir ?? folder();
  const output = path.join(dir, 'output');
  const input = path.join(dir, 'input');
  for (const d of [output, input]) fs.mkdirSync(d, { recursive: true });
  const args = ['serve', '--port', '0', '--state', path.join(dir, 'state'), '--output', output,
    '--input', input, '--plugins', options.plugins ?? plugins,
    '--models', options.models ?? path.join(dir, 'models'), ...(options.args ?? [])];
  const began = performance.now(), before = delayed([process.pid]);
  // options.files: how many descriptors the server may have.
  const [run, all] = options.files ? ['sh', ['-c', `ulimit -n ${options.files}; exec "$0" "$@"`, program, ...args]] : [program, args];
  const child = spawn(run, all, { stdio: ['ignore', 'pipe', 'pipe'], cwd: dir });
  let log = '';
  let ending = false;
  let line = '';
  child.stderr.on('data', (d) => { log += d; });
  const port = await new Promise((done, fail) => {
    child.stdout.on('data', (d) => {
      line += d;
      const m = /:(\d+)\/\n/.exec(line);
      if (m) done(Number(m[1]));
    });
    child.on('exit', (code, signal) => {
      fail(new Error(`the server ended with ${code}: ${log}`));
      if (code) console.error(log.slice(-4000));
      if (signal && !ending) console.error(`the server was ended by ${signal}: ${log.slice(-4000)}`);
    });
    child.on('error', fail);
  });
  const ready = Math.max(0, performance.now() - began - (delayed([child.pid, process.pid]) - before));
  const gone = new Promise((done) => child.on('exit', (code, signal) => done({ code, signal })));
  const end = async (signal) => {
    ending = true;
    child.kill(signal);
    return gone;
  };
  return {
    base: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}`, port, dir, input, output, ready,
    process: child, gone, log: () => log, stop: () => end('SIGTERM'), kill: () => end('SIGKILL'),
  };
}

export async function get(s, url, init) {
  const r = await fetch(s.base + url, init);
  const body = Buffer.from(await r.arrayBuffer());
  return {
    status: r.status, headers: r.headers, body, text: body.toString(),
    json: () => JSON.parse(body.toString()),
  };
}
export const post = (s, url, body, headers = {}) =>
  get(s, url, { method: 'POST', body: typeof body === 'object' && body !== null &&
    !(body instanceof FormData) && !Buffer.isBuffer(body) ? JSON.stringify(body) : body, headers });

// Sends bytes as they are; gives everything that came until the other side closed or `ms` passed.
export function raw(s, bytes, ms = PATIENCE) {
  return new Promise((done) => {
    const socket = net.connect(s.port, '127.0.0.1');
    let got = '';
    const finish = (closed) => { socket.destroy(); done({ text: got, closed }); };
    const timer = setTimeout(() => finish(false), ms);
    socket.on('connect', () => socket.write(bytes));
    socket.on('data', (d) => { got += d.toString('latin1'); });
    socket.on('error', () => {});
    socket.on('close', () => { clearTimeout(timer); finish(true); });
  });
}

// A WebSocket client: messages() holds what came, as objects or as buffers.
export class Socket {
  constructor(s, query = '', headers = {}) {
    this.got = [];
    this.waiting = [];
    this.closed = false;
    this.socket = net.connect(s.port, '127.0.0.1');
    this.socket.setNoDelay(true);
    this.buffer = Buffer.alloc(0);
    this.status = 0;
    const key = crypto.randomBytes(16).toString('base64');
    const lines = { Host: s.host, Upgrade: 'websocket', Connection: 'Upgrade',
      'Sec-WebSocket-Key': key, 'Sec-WebSocket-Version': '13', ...headers };
    this.opened = new Promise((done) => { this.done = done; });
    this.socket.on('connect', () => this.socket.write(`GET ${headers.path ?? '/ws'}${query} HTTP/1.1\r\n` +
      Object.entries(lines).filter(([k]) => k !== 'path').map(([k, v]) => `${k}: ${v}\r\n`).join('') + '\r\n'));
    this.socket.on('data', (d) => this.data(d));
    this.socket.on('error', () => {});
    this.socket.on('close', () => { this.closed = true; this.done(this.status); this.wake(); });
  }
  data(d) {
    this.buffer = Buffer.concat([this.buffer, d]);
    if (!this.status) {
      const at = this.buffer.indexOf('\r\n\r\n');
      if (at < 0) return;
      this.status = Number(this.buffer.toString('latin1', 9, 12));
      this.buffer = this.buffer.subarray(at + 4);
      this.done(this.status);
    }
    if (this.status === 101) while (this.frame());
    this.wake();
  }
  frame() {
    const b = this.buffer;
    if (b.length < 2) return false;
    let size = b[1] & 127, at = 2;
    if (size === 126) { if (b.length < 4) return false; size = b.readUInt16BE(2); at = 4; }
    else if (size === 127) { if (b.length < 10) return false; size = Number(b.readBigUInt64BE(2)); at = 10; }
    if (b.length < at + size) return false;
    const payload = b.subarray(at, at + size), op = b[0] & 15;
    this.buffer = b.subarray(at + size);
    if (op === 1) this.got.push(JSON.parse(payload.toString()));
    if (op === 2) this.got.push(Buffer.from(payload));
    if (op === 8) { this.code = size >= 2 ? payload.readUInt16BE(0) : 1005; this.send(payload, 8); }
    if (op === 9) this.send(payload, 10);
    return true;
  }
  wake() {
    for (const f of this.waiting.splice(0)) f();
  }
  send(data, op = 1, fin = true) {
    const payload = Buffer.from(typeof data === 'string' ? data : data);
    const mask = crypto.randomBytes(4);
    const head = payload.length < 126 ? Buffer.from([(fin ? 128 : 0) | op, 128 | payload.length])
      : payload.length < 65536 ? Buffer.from([(fin ? 128 : 0) | op, 254, payload.length >> 8, payload.length & 255])
        : Buffer.concat([Buffer.from([(fin ? 128 : 0) | op, 255, 0, 0, 0, 0]),
          Buffer.from([payload.length >>> 24, (payload.length >> 16) & 255, (payload.length >> 8) & 255, payload.length & 255])]);
    const body = Buffer.from(payload);
    for (let i = 0; i < body.length; i++) body[i] ^= mask[i & 3];
    this.socket.write(Buffer.concat([head, mask, body]));
  }
  // Resolves once a message fits; false after `ms`.
  async until(fits, ms = PATIENCE) {
    const stop = Date.now() + ms;
    for (;;) {
      const hit = this.got.find(fits);
      if (hit) return hit;
      if (this.closed || Date.now() > stop) return false;
      let timer;
      await new Promise((f) => { this.waiting.push(f); timer = setTimeout(f, Math.max(1, stop - Date.now())); });
      clearTimeout(timer);
    }
  }
  finished(id, ms) {
    return this.until((m) => m.type === 'executing' && m.data.node === null && m.data.prompt_id === id, ms);
  }
  close() {
    this.socket.destroy();
  }
}

// One picture of one colour, written to `prefix`.
export const picture = (color = 255, prefix = 'demo/a', width = 96, height = 64) => ({
  1: { class_type: 'EmptyImage', inputs: { width, height, batch_size: 1, color }, _meta: { title: 'colour' } },
  2: { class_type: 'SaveImage', inputs: { images: ['1', 0], filename_prefix: prefix } },
});
