// What clients of the protocol rely on: bodies, status codes and the order of events.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { Socket, check, end, ended, equal, get, picture, post, raw, sleep, soon, start, until } from './server.mjs';

const s = await start();
check(s.ready < 1500, `ready after ${s.ready} ms`);

// An event's name, with the node for those that have one.
const name = (m) => Buffer.isBuffer(m) ? `binary ${m.readUInt32BE(0)}`
  : m.type === 'executing' ? `executing ${m.data.node}`
    : m.type === 'executed' ? `executed ${m.data.node}` : m.type;
const quiet = (list) => list.map(name).filter((n) => n !== 'progress_state' && n !== 'progress');

// These events, in this order. A sign of life may come in between: one status more, every four seconds.
function inOrder(got, wanted, what) {
  const list = quiet(got), left = [];
  let next = 0;
  for (const n of list) if (n === wanted[next]) next++; else left.push(n);
  check(next === wanted.length && left.every((n) => n === 'status'), `${what}: ${list}`);
}

async function eventOrder() {
  const w = new Socket(s, '?clientId=one');
  equal(await w.opened, 101, 'handshake');
  const hello = await w.until((m) => m.type === 'status');
  equal(hello, { type: 'status', data: { status: { exec_info: { queue_remaining: 0 } }, sid: 'one' } }, 'first message');
  w.send(JSON.stringify({ type: 'feature_flags', data: { supports_preview_metadata: true } }));
  const flags = await w.until((m) => m.type === 'feature_flags');
  check(flags.data.supports_preview_metadata === true && flags.data.max_upload_size === 104857600, 'feature flags');
  w.got.length = 0;
  const r = await post(s, '/prompt', { prompt: picture(), client_id: 'one' });
  equal(r.status, 200, 'prompt');
  const id = r.json().prompt_id;
  check(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id), 'a UUID');
  check(await w.finished(id), 'the run ends');
  inOrder(w.got, ['status', 'status', 'execution_start', 'execution_cached', 'executing 1',
    'executing 2', 'executed 2', 'execution_success', 'status', 'executing null'], 'order of events');
  const at = (type) => w.got.findIndex((m) => m.type === type);
  check(w.got[at('executing') - 1].type === 'progress_state', 'progress_state before executing');
  equal(w.got[at('execution_cached')].data.nodes, [], 'nothing cached');
  check(typeof w.got[at('execution_start')].data.timestamp === 'number', 'a timestamp');
  const executed = w.got[at('executed')].data;
  equal(executed, { node: '2', display_node: '2',
    output: { images: [{ filename: 'a_00001_.png', subfolder: 'demo', type: 'output' }] }, prompt_id: id }, 'executed');
  const state = w.got[at('progress_state')].data.nodes['1'];
  equal(state, { value: 0, max: 1, state: 'running', node_id: '1', prompt_id: id, display_node_id: '1',
    parent_node_id: null, real_node_id: '1' }, 'progress_state');

  // The same again: everything comes from the cache, and is told nevertheless.
  w.got.length = 0;
  const again = (await post(s, '/prompt', { prompt: picture(), client_id: 'one' })).json().prompt_id;
  check(await w.finished(again), 'the cached run ends');
  inOrder(w.got, ['status', 'status', 'execution_start', 'execution_cached', 'executed 2',
    'execution_success', 'status', 'executing null'], 'order of events from the cache');
  equal([...w.got.find((m) => m.type === 'execution_cached').data.nodes].sort(), ['1', '2'], 'cached nodes');
  const h = (await get(s, `/history/${again}`)).json()[again];
  equal(h.outputs['2'].images[0].filename, 'a_00001_.png', 'cached outputs in the history');
  w.close();
  return id;
}

async function history(id) {
  const entry = (await get(s, `/history/${id}`)).json()[id];
  equal(Object.keys(entry), ['prompt', 'outputs', 'status', 'meta'], 'members of an entry');
  equal(entry.prompt[1], id, 'id in the prompt');
  equal(entry.prompt[3].client_id, 'one', 'client in extra_data');
  equal(entry.prompt[4], ['2'], 'outputs that ran');
  equal(entry.status.status_str, 'success', 'status');
  equal(entry.status.completed, true, 'completed');
  equal(entry.status.messages.map((m) => m[0]), ['execution_start', 'execution_cached', 'execution_success'], 'messages');
  equal(entry.meta, { 2: { node_id: '2', display_node: '2', parent_node: null, real_node_id: '2' } }, 'meta');
  const unknown = await get(s, '/api/history/nothing');
  equal([unknown.status, unknown.text], [200, '{}'], 'unknown id');
  const all = Object.keys((await get(s, '/history')).json());
  const one = Object.keys((await get(s, '/history?max_items=1')).json());
  const second = Object.keys((await get(s, '/history?max_items=1&offset=1')).json());
  const past = (await get(s, '/history?max_items=5&offset=99')).text;
  equal([all.length, one[0], second[0], past], [2, all[1], all[1], '{}'], 'paging');
  equal((await post(s, '/history', { delete: [all[1], 'nobody'] })).status, 200, 'delete');
  equal(Object.keys((await get(s, '/history')).json()), [id], 'one entry is left');
}

