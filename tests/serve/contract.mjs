// Every route with what it answers, errors included: status, content type, and what the body is or
// begins with. Then request lines and connections as no library of a client would send them.
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { PATIENCE, check, end, ended, equal, get, picture, post, sleep, start, until } from './server.mjs';

const s = await start({ args: ['--quiet'] });
const host = `Host: ${s.host}`;
const none = ['application/octet-stream', ''];
const json = (text) => ['application/json; charset=utf-8', text];
const plain = (text) => ['text/plain; charset=utf-8', text];

const id = (await post(s, '/prompt', { prompt: picture(), client_id: 'one' })).json().prompt_id;
await ended(s, id);

// [method, path, body, status, [content type, the body or, with … behind, how it begins]]
const table = [
  ['GET', '/ws', , 400, none], ['GET', '/prompt', , 200, json('{"exec_info":{"queue_remaining":0}}')],
  ['GET', '/queue', , 200, json('{"queue_running":[],"queue_pending":[]}')],
  ['POST', '/queue', '', 200, none], ['POST', '/queue', '{"clear":true}', 200, none], ['POST', '/queue', '{"delete":["x"]}', 200, none],
  ['POST', '/queue', '{', 400, json('{"error":…')],
  ['POST', '/interrupt', '', 200, none], ['POST', '/interrupt', '{}', 200, none], ['POST', '/interrupt', '{"prompt_id":"x"}', 200, none],
  ['POST', '/free', '{"unload_models":true,"free_memory":true}', 200, none], ['POST', '/free', '', 200, none],
  ['GET', '/history?max_items=0', , 200, json('{}')], ['GET', '/history?max_items=1&offset=7', , 200, json('{}')],
  ['GET', `/history/${id}`, , 200, json(`{"${id}":{"prompt":[…`)], ['GET', '/history/none', , 200, json('{}')],
  ['POST', '/history', '', 200, none], ['POST', '/history', '{"delete":["x"]}', 200, none],
  ['GET', '/object_info', , 200, json('{…')], ['GET', '/object_info/None', , 200, json('{}')], ['GET', '/object_info/SaveImage', , 200, json('{"SaveImage":{"input":{"required":{"images":["IMAGE",{…')],
  ['GET', '/system_stats', , 200, json('{"system":{"os":"posix",…')],
  ['GET', '/features', , 200, json('{"supports_preview_metadata":true,"max_upload_size":104857600,…')],
  ['GET', '/embeddings', , 200, json('[]')], ['GET', '/models', , 200, json('["checkpoints",…')], ['GET', '/models/checkpoints', , 200, json('[]')], ['GET', '/models/none', , 404, none],
  ['GET', '/experiment/models', , 200, json('[{"name":"checkpoints","folders":["checkpoints"]},…')], ['GET', '/experiment/models/checkpoints', , 200, json('[]')],
  ['GET', '/experiment/models/none', , 404, none], ['GET', '/experiment/models/preview/checkpoints/0/x.safetensors', , 404, none],
  ['GET', '/view_metadata/checkpoints', , 404, none], ['GET', '/view_metadata/checkpoints?filename=x', , 404, none], ['GET', '/view_metadata/none?filename=x', , 404, none],
  ['GET', '/view?filename=a_00001_.png&subfolder=demo', , 200, ['image/png', '…']], ['GET', '/view?filename=a_00001_.png&subfolder=demo&preview=webp;90', , 200, ['image/jpeg', '…']],
  ['GET', '/view', , 404, none], ['GET', '/view?filename=../x', , 400, none], ['GET', '/view?filename=x&type=y', , 400, none], ['GET', '/view?filename=x&subfolder=..', , 403, none], ['GET', '/view?filename=demo', , 404, none],
  ['POST', '/upload/image', '', 400, none], ['POST', '/upload/mask', '', 400, none],
  ['GET', '/extensions', , 200, json('[]')], ['GET', '/users', , 200, json('{"storage":"server","migrated":true}')], ['POST', '/users', '{"username":"x"}', 400, json('{"error":"Duplicate username."}')],
  ['GET', '/settings', , 200, json('{}')], ['GET', '/settings/none', , 200, json('null')], ['POST', '/settings', '{"a":1}', 200, none], ['POST', '/settings', '[]', 400, json('{"error":…')],
  ['POST', '/settings/b', 'true', 200, none], ['POST', '/settings/b', '', 400, json('{"error":…')], ['GET', '/settings/b', , 200, json('true')],
  ['GET', '/userdata', , 400, plain('Directory not provided')], ['GET', '/userdata?dir=..', , 403, plain('Invalid directory')], ['GET', '/userdata?dir=none', , 404, plain('Directory not found')],
  ['GET', '/userdata?dir=workflows', , 200, json('[]')], ['POST', '/userdata/workflows%2Fa.json', '{"a":1}', 200, json('"workflows/a.json"')],
  ['POST', '/userdata/workflows%2Fa.json?overwrite=false', '{}', 409, plain('File already exists')], ['POST', '/userdata/workflows%2Fa.json', '', 400, plain('The file is empty')],
  ['POST', '/userdata/none/move/workflows%2Fb.json', '', 404, none], ['POST', '/userdata/workflows%2Fa.json/move/workflows%2Fa.json?overwrite=false', '', 409, none],
  // The library resolves "..", so this is an attempt to save an empty workflows/a.json.
  ['POST', '/userdata/workflows%2Fx.json/move/..%2F..%2Fa.json', '', 400, plain('The file is empty')], ['GET', '/userdata/workflows%2Fa.json', , 200, json('{"a":1}')],
  ['DELETE', '/userdata/workflows%2Fa.json', , 204, [, '']], ['DELETE', '/userdata/workflows%2Fa.json', , 404, none], ['GET', '/userdata/none', , 404, none],
  ['GET', '/v2/userdata', , 200, json('[{"name":"workflows","path":"workflows","type":"directory",…')], ['GET', '/v2/userdata?path=none', , 404, json('{"error":…')],
  ['GET', '/i18n', , 200, json('{}')], ['GET', '/workflow_templates', , 200, json('{}')], ['GET', '/workflow_templates/graft/none.json', , 404, plain('404: Not Found')], ['GET', '/global_subgraphs', , 200, json('{}')], ['GET', '/node_replacements', , 200, json('{}')],
  ['GET', '/internal/logs', , 200, json('"prompt …')], ['GET', '/internal/logs/raw', , 200, json('{"entries":[{"t":"…')],
  ['PATCH', '/internal/logs/subscribe', '{"clientId":"x","enabled":true}', 200, none], ['GET', '/internal/folder_paths', , 404, plain('404: Not Found')],
  ['GET', '/internal/files/output', , 200, json('[]')], ['GET', '/internal/files/none', , 400, json('{"error":"Invalid directory type"}')],
  ['GET', '/jobs?limit=1', , 200, json(`{"jobs":[{"id":"${id}","status":"completed",…`)], ['GET', '/jobs?status=x', , 400, json('{"error":…')], ['GET', '/jobs/none', , 404, json('{"error":"Job not found"}')],
  ['POST', '/jobs/none/cancel', '', 404, json('{"error":"Job not found"}')], ['POST', '/jobs/cancel', '{"job_ids":["a"]}', 200, json('{"cancelled":false}')], ['POST', '/jobs/cancel', '{}', 400, json('{"error":…')],
  ['GET', '/manager/version', , 404, plain('404: Not Found')], ['POST', '/nothing', '{}', 404, plain('404: Not Found')], ['GET', '/history/', , 404, plain('404: Not Found')],
  ['PUT', '/prompt', '{}', 405, plain('405: Method Not Allowed'), 'GET,HEAD,POST'], ['GET', '/interrupt', , 405, plain('405: Method Not Allowed'), 'POST'],
  ['PATCH', '/userdata/x', '{}', 405, plain('405: Method Not Allowed'), 'DELETE,GET,HEAD,POST'],
];

