// Textual inversion as clients see it: what the server lists, that a prompt's embedding takes part, and
// that a prompt is encoded again once its file is another. With the demo checkpoint.
import fs from 'node:fs';
import path from 'node:path';
import { Socket, check, end, ended, equal, folder, get, post, source, start } from './server.mjs';

const dir = folder();
const models = path.join(dir, 'models');
const at = (name) => path.join(models, 'embeddings', name);
for (const d of ['checkpoints', 'embeddings/sub']) fs.mkdirSync(path.join(models, d), { recursive: true });
const checkpoint = path.join(source, 'models/checkpoints/emoji-64.safetensors');
fs.symlinkSync(checkpoint, path.join(models, 'checkpoints/demo.safetensors'));

// Rows of the checkpoint's token table, as they lie in the file.
const bytes = fs.readFileSync(checkpoint);
const begin = 8 + Number(bytes.readBigUInt64LE(0));
const table = JSON.parse(bytes.subarray(8, begin).toString())['cond_stage_model.transformer.text_model.embeddings.token_embedding.weight'];
const [first, last] = table.data_offsets;
const size = (last - first) / table.shape[0];
const row = (token) => bytes.subarray(begin + first + token * size, begin + first + (token + 1) * size);

// A file of one tensor.
function put(name, data, shape = [data.length / size, table.shape[1]], more = {}) {
  const header = JSON.stringify({ ...more, emb_params: { dtype: table.dtype, shape, data_offsets: [0, data.length] } });
  const text = header.padEnd(Math.ceil(header.length / 8) * 8), head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(text.length));
  fs.writeFileSync(`${at(name)}.new`, Buffer.concat([head, Buffer.from(text), data]));
  fs.renameSync(`${at(name)}.new`, at(name));
}
const CAT = 2368, DOG = 1929;
put('cat.safetensors', row(CAT), undefined, { __metadata__: { title: 'a cat' } });
put('sub/pets.sft', Buffer.concat([row(CAT), row(DOG)]));
fs.writeFileSync(at('old.pt'), 'a pickle');
fs.writeFileSync(at('damaged.safetensors'), 'nonsense');
fs.writeFileSync(path.join(models, 'secret.safetensors'), fs.readFileSync(at('cat.safetensors')));

// A checkpoint without a text encoder, one without a VAE, and what is none.
const headed = (...names) => {
  const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, { dtype: 'F32', shape: [0], data_offsets: [0, 0] }])));
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([head, Buffer.from(text)]);
};
const others = { 'a-unet': headed('model.diffusion_model.x', 'first_stage_model.x'), 'b-text': headed('cond_stage_model.x', 'text_encoders.y'), 'c-none': Buffer.from('{') };
for (const [name, data] of Object.entries(others)) fs.writeFileSync(path.join(models, `checkpoints/${name}.safetensors`), data);
fs.writeFileSync(path.join(models, 'checkpoints/e-whole.safetensors'), headed('model.x', 'conditioner.x', 'vae.x'));
fs.mkdirSync(path.join(models, 'vae'));
for (const [name, length] of [['apart-00001-of-00003', 10], ['apart-00002-of-00003', 20], ['apart-00003-of-00003', 12], ['lost-00001-of-00003', 5], ['lost-00003-of-00003', 7], ['one', 4]])
  fs.writeFileSync(path.join(models, `vae/${name}.safetensors`), Buffer.alloc(length));

const s = await start({ dir, models });

const workflow = (text) => ({
  1: { class_type: 'CheckpointLoaderSimple', inputs: { ckpt_name: 'demo.safetensors' } },
  2: { class_type: 'CLIPTextEncode', inputs: { text, clip: ['1', 1] } },
  3: { class_type: 'CLIPTextEncode', inputs: { text: '', clip: ['1', 1] } },
  4: { class_type: 'EmptyLatentImage', inputs: { width: 64, height: 64, batch_size: 1 } },
  5: { class_type: 'KSampler', inputs: { seed: 1, steps: 2, cfg: 4, sampler_name: 'ddim', scheduler: 'ddim_uniform',
    denoise: 1, model: ['1', 0], positive: ['2', 0], negative: ['3', 0], latent_image: ['4', 0] } },
  6: { class_type: 'VAEDecode', inputs: { samples: ['5', 0], vae: ['1', 2] } },
  7: { class_type: 'SaveImage', inputs: { images: ['6', 0], filename_prefix: 'e' } },
});