async function view() {
  const r = await get(s, '/view?filename=a_00001_.png&subfolder=demo&type=output&rand=1');
  equal([r.status, r.headers.get('content-type'), r.headers.get('content-disposition')],
    [200, 'image/png', 'filename="a_00001_.png"'], 'view');
  check(r.text.includes('tEXtprompt'), 'the prompt is in the picture');
  equal((await get(s, '/api/view?filename=demo/a_00001_.png [output]')).status, 200, 'annotated name');
  for (const sub of ['demo/', '.%2Fdemo', '%2E/demo//', 'demo/.', 'demo%2F%2F.%2F%2F'])
    equal((await get(s, `/view?filename=a_00001_.png&subfolder=${sub}`)).status, 200, `subfolder=${sub}`);
  equal((await get(s, '/view?filename=demo/a_00001_.png&subfolder=./')).status, 200, 'subfolder=./');
  for (const [query, status] of [['', 404], ['?filename=', 404], ['?filename=../x.png', 400], ['?filename=/etc/passwd', 400],
    ['?filename=a.png&type=etc', 400], ['?filename=a_00001_.png&subfolder=../..', 403], ['?filename=none.png', 404],
    ['?filename=a_00001_.png&subfolder=%2Fetc', 403], ['?filename=etc/passwd&subfolder=/', 403], ['?filename=etc/passwd&subfolder=.//', 404],
    ['?filename=a_00001_.png&subfolder=demo/../demo', 403], ['?filename=a_00001_.png&subfolder=./..//demo', 403], ['?filename=.&subfolder=demo/', 403], ['?filename=..%5C..%5Cx', 400]]) {
    const bad = await get(s, `/view${query}`);
    equal([bad.status, bad.body.length], [status, 0], `view${query}`);
  }
  for (const [name, wanted] of [['a "b".png', 'filename="a _b_.png"'],
    ['äö 日.png', `filename="____ ___.png"; filename*=UTF-8''${encodeURIComponent('äö 日.png')}`],
    [`${'é'.repeat(90)}.png`, `filename="${'_'.repeat(180)}.png"`]]) {
    fs.copyFileSync(path.join(s.output, 'demo/a_00001_.png'), path.join(s.output, name));
    equal((await get(s, `/view?filename=${encodeURIComponent(name)}`)).headers.get('content-disposition'), wanted, name);
    fs.unlinkSync(path.join(s.output, name));
  }
  const small = await get(s, '/view?filename=a_00001_.png&subfolder=demo&preview=jpeg;80');
  equal([small.status, small.headers.get('content-type')], [200, 'image/jpeg'], 'preview');
  equal((await get(s, '/view?filename=a_00001_.png&subfolder=demo&channel=a')).headers.get('content-type'), 'image/png', 'channel');
  for (const bad of ['x.html', 'x.svg', 'x.js']) fs.writeFileSync(path.join(s.output, bad), '<script>alert(1)</script>');
  for (const bad of ['x.html', 'x.svg', 'x.js']) {
    const page = await get(s, `/view?filename=${bad}`);
    equal([page.status, page.headers.get('content-type'), page.headers.get('x-content-type-options')],
      [200, 'application/octet-stream', 'nosniff'], bad);
    check(page.headers.get('content-disposition').startsWith('attachment') &&
      page.headers.get('content-security-policy').startsWith('sandbox'), `${bad} is no page`);
  }
  fs.symlinkSync('/etc/passwd', path.join(s.output, 'link.png'));
  fs.writeFileSync(path.join(s.output, 'near.png'), '');
  fs.symlinkSync('near.png', path.join(s.output, 'within.png'));
  const files = (await get(s, '/internal/files/output')).json();
  equal(['link.png', 'near.png', 'within.png'].filter((f) => files.includes(f)), ['near.png', 'within.png'], 'links that lead out are not listed');
  check((await get(s, '/view?filename=link.png')).status >= 400, 'a link that leaves the folder');
}

