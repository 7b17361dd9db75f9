/**
 * Prints how many animals a second are added at 64 connections, by ours and by one INSERT a request, in turns on one
 * PostgreSQL that syncs every commit: `node --import tsx test/postgres/speed.ts [ROUNDS]`. A round takes some 15 s.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migratePostgres } from '../../dist/postgres/index.js';
import { clients, openLoad } from '../bench/load.js';
import { adding, apiKey } from '../bench/operations.js';
import { root, RunningServer, serverFile } from '../support/process.js';
import { Cluster } from './cluster.js';

const rounds = Number(process.argv[2] ?? 5);
const secondsEach = 3;

const folder = mkdtempSync(join(tmpdir(), 'petstore-speed-'));
const load = openLoad(folder);
const cluster = await Cluster.start();
const servers: RunningServer[] = [];
try {
  await migratePostgres(cluster.url);
  const env = { PETSTORE_API_KEYS: apiKey, PORT: '0', PETSTORE_STORAGE: cluster.url, PETSTORE_LOG: 'info' };
  const single = (connections: number): readonly string[] => [
    '--import',
    'tsx',
    'test/postgres/single-insert.ts',
    cluster.url,
    String(connections),
  ];
  const contestants: readonly (readonly [string, readonly string[]])[] = [
    ['petstore', [serverFile]],
    ['one INSERT a request, 10 connections', single(10)],
    ['one INSERT a request, 64 connections', single(64)],
  ];
  for (const [, args] of contestants) {
    const server = new RunningServer(process.execPath, args, { cwd: root, env });
    servers.push(server);
    await server.said('listening');
  }
  const paces = contestants.map((): number[] => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [index, server] of servers.entries()) {
      const { requests, seconds } = await load.send(server.url, adding, clients.sleeping, secondsEach);
      // The first round warms up.
      if (round > 0) paces[index]?.push(requests / seconds);
    }
  }
  const medians = paces.map((each) => each.sort((one, other) => one - other)[Math.floor(each.length / 2)] ?? NaN);
  console.log(`adding at ${clients.sleeping.name}, medians of ${rounds} rounds of ${secondsEach} s:`);
  for (const [index, [name]] of contestants.entries()) {
    const times = (medians[0] ?? NaN) / (medians[index] ?? NaN);
    console.log(
      `${String(Math.round(medians[index] ?? NaN)).padStart(7)} animals/s  ${name}${index === 0 ? '' : `: petstore adds ${times.toFixed(1)} times as many`}`,
    );
  }
} finally {
  await Promise.all(servers.map((server) => server.end('SIGTERM')));
  await cluster.remove();
  rmSync(folder, { recursive: true, force: true });
}
