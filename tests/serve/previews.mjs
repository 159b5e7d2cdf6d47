// Pictures while a model samples, as clients get them: colours, decoded ones, what happens without a
// decoder, and the loader's list of them. With the demo checkpoint and its tiny autoencoder.
import fs from 'node:fs';
import path from 'node:path';
import { Socket, check, end, ended, equal, folder, get, post, source, start, until } from './server.mjs';

const dir = folder();
const models = path.join(dir, 'models');
const at = (name) => path.join(models, 'vae_approx', name);
const own = (name) => fs.readFileSync(path.join(source, 'models/vae_approx', name));
for (const d of ['checkpoints', 'vae_approx']) fs.mkdirSync(path.join(models, d), { recursive: true });
fs.symlinkSync(path.join(source, 'models/checkpoints/emoji-64.safetensors'), path.join(models, 'checkpoints/demo.safetensors'));

const workflow = (seed, vae, steps = 4) => ({
  1: { class_type: 'CheckpointLoaderSimple', inputs: { ckpt_name: 'demo.safetensors' } },
  2: { class_type: 'CLIPTextEncode', inputs: { text: 'red apple, 3d', clip: ['1', 1] } },
  3: { class_type: 'CLIPTextEncode', inputs: { text: '', clip: ['1', 1] } },
  4: { class_type: 'EmptyLatentImage', inputs: { width: 64, height: 64, batch_size: 1 } },
  5: { class_type: 'KSampler', inputs: { seed, steps, cfg: 4, sampler_name: 'ddim', scheduler: 'ddim_uniform',
    denoise: 1, model: ['1', 0], positive: ['2', 0], negative: ['3', 0], latent_image: ['4', 0] } },
  6: { class_type: 'VAEDecode', inputs: { samples: ['5', 0], vae: vae ? ['8', 0] : ['1', 2] } },
  7: { class_type: 'SaveImage', inputs: { images: ['6', 0], filename_prefix: 'p' } },
  ...(vae ? { 8: { class_type: 'VAELoader', inputs: { vae_name: vae } } } : {}),
});

// Width and height of a JPEG.
function size(jpeg) {
  for (let i = 2; i + 9 < jpeg.length; i += 2 + jpeg.readUInt16BE(i + 2))
    if (jpeg[i] === 0xff && jpeg[i + 1] >= 0xc0 && jpeg[i + 1] <= 0xc2) return [jpeg.readUInt16BE(i + 7), jpeg.readUInt16BE(i + 5)];
  return [0, 0];
}

let s, w;
async function serve(...args) {
  if (s) await s.stop();
  s = await start({ dir, models, args });
  w = new Socket(s, '?clientId=c');
  await w.opened;
}

// {status, sizes: of the previews, warnings: about them}
async function run(seed, vae, extra) {
  const before = w.got.length;
  const answer = (await post(s, '/prompt', { prompt: workflow(seed, vae), client_id: 'c', ...(extra && { extra_data: extra }) })).json();
  if (!answer.prompt_id) return { status: 'refused', answer };
  const entry = await ended(s, answer.prompt_id);
  await until(() => w.got.some((m) => m.type === 'executing' && m.data.node === null && m.data.prompt_id === answer.prompt_id));
  const got = w.got.slice(before);
  return {
    status: entry.status.status_str, entry,
    sizes: [...new Set(got.filter(Buffer.isBuffer).map((b) => `${b.readUInt32BE(0)}: ${size(b.subarray(8)).join('x')}`))],
    warnings: got.filter((m) => m.type === 'graft.warning').map((m) => m.data.text),
  };
}
const NONE = "previews are not decoded: there is no tiny autoencoder for this model's latents in the folder vae_approx";
const put = (name, data) => { fs.writeFileSync(`${at(name)}.new`, data); fs.renameSync(`${at(name)}.new`, at(name)); };

async function colours() {
  put('emoji_decoder.safetensors', own('emoji_decoder.safetensors'));
  await serve('--preview', 'latent');
  let r = await run(1);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], []], 'a pixel for each of the latent');
  await serve();
  r = await run(1);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 64x64'], []], 'decoded where there is a decoder');
  fs.unlinkSync(at('emoji_decoder.safetensors'));
  r = await run(2);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], []], 'and without a word where there is none');
  put('emoji_decoder.safetensors', own('emoji_decoder.safetensors'));
  await serve('--preview', 'none');
  const n = await run(1);
  equal([n.status, n.sizes, n.warnings], ['success', [], []], 'none');
}