// Who has a file already is told so, also of what is made of it; parts of it are there, once.
async function viewAgain() {
  const at = '/view?filename=parts.bin', file = path.join(s.output, 'parts.bin');
  const bytes = Buffer.from(Array.from({ length: 300000 }, (_, i) => (i * 7 + (i >> 8)) & 255));
  fs.writeFileSync(file, bytes);
  const ask = (headers, query = '') => get(s, at + query, { headers });
  const whole = await ask({}), tag = whole.headers.get('etag');
  check(/^"[0-9a-f-]+"$/.test(tag), `an entity tag: ${tag}`);
  equal([whole.status, whole.headers.get('accept-ranges'), whole.headers.get('cache-control'), bytes.equals(whole.body)], [200, 'bytes', 'no-cache', true], 'the whole file');
  for (const known of [tag, `W/${tag}`, `"x", ${tag}`, '*']) {
    const r = await ask({ 'if-none-match': known });
    equal([r.status, r.body.length, r.headers.get('etag'), r.headers.get('content-range')], [304, 0, tag, null], `unchanged: ${known}`);
  }
  equal((await ask({ 'if-none-match': '"x"' })).status, 200, 'another tag');
  for (const [range, from, to] of [['bytes=0-0', 0, 1], ['bytes=1000-1999', 1000, 2000], ['bytes=299999-', 299999, 300000], ['bytes=-5000', 295000, 300000], ['bytes=100000-999999999', 100000, 300000], ['bytes=0-', 0, 300000]]) {
    const r = await ask({ range });
    equal([r.status, r.headers.get('content-range'), r.headers.get('content-length'), r.headers.get('etag')], [206, `bytes ${from}-${to - 1}/300000`, `${to - from}`, tag], range);
    check(bytes.subarray(from, to).equals(r.body), `${range}: its bytes`);
  }
  for (const range of ['bytes=300000-', 'bytes=-0', 'bytes=99999999999999999999999-']) {
    const r = await ask({ range });
    equal([r.status, r.headers.get('content-range'), r.body.length], [416, 'bytes */300000', 0], range);
  }
  for (const range of ['bytes=0-1,5-6', 'bytes=7-2', 'lines=0-1', 'bytes=', 'x']) {
    const r = await ask({ range });
    equal([r.status, r.body.length, r.headers.get('content-range')], [200, 300000, null], `ignored: ${range}`);
  }
  equal((await ask({ range: 'bytes=0-9', 'if-range': tag })).status, 206, 'a part of the same version');
  for (const other of ['"x"', `W/${tag}`, 'Wed, 21 Oct 2015 07:28:00 GMT'])
    equal((await ask({ range: 'bytes=0-9', 'if-range': other })).status, 200, `a part of another version: ${other}`);
  equal((await ask({ range: 'bytes=0-9', 'if-none-match': tag })).status, 304, 'unchanged comes first');
  const head = await get(s, at, { method: 'HEAD', headers: { range: 'bytes=0-9' } });
  equal([head.status, head.headers.get('content-length')], [200, '300000'], 'HEAD has no part');
  const two = await raw(s, `GET ${at} HTTP/1.1\r\nHost: 127.0.0.1:${s.port}\r\nRange: bytes=1-3\r\nConnection: close\r\n\r\n`);
  check(two.closed && two.text.startsWith('HTTP/1.1 206 ') && two.text.endsWith(bytes.subarray(1, 4).toString('latin1')), 'a raw request');
  // What is made of a picture has a tag of its own.
  const form = '/view?filename=a_00001_.png&subfolder=demo&preview=jpeg;80', jpeg = await get(s, form), made = jpeg.headers.get('etag');
  equal([jpeg.status, (await get(s, form, { headers: { 'if-none-match': made } })).status], [200, 304], 'a form that the client has');
  equal((await get(s, form, { headers: { range: 'bytes=0-3' } })).status, 200, 'forms come whole');
  const plain = await get(s, '/view?filename=a_00001_.png&subfolder=demo');
  check(plain.headers.get('etag') !== made, 'a form is not the file');
  equal([(await get(s, '/view?filename=parts.bin&preview=webp', { headers: { 'if-none-match': tag } })).status], [304], 'what is no picture is sent as it is');
  // Other bytes of the same length are another version.
  fs.writeFileSync(`${file}.new`, bytes.map((b) => b ^ 1));
  fs.renameSync(`${file}.new`, file);
  const next = await ask({ 'if-none-match': tag });
  equal([next.status, next.headers.get('etag') !== tag, next.body.length], [200, true, 300000], 'a new version');
  equal((await ask({ range: 'bytes=0-9', 'if-range': tag })).status, 200, 'no part of the new version');
  fs.writeFileSync(file, '');
  equal([(await ask({})).status, (await ask({ range: 'bytes=0-' })).status], [200, 416], 'an empty file');
}

