/**
 * Prints how many animals a second are added by ours and by one INSERT a request, in turns on one
 * PostgreSQL that syncs every commit: on the disk of this machine, and as if its syncs took 1 and 4
 * ms more. Needs a C compiler. It is the table of docs/postgres.md: `node --import tsx
 * test/postgres/speed.ts [ROUNDS]`; a round takes a minute.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migratePostgres } from '../../dist/postgres/index.js';
import { openLoad } from '../bench/load.js';
import { adding, apiKey } from '../bench/operations.js';
import { folderOnDisk } from '../support/in-memory.js';
import { root, RunningServer, serverFile } from '../support/process.js';
import { Cluster } from './cluster.js';

const rounds = Number(process.argv[2] ?? 5);
const secondsEach = 3;
const connections = [64, 512];
const slowerByMs = [0, 1, 4];

const folder = mkdtempSync(join(tmpdir(), 'petstore-speed-'));
// PostgreSQL runs as another user where we are root.
chmodSync(folder, 0o755);
const load = openLoad(folder);
try {
  const slowSync = join(folder, 'slow-sync.so');
  const source = join(root, 'test/postgres/slow-sync.c');
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', slowSync, source, '-ldl']);
  console.log(`Medians of ${rounds} rounds of ${secondsEach} s:\n`);
  console.log(
    '| connections | a sync takes | petstore | pool of 10 | pool of 64 |\n|---|---|---|---|---|',
  );
  for (const more of slowerByMs) {
    // The cluster has this environment, and no other program here syncs.
    process.env['LD_PRELOAD'] = slowSync;
    process.env['SYNC_US'] = String(1_000 * more);
    await measure(more);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Prints the rows of one disk. */
async function measure(slowerBy: number): Promise<void> {
  const disk = folderOnDisk('petstore-speed-');
  const sync = `${(slowerBy + syncMilliseconds(disk)).toFixed(1)} ms`;
  const cluster = await Cluster.start(['fsync=on', 'synchronous_commit=on'], disk);
  const servers: RunningServer[] = [];
  try {
    await migratePostgres(cluster.url);
    const env = {
      PETSTORE_API_KEYS: apiKey,
      PORT: '0',
      PETSTORE_STORAGE: cluster.url,
      PETSTORE_LOG: 'info',
    };
    const single = ['--import', 'tsx', 'test/postgres/single-insert.ts', cluster.url];
    for (const args of [[serverFile], [...single, '10'], [...single, '64']]) {
      const server = new RunningServer(process.execPath, args, { cwd: root, env });
      servers.push(server);
      await server.said('listening');
    }
    for (const count of connections) {
      const paces = servers.map((): number[] => []);
      for (let round = 0; round <= rounds; round++) {
        for (const [index, { url }] of servers.entries()) {
          const client = { name: `${count} connections`, connections: count };
          const { requests, seconds } = await load.send(url, adding, client, secondsEach);
          // The first round warms up.
          if (round > 0) paces[index]?.push(requests / seconds);
        }
      }
      const [ours = NaN, ...others] = paces.map(medianOf);
      const cells = others.map(
        (pace) => `${grouped(pace)}: petstore ${(ours / pace).toFixed(1)} times`,
      );
      console.log(`| ${[count, sync, grouped(ours), ...cells].join(' | ')} |`);
    }
  } finally {
    await Promise.all(servers.map((server) => server.end('SIGTERM')));
    await cluster.remove();
  }
}

/** How long the disk takes over a page. */
function syncMilliseconds(on: string): number {
  const path = join(on, 'probe');
  const file = openSync(path, 'w');
  const times = Array.from({ length: 1_000 }, () => {
    const startedAt = performance.now();
    writeSync(file, Buffer.alloc(8_192), 0, 8_192, 0);
    fdatasyncSync(file);
    return performance.now() - startedAt;
  });
  closeSync(file);
  rmSync(path);
  return medianOf(times);
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? NaN;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en');
}
