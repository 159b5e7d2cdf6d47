// Whole connections, byte by byte: tests/serve/transcripts/*.txt. A line behind "> " is sent, one behind
// "< " must come back; the next direction begins when the one before is complete. Lines end with CRLF,
// except the last one of a direction; "\xNN" is one byte. {{uuid}}, {{number}} and {{text}} stand for
// what changes. GRAFT_RECORD=NAME.txt prints what really came.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { PATIENCE, check, end, source, start } from './server.mjs';

const folder = path.join(source, 'tests/serve/transcripts');
const holes = { uuid: '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', number: '-?[0-9.]+', text: '[^\r\n]*?' };
const bytes = (line) => line.replace(/\\x([0-9a-f]{2})/g, (_, h) => String.fromCharCode(parseInt(h, 16)));
const shown = (text) => text.split('\r\n').map((l) => l.replace(/[\x00-\x1f\x7f-\xff]/g,
  (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`)).join('\n');
const pattern = (text) => new RegExp(`^${text.split(/\{\{(\w+)\}\}/).map((part, i) =>
  i & 1 ? holes[part] : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('')}`);

// [{send, text}] in turns.
function parse(file) {
  const turns = [];
  for (const line of fs.readFileSync(file, 'utf8').split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const send = line[0] === '>';
    if (turns.at(-1)?.send !== send) turns.push({ send, lines: [] });
    turns.at(-1).lines.push(bytes(line.slice(2)));
  }
  return turns.map(({ send, lines }) => ({ send, text: lines.join('\r\n') }));
}

async function play(s, name) {
  const socket = net.connect(s.port, '127.0.0.1');
  let got = '', wake = () => {};
  socket.on('data', (d) => { got += d.toString('latin1'); wake(); });
  socket.on('close', () => wake());
  socket.on('error', () => {});
  const until = async (test) => {
    const limit = Date.now() + PATIENCE;
    while (!test() && Date.now() < limit && !socket.destroyed)
      await new Promise((done) => { wake = done; setTimeout(done, 100); });
    return test();
  };
  for (const { send, text } of parse(path.join(folder, name))) {
    if (send) {
      socket.write(text, 'latin1');
      continue;
    }
    const wanted = pattern(text);
    const ok = await until(() => wanted.test(got));
    if (process.env.GRAFT_RECORD === name) console.log(shown(got));
    check(ok, `${name}:\n${shown(got)}\nis not\n${shown(text)}`);
    if (!ok) break;
    got = got.replace(wanted, '');
  }
  check(got === '', `${name}: nothing else came: ${shown(got)}`);
  socket.destroy();
}

// Each begins with a fresh server: numbers and names start anew.
for (const name of fs.readdirSync(folder).filter((n) => n.endsWith('.txt')).sort()) {
  const s = await start({ args: ['--quiet'] });
  await play(s, name);
  await s.stop();
  fs.rmSync(s.dir, { recursive: true });
}
end();
