// Requests that try to break the server, or to reach what they must not. It has to answer in the
// protocol's terms and to live on.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { Socket, check, end, ended, equal, folder, get, picture, post, raw, sleep, start, timed, until } from './server.mjs';

const s = await start({ args: ['--max-upload-mb', '1', '--quiet'] });
const alive = async (what) => equal((await get(s, '/prompt')).status, 200, `alive after ${what}`);
const status = (r) => Number(/^HTTP\/1\.1 (\d+)/.exec(r.text)?.[1] ?? 0);
const head = (method, url, lines, body = '') => `${method} ${url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`;

async function sites() {
  const from = async (wanted, lines, method = 'GET', url = '/queue') => {
    const r = await raw(s, head(method, url, [...lines, 'Content-Length: 0', 'Connection: close']));
    equal(status(r), wanted, `${method} ${url} ${lines.join(', ')}`);
  };
  const host = `Host: ${s.host}`;
  await from(200, [host]);
  await from(200, ['Host: localhost']);
  await from(200, [host, `Origin: ${s.base}`]);
  await from(403, ['Host: evil.example']);
  await from(403, [`Host: evil.example:${s.port}`, `Origin: http://evil.example:${s.port}`]);
  await from(403, ['Host: localhost.evil.example']);
  await from(403, ['Host: 127.0.0.1.evil.example']);
  await from(403, ['Host: a b']);
  // What a client names must not steer the terminal that shows the log: bytes, escape and bell are named in it.
  await from(403, ['Host: \x1b[31mred\x07\xc2\x9b2J']);
  const told = (await get(s, '/internal/logs')).text;
  check(/Host .{0,3}\?\[31mred\?.{0,2}\?\?2J/.test(told), `no control characters: ${told.slice(-400)}`);
  for (const method of ['GET', 'POST']) {
    const url = method === 'GET' ? '/queue' : '/interrupt';
    await from(403, [host, 'Origin: http://evil.example'], method, url);
    await from(403, [host, 'Origin: null'], method, url);
    await from(403, [host, `Origin: http://127.0.0.1:${s.port + 1}`], method, url);
    await from(403, [host, 'Sec-Fetch-Site: cross-site'], method, url);
    await from(403, [host, 'Sec-Fetch-Site: same-site'], method, url);
    await from(200, [host, 'Sec-Fetch-Site: same-origin'], method, url);
  }
  await from(200, [host, 'Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'], 'GET', '/');
  await from(403, [host, 'Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors', 'Sec-Fetch-Dest: script'], 'GET', '/');
  for (const [headers, wanted] of [[{ Origin: 'http://evil.example' }, 403], [{ Origin: 'null' }, 403], [{ Host: 'evil.example' }, 403],
    [{ 'Sec-Fetch-Site': 'cross-site' }, 403], [{ Origin: s.base }, 101], [{ path: '/queue' }, 404], [{ path: '/api/ws' }, 101]]) {
    const w = new Socket(s, '', headers);
    equal(await w.opened, wanted, `handshake with ${JSON.stringify(headers)}`);
    w.close();
  }
}

async function http() {
  const host = `Host: ${s.host}`;
  for (const [what, bytes] of [
    ['nonsense', 'hello\r\n\r\n'], ['zero bytes', '\0\0\0\0\r\n\r\n'], ['no version', 'GET /\r\n\r\n'],
    ['a long path', head('GET', `/${'a'.repeat(70000)}`, [host])],
    ['many headers', head('GET', '/', [host, ...Array.from({ length: 3000 }, (_, i) => `X-${i}: ${i}`)])],
    ['a strange method', head('BREW', '/', [host])], ['CONNECT', head('CONNECT', 'evil.example:443', [host])],
    ['bad escapes', head('GET', '/view?filename=%zz%', [host])], ['a zero byte', head('GET', '/view?filename=%00', [host])],
    ['a negative length', head('POST', '/prompt', [host, 'Content-Length: -1'], '{}')],
    ['a huge length', head('POST', '/prompt', [host, 'Content-Length: 99999999999999999999'], '{}')],
    ['two lengths', head('POST', '/prompt', [host, 'Content-Length: 2', 'Content-Length: 20'], '{}')],
    ['bad chunks', head('POST', '/prompt', [host, 'Transfer-Encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n')],
    ['a smuggled request', head('POST', '/interrupt', [host, 'Content-Length: 4', 'Transfer-Encoding: chunked'], '0\r\n\r\nGET /queue HTTP/1.1\r\n\r\n')],
    ['traversal', head('GET', '/../../../../etc/passwd', [host])], ['traversal 2', head('GET', '/%2e%2e/%2e%2e/etc/passwd', [host])],
    ['bad UTF-8', head('GET', '/object_info/%ff%fe', [host])], ['h2c', head('GET', '/', [host, 'Upgrade: h2c', 'Connection: Upgrade'])],
    ['preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ]) {
    const r = await raw(s, bytes, 300);
    check(!r.text.includes('root:'), `${what} reads no file`);
    await alive(what);
  }
  // The library hands these connections over as they are and puts no limit of time to them.
  for (const more of ['', 'x'.repeat(5000)]) {
    const r = await raw(s, head('CONNECT', 'evil.example:443', [host]) + more, 5000);
    equal([status(r), r.closed], [405, true], 'CONNECT is refused and closed');
  }
  equal((await post(s, '/prompt', Buffer.alloc(2 << 20, 32))).status, 413, 'a body that is too long');
  await alive('a long body');
  // A body without a length and without chunks is an empty one.
  const bare = await raw(s, head('POST', '/interrupt', [host]));
  equal(status(bare), 200, 'POST without a body');
  // A client that stops half way, and one that only half closes.
  for (let i = 0; i < 50; i++) {
    const c = net.connect(s.port, '127.0.0.1');
    c.on('error', () => {});
    c.write(head('POST', '/prompt', [host, 'Content-Length: 1000'], '{"pro'));
    setTimeout(() => (i & 1 ? c.destroy() : c.end()), 50);
  }
  await sleep(150);
  await alive('half bodies');
  // Pipelined requests are answered in order.
  const two = await raw(s, head('GET', '/prompt', [host]) + head('GET', '/users', [host, 'Connection: close']));
  check(two.text.indexOf('exec_info') > 0 && two.text.indexOf('exec_info') < two.text.indexOf('migrated'), 'pipelining');
}

async function json() {
  const deep = '{"prompt":' + '{"a":'.repeat(5000) + '1' + '}'.repeat(5000) + '}';
  for (const body of ['', '{', 'null', '[]', '"x"', '1e999', '{"prompt":1}', '{"prompt":{"1":null}}', '{"prompt":{"1":{"class_type":7}}}',
    '{"prompt":{"1":{"class_type":"SaveImage","inputs":[]}}}', '{"prompt":{"1":{"class_type":"SaveImage","inputs":{"images":["1",0]}}}}',
    '{"prompt":{"1":{"class_type":"SaveImage","inputs":{"images":["9",-1]}}}}', '{"number":1e999,"prompt":{}}', deep,
    '{"prompt":{"1":{"class_type":"SaveImage","inputs":{"images":["1",1e30],"filename_prefix":"x"}}}}', '{"prompt_id":7,"prompt":{}}',
    '{"client_id":{},"extra_data":[],"prompt":{}}']) {
    const r = await post(s, '/prompt', body);
    equal(r.status, 400, `POST /prompt ${body.slice(0, 60)}`);
    check(typeof r.json().error.type === 'string', 'an error object');
  }
  for (const url of ['/queue', '/history', '/interrupt', '/free', '/settings', '/settings/x', '/api/jobs/cancel'])
    for (const body of ['{', '{"delete":7}', '{"delete":[1,null,{}],"clear":"x","prompt_id":7}', '\xff']) {
      const r = await post(s, url, Buffer.from(body, 'latin1'));
      check([200, 400].includes(r.status), `POST ${url} ${body}: ${r.status}`);
    }
  await alive('bad JSON');
}

// What goes wrong is told without telling where the server's folders lie.
async function places() {
  fs.writeFileSync(path.join(s.output, 'file'), '');
  const id = (await post(s, '/prompt', { prompt: picture(1, 'file/x', 8, 8) })).json().prompt_id;
  const entry = await ended(s, id);
  const text = JSON.stringify(entry) + (await get(s, '/internal/logs/raw')).text + (await get(s, '/internal/logs')).text;
  equal(entry.status.status_str, 'error', 'a file where a folder should be');
  check(text.includes('output/file') && !text.includes(s.dir), `no absolute path: ${text.slice(0, 2000)}`);
  // Names that are not UTF-8 would make the whole answer unreadable.
  fs.writeFileSync(Buffer.concat([Buffer.from(`${s.input}/`), Buffer.from([0xff, 0xfe]), Buffer.from('.png')]), '');
  for (const url of ['/object_info/LoadImage', '/internal/files/input']) {
    const bytes = await (await fetch(s.base + url)).arrayBuffer();
    let good = true;
    try { new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { good = false; }
    check(good, `${url} is UTF-8`);
  }
}

// No prompt writes or reads outside of the folders.
async function paths() {
  const outside = path.join(s.dir, 'outside');
  fs.mkdirSync(outside);
  fs.symlinkSync(outside, path.join(s.output, 'link'));
  for (const prefix of ['../outside/x', '/tmp/graft-outside', 'a/../../outside/x', 'link/x']) {
    const r = await post(s, '/prompt', { prompt: picture(1, prefix), prompt_id: `p${Math.random()}` });
    if (r.status !== 200) continue;
    const entry = await ended(s, r.json().prompt_id);
    equal(entry.status.status_str, 'error', `prefix ${prefix}`);
  }
  equal(fs.readdirSync(outside), [], 'nothing was written outside');
  const load = (image) => ({ 1: { class_type: 'LoadImage', inputs: { image } }, 2: { class_type: 'SaveImage', inputs: { images: ['1', 0], filename_prefix: 'x' } } });
  for (const image of ['../../../etc/passwd', '/etc/passwd', 'x.png [output]/../..',
    '..\\..\\..\\etc\\passwd', '\\etc\\passwd', '..\\state\\graft.sqlite [output]'])
    equal((await post(s, '/prompt', { prompt: load(image) })).status, 400, image);
  for (const url of ['/userdata/..%2Fgraft.sqlite', '/userdata/%2e%2e%2fgraft.sqlite', '/userdata/workflows%2F..%2F..%2Fgraft.sqlite',
    '/view_metadata/checkpoints?filename=..%2F..%2Fstate%2Fgraft.sqlite', '/models/..%2F..%2Fx', '/internal/files/..', '/extensions/..%2f..%2fetc%2fpasswd'])
    check((await get(s, url)).status >= 400, url);
}

async function sockets() {
  const bad = async (what, send, code) => {
    const w = new Socket(s, '?clientId=bad');
    await w.opened;
    send(w);
    if (code) await until(() => w.closed);
    if (code) equal([w.closed, w.code], [true, code], `${what}: closed`);
    w.close();
    await alive(what);
  };
  await bad('nonsense', (w) => w.send('nonsense'));
  await bad('deep JSON', (w) => w.send('['.repeat(10000)));
  await bad('a long message', (w) => w.send('x'.repeat(100000)), 1009);
  await bad('many pieces', (w) => { for (let i = 0; i < 17; i++) w.send('x'.repeat(1000), i ? 0 : 1, false); }, 1009);
  await bad('bad UTF-8', (w) => w.send(Buffer.from([0xff, 0xfe])), 1007);
  await bad('a binary message', (w) => w.send(Buffer.alloc(1000), 2));
  await bad('a huge frame', (w) => w.socket.write(Buffer.from([0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0])));
  await bad('a strange opcode', (w) => w.send('x', 11), 1002);
  await bad('no mask', (w) => w.socket.write(Buffer.from([0x81, 1, 65])));
  const w = new Socket(s, `?clientId=${'x'.repeat(5000)}`);
  check(await w.opened === 101 || w.closed, 'a long client id');
  w.close();
}

// Frames at random, by a fixed seed: good ones, cut ones, with wrong lengths, opcodes and masks; and
// requests that are damaged in one place.
async function storm() {
  let state = 20261121;
  const random = (n) => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 2 ** 32 * n); };
  const texts = ['{"type":"feature_flags","data":{"supports_preview_metadata":true}}', '{"type":"feature_flags"}', '{"type":7}', '[[]]', '',
    '{"type":"feature_flags","data":[1e999]}', '\u0000', 'x'.repeat(200), '{"a":'.repeat(50)];
  const rounds = process.env.GRAFT_LOAD === 'full' ? 2000 : 200;
  for (let i = 0; i < rounds; i++) {
    const w = new Socket(s, `?clientId=storm${random(4)}`);
    await w.opened;
    for (let k = random(6) + 1; k > 0; k--) {
      const payload = Buffer.from(texts[random(texts.length)]);
      const head = Buffer.from([random(8) ? 0x80 | (random(3) ? 1 : random(16)) : random(256), random(8) ? 0x80 | Math.min(payload.length, 125) : random(256)]);
      const mask = Buffer.from([random(256), random(256), random(256), random(256)]);
      const frame = Buffer.concat([head, mask, payload.subarray(0, 125).map((b, at) => b ^ mask[at & 3])]);
      if (!random(4) && frame.length) frame[random(frame.length)] ^= 1 << random(8);
      w.socket.write(random(5) ? frame : frame.subarray(0, random(frame.length + 1)));
    }
    if (random(2)) w.socket.end();
    else setTimeout(() => w.socket.destroy(), random(20));
    if (i % 50 === 49) await alive(`${i + 1} sockets with random frames`);
  }
  const body = JSON.stringify({ prompt: picture(1, 'storm/a', 8, 8), client_id: 'storm0', number: 1, extra_data: { extra_pnginfo: { workflow: {} } } });
  const whole = Buffer.from(head('POST', '/prompt', [`Host: ${s.host}`, 'Connection: close', `Content-Length: ${body.length}`], body));
  await Promise.all(Array.from({ length: rounds }, async () => {
    const bytes = Buffer.from(whole);
    for (let k = random(3); k >= 0; k--) bytes[random(bytes.length)] = random(256);
    await raw(s, bytes.toString('latin1'), 300);
  }));
  await alive('damaged requests');
}

// Many connections that say nothing do not keep others out. 10 000 of them where the limit of open
// files allows that, with GRAFT_LOAD=full.
async function crowd() {
  const n = process.env.GRAFT_LOAD === 'full' ? 10000 : 2000;
  const many = [];
  const began = performance.now();
  let open = 0; // those that say nothing for 20 s are closed, which on a busy machine is soon
  for (let i = 0; i < n; i++) {
    const c = net.connect(s.port, '127.0.0.1');
    c.on('error', () => {});
    c.on('connect', () => { open++; if (i & 1) c.write('GET / HTTP/1.1\r\nHost: '); });
    many.push(c);
    if (i % 250 === 249) await sleep(10);
  }
  await until(() => !many.some((c) => c.connecting));
  console.log(`${open} of ${n} connections opened in ${Math.round(performance.now() - began)} ms`);
  check(open > n * 0.95, `${open} of ${n} connections`);
  let ms = Infinity; // of three: a process may be stopped for a while, too, and that is in no account
  for (let i = 0; i < 3 && ms >= 1000; i++) ms = await timed(s, () => alive(`${n} silent connections`));
  check(ms < 1000, `and quickly: ${ms} ms`);
  for (const c of many) c.destroy();
}

// Who may not ask cannot make the server hold what they send, nor take the room of those who may.
async function bodiesWithoutToken(t) {
  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${t.process.pid}/status`, 'latin1'))[1]) / 1024;
  const head = (size, more = '') => `POST /prompt HTTP/1.1\r\nHost: ${t.host}\r\nContent-Length: ${size}\r\n${more}\r\n`;
  const asked = await raw(t, head(1000, 'Expect: 100-continue\r\n'));
  check(asked.closed && /^HTTP\/1\.1 401/.test(asked.text), `not welcome: ${asked.text.slice(0, 40)}`);
  equal((await raw(t, `${head(2)}{}`, 2000)).text.slice(0, 12), 'HTTP/1.1 401', 'a body without the token');
  const before = memory(), size = 64 << 20, block = Buffer.alloc(1 << 20, 32), list = [];
  for (let i = 0; i < 4; i++) {
    const c = net.connect(t.port, '127.0.0.1');
    c.on('error', () => {});
    c.write(head(size + 1));
    list.push(new Promise((done) => {
      let left = size;
      const more = () => { left -= block.length; if (left >= 0) c.write(block, more); else done(c); };
      more();
    }));
  }
  const sockets = await Promise.all(list);
  const grown = memory() - before;
  check(grown < 64, `${Math.round(grown)} MiB held of 256 that were sent without the token`);
  for (const c of sockets) c.destroy();
}

async function token() {
  const t = await start({ args: ['--token', 'secret word'] });
  const basic = (p) => ({ Authorization: `Basic ${Buffer.from(`user:${p}`).toString('base64')}` });
  equal((await get(t, '/prompt')).status, 401, 'no token');
  const asked = await get(t, '/');
  equal([asked.headers.get('content-type'), asked.text], ['text/plain; charset=utf-8', '401: this server asks for its token'], 'a page, not a download');
  equal((await get(t, '/', { headers: { Authorization: 'Bearer secret' } })).status, 401, 'a wrong token');
  equal((await get(t, '/prompt', { headers: { Authorization: 'Bearer secret word' } })).status, 200, 'bearer');
  equal((await get(t, '/prompt', { headers: basic('secret word') })).status, 200, 'basic');
  equal((await get(t, '/prompt', { headers: basic('secret wor') })).status, 401, 'wrong basic');
  const r = await get(t, '/?token=secret%20word');
  equal(r.status, 200, 'argument');
  equal((await get(t, '/prompt', { headers: { cookie: 'a=b; graft_token=secret word' } })).status, 200, 'cookie');
  check(/graft_token=.*HttpOnly; SameSite=Strict/.test(r.headers.get('set-cookie')), 'the cookie is set');
  equal(await new Socket(t, '').opened, 401, 'handshake without token');
  equal(await new Socket(t, '?token=secret%20word').opened, 101, 'handshake with token');
  await bodiesWithoutToken(t);
  await t.stop();
  fs.rmSync(t.dir, { recursive: true });
  let refused = false;
  await start({ args: ['--listen', '0.0.0.0'] }).then((x) => x.stop(), () => { refused = true; });
  check(refused, 'listening for everybody needs a token');
}

// HTTPS and WSS with a certificate of one's own; a damaged one is refused before anything listens.
async function tls() {
  const dir = folder();
  const pem = (name) => path.join(dir, name);
  const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', pem('key.pem'), '-out', pem('cert.pem')]);
  if (made.status !== 0) {
    console.log('skipped: TLS, because openssl is not installed');
    return;
  }
  const t = await start({ dir, args: ['--tls-cert', pem('cert.pem'), '--tls-key', pem('key.pem'), '--token', 'word'] });
  const ca = fs.readFileSync(pem('cert.pem'));
  const ask = (options, body) => new Promise((done) => {
    const r = https.request({ host: '127.0.0.1', port: t.port, servername: 'localhost', ca, ...options }, (res) => {
      res.resume();
      res.on('end', () => done(res));
    });
    r.on('upgrade', (res, socket) => { socket.destroy(); done(res); });
    r.on('error', (e) => done({ statusCode: e.code }));
    r.end(body);
  });
  equal((await ask({ path: '/prompt' })).statusCode, 401, 'TLS without token');
  const cookie = (await ask({ path: '/?token=word' })).headers['set-cookie']?.[0] ?? '';
  check(/^graft_token=word;.*; Secure$/.test(cookie), 'the cookie is for TLS only');
  equal((await ask({ path: '/prompt', headers: { cookie: 'graft_token=word' } })).statusCode, 200, 'TLS with cookie');
  equal((await ask({ path: '/prompt', headers: { cookie: 'graft_token=word', origin: `https://127.0.0.1:${t.port}` } })).statusCode,
    200, 'the same site');
  equal((await ask({ path: '/prompt', headers: { cookie: 'graft_token=word', origin: `http://127.0.0.1:${t.port}` } })).statusCode,
    403, 'the same name without TLS is another site');
  equal((await ask({ path: '/ws', headers: { cookie: 'graft_token=word', connection: 'Upgrade', upgrade: 'websocket',
    'sec-websocket-version': '13', 'sec-websocket-key': Buffer.alloc(16).toString('base64') } })).statusCode, 101, 'WSS');
  const plain = await raw(t, 'GET /prompt HTTP/1.1\r\nHost: localhost\r\n\r\n', 300);
  check(!plain.text.includes('200 OK'), 'plain HTTP gets nothing');
  equal((await ask({ path: '/prompt', headers: { authorization: 'Bearer word' } })).statusCode, 200, 'alive after plain HTTP');
  equal((await t.stop()).code, 0, 'the TLS server ends in order');
  fs.writeFileSync(pem('bad.pem'), 'nonsense');
  let refused = '';
  await start({ dir, args: ['--tls-cert', pem('bad.pem'), '--tls-key', pem('key.pem')] }).then((x) => x.stop(), (e) => { refused = e.message; });
  check(refused.includes('certificate'), `a damaged certificate: ${refused}`);
  fs.rmSync(dir, { recursive: true });
}

for (const test of [sites, http, json, places, paths, sockets, storm, crowd, token, tls]) await test();
equal((await s.stop()).code, 0, 'the server ends in order');
check(!fs.existsSync('/tmp/graft-outside_00001_.png'), 'no file outside');
fs.rmSync(s.dir, { recursive: true });
end();
