// ONNX Runtime as a peer: a network that runs a step whenever it is told to.
//
//     node ort_peer.mjs FOLDER MODEL.onnx THREADS
//
// FOLDER has node_modules/onnxruntime-node. The protocol is that of compare.py.
import {createRequire} from 'node:module';
import {readFileSync, writeFileSync} from 'node:fs';
import {resolve} from 'node:path';
import {createInterface} from 'node:readline';

const [folder, model, threads] = process.argv.slice(2);
const require = createRequire(resolve(folder, 'x.js'));
const ort = require('onnxruntime-node');
const {version} = require('onnxruntime-node/package.json');

const session = await ort.InferenceSession.create(model, {
  executionProviders: ['cpu'],
  graphOptimizationLevel: 'all',
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
  logSeverityLevel: 3,
});
const given = {};
let made;

const floats = path => {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

const peak = () =>
  Number(readFileSync('/proc/self/status', 'utf8').match(/VmHWM:\s*(\d+)/)[1]) / 1024;

const commands = {
  in: (index, path) => {
    const {name, shape} = session.inputMetadata[Number(index)];
    given[name] = new ort.Tensor('float32', floats(path), shape);
    return 'ok';
  },
  run: async () => {
    const start = performance.now();
    made = await session.run(given);
    return (performance.now() - start) / 1000;
  },
  out: path => {
    writeFileSync(path, made[session.outputNames[0]].data);
    return 'ok';
  },
  peak,
};

console.log(`ready onnxruntime-node ${version}, ${threads} threads`);
for await (const line of createInterface({input: process.stdin})) {
  const [command, ...args] = line.trim().split(' ');
  console.log(String(await commands[command](...args)));
}
