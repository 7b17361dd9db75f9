/** What it costs to answer 201 only once an animal is on the disk (issue 4, item 3). */
import { petstore, sqlite, type Contestant } from './contestants.js';
import { interleaved } from './figures.js';
import type { Client } from './load.js';
import { adding } from './operations.js';
import type { Part } from './part.js';
import { decimal, whole } from './words.js';

const connectionCounts = [1, 16, 64];

/** Adds in memory, in the file, and in better-sqlite3, all behind the same server. */
export const durable: Part = {
  name: 'durable',
  title: 'Adding with the animal on the disk before the 201',
  measure: async ({ session, load, rounds, say }) => {
    const folder = session.folder();
    const stored = [
      petstore('memory:', 'memory'),
      petstore(`file:${folder}/pets.jsonl`, 'file'),
      sqlite(`${folder}/batched.db`, 'batched'),
      sqlite(`${folder}/single.db`, 'single'),
    ];
    const servers = await session.startAll(
      stored.filter((contestant): contestant is Contestant => contestant !== undefined),
    );
    const turns = servers.map((server) => ({ server, operation: adding }));
    const rows: string[][] = [];
    for (const connections of connectionCounts) {
      const client: Client = { name: `${connections} connections`, connections };
      say(`adding, ${client.name}`);
      const figures = await interleaved(turns, { load, client, rounds });
      const filePace = figures.get('file')?.requestsPerSecond ?? NaN;
      for (const [name, { requestsPerSecond, cpuUs, p50Ms, p99Ms, paceRatio }] of figures) {
        const paces = [
          whole(requestsPerSecond),
          decimal(paceRatio),
          decimal(filePace / requestsPerSecond),
        ];
        rows.push([
          String(connections),
          name,
          ...paces,
          decimal(cpuUs, 1),
          decimal(p50Ms),
          decimal(p99Ms),
          decimal(p99Ms / p50Ms, 1),
        ]);
      }
    }
    const note =
      'Only the storage differs: the petstore itself serves them all. `file` and both of better-sqlite3 (WAL, synchronous=FULL) sync each batch ' +
      'before its answers; `batched` puts all that wait into one transaction, as the file does, `single` makes one of each request.';
    const head = [
      'connections',
      'storage',
      'adds/s',
      'by memory',
      'the file by it',
      'CPU µs/add',
      'p50 ms',
      'p99 ms',
      'p99/p50',
    ];
    const missing =
      servers.length < stored.length ? { missing: 'better-sqlite3 was not built here' } : {};
    return { tables: [{ title: 'Adds a second', note, head, rows }], ...missing };
  },
};