async function refusals() {
  const bad = async (body, type, message) => {
    const r = await post(s, '/prompt', body);
    const j = r.json();
    equal([r.status, j.error.type, j.error.message], [400, type, message], type);
    return j;
  };
  equal(await bad({}, 'no_prompt', 'No prompt provided'), { error: { type: 'no_prompt', message: 'No prompt provided',
    details: 'No prompt provided', extra_info: {} }, node_errors: {} }, 'no_prompt');
  await bad({ prompt: {} }, 'prompt_no_outputs', 'Prompt has no outputs');
  for (const prompt of [[], ['a'], [{}], [null], [[1]], [picture()[1], ...Array(1000).fill('b')], 'a', 7])
    await bad({ prompt }, 'prompt_no_outputs', 'Prompt has no outputs');
  await bad({ prompt: picture(), partial_execution_targets: [] }, 'prompt_no_outputs', 'Prompt has no outputs');
  await bad({ prompt: picture(), prompt_id: 'a b' }, 'invalid_prompt_id', 'prompt_id must be 1 to 128 letters, digits or -_.:');
  await bad('{"prompt": nan}', 'invalid_json', 'The body is not valid JSON');
  // Python's json writes NaN and infinities; they are null.
  await bad('{"prompt": NaN}', 'prompt_no_outputs', 'Prompt has no outputs');
  const text = JSON.stringify({ prompt: picture() }).replace('"class_type"', '"is_changed":[NaN,-Infinity],"class_type"');
  equal((await get(s, '/prompt', { method: 'POST', body: text })).status, 200, 'a prompt with NaN');
  await bad(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid_json', 'The body is not valid JSON');
  await bad('['.repeat(100000), 'invalid_json', 'The body is not valid JSON');
  const many = Object.fromEntries([...Array(10001)].map((_, i) => [i + 1, picture()[1]]));
  await bad({ prompt: many }, 'prompt_too_large', 'the prompt has 10001 nodes; at most 10000 are accepted');
  const p = picture();
  p[1].inputs.width = 0;
  delete p[2].inputs.filename_prefix;
  const j = await bad({ prompt: p }, 'prompt_outputs_failed_validation', 'Prompt outputs failed validation');
  equal(j.node_errors['1'].errors[0].type, 'value_smaller_than_min', 'the node at fault');
  equal(j.node_errors['1'].dependent_outputs, ['2'], 'outputs behind it');
  equal(j.node_errors['1'].class_type, 'EmptyImage', 'its class');
  // Files that are not there: which folder was looked into.
  for (const [class_type, input, folder, details] of [
    ['LoadImage', 'image', 'input', 'image - Invalid image file: gone.png'],
    ['LoadImage', 'image', 'output', 'image - Invalid image file: gone.png [output]'],
    ['CheckpointLoaderSimple', 'ckpt_name', 'models/checkpoints', "ckpt_name: 'gone.png' not in []"],
    ['UNETLoader', 'unet_name', 'models/diffusion_models', "unet_name: 'gone.png' not in []"]]) {
    const file = folder === 'output' ? 'gone.png [output]' : 'gone.png';
    const r = (await post(s, '/prompt', { prompt: { 1: { class_type, inputs: { [input]: file, weight_dtype: 'default' } },
      2: { class_type: 'SaveImage', inputs: { images: ['1', 0], filename_prefix: 'x' } } } })).json();
    const { type, extra_info, ...fault } = r.node_errors['1'].errors.find((x) => x.extra_info.input_name === input);
    equal([type.startsWith(input === 'image' ? 'custom' : 'value'), extra_info.folder, fault.details], [true, folder, details], `${class_type}: ${folder}`);
  }
  // Nor a picture of a kind that is not read.
  fs.writeFileSync(path.join(s.input, 'new.png'), '\0\0\0\x20ftypavif');
  const kind = (await post(s, '/prompt', { prompt: { 1: { class_type: 'LoadImage', inputs: { image: 'new.png' } },
    2: { class_type: 'SaveImage', inputs: { images: ['1', 0], filename_prefix: 'x' } } } })).json();
  equal(kind.node_errors['1'].errors[0].details,
    'image - Invalid image file: new.png (AVIF files are not read, only PNG, JPEG, WebP, BMP, GIF, TGA, PSD and PNM)', 'an AVIF picture');
  const odd = await get(s, '/prompt?clientId=x', { method: 'POST', body: JSON.stringify({ prompt: picture(7, 'demo/b'), number: 7.5 }),
    headers: { 'content-type': 'text/plain' } });
  equal([odd.status, odd.json().number], [200, 7.5], 'any content type, own number');
  const wrong = await post(s, '/prompt', { prompt: picture(9, 'demo/b'), number: 'first' });
  equal([wrong.status, wrong.json().error?.message], [400, 'number must be a finite number'], 'a number that is none');
  const number = (await post(s, '/prompt', { prompt: picture(8, 'demo/b'), front: true })).json().number;
  check(number < 0, 'front');
}

// Bodies whose length the client does not know beforehand.
async function pieces() {
  const text = JSON.stringify({ prompt: picture(13, 'demo/c'), prompt_id: 'in-pieces' });
  const stream = (...list) => ({ method: 'POST', duplex: 'half', body: new ReadableStream({
    async start(c) { for (const x of list) { await sleep(20); c.enqueue(Buffer.from(x)); } c.close(); } }) });
  const r = await get(s, '/prompt', stream(text.slice(0, 10), text.slice(10, 11), text.slice(11)));
  equal([r.status, r.status === 200 && r.json().prompt_id, r.headers.get('connection')], [200, 'in-pieces', 'close'], 'a prompt in pieces');
  equal((await get(s, '/prompt', stream('{'))).json().error.type, 'invalid_json', 'half a prompt in pieces');
  const ask = async (lines, body, ms) => {
    const got = await raw(s, `POST /settings HTTP/1.1\r\nHost: ${s.host}\r\n${lines.join('\r\n')}\r\n\r\n${body}`, ms);
    return [Number(/^HTTP\/1\.1 (\d+)/.exec(got.text)?.[1] ?? 0), got.closed, (got.text.match(/HTTP\/1\.1/g) ?? []).length];
  };
  const chunked = 'Transfer-Encoding: chunked';
  equal(await ask([chunked], '8;x=y\r\n{"one":1\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n'), [200, true, 1], 'in one packet');
  equal(await ask(['Transfer-Encoding: Chunked', 'Expect: 100-continue'], '9\r\n{"two":2}\r\n0\r\n\r\n'), [100, true, 2], 'asked for');
  const now = (await get(s, '/settings')).json();
  equal([now.one, now.two], [1, 2], 'what they changed');
  equal(await ask([chunked], '0\r\n\r\n'), [400, true, 1], 'no pieces');
  equal(await ask([chunked], '9\r\n{"two":3}\r\n0\r\n\r\nPOST /settings HTTP/1.1\r\n'), [200, true, 1], 'what comes behind is not answered');
  for (const bad of ['zz\r\n{}\r\n0\r\n\r\n', '2\n{}\n0\n\n', '2\r\n{}x', '-2\r\n{}\r\n', 'fffffffffffffffff\r\n'])
    equal(await ask([chunked], bad), [400, true, 1], `bad pieces ${JSON.stringify(bad)}`);
  equal(await ask([chunked, 'Content-Length: 2'], '2\r\n{}\r\n0\r\n\r\n'), [400, true, 1], 'pieces and a length');
  equal(await ask(['Transfer-Encoding: gzip, chunked'], '2\r\n{}\r\n0\r\n\r\n'), [501, true, 1], 'packed pieces');
  equal((await ask([chunked], '2\r\n{', 300)).slice(0, 2), [0, false], 'half of them waits');
}

// Pictures without files: PNG in frames of the kind that previews have, whatever the client announced.
async function sent() {
  for (const flags of [false, true]) {
    const w = new Socket(s, '?clientId=sent');
    await w.until((m) => m.type === 'status');
    if (flags) w.send(JSON.stringify({ type: 'feature_flags', data: { supports_preview_metadata: true } }));
    const prompt = picture(14, '', 24, 16);
    prompt[1].inputs.batch_size = 2;
    prompt[2] = { class_type: 'SaveImageWebsocket', inputs: { images: ['1', 0] } };
    for (let i = 0; i < 2; i++) { // it is never taken from the cache
      w.got.length = 0;
      const id = (await post(s, '/prompt', { prompt, client_id: 'sent' })).json().prompt_id;
      check(await w.finished(id), 'a prompt that sends pictures');
      const frames = w.got.filter(Buffer.isBuffer);
      equal(frames.map((b) => [b.readUInt32BE(0), b.readUInt32BE(4), b.toString('latin1', 9, 12), b.readUInt32BE(24), b.readUInt32BE(28)]),
        [[1, 2, 'PNG', 24, 16], [1, 2, 'PNG', 24, 16]], 'two PNGs');
      const node = w.got.findIndex((m) => m.type === 'executing' && m.data.node === '2');
      check(node >= 0 && node < w.got.indexOf(frames[0]), 'behind the news that the node runs');
      check(w.got.indexOf(frames[1]) < w.got.findIndex((m) => m.type === 'execution_success'), 'before the end');
      equal((await get(s, `/history/${id}`)).json()[id].outputs, {}, 'no files');
    }
    w.close();
  }
}

async function info() {
  const all = (await get(s, '/object_info')).json();
  const one = (await get(s, '/object_info/KSampler')).json();
  equal(all.KSampler, one.KSampler, 'one schema');
  check((await get(s, '/object_info/KSampler')).text.includes('18446744073709551615'), 'seeds are whole numbers');
  equal((await get(s, '/object_info/Primitive%20boolean%20%5BCrystools%5D')).text, '{}', 'unknown class');
  for (const key of ['input', 'input_order', 'output', 'output_is_list', 'output_name', 'name', 'display_name',
    'description', 'python_module', 'category', 'output_node']) check(key in all.SaveImage, key);
  const again = await get(s, '/object_info');
  equal((await get(s, '/object_info', { headers: { 'if-none-match': again.headers.get('etag') } })).status, 304, 'etag');
  const stats = (await get(s, '/system_stats')).json();
  check(stats.system.ram_total > 0 && stats.devices.length === 1 && Array.isArray(stats.system.argv), 'system_stats');
  const [device] = stats.devices;
  check(/^(cpu|cuda:0) ./.test(device.name) && device.name.startsWith(device.type), `the device: ${device.name}`);
  check(device.vram_free > 0 && device.vram_free <= device.vram_total, `its memory: ${device.vram_free} of ${device.vram_total}`);
  await until(async () => !(await get(s, '/prompt')).json().exec_info.queue_remaining);
  equal((await get(s, '/prompt')).json(), { exec_info: { queue_remaining: 0 } }, 'GET /prompt');
  equal((await get(s, '/users')).json(), { storage: 'server', migrated: true }, 'users');
  for (const url of ['/i18n', '/global_subgraphs', '/node_replacements'])
    equal((await get(s, `/api${url}`)).text, '{}', url);
  for (const url of ['/extensions', '/embeddings']) equal((await get(s, url)).text, '[]', url);
  check((await get(s, '/models')).json().includes('checkpoints'), 'models');
  equal((await get(s, '/models/checkpoints')).text, '[]', 'no models');
  equal([(await get(s, '/models/nothing')).status, (await get(s, '/api/nothing')).status,
    (await get(s, '/manager/version')).text, (await get(s, '/ws')).status], [404, 404, '404: Not Found', 400], 'no such thing');
  check(!(await get(s, '/experiment/models')).text.includes(s.dir), 'no absolute paths');
}

const file = (bytes, filename) => {
  const f = new FormData();
  f.append('image', new Blob([bytes]), filename);
  return f;
};

async function uploads() {
  const png = fs.readFileSync(path.join(s.output, 'demo/a_00001_.png'));
  const up = async (f, url = '/upload/image') => post(s, url, f);
  equal((await up(file(png, 'u.png'))).json(), { name: 'u.png', subfolder: '', type: 'input' }, 'upload');
  equal((await up(file(png, 'u.png'))).json().name, 'u.png', 'equal content');
  equal((await up(file('other', 'u.png'))).json().name, 'u (1).png', 'other content');
  const over = file('third', 'u.png');
  over.append('overwrite', 'true');
  over.append('subfolder', 'deep/er');
  equal((await up(over)).json(), { name: 'u.png', subfolder: 'deep/er', type: 'input' }, 'subfolder');
  check(fs.existsSync(path.join(s.input, 'deep/er/u.png')), 'the file is there');
  for (const [filename, sub] of [['../x.png', ''], ['/x.png', ''], ['x.png', '../..'], ['x.png', '/etc'], ['..', ''], ['', '']]) {
    const f = file('x', filename);
    if (sub) f.append('subfolder', sub);
    const r = await up(f);
    check(r.status === 400 || (r.status === 200 && r.json().name === 'blob'), `upload ${filename} ${sub}: ${r.status}`);
  }
  equal((await post(s, '/upload/image', 'nonsense')).status, 400, 'no form');
  // Long names are cut between two characters, wherever the limit falls.
  for (const first of ['', 'a', 'ab', 'abc'])
    for (const [c, n] of [['é', 110], ['猫', 80], ['🍎', 60]]) {
      const name = `${first}${c.repeat(n)}.png`;
      equal((await up(file('one', name))).json().name, name, 'a long name');
      const r = await up(file('two', name)), utf8 = new TextDecoder('utf-8', { fatal: true });
      let text = '{}';
      try { text = utf8.decode(r.body); } catch { check(false, `the answer for ${name} is UTF-8`); }
      const cut = JSON.parse(text).name;
      check(cut && new RegExp(`^${first}${c}+ \\(1\\)\\.png$`, 'u').test(cut) && fs.readFileSync(path.join(s.input, cut), 'latin1') === 'two', `cut: ${cut}`);
    }
  equal((await up(file('x', `x.${'y'.repeat(70)}`))).status, 400, 'an ending that is too long');
  check((await get(s, '/object_info/LoadImage')).json().LoadImage.input.required.image[0].includes('u.png'), 'a new choice');
  const mask = file(png, 'mask.png');
  mask.append('original_ref', JSON.stringify({ filename: 'a_00001_.png', subfolder: 'demo', type: 'output' }));
  equal((await up(mask, '/upload/mask')).json().name, 'mask.png', 'mask');
  check(fs.readFileSync(path.join(s.input, 'mask.png')).includes('tEXtprompt'), 'the workflow is kept');
  const stray = file(png, 'mask.png');
  stray.append('original_ref', JSON.stringify({ filename: '../../etc/passwd', type: 'output' }));
  equal((await up(stray, '/upload/mask')).status, 400, 'a mask for a file outside');
  const webp = Buffer.from('UklGRjwAAABXRUJQVlA4TC8AAAAvB8ABEJmM6H9soiAF6X+ATMBC/3sB5BBAMpcEsz1KAtlkMV023AkQZWD2wTbfAQA=', 'base64');
  equal((await up(file(webp, 'p.webp'))).json().name, 'p.webp', 'a WebP picture');
  for (const [form, type] of [['preview=webp;90', 'image/jpeg'], ['channel=rgb', 'image/png'], ['type=input', 'image/webp']]) {
    const r = await get(s, `/view?filename=p.webp&type=input&${form}`);
    equal([r.status, r.headers.get('content-type')], [200, type], `a WebP picture, ${form}`);
  }
  const painted = file(png, 'painted.png');
  painted.append('original_ref', JSON.stringify({ filename: 'p.webp', type: 'input' }));
  equal((await up(painted, '/upload/mask')).json().name, 'painted.png', 'a mask for a WebP picture');
}

async function user() {
  equal((await get(s, '/settings')).text, '{}', 'no settings');
  equal((await post(s, '/settings/Comfy.Mode', '"dark"')).status, 200, 'set');
  equal((await post(s, '/api/settings', { a: [1, 2], 'Comfy.Mode': 'light' })).status, 200, 'merge');
  equal((await get(s, '/api/settings')).json(), { 'Comfy.Mode': 'light', a: [1, 2] }, 'settings');
  equal([(await get(s, '/settings/a')).text, (await get(s, '/settings/b')).text], ['[1,2]', 'null'], 'one setting');
  const [all, one] = [await post(s, '/settings', '{"a": 1, b}'), await post(s, '/settings/a', '{"a": 1, b}')];
  equal([all.status, one.status, one.json()], [400, 400, all.json()], 'where the JSON is wrong is said in both places');
  check(/line 1|column|character|offset|byte/.test(one.json().error), `where: ${one.json().error}`);
  equal((await post(s, '/settings/a', '')).json().error, 'the setting must be JSON', 'no JSON at all');
  equal((await get(s, '/userdata?dir=workflows&recurse=true&split=false&full_info=true')).text, '[]', 'no workflows');
  equal((await get(s, '/userdata?dir=subgraphs%2F')).status, 404, 'no such folder');
  equal((await get(s, '/userdata')).status, 400, 'no folder named');
  equal((await get(s, '/userdata?dir=..%2F..')).status, 403, 'a folder outside');
  const saved = await post(s, '/api/userdata/workflows%2Fmy%20one.json?overwrite=false&full_info=true', '{"a":1}');
  equal([saved.status, saved.json().path, saved.json().size], [200, 'workflows/my one.json', 7], 'save');
  equal((await post(s, '/api/userdata/workflows%2Fmy%20one.json?overwrite=false', '{}')).status, 409, 'not again');
  equal((await get(s, '/api/userdata/workflows%2Fmy%20one.json')).text, '{"a":1}', 'load');
  const moved = await post(s, '/api/userdata/workflows%2Fmy%20one.json/move/workflows%2Fsub%2Ftwo.json?overwrite=false');
  equal([moved.status, moved.json()], [200, 'workflows/sub/two.json'], 'move');
  equal((await get(s, '/userdata?dir=workflows&recurse=true&split=true')).json(), [['sub/two.json', 'sub', 'two.json']], 'split');
  equal((await get(s, '/userdata/user.css')).status, 404, 'no such file');
  equal([(await get(s, '/api/userdata/workflows%2Fsub%2Ftwo.json', { method: 'DELETE' })).status,
    (await get(s, '/api/userdata/workflows%2Fsub%2Ftwo.json', { method: 'DELETE' })).status], [204, 404], 'delete');
  check((await post(s, '/userdata/..%2F..%2Fescape.json', 'x')).status >= 400, 'a file outside');
  check(!fs.existsSync(path.join(s.dir, 'escape.json')), 'nothing was written');
}

async function jobs() {
  const id = (await post(s, '/prompt', { prompt: picture(9, 'demo/j'), prompt_id: 'my-job',
    extra_data: { extra_pnginfo: { workflow: { id: 'w1' } }, api_key_comfy_org: 'secret' } })).json().prompt_id;
  equal(id, 'my-job', 'own id');
  await until(async () => (await get(s, '/api/jobs/my-job')).json().status === 'completed');
  const job = (await get(s, '/api/jobs/my-job')).json();
  equal([job.status, job.outputs_count, job.workflow_id, job.preview_output.filename],
    ['completed', 1, 'w1', 'j_00001_.png'], 'job');
  check(!JSON.stringify(job).includes('secret'), 'keys are not kept');
  const { seconds, memory_peak, phases } = job.profile, names = phases.map((p) => p.name);
  equal(names, ['save'], 'phases');
  const sum = phases.reduce((all, p) => all + p.seconds, 0), most = Math.max(...phases.map((p) => p.memory_peak));
  check(sum > 0 && sum <= seconds + 1e-6 && seconds < 600, `${sum} of ${seconds} s in phases`);
  check(memory_peak >= most && most > 2 ** 20, `${most} of ${memory_peak} bytes in phases`);
  const { nodes } = job.profile, inNodes = nodes.reduce((all, n) => all + n.seconds, 0);
  equal(nodes.map((n) => n.node), ['1', '2'], 'nodes that ran');
  const rounding = 1e-6 * (nodes.length + phases.length + 1); // each is rounded to microseconds
  check(inNodes >= sum - rounding && inNodes <= seconds + rounding, `${inNodes} s in nodes, ${sum} in phases, ${seconds} in all`);
  const { graft_memory, ram_total } = (await get(s, '/system_stats')).json().system;
  check(graft_memory > 2 ** 20 && graft_memory < ram_total, 'memory of the server');
  check(!('profile' in (await get(s, '/api/jobs')).json().jobs[0]), 'not in the list of jobs');
  const list = (await get(s, '/api/jobs?status=completed&limit=1&sort_order=desc')).json();
  equal([list.jobs[0].id, list.pagination.limit, list.pagination.has_more], ['my-job', 1, true], 'jobs');
  equal((await get(s, '/api/jobs?workflow_id=w1')).json().pagination.total, 1, 'by workflow');
  for (const q of ['status=odd', 'sort_by=x', 'limit=-1', 'limit=x', 'sort_order=up'])
    equal((await get(s, `/api/jobs?${q}`)).status, 400, q);
  equal([(await get(s, '/api/jobs/none')).status, (await get(s, '/api/jobs/none')).text], [404, '{"error":"Job not found"}'], 'unknown');
  equal((await post(s, '/api/jobs/my-job/cancel')).json(), { cancelled: false }, 'too late');
}

async function reconnect() {
  const a = new Socket(s, '?clientId=same');
  await a.until((m) => m.type === 'status');
  const b = new Socket(s, '?clientId=same');
  await b.until((m) => m.type === 'status');
  await until(() => a.closed);
  equal([a.closed, a.code, b.closed], [true, 1000, false], 'the new socket replaces the old one, which the editor page knows by the code');
  const id = (await post(s, '/prompt', { prompt: picture(11, 'demo/r'), client_id: 'same' })).json().prompt_id;
  check(await b.finished(id), 'and gets the events');
  // An id of any length, in any characters, is whoever says it to the other routes.
  const name = `x${'猫'.repeat(400)}`, long = new Socket(s, `?clientId=${encodeURIComponent(name)}`);
  equal((await long.until((m) => m.type === 'status')).data.sid, name, 'a long id');
  check(await long.finished((await post(s, '/prompt', { prompt: picture(15, 'demo/r'), client_id: name })).json().prompt_id), 'gets its events, too');
  await get(s, '/internal/logs/subscribe', { method: 'PATCH', body: JSON.stringify({ clientId: name, enabled: true }) });
  await post(s, '/prompt', { prompt: picture(15, 'demo/r') });
  check(await long.until((m) => m.type === 'logs'), 'and log lines');
  const c = new Socket(s);
  check(/^[0-9a-f]{32}$/.test((await c.until((m) => m.type === 'status')).data.sid), 'an id is made up');
  equal((await post(s, '/x')).status, 404, 'POST to nowhere');
  b.got.length = 0;
  check(await b.until((m) => m.type === 'status'), 'a sign of life');
  for (const w of [b, c, long]) w.close();
}

// A client whose handshake comes after its prompt ran, or whose connection broke, misses nothing.
async function late() {
  const [a, id, client] = await soon(async (i) => {
    const client_id = `late-${i}`, { prompt_id } = (await post(s, '/prompt', { prompt: picture(12 + i, 'demo/late'), client_id })).json();
    await ended(s, prompt_id);
    const w = new Socket(s, `?clientId=${client_id}`);
    await w.until((m) => m.type === 'status');
    return [w, prompt_id, client_id];
  });
  check(await a.finished(id), 'the end is told afterwards');
  inOrder(a.got, ['status', 'execution_start', 'execution_cached', 'executing 1', 'executing 2', 'executed 2',
    'execution_success', 'executing null'], 'all events, in order');
  const b = new Socket(s, `?clientId=${client}`);
  await b.until((m) => m.type === 'status');
  await sleep(100);
  inOrder(b.got, ['status'], 'and only once');
  for (const w of [a, b]) w.close();
}

// A PNG of one byte a pixel.
function png(width, height) {
  const chunk = (type, data) => {
    const out = Buffer.alloc(12 + data.length);
    out.writeUInt32BE(data.length);
    out.write(type, 4, 'latin1');
    data.copy(out, 8);
    let crc = 0xffffffff;
    for (const b of out.subarray(4, 8 + data.length)) {
      crc ^= b;
      for (let k = 0; k < 8; k++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
    }
    out.writeUInt32BE(~crc >>> 0, 8 + data.length);
    return out;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 8;
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', head),
    chunk('IDAT', zlib.deflateSync(Buffer.alloc((width + 1) * height), { level: 1 })), chunk('IEND', Buffer.alloc(0))]);
}

// While a large picture is converted, all others are answered.
async function beside() {
  const bytes = png(6000, 6000);
  fs.writeFileSync(path.join(s.output, 'large.png'), bytes);
  const mask = file(bytes, 'large.png');
  mask.append('original_ref', JSON.stringify({ filename: 'large.png', type: 'output' }));
  let began, longest = 0;
  for (const [what, ask, type] of [['a preview', () => get(s, '/view?filename=large.png&preview=webp;90'), 'image/jpeg'],
    ['channels', () => get(s, '/api/view?filename=large.png&channel=rgb'), 'image/png'],
    ['a mask', () => post(s, '/upload/mask', mask), 'application/json; charset=utf-8']]) {
    let made = false, others = 0;
    began = performance.now();
    const answer = ask().then((r) => { made = true; return r; });
    await sleep(100);
    while (!made) {
      equal((await get(s, '/queue')).status, 200, 'the queue');
      others += !made;
      await sleep(5);
    }
    const r = await answer;
    equal([r.status, r.headers.get('content-type')], [200, type], what);
    check(others >= 5, `${others} answers beside ${what}`);
    longest = Math.max(longest, performance.now() - began);
  }
  check((await get(s, '/object_info/LoadImage')).json().LoadImage.input.required.image[0].includes('large.png'), 'what was uploaded is known');
  // Who goes away in between is in nobody's way, nor who wants more at once.
  const away = new AbortController(), some = Array.from({ length: 20 }, () => get(s, '/view?filename=large.png&channel=a', { signal: away.signal }).catch(() => {}));
  await sleep(200);
  away.abort();
  await Promise.all(some);
  began = performance.now();
  equal((await get(s, '/view?filename=large.png&preview=jpeg;10')).status, 200, 'after those who went');
  const ms = performance.now() - began;
  check(ms < 8 * longest, `after twenty that went: ${ms} ms, one takes ${longest} ms`);
}

// The folder of workflows is looked at when it is asked for; nothing else of it or beside it can be had.
async function templates() {
  const dir = path.join(s.dir, 'workflows'), one = '{"1":{"class_type":"A","inputs":{}}}';
  equal((await get(s, '/workflow_templates')).text, '{}', 'no templates');
  fs.mkdirSync(path.join(dir, 'below'), { recursive: true });
  for (const name of ['b c.json', 'a.json', 'index.json', 'below/d.json', 'README.md', 'page.html'])
    fs.writeFileSync(path.join(dir, name), one);
  fs.writeFileSync(path.join(s.dir, 'secret.json'), '{}');
  fs.symlinkSync(path.join(s.dir, 'secret.json'), path.join(dir, 'link.json'));
  const listed = async (query) => (await get(s, `/api/workflow_templates${query}`)).json().graft?.filter((name) => name !== 'link');
  equal(await listed('?format=any'), ['a', 'b c'], 'templates');
  equal(await listed(''), undefined, 'none of them is an editor\'s');
  fs.writeFileSync(path.join(dir, 'with places.json'), '{"nodes":[],"links":[]}');
  fs.writeFileSync(path.join(dir, 'broken.json'), '{"nodes":[');
  equal([await listed(''), await listed('?format=any')], [['with places'], ['a', 'b c', 'broken', 'with places']], 'one of an editor');
  const r = await get(s, '/api/workflow_templates/graft/b%20c.json');
  equal([r.status, r.text, r.headers.get('content-type')], [200, one, 'application/json; charset=utf-8'], 'a template');
  equal((await get(s, '/workflow_templates/graft/index.json')).status, 200, 'their index');
  for (const name of ['graft/none.json', 'graft/README.md', 'graft/page.html', 'graft/link.json', 'graft/..%2Fsecret.json', 'other/a.json', 'graft/below', 'graft/'])
    equal((await get(s, `/workflow_templates/${name}`)).status, 404, name);
  // Those that ship: each has a place in their index, with the models that do not ship.
  const source = new URL('../../', import.meta.url).pathname;
  const index = JSON.parse(fs.readFileSync(path.join(source, 'workflows/index.json'))).flatMap((group) => group.workflows);
  const names = fs.readdirSync(path.join(source, 'workflows')).filter((f) => /^[^.]*\.json$/.test(f) && f !== 'index.json').map((f) => f.slice(0, -5));
  equal(index.map((w) => w.name).sort(), names.sort(), 'the index has all');
  const ours = fs.readdirSync(path.join(source, 'models'), { recursive: true }).map((f) => path.basename(f));
  for (const { name, title, description, models = [] } of index) {
    check(title && description.endsWith('.'), `${name} is described`);
    const inputs = Object.values(JSON.parse(fs.readFileSync(path.join(source, `workflows/${name}.json`)))).flatMap((n) => Object.values(n.inputs));
    const others = inputs.filter((v) => /\.safetensors$/.test(v) && !ours.includes(v));
    equal(models, [...new Set(others)].sort(), `the models of ${name}`);
  }
}

const id = await eventOrder();
await history(id);
await view();
await viewAgain();
await refusals();
await sent();
await info();
await uploads();
await user();
await templates();
await pieces();
await jobs();
await reconnect();
await late();
await beside();
equal((await get(s, '/internal/logs')).headers.get('content-type'), 'application/json; charset=utf-8', 'logs');
check((await get(s, '/internal/logs/raw')).json().entries.length > 0, 'log entries');
const unanswered = [1, 2, 3].map(() => get(s, '/view?filename=large.png&channel=a').catch(() => {}));
await sleep(100);
equal((await s.stop()).code, 0, 'the server ends in order');
await Promise.all(unanswered);
fs.rmSync(s.dir, { recursive: true });
end();
