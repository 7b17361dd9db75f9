/** Measures many API keys: a start, a change of the keys file, and a 401 for a wrong key. */
import { hash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { SerialClient } from '../support/client.js';
import { requestBytes } from '../support/fixture.js';
import { memoryOf } from '../support/kernel.js';
import { folder } from '../support/process.js';
import { petstore } from './contestants.js';
import { median, slice, type Bench, type Part } from './figures.js';
import { clients } from './load.js';
import { reading } from './operations.js';
import { decimal, megabytes, whole, type Table } from './report.js';
import { startContestant, type Server } from './servers.js';

export const keysPart: Part = [keysFiles];

/** Writes a keys file with `count` keys. */
function writeKeys(path: string, count: number): void {
  const created = '2026-11-20T08:00:00.000Z';
  const keys = Array.from({ length: count }, (_, index) => {
    const name = `key ${index}`;
    return { name, sha256: hash('sha256', name), created };
  });
  writeFileSync(path, JSON.stringify({ keys }, undefined, 2));
}

/**
 * Makes a server reload its keys file, and requests `/healthz` meanwhile. Returns the time of the
 * slowest response in milliseconds.
 */
async function longestWaitMs(server: Server): Promise<number> {
  const caller = new SerialClient(Number(new URL(server.url).port));
  const health = requestBytes('GET', '/healthz');
  let longest = 0;
  let isRead = false;
  try {
    await caller.send(health);
    const reading = server.process.line('keys').then(() => {
      isRead = true;
    });
    server.process.signal('SIGHUP');
    while (!isRead) {
      const sentAt = performance.now();
      await caller.send(health);
      longest = Math.max(longest, performance.now() - sentAt);
    }
    await reading;
  } finally {
    caller.end();
  }
  return longest;
}

/** Measures a server with each size of the keys file, in interleaved rounds. */
async function keysFiles({ scope, load, rounds, isShort, say }: Bench): Promise<Table> {
  const sizes = (isShort ? [1, 1_000] : [1, 10_000, 100_000]).map((count) => {
    const path = `${folder(scope)}/keys.json`;
    writeKeys(path, count);
    return {
      count,
      path,
      readyMs: Array<number>(),
      waitMs: Array<number>(),
      cpuUs: Array<number>(),
      resident: Array<number>(),
    };
  });

  for (let round = 0; round < rounds; round++)
    for (const size of sizes) {
      say(`${whole(size.count)} keys, round ${round + 1} of ${rounds}`);
      const own = scope.within();
      const { name, command } = petstore('memory:');
      const server = await startContestant(own, {
        name,
        command: [...command, '--keys-file', size.path],
      });
      size.readyMs.push(server.readyMs);
      size.waitMs.push(await longestWaitMs(server));
      const target = { server, operation: reading.wrongKey };
      size.cpuUs.push((await slice(load, target, clients.sleeping)).cpuUs);
      size.resident.push(memoryOf(server.process.pid));
      await own.end();
    }

  return {
    title: 'Many API keys',
    note: 'The time to start with a keys file, the slowest `/healthz` while the file is reloaded, and the processor time of a 401 for a wrong key.',
    head: ['keys', 'start, ms', 'slowest /healthz, ms', '401, wrong key, µs', 'resident'],
    rows: sizes.map(({ count, readyMs, waitMs, cpuUs, resident }) => [
      whole(count),
      decimal(median(readyMs), 0),
      decimal(median(waitMs), 0),
      decimal(median(cpuUs), 1),
      megabytes(median(resident)),
    ]),
  };
}
