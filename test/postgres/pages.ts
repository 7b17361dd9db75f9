/**
 * Prints how many random pages of 20 a second are answered at 64 connections, by ours and by a
 * hand-written server on node:http and pg, in turns on one PostgreSQL: `node --import tsx
 * test/postgres/pages.ts [ROUNDS] [same]`, with `same` for one page all the time. A round takes
 * some 10 s.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migratePostgres } from '../../dist/postgres/index.js';
import { root, RunningServer, serverFile } from '../support/process.js';
import { Cluster } from './cluster.js';

const apiKey = 'psk_the-key-of-the-benchmark-43-characters-long';
const connections = 64;
const secondsEach = 2;
const counts = [1_000, 1_000_000];
const isSame = process.argv.at(-1) === 'same';

/**
 * Asks for random pages on every connection, each again once it has its answer; answers how many a
 * second.
 */
async function load(port: number, animals: number): Promise<number> {
  let requests = 0;
  const giveUpAt = performance.now() + secondsEach * 1000;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1').setNoDelay(true).on('error', reject);
      let held = '';
      const ask = (): void => {
        const after = isSame ? 0 : Math.floor(Math.random() * (animals - 20));
        const head = `GET /v1/pets?limit=20&after=${after} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\n\r\n`;
        socket.write(head);
      };
      socket.on('data', (chunk) => {
        held += chunk.toString('latin1');
        const end = held.indexOf('\r\n\r\n') + 4;
        if (end < 4 || held.length < end + Number(/content-length: (\d+)/i.exec(held)?.[1])) return;
        if (!held.startsWith('HTTP/1.1 200')) reject(new Error(held));
        requests++;
        held = '';
        if (performance.now() < giveUpAt) ask();
        else resolve(void socket.destroy());
      });
      ask();
    });
  await Promise.all(Array.from({ length: connections }, one));
  return requests / secondsEach;
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
}

/** How many microseconds of a processor these processes have used so far, where Linux tells. */
function cpuOf(pids: readonly (number | undefined)[]): number {
  const ticks = pids.map((pid) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return Number(fields[11]) + Number(fields[12]);
    } catch {
      return 0;
    }
  });
  return ticks.reduce((sum, count) => sum + count, 0) * 10_000;
}

const median = (values: readonly number[]): number =>
  [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? NaN;

async function main(rounds: number): Promise<void> {
  const cluster = await Cluster.start();
  const env = {
    PETSTORE_API_KEYS: apiKey,
    PORT: '0',
    PETSTORE_STORAGE: cluster.url,
    PETSTORE_LOG: 'info',
  };
  const hand = ['--import', 'tsx', 'test/postgres/hand-written.ts', cluster.url];
  try {
    await migratePostgres(cluster.url);
    await query(
      cluster.url,
      'CREATE TABLE hand_written (id int8 PRIMARY KEY, name text NOT NULL, category_id int8 NOT NULL, status text)',
    );
    for (const animals of counts) {
      await query(
        cluster.url,
        `INSERT INTO hand_written SELECT id, 'Animal ' || id, 1 + id % 40, (ARRAY['available', 'sold', NULL])[1 + id % 3]
        FROM generate_series((SELECT count(*) + 1 FROM hand_written), ${animals}) AS id`,
      );
      await query(
        cluster.url,
        `INSERT INTO petstore_pets SELECT id, status, convert_to('{"id":' || id || ',"name":"' || name || '","categoryId":' ||
          category_id || COALESCE(',"status":"' || status || '"', '') || '}', 'UTF8')
        FROM hand_written WHERE id > (SELECT count(*) FROM petstore_pets)`,
      );
      for (const table of ['hand_written', 'petstore_pets'])
        await query(cluster.url, `VACUUM ANALYZE ${table}`);
      const servers = [[serverFile], hand].map(
        (args) => new RunningServer(process.execPath, args, { cwd: root, env }),
      );
      try {
        await Promise.all(servers.map((server) => server.said('listening')));
        const paces: [number[], number[]] = [[], []];
        const costs: [number[], number[]] = [[], []];
        for (let round = 0; round <= rounds; round++) {
          for (const [index, server] of servers.entries()) {
            const file = fileURLToPath(import.meta.url);
            const port = new URL(server.url).port;
            const args = [
              '--import',
              'tsx',
              file,
              'load',
              port,
              String(animals),
              ...(isSame ? ['same'] : []),
            ];
            const before = cpuOf([server.child.pid]);
            const child = spawn(process.execPath, args, {
              cwd: root,
              stdio: ['ignore', 'pipe', 'inherit'],
            });
            let said = '';
            child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
            await new Promise((resolve) => child.once('close', resolve));
            // The first round warms up.
            if (round === 0) continue;
            paces[index]?.push(Number(said));
            costs[index]?.push((cpuOf([server.child.pid]) - before) / (Number(said) * secondsEach));
          }
        }
        const [ours, theirs] = paces.map(median);
        const ratio = median(paces[0].map((pace, index) => pace / (paces[1][index] ?? NaN)));
        console.log(
          `${animals} animals: ${Math.round(ours ?? NaN)} pages a second, hand-written ${Math.round(theirs ?? NaN)}; ${ratio.toFixed(2)} of it; ` +
            `${costs.map((each) => Math.round(median(each))).join(' and ')} µs of a processor in the server a page`,
        );
      } finally {
        await Promise.all(servers.map((server) => server.end('SIGKILL')));
      }
    }
  } finally {
    await cluster.remove();
  }
}

const [first, ...rest] = process.argv.slice(2);
if (first === 'load') process.stdout.write(String(await load(Number(rest[0]), Number(rest[1]))));
else await main(Number(first) || 5);
process.exit(0);
