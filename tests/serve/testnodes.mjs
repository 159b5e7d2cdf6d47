// The server with the nodes of tests/plugins joined to the real ones, a client, and prompts of them.
import fs from 'node:fs';
import path from 'node:path';
import { Socket, check, equal, folder, get, post, source, start } from './server.mjs';

export const node = (class_type, inputs) => ({ class_type, inputs });
export const image = (content, more = {}) => node('StubImage', { content, height: 8, width: 8, batch_size: 1, ...more });
export const mask = (value) => node('StubMask', { value, height: 8, width: 8, batch_size: 1 });
export const save = (from, slot = 0) => node('SaveImage', { images: [from, slot], filename_prefix: 'semantics' });
export const output = (from) => node('TestOutputNodeWithSocketOutput', { image: [from, 0], value: 1 }); // shows nothing
export const show = (from, slot = 0) => node('TestShowValue', { value: [from, slot] });

// {s, w, run}: a server, its client `one`, and run(prompt), which gives {id, ran, cached, outputs,
// status, errors, messages, entry} of a prompt, or {refused}.
export async function startNodes(args = []) {
  const dir = folder();
  const plugins = path.join(dir, 'plugins');
  fs.mkdirSync(plugins);
  for (const from of [process.env.GRAFT_PLUGINS, process.env.GRAFT_COMFY_PLUGINS])
    for (const f of fs.readdirSync(from).filter((x) => x.endsWith('.so'))) fs.symlinkSync(path.join(from, f), path.join(plugins, f));
  const s = await start({ dir, plugins, models: path.join(source, 'models'), args: ['--quiet', ...args] });
  const w = new Socket(s, '?clientId=one');
  equal(await w.opened, 101, 'handshake');
  const run = async (prompt, more = {}) => {
    w.got.length = 0;
    // A text is sent as it stands, for numbers that JavaScript would write differently.
    const body = typeof prompt === 'string' ? `{"client_id":"one","prompt":${prompt}}` : { prompt, client_id: 'one', ...more };
    const r = await post(s, '/prompt', body);
    if (r.status !== 200) return { refused: r.json() };
    const id = r.json().prompt_id;
    check(await w.finished(id), 'the run ends');
    const of = (type) => w.got.filter((m) => m.type === type).map((m) => m.data);
    const entry = (await get(s, `/history/${id}`)).json()[id];
    return { id, ran: of('executing').map((d) => d.node).filter((x) => x !== null), cached: of('execution_cached')[0].nodes.sort(),
      outputs: entry.outputs, status: entry.status.status_str, errors: of('execution_error'), messages: entry.status.messages, entry };
  };
  return { s, w, run };
}
