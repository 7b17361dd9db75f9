/**
 * R15: clients that send all they can and read nothing take a bounded memory, and a good client is
 * answered meanwhile.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from './client.js';
import { quantileOf, residentMiB, stretchSince } from './figures.js';
import { count, hold, number, until, type Row, type Share } from './row.js';
import { apiKey, started } from './server.js';
import { requestBytes } from './wire.js';

/**
 * What a whole process may hold: Node's heap as the row bounds it, and so much for each connection.
 */
const heapMiB = 256;
const connectionMiB = 64 / 1_024;
const healthyMs = 500;
/** How long nobody reads. */
const holdMs = 8_000;

interface Flood {
  readonly name: string;
  readonly connections: number;
  readonly bytes: string;
  /** The chunks cost the parser: no good client is promised an answer in time. */
  readonly isCostly?: true;
}

const withKey = `Authorization: Bearer ${apiKey}\r\n`;
const heads = (head: string): string => head.repeat(Math.ceil(65_536 / head.length));
const chunks = (key: string): string =>
  `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${key}Transfer-Encoding: chunked\r\n\r\n${'1\r\n"\r\n'.repeat(65_000)}`;

const floods: readonly Flood[] = [
  { name: '64 KiB of 18-byte heads', connections: 1_000, bytes: heads('GET / HTTP/1.1\r\n\r\n') },
  {
    name: '64 KiB of heads without a key',
    connections: 1_000,
    bytes: heads('GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'),
  },
  {
    name: '64 KiB of heads with a key',
    connections: 1_000,
    bytes: heads(requestBytes('GET', '/v1/pets/1')),
  },
  {
    name: 'as many heads as may wait',
    connections: 1_000,
    bytes: 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(257),
  },
  {
    name: '32 pages of 6 MB',
    connections: 200,
    bytes: requestBytes('GET', '/v1/pets?limit=100').repeat(32),
  },
  {
    name: '32 pages without a key',
    connections: 200,
    bytes: 'GET /v1/pets?limit=100 HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(32),
  },
  {
    name: '32 times the largest file of /docs',
    connections: 200,
    bytes: 'GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(32),
  },
  { name: 'a body in one-byte chunks', connections: 200, bytes: chunks(withKey), isCostly: true },
  {
    name: 'a body in one-byte chunks without a key',
    connections: 200,
    bytes: chunks(''),
    isCostly: true,
  },
];

export const flooding: Row = {
  id: 'R15',
  title: `up to 1,000 connections that send all they can and read nothing, at ${heapMiB} MiB of heap`,
  fullS: 150,
  run: async (share) => {
    const figures: string[] = [];
    let done = 0;
    for (const flood of floods) {
      if (!share.goOn(done, floods.length)) break;
      figures.push(await meet(share, flood));
      done++;
    }
    return `${count(done, floods.length, 'floods')}: ${figures.join('; ')}`;
  },
};

async function meet(share: Share, { name, connections, bytes, isCostly }: Flood): Promise<string> {
  const options = {
    args: ['--plugin', 'docs'],
    env: { PETSTORE_API_KEYS: apiKey, NODE_OPTIONS: `--max-old-space-size=${heapMiB}` },
  };
  const { server, client } = await started(share, join(share.folder(), 'pets.jsonl'), options);
  const long = 'x'.repeat(60_000);
  await Promise.all(Array.from({ length: 100 }, () => client.add({ name: long, categoryId: 1 })));
  const flooder = await flooderOf(share, client.port, connections, bytes);
  const beforeMiB = residentMiB(server.pid);
  let peakMiB = beforeMiB;
  const watching = setInterval(() => (peakMiB = Math.max(peakMiB, residentMiB(server.pid))), 50);
  share.onEnd(() => clearInterval(watching));
  const times: number[] = [];
  const stretch = stretchSince([server.pid, process.pid]);
  flooder.kill('SIGUSR2');
  for (const endsAt = performance.now() + holdMs; performance.now() < endsAt; await wait(50)) {
    times.push(await healthy(client, name));
  }
  clearInterval(watching);
  const boundMiB = heapMiB + connections * connectionMiB;
  hold(peakMiB < boundMiB, `${name}: ${Math.round(peakMiB)} MiB, more than ${boundMiB}`);
  const slowest = quantileOf(times, 1);
  // What other work on this machine takes of it is not the server's doing.
  const stretched = stretch();
  hold(
    isCostly === true || slowest < healthyMs * stretched,
    `${name}: GET /healthz took ${Math.round(slowest)} ms, stretched ${stretched.toFixed(1)} times`,
  );
  flooder.kill('SIGKILL');
  await until(
    `${name}: the server is calm again`,
    30_000,
    async () => (await healthy(client, name)) < 50,
  );
  server.holdNoError();
  await server.end('SIGKILL');
  return `${number(connections)} with ${name}: ${Math.round(beforeMiB)} to ${Math.round(peakMiB)} MiB, healthz at most ${Math.round(slowest)} ms`;
}

async function healthy(client: Client, name: string): Promise<number> {
  const { status, ms } = await client.get('/healthz');
  hold(status === 200, `${name}: GET /healthz is ${status}`);
  return ms;
}

/**
 * A program of its own, so that its work delays no answer to the good client: connections that
 * never read.
 */
const flooderScript = `
import { connect } from 'node:net';
const [port, connections] = process.argv.slice(1).map(Number);
let bytes = '';
for await (const chunk of process.stdin) {
  bytes += chunk.toString('latin1');
  if (bytes.endsWith('\\0')) break;
}
const packet = Buffer.from(bytes.slice(0, -1), 'latin1');
const sockets = await Promise.all(Array.from({ length: connections }, () => new Promise((resolve, reject) => {
  const socket = connect(port, '127.0.0.1', () => resolve(socket)).on('error', reject).pause();
})));
for (const socket of sockets) socket.removeAllListeners('error').on('error', () => undefined);
console.log('ready');
process.once('SIGUSR2', () => sockets.forEach((socket) => socket.write(packet)));
setInterval(() => undefined, 1_000);
`;

async function flooderOf(
  share: Share,
  port: number,
  connections: number,
  bytes: string,
): Promise<ChildProcess> {
  const args = ['--input-type=module', '--eval', flooderScript, String(port), String(connections)];
  const flooder = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  share.onEnd(() => flooder.kill('SIGKILL'));
  flooder.stdin.end(`${bytes}\0`, 'latin1');
  await once(flooder.stdout, 'data');
  return flooder;
}
