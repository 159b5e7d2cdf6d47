// Clients that are slow on purpose hold no connection for long, and keep nobody else out. Takes half a
// minute, nearly all of it waiting.
import fs from 'node:fs';
import net from 'node:net';
import { PATIENCE, check, end, equal, get, picture, post, sleep, start, timed, until } from './server.mjs';

const s = await start({ args: ['--quiet'] });
const began = performance.now();
const seconds = () => (performance.now() - began) / 1000;

// Sends `first`, then a byte every half second until the other side closes; gives when that was.
const drip = (first) => new Promise((done) => {
  let timer;
  const c = net.connect(s.port, '127.0.0.1', () => { // on a busy machine that may be later than the first drop
    c.write(first);
    timer = setInterval(() => c.write('a'), 500);
  });
  c.on('error', () => {});
  c.on('data', (d) => { told += d; });
  c.on('close', () => { clearInterval(timer); done(seconds()); });
});
const host = `Host: ${s.host}`;
const all = [];
let told = '';
for (let i = 0; i < 100; i++) {
  all.push(drip('GET /prompt HTTP/1.1\r\nX-Slow: '));
  all.push(drip(`POST /prompt HTTP/1.1\r\n${host}\r\nContent-Length: 1000000\r\n\r\n{`));
  all.push(drip(`POST /prompt HTTP/1.1\r\n${host}\r\nContent-Length: 200000000\r\n\r\n{`));
  all.push(drip(`POST /prompt HTTP/1.1\r\n${host}\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n{`));
  all.push(drip(`POST /upload/image HTTP/1.1\r\n${host}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 500\r\n\r\n--x`));
}
// Takes nothing of a long answer, and has sent another request behind it.
fs.writeFileSync(`${s.input}/long.png`, Buffer.alloc(24 << 20));
let lazyClosed = false;
const lazy = net.connect(s.port, '127.0.0.1', () => lazy.write(`GET /view?filename=long.png&type=input HTTP/1.1\r\n${host}\r\n\r\nGET /users HTTP/1.1\r\n${host}\r\n\r\n`));
lazy.on('error', () => {});
lazy.on('close', () => { lazyClosed = true; });
lazy.pause();
let slowest = 0;
for (let i = 0; i < 10; i++) {
  slowest = Math.max(slowest, await timed(s, async () => equal((await get(s, '/prompt')).status, 200, 'others are answered')));
  await sleep(100);
}
check(slowest < 500, `others are answered at once: ${slowest} ms`);
equal((await post(s, '/prompt', { prompt: picture(5, 'slow/a', 8, 8) })).status, 200, 'a prompt');
const closed = await Promise.race([Promise.all(all), sleep(40000 + PATIENCE)]);
check(closed, 'every slow client was given up');
equal(told, '', 'without an answer');
if (closed) console.log(`closed after ${Math.min(...closed).toFixed(1)} to ${Math.max(...closed).toFixed(1)} s`);
let taken = 0;
lazy.on('data', (d) => { taken += d.length; });
lazy.resume();
await until(() => lazyClosed);
check(lazyClosed && taken < 24 << 20, `the one that takes nothing was given up, too: ${taken} bytes`);
equal((await get(s, '/prompt')).status, 200, 'alive');
equal((await s.stop()).code, 0, 'the server ends in order');
fs.rmSync(s.dir, { recursive: true });
end();
process.exit();
