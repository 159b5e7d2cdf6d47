// Three clients of the protocol, as their authors published them: run a prompt, follow it, fetch the
// picture. GRAFT_CLIENTS is the folder in which `npm ci` was run.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';
import { PATIENCE, check, end, equal, get, picture, skip, source, start } from './server.mjs';

const where = process.env.GRAFT_CLIENTS;
if (!where || !fs.existsSync(path.join(where, 'node_modules/ws/package.json')))
  skip(`the npm packages are not in ${where}; is npm there, and can it reach its registry?`);
const require = createRequire(path.join(where, 'package.json'));
globalThis.WebSocket ??= require('ws').WebSocket;

const isPng = (bytes) => Buffer.from(bytes).subarray(1, 4).toString() === 'PNG';
const limit = (promise, what, ms = 2 * PATIENCE) => Promise.race([promise,
  new Promise((_, fail) => setTimeout(() => fail(new Error(`${what}: no answer in ${ms} ms`)), ms).unref())]);

async function comfyUiClient(s, prompt) {
  const { ComfyUIClient } = require('comfy-ui-client');
  const c = new ComfyUIClient(s.host, 'client-a');
  await limit(c.connect(), 'connect');
  for (let i = 0; i < 2; i++) { // the second time everything comes from the cache
    const images = await limit(c.getImages(prompt), 'images');
    const list = images[Object.keys(images)[0]];
    equal(list.length, 1, 'comfy-ui-client: one picture');
    check(isPng(await list[0].blob.arrayBuffer()), 'comfy-ui-client: a PNG');
  }
  const stats = await c.getSystemStats();
  check(stats.devices.length === 1, 'comfy-ui-client: system_stats');
  check('KSampler' in await c.getObjectInfo(), 'comfy-ui-client: object_info');
  equal((await c.getQueue()).queue_running, [], 'comfy-ui-client: queue');
  const up = await c.uploadImage(Buffer.from('picture'), 'c.png', true);
  equal(up.name, 'c.png', 'comfy-ui-client: upload');
  await c.disconnect();
}

async function stableCanvas(s, prompt) {
  const { Client } = require('@stable-canvas/comfyui-client');
  const c = new Client({ api_host: s.host, WebSocket: require('ws').WebSocket, fetch });
  c.connect();
  const events = [];
  c.on?.('execution_start', (d) => events.push(d));
  const out = await limit(c.enqueue(prompt), 'enqueue');
  equal(out.images.length, 1, 'comfyui-client: one picture');
  check(isPng(out.images[0].type === 'buff' ? out.images[0].data
    : await (await fetch(out.images[0].data)).arrayBuffer()), 'comfyui-client: a PNG');
  const polled = await limit(c.enqueue_polling(prompt), 'enqueue_polling');
  equal(polled.images.length, 1, 'comfyui-client: one picture by polling');
  await fromCache(c, prompt);
  c.close();
}

// This client listens for results once it has read the answer to its prompt. What comes from the cache must not be
// there sooner; a few may be, when others have all processors just then.
async function fromCache(c, prompt) {
  let lost = 0;
  for (let i = 0; i < 30; i++)
    await c.enqueue(prompt, { timeout_ms: 3000 }).catch((e) => { lost++; console.log(`from the cache: ${e.message}`); });
  check(lost < 4, `${lost} of 30 results that came from the cache were missed`);
}

async function saintno(s, prompt, [input, output] = ['1.inputs.color', '2']) {
  const { ComfyApi, CallWrapper, PromptBuilder } = require('@saintno/comfyui-sdk');
  const c = new ComfyApi(s.base, 'client-c');
  await limit(c.init().waitForReady(), 'ready');
  const builder = new PromptBuilder(structuredClone(prompt), ['color'], ['images'])
    .setInputNode('color', input).setOutputNode('images', output);
  for (const color of [1000, 1000, 2000]) {
    const seen = [];
    await limit(new Promise((done, fail) => new CallWrapper(c, builder.input('color', color))
      .onStart(() => seen.push('start'))
      .onFinished(async (data) => {
        const list = data.images?.images ?? [];
        equal(list.length, 1, 'comfyui-sdk: one picture');
        check(isPng(await (await fetch(c.getPathImage(list[0]))).arrayBuffer()), 'comfyui-sdk: a PNG');
        done();
      })
      .onFailed((e) => fail(e)).run()), 'run');
  }
  c.destroy();
}

const models = path.join(source, 'models');
const s = await start({ models });
const demo = JSON.parse(fs.readFileSync(path.join(source, 'workflows/txt2img.json')));
for (const [name, run] of Object.entries({ comfyUiClient, stableCanvas, saintno })) {
  try {
    await run(s, picture(name.length, `clients/${name}`));
    console.log(`ok   ${name}`);
  } catch (e) {
    check(false, `${name}: ${e.stack}`);
  }
}
// The demo checkpoint, with steps to follow, and a prompt of which a part is left out: clients are told so in a
// message that they do not know.
if (fs.readdirSync(path.join(models, 'checkpoints')).length) {
  const prompt = demo.prompt ?? demo;
  for (const node of Object.values(prompt)) {
    if ('steps' in node.inputs) node.inputs.steps = 3;
    if (node.inputs.text) node.inputs.text = 'embedding:nowhere rocket';
  }
  for (const [name, run] of Object.entries({ comfyUiClient, stableCanvas })) {
    try {
      await run(s, prompt);
      console.log(`ok   the demo checkpoint, ${name}`);
    } catch (e) {
      check(false, `the demo checkpoint, ${name}: ${e.stack}`);
    }
  }
  try {
    await saintno(s, prompt, ['5.inputs.seed', '7']);
    console.log('ok   the demo checkpoint, saintno');
  } catch (e) {
    check(false, `the demo checkpoint, saintno: ${e.stack}`);
  }
  const jobs = (await get(s, '/api/jobs?limit=1')).json().jobs;
  const { warnings } = (await get(s, `/api/jobs/${jobs[0].id}`)).json();
  check(warnings.length === 1 && warnings[0].text.includes('nowhere'), 'the last run had a warning');
}
await s.stop();
fs.rmSync(s.dir, { recursive: true });
end();
process.exit();