async function routes() {
  for (const prefix of ['', '/api']) {
    for (const [method, path, body, status, [type, text], allow] of table) {
      if (prefix && method !== 'GET') continue; // they have changed something already
      if (prefix && path.startsWith('/userdata/workflows')) continue;
      const r = await get(s, prefix + path, { method, body });
      const what = `${method} ${prefix}${path} ${body ?? ''}`;
      equal([r.status, r.headers.get('content-type')], [status, type ?? null], what);
      const same = text.endsWith('…') ? r.text.startsWith(text.slice(0, -1)) : r.text === text || (prefix && path === '/settings');
      check(same, `${what}: ${r.text.slice(0, 200)} is not ${text}`);
      if (status !== 204 && !r.headers.get('content-encoding')) equal(r.headers.get('content-length'), String(r.body.length), `${what}: length`);
      if (allow) equal(r.headers.get('allow'), allow, what);
      if (method === 'GET' && status === 200) {
        const h = await get(s, prefix + path, { method: 'HEAD' });
        equal([h.status, h.headers.get('content-type'), h.body.length], [200, type, 0], `HEAD ${prefix}${path}`);
      }
    }
  }
}

// What the first line and the headers may be. 0: the library closes the connection without a word.
async function lines() {
  const ask = (bytes) => new Promise((done) => {
    const c = net.connect(s.port, '127.0.0.1', () => c.write(bytes));
    let text = '';
    const finish = (closed) => { clearTimeout(timer); c.destroy(); done({ text, closed }); };
    const timer = setTimeout(() => finish(false), PATIENCE);
    c.on('data', (d) => { text += d.toString('latin1'); if (text.includes('\r\n\r\n')) finish(false); });
    c.on('error', () => {});
    c.on('close', () => finish(true));
  });
  const upgrade = (...more) => ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', ...more];
  for (const [wanted, line, headers] of [
    [400, 'GET /prompt HTTP/1.1', []], [400, 'GET /prompt HTTP/1.1', ['Host:']], [200, 'GET /prompt HTTP/1.0', []], [200, 'GET /prompt HTTP/1.1', [host]],
    [400, 'GET /prompt', [host]], [400, 'GET /prompt HTTP/2.7', [host]], [403, 'GET /prompt HTTP/1.1', [host, 'Host: evil.example']],
    // Decoded line ends must not make headers out of an address.
    [400, 'GET /prompt?x=%0aHost:localhost HTTP/1.1', [host]], [400, 'GET /prompt%0aOrigin:x HTTP/1.1', [host]], [400, 'GET /view?filename=%0d%0ax HTTP/1.1', [host]],
    [400, 'GET /prompt?x=%01 HTTP/1.1', [host]], [400, 'GET /pro%7fmpt HTTP/1.1', [host]], [400, 'GET /object_info/%ff HTTP/1.1', [host]],
    [0, 'GET /a%00b HTTP/1.1', [host]], [0, 'GET /view?filename=%00 HTTP/1.1', [host]], [403, 'nonsense', []], [0, `GET /${'x'.repeat(20000)} HTTP/1.1`, [host]], [403, 'GET /a%zz HTTP/1.1', [host]], [403, 'BREW / HTTP/1.1', [host]],
    [404, 'GET /prompt HTTP/1.1', [host, ...upgrade()]], [400, 'POST /ws HTTP/1.1', [host, ...upgrade('Content-Length: 0')]], [101, 'GET /ws HTTP/1.1', [host, ...upgrade()]],
    [400, 'GET /ws HTTP/1.1', upgrade()], [400, 'GET /ws HTTP/1.1', [host, ...upgrade('Sec-WebSocket-Protocol: chat')]], [400, 'GET /prompt HTTP/1.1', [host, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA']],
    [411, 'DELETE /userdata/x HTTP/1.1', [host, 'Transfer-Encoding: chunked']], [501, 'POST /interrupt HTTP/1.1', [host, 'Transfer-Encoding: gzip']], [400, 'POST /interrupt HTTP/1.1', [host, 'Content-Length: +2']],
    [400, 'POST /interrupt HTTP/1.1', [host, 'Content-Length: 2', 'Content-Length: 2']], [413, 'POST /interrupt HTTP/1.1', [host, 'Content-Length: 5000000000']],
  ]) {
    const r = await ask(`${[line, ...headers].join('\r\n')}\r\n\r\n`);
    equal(Number(/^HTTP\/1\.\d (\d+)/.exec(r.text)?.[1] ?? 0), wanted, `${line.slice(0, 80)} ${headers.join(', ')}`);
    if (!wanted) check(r.closed, `${line.slice(0, 80)}: closed`);
  }
  equal((await get(s, '/prompt')).status, 200, 'alive after request lines');
}

// Requests that are sent without waiting for answers; a number waits for so many. Those without a body are answered in order.
// One with a body would be misread by the library, so it is refused and the connection ends.
async function together() {
  const g = `GET /users HTTP/1.1\r\n${host}\r\n\r\n`, h = `POST /userdata/together HTTP/1.1\r\n${host}\r\nContent-Length: 7\r\n\r\n`, b = 'ABCDEFG';
  const z = `POST /interrupt HTTP/1.1\r\n${host}\r\nContent-Length: 0\r\n\r\n`, d = `DELETE /userdata/together HTTP/1.1\r\n${host}\r\nContent-Length: 7\r\n\r\n`;
  // Those that another thread answers.
  const v = `GET /view?filename=a_00001_.png&subfolder=demo&preview=jpeg HTTP/1.1\r\n${host}\r\n\r\n`, form = '--x\r\nContent-Disposition: form-data; name="image"; filename="t.png"\r\n\r\nABC\r\n--x--\r\n';
  const u = `POST /upload/image HTTP/1.1\r\n${host}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: ${form.length}\r\n\r\n`;
  for (const [pieces, wanted] of [[[v + g], [200, 200]], [[v + v + g], [200, 200, 200]], [[g + v + g + v], [200, 200, 200, 200]], [[v + z], [200, 200]], [[v + h + b], [200, 503]], [[v, 1, h + b, 2, v], [200, 200, 200]],
    [[u + form + g], [200, 200]], [[u + form, 1, u, form], [200, 200]], [[u, form + v + g], [200, 200, 200]], [[v, 1, u, form + g + g], [200, 200, 200, 200]], [[v + u + form], [200, 503]], [[g + g + g], [200, 200, 200]], [[z + z + g], [200, 200, 200]], [[h + b, 1, h + b], [200, 200]], [[h, b, 1, h, b], [200, 200]], [[h + b + g], [200, 200]],
    [[h, b + g + g], [200, 200, 200]], [[g + h.slice(0, 30), 1, h.slice(30) + b], [200, 200]],
    [[g + h + b], [200, 503]], [[h + b + h + b + g], [200, 503]], [[g + h, b], [200, 503]], [[h, b + h, b], [200, 503]], [[g + g + h + b + g], [200, 200, 503]],
    [[g.slice(0, 9), g.slice(9) + h + b], [200, 503]], [[g + d + b], [200, 503]], [[h + b + g + h + b], [200, 200, 503]]]) {
    const c = net.connect(s.port, '127.0.0.1');
    let got = '';
    c.setNoDelay(true);
    c.on('error', () => {});
    c.on('data', (x) => { got += x; });
    const codes = () => [...got.matchAll(/HTTP\/1\.1 (\d+)/g)].map((m) => Number(m[1]));
    const answers = (n) => until(() => codes().length >= n);
    for (const p of pieces) {
      if (typeof p === 'number') await answers(p);
      else { c.write(p); await sleep(40); }
    }
    await answers(wanted.length);
    equal(codes(), wanted, JSON.stringify(pieces));
    c.destroy();
    equal((await get(s, '/prompt')).status, 200, 'alive after requests together');
    const kept = await get(s, '/userdata/together');
    check(kept.status === 404 || kept.text === b, `what was saved: ${kept.text}`);
  }
}

// Somebody who takes a long answer slowly, with another request behind it, is in nobody's way.
async function behind() {
  fs.writeFileSync(`${s.input}/long.png`, Buffer.alloc(24 << 20));
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ask = () => new Promise((done) => {
    const r = http.request({ host: '127.0.0.1', port: s.port, agent, method: 'POST', path: '/interrupt', headers: { 'content-length': 2 } },
      (x) => { x.resume(); x.on('end', () => done(x.statusCode)); });
    r.on('error', (e) => done(e.code));
    r.end('{}');
  });
  for (const [next, status] of [[`GET /users HTTP/1.1\r\n${host}\r\n\r\n`, 200], [`POST /interrupt HTTP/1.1\r\n${host}\r\nContent-Length: 2\r\n\r\n{}`, 503]]) {
    const c = net.connect(s.port, '127.0.0.1');
    let bytes = 0, tail = '';
    c.on('error', () => {});
    c.write(`GET /view?filename=long.png&type=input HTTP/1.1\r\n${host}\r\n\r\n${next}`);
    c.pause();
    await sleep(300);
    for (let i = 0; i < 4; i++) equal(await ask(), 200, 'another client');
    c.on('data', (d) => { bytes += d.length; tail = (tail + d.subarray(-400).toString('latin1')).slice(-400); });
    c.resume();
    const wanted = new RegExp(`HTTP/1\\.1 ${status} `);
    await until(() => wanted.test(tail));
    check(bytes > 24 << 20 && wanted.test(tail), `the long answer, then ${status}: ${bytes} bytes, ${tail.slice(-200)}`);
    c.destroy();
  }
  agent.destroy();
}

// More connections than the system has descriptors for: those beyond are closed, the others and the jobs
// go on, and the server does not ask about it without a pause.
async function crowded() {
  const t = await start({ files: 200, args: ['--quiet'] });
  const many = Array.from({ length: 400 }, () => {
    const c = net.connect(t.port, '127.0.0.1');
    c.on('error', () => {});
    c.on('close', () => { c.gone = true; });
    return c;
  });
  const left = () => many.filter((c) => !c.gone);
  await until(() => left().length <= 136);
  await sleep(100);
  check(left().length > 100 && left().length <= 136, `${left().length} of 400 connections are left`);
  const c = left()[0], body = JSON.stringify({ prompt: picture(), prompt_id: 'crowded' });
  let got = '';
  c.on('data', (d) => { got += d; });
  c.write(`POST /prompt HTTP/1.1\r\n${host}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await until(() => {
    if (got.includes('"prompt_id"')) c.write(`GET /history/crowded HTTP/1.1\r\n${host}\r\n\r\n`);
    return got.includes('"status_str"');
  });
  check(got.includes('"status_str":"success"'), 'a prompt runs and writes its picture');
  const spent = () => {
    const f = fs.readFileSync(`/proc/${t.process.pid}/stat`, 'latin1').replace(/^.*\) /, '').split(' ');
    return (Number(f[11]) + Number(f[12])) / 100;
  };
  const before = spent();
  await sleep(500);
  check(spent() - before < 0.15, `idle: ${spent() - before} s`);
  for (const x of many) x.destroy();
  await until(async () => (await get(t, '/prompt').catch(() => ({}))).status === 200);
  equal((await get(t, '/prompt')).status, 200, 'afterwards all is well');
  equal((await t.stop()).code, 0, 'it ends in order');
  fs.rmSync(t.dir, { recursive: true });
}

// Why it cannot listen is said.
async function places() {
  for (const [args, why] of [[['--listen', 'nonsense', '--insecure'], 'not an address of this machine'], [['--listen', '203.0.113.7', '--insecure'], 'Cannot assign'],
    [['--port', String(s.port)], 'Address already in use; --port takes another number, or 0 for any that is free']]) {
    let text = '';
    await start({ args }).then((x) => x.stop(), (e) => { text = e.message; });
    check(text.includes('cannot listen at') && text.includes(why), `${args}: ${text}`);
  }
  // A folder that was mistyped looks like one that is empty.
  const none = path.join(s.dir, 'modles'), t = await start({ models: none });
  check(t.log().includes(`there is no folder ${none}`), `models: ${t.log()}`);
  await t.stop();
  fs.rmSync(t.dir, { recursive: true });
}

for (const test of [routes, lines, together, behind, crowded, places]) await test();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