// The compressed pixels of a PNG file, without the workflow in it.
function pixels(file) {
  const png = fs.readFileSync(file), parts = [];
  for (let i = 8; i < png.length; i += 12 + png.readUInt32BE(i))
    if (png.toString('latin1', i + 4, i + 8) === 'IDAT') parts.push(png.subarray(i + 8, i + 8 + png.readUInt32BE(i)));
  return Buffer.concat(parts).toString('base64');
}

// {cached: nodes that did not run, log: what was said meanwhile, picture}
async function run(prompt) {
  const before = s.log().length;
  const answer = (await post(s, '/prompt', { prompt: typeof prompt === 'string' ? workflow(prompt) : prompt, client_id: 'x' })).json();
  const entry = await ended(s, answer.prompt_id);
  equal(entry.status.status_str, 'success', JSON.stringify(prompt));
  const found = entry.status.messages.find(([type]) => type === 'execution_cached')[1].nodes;
  const image = entry.outputs[7].images[0];
  return { cached: found.sort().join(''), log: s.log().slice(before), picture: pixels(path.join(s.output, image.filename)) };
}

async function lists() {
  equal((await get(s, '/embeddings')).json(), ['cat', 'damaged', 'sub/pets'], 'names without endings');
  equal((await get(s, '/api/embeddings')).json().length, 3, 'below /api');
  equal((await get(s, '/models/embeddings')).json(), ['cat.safetensors', 'damaged.safetensors', 'sub/pets.sft'], 'files');
  equal((await get(s, '/experiment/models/embeddings')).json().map((x) => x.name), ['cat.safetensors', 'damaged.safetensors', 'sub/pets.sft'], 'files, with sizes');
  equal((await get(s, '/experiment/models/vae')).json().map((x) => [x.name, x.size]),
    [['apart-00001-of-00003.safetensors', 42], ['lost-00001-of-00003.safetensors', 5], ['one.safetensors', 4]], 'the size of all parts');
  check((await get(s, '/models')).json().includes('embeddings'), 'the folder');
  equal((await get(s, '/models/checkpoints')).json().length, 5, 'all checkpoints');
  equal((await get(s, '/models/checkpoints?whole=1')).json(), ['demo.safetensors'], 'the first with all parts');
  equal((await get(s, '/models/checkpoints?whole=9')).json(), ['demo.safetensors', 'e-whole.safetensors'], 'all with all parts');
  equal((await get(s, '/models/checkpoints?whole=0')).json(), [], 'none of them');
  equal((await get(s, '/models/embeddings?whole=1')).json().length, 3, 'other folders as they are');
  equal((await get(s, '/view_metadata/embeddings?filename=cat.safetensors')).json(), { title: 'a cat' }, 'metadata');
}

// The row of a word gives the picture that the word gives.
async function vectors() {
  const words = await run('cat, flat'), two = await run('cat dog, flat'), none = await run(', flat');
  check(words.picture !== none.picture && words.picture !== two.picture, 'words change the picture');
  for (const [text, want] of [['embedding:cat, flat', words], ['(embedding:cat.safetensors:1), flat', words],
    ['embedding:pets, flat', two], ['embedding:sub/pets, flat', two], ['embedding:sub/pets.sft , flat', two]]) {
    const r = await run(text);
    check(r.picture === want.picture, text);
    check(!r.log.includes('left out'), `${text}: ${r.log}`);
  }
  for (const [name, why] of [['none', 'no file of this name'], ['old', 'no file of this name'], ['old.pt', 'only .safetensors'],
    ['damaged', 'damaged.safetensors'], ['../secret', 'no file'], ['../secret.safetensors', 'no file'], [path.join(models, 'secret'), 'no file'],
    ['sub/../cat', 'no file'], ['..\\secret', 'no file'], ['sub', 'no file']]) {
    const r = await run(`embedding:${name}, flat`);
    check(r.picture === none.picture, `${name} is left out`);
    check(r.log.includes('is left out: ') && r.log.includes(why), `${name}: ${r.log}`);
  }
}

