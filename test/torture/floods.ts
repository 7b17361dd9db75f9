/**
 * R15: memory stays bounded if clients send as much as they can and read nothing, and a good client
 * still gets responses.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { atEnd } from '../support/at-end.js';
import { requestBytes, key } from '../support/fixture.js';
import { memoryOf } from '../support/kernel.js';
import { StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { mebibytes, quantileOf, stretchSince } from './measures.js';
import { atOnce, count, printDetails, type TortureRow, type Share } from './row.js';
import { Scene } from './scene.js';

/** The bound on the memory of a server: its heap, and this much for each connection. */
const heapMiB = 256;
const connectionMiB = 64 / 1_024;
const healthyMs = 500;
/** The duration of a flood in milliseconds. */
const holdMs = 8_000;

/** A number of connections, and the bytes that each sends. */
interface Flood {
  readonly connections: number;
  readonly name: string;
  readonly bytes: string;
  /** True if parsing takes so long that a good client may have to wait. */
  readonly isCostly?: boolean;
}

const noKey = { authorization: null };
const filling = (head: string): string => head.repeat(Math.ceil(65_536 / head.length));
const chunks = `${requestBytes('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] })}${'1\r\n"\r\n'.repeat(65_000)}`;

const floods: readonly Flood[] = [
  ...[
    { name: '64 KiB of 18-byte heads', bytes: filling('GET / HTTP/1.1\r\n\r\n') },
    {
      name: '64 KiB of heads without a key',
      bytes: filling(requestBytes('GET', '/v1/pets', noKey)),
    },
    { name: '64 KiB of heads with a key', bytes: filling(requestBytes('GET', '/v1/pets/1')) },
    {
      name: 'as many heads as may wait',
      bytes: requestBytes('GET', '/v1/pets', noKey).repeat(257),
    },
  ].map((flood) => ({ ...flood, connections: 1_000 })),
  ...[
    { name: '32 pages of 6 MB', bytes: requestBytes('GET', '/v1/pets?limit=100').repeat(32) },
    {
      name: '32 pages without a key',
      bytes: requestBytes('GET', '/v1/pets?limit=100', noKey).repeat(32),
    },
    {
      name: '32 times the largest file of /docs',
      bytes: requestBytes('GET', '/docs/swagger-ui-bundle.js', noKey).repeat(32),
    },
    { name: 'a body in one-byte chunks', bytes: chunks, isCostly: true },
    {
      name: 'a body in one-byte chunks without a key',
      bytes: chunks.replace(/Authorization.*\r\n/, ''),
      isCostly: true,
    },
  ].map((flood) => ({ ...flood, connections: 200 })),
];

export const flooding: TortureRow = {
  id: 'R15',
  title: `up to 1,000 connections that send as much as they can and read nothing; the heap is limited to ${heapMiB} MiB`,
  fullS: 150,
  run: async (share) => {
    const results: FloodResult[] = [];
    for (const flood of floods)
      if (share.goOn(results.length, floods.length)) results.push(await runFlood(share, flood));
    const peakMiB = Math.max(...results.map((result) => result.peakMiB));
    const slowestMs = (of: readonly FloodResult[]) =>
      whole(Math.max(...of.map((result) => result.healthMs)));
    const costly = results.filter((result) => result.isCostly);
    const others = results.filter((result) => !result.isCostly);
    const ofCostly =
      costly.length === 0 ? '' : `, ${slowestMs(costly)} ms beside bodies in one-byte chunks`;
    return `${count(results.length, floods.length, 'floods')}: memory at most ${peakMiB} MiB; slowest \`/healthz\` ${slowestMs(others)} ms${ofCostly}`;
  },
};

/** The largest memory of a server during a flood, and the slowest response to a good client. */
interface FloodResult {
  readonly isCostly: boolean;
  readonly peakMiB: number;
  readonly healthMs: number;
}

async function runFlood(
  share: Share,
  { name, connections, bytes, isCostly = false }: Flood,
): Promise<FloodResult> {
  const scene = await Scene.start(
    share,
    {},
    {
      args: ['--plugin', 'docs'],
      env: { PETSTORE_API_KEYS: key, NODE_OPTIONS: `--max-old-space-size=${heapMiB}` },
    },
  );
  const { pid, port } = scene.server;
  const long = { name: 'x'.repeat(60_000), categoryId: 1 };
  await atOnce(100, () => scene.add(long));
  const healthMs = async (): Promise<number> => (await scene.clients.get('/healthz')).ms;

  const flooder = await flooderOf(share, port, connections, bytes);
  const beforeMiB = mebibytes(memoryOf(pid));
  const times: number[] = [];
  const scope = stretchSince(pid);
  flooder.signal('SIGUSR2');
  for (const endsAt = performance.now() + holdMs; performance.now() < endsAt; await wait(50))
    times.push(await healthMs());
  const peakMiB = mebibytes(memoryOf(pid, 'VmHWM'));
  const slowest = quantileOf(times, 1);
  const figure = `${whole(connections)} connections that send ${name}: memory ${beforeMiB} MiB before, ${peakMiB} MiB at most; slowest /healthz ${Math.round(slowest)} ms`;
  printDetails('R15', figure);
  const boundMiB = heapMiB + connections * connectionMiB;
  assert.ok(peakMiB < boundMiB, `${figure}; the bound is ${boundMiB} MiB`);
  // Subtracts the time that other work on this machine takes.
  const stretched = scope();
  assert.ok(
    isCostly || slowest < healthyMs * stretched,
    `${figure}; other work slowed this machine ${stretched.toFixed(1)} times`,
  );
  await flooder.end('SIGKILL');
  await until(`a fast response after ${name}`, async () => (await healthMs()) < 50);
  scene.server.assertNoError();
  await scene.server.end('SIGKILL');
  return { isCostly, peakMiB, healthMs: slowest };
}

/**
 * The program that floods the server. It is a process of its own, so that its work does not delay
 * the good client. Its connections never read.
 */
const flooderScript = `
import { connect } from 'node:net';
import { readFileSync } from 'node:fs';
const [port, connections, file] = process.argv.slice(1);
const packet = readFileSync(file);
const sockets = await Promise.all(Array.from({ length: Number(connections) }, () => new Promise((resolve, reject) => {
  const socket = connect(port, '127.0.0.1', () => resolve(socket)).on('error', reject).pause();
})));
for (const socket of sockets) socket.removeAllListeners('error').on('error', () => undefined);
process.once('SIGUSR2', () => sockets.forEach((socket) => socket.write(packet)));
setInterval(() => undefined, 1_000);
console.log('ready');
`;

async function flooderOf(
  share: Share,
  port: number,
  connections: number,
  bytes: string,
): Promise<StartedProcess> {
  const cwd = share.workFolder;
  writeFileSync(join(cwd, 'packet'), bytes, 'latin1');
  const script = ['--input-type=module', '--eval', flooderScript];
  const args = [...script, String(port), String(connections), 'packet'];
  const flooder = new StartedProcess(process.execPath, args, { cwd });
  atEnd(share, () => flooder.end('SIGKILL'));
  await flooder.findLine((line) => line);
  return flooder;
}