async function decoded() {
  await serve('--preview', 'taesd');
  let r = await run(1);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 64x64'], []], 'decoded, with a decoder alone');
  fs.unlinkSync(at('emoji_decoder.safetensors'));
  r = await run(2);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], [NONE]], 'its file is gone: colours and a warning');
  r = await run(3);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], []], 'one warning');
  put('emoji_decoder.safetensors', 'nonsense');
  r = await run(4);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], [NONE]], 'a file that is none');
  // The same tensors for the latents of SD.
  const bytes = own('emoji_decoder.safetensors'), length = Number(bytes.readBigUInt64LE(0)), header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  delete header.__metadata__;
  put('emoji_decoder.safetensors', Buffer.concat([bytes.subarray(0, 8), Buffer.from(JSON.stringify(header).padEnd(length)), bytes.subarray(8 + length)]));
  r = await run(5);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 8x8'], [NONE]], 'one for other latents');
  put('emoji_decoder.safetensors', bytes);
  r = await run(6);
  equal([r.status, r.sizes, r.warnings], ['success', ['1: 64x64'], []], 'it is back');
}

async function loaded() {
  const offered = async () => (await get(s, '/object_info/VAELoader')).json().VAELoader.input.required.vae_name[0];
  equal(await offered(), [], 'half a pair');
  let r = await run(6, 'emoji');
  equal([r.status, r.answer?.node_errors['8'].errors[0].type], ['refused', 'value_not_in_list'], 'is refused');
  put('emoji_encoder.safetensors', own('emoji_encoder.safetensors'));
  equal(await offered(), ['emoji'], 'a whole pair');
  check((await get(s, '/models')).json().includes('vae_approx'), 'the folder');
  equal((await get(s, '/models/vae_approx')).json(), ['emoji_decoder.safetensors', 'emoji_encoder.safetensors'], 'its files');
  r = await run(6, 'emoji');
  equal([r.status, r.entry.outputs[7].images.length], ['success', 1], 'a picture by it');
  put('emoji_encoder.safetensors', own('emoji_decoder.safetensors'));
  r = await run(6, 'emoji');
  check(r.status === 'error' && JSON.stringify(r.entry).includes('no encoder of a TAESD'), 'two decoders');
}

// What the prompt asks for goes before what the server was told, for that prompt alone.
async function asked() {
  const sizes = async (seed, method) => (await run(seed, undefined, { preview_method: method })).sizes;
  equal(await sizes(20, 'none'), [], 'a prompt that wants none');
  equal(await sizes(21, 'latent2rgb'), ['1: 8x8'], 'colours');
  equal(await sizes(22, 'auto'), ['1: 8x8'], "ComfyUI's auto is colours");
  for (const [i, method] of ['default', 'no such', 7, null].entries()) equal(await sizes(23 + i, method), ['1: 64x64'], `${method} leaves the server's`);
  await serve('--preview', 'none');
  equal(await sizes(30, 'taesd'), ['1: 64x64'], 'decoded where the server has none');
  equal((await run(31)).sizes, [], 'the next prompt has none again');
  await serve('--preview', 'taesd');
}

async function interrupted() {
  const before = w.got.length;
  const { prompt_id: id } = (await post(s, '/prompt', { prompt: workflow(9, undefined, 10000), client_id: 'c' })).json();
  await until(() => w.got.slice(before).filter(Buffer.isBuffer).length > 1);
  await post(s, '/interrupt', { prompt_id: id });
  equal((await ended(s, id)).status.messages.at(-1)[0], 'execution_interrupted', 'while previews are decoded');
  equal((await run(1)).sizes, ['1: 64x64'], 'and the next run has its own');
}

await colours();
await decoded();
await loaded();
await asked();
await interrupted();
w.socket.destroy();
equal((await s.stop()).code, 0, 'the server ends');
fs.rmSync(dir, { recursive: true });
end();