async function again() {
  const cat = await run('embedding:cat, flat');
  equal((await run('embedding:cat, flat')).cached, '1234567', 'nothing changed');
  put('other.safetensors', row(DOG));
  equal((await run('embedding:cat, flat')).cached, '1234567', 'another embedding');
  put('cat.safetensors', row(DOG));
  const changed = await run('embedding:cat, flat');
  equal(changed.cached, '134', 'what does not depend on the prompt');
  const dog = await run('dog, flat');
  check(changed.picture === dog.picture && changed.picture !== cat.picture, 'the file was replaced');
  // A prompt that comes along a link is not known before the run.
  const linked = { ...workflow(['8', 0]), 8: { class_type: 'PrimitiveString', inputs: { value: 'embedding:cat, flat' } } };
  check((await run(linked)).picture === dog.picture, 'a linked prompt');
  put('cat.safetensors', row(CAT));
  check((await run(linked)).picture === cat.picture, 'a linked prompt, the file was replaced');
  fs.unlinkSync(at('cat.safetensors'));
  check((await run(linked)).picture === (await run(', flat')).picture, 'the file is gone');
  equal((await get(s, '/embeddings')).json(), ['damaged', 'other', 'sub/pets'], 'no longer listed');
}

// What was left out reaches who queued the prompt, the history and who polls, also when the node's result is kept.
async function warned() {
  const socket = new Socket(s, '?clientId=warned'), other = new Socket(s, '?clientId=other');
  equal([await socket.opened, await other.opened], [101, 101], 'the sockets');
  const prompt = workflow('embedding:nowhere, embedding:nowhere2 flat');
  prompt[3].inputs.text = 'embedding:damaged';
  for (const seed of [11, 12, 12]) {
    prompt[5].inputs.seed = seed;
    const before = s.log().length;
    const { prompt_id } = (await post(s, '/prompt', { prompt, client_id: 'warned' })).json();
    check(await socket.finished(prompt_id), 'the run ends');
    const told = socket.got.filter((m) => m.type === 'graft.warning' && m.data.prompt_id === prompt_id).map((m) => m.data);
    const plain = ({ node, display_node, text }) => ({ node, display_node, text });
    const wanted = [[2, /^embedding "nowhere" is left out: there is no file of this name/], [2, /^embedding "nowhere2" /], [3, /^embedding "damaged" .*damaged\.safetensors/]];
    told.sort((a, b) => a.node - b.node);
    equal(told.map((d) => d.node), wanted.map(([node]) => String(node)), `seed ${seed}: the nodes`);
    for (const [i, [, text]] of wanted.entries()) check(text.test(told[i]?.text), told[i]?.text);
    check(told.every((d) => d.display_node === d.node && d.timestamp > 1e12), 'the rest of a warning');
    check(!JSON.stringify(told).includes(dir), 'no absolute path');
    const entry = await ended(s, prompt_id);
    const kept = entry.status.messages.filter(([type]) => type === 'graft.warning').map(([, data]) => data);
    equal(kept.sort((a, b) => a.node - b.node), told, 'the history has the same');
    equal(entry.status.status_str, 'success', 'a warning is no error');
    const job = (await get(s, `/api/jobs/${prompt_id}`)).json();
    equal([job.status, job.execution_error], ['completed', null], 'nor for who polls');
    equal(job.warnings.sort((a, b) => a.node - b.node), told.map(plain), '/api/jobs');
    equal(s.log().slice(before).includes('left out'), seed === 11, 'the log has it when it happens');
    check(!('warnings' in (await get(s, '/api/jobs')).json().jobs[0]), 'not in the list of jobs');
  }
  const fine = (await post(s, '/prompt', { prompt: workflow('fine'), client_id: 'warned' })).json().prompt_id;
  await ended(s, fine);
  equal((await get(s, `/api/jobs/${fine}`)).json().warnings, [], 'a run without warnings');
  check(!other.got.some((m) => m.type === 'graft.warning'), 'nobody else is told');
  socket.close();
  other.close();
}

await lists();
await vectors();
await warned();
await again();
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(dir, { recursive: true });
end();
