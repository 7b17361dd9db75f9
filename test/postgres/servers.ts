/**
 * Owns servers that share one database, as processes or within this one, behind one port; for tests
 * of something else.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { createPetstore, type Petstore, type PetstoreOptions } from '../../dist/index.js';
import { postgresStorage } from '../../dist/postgres/index.js';
import { StartedServer, serverFile } from '../support/process.js';
import { balanceConnections, type Balancer } from './balancer.js';
import { newDatabase, query } from './database.js';

const count = 3;

/** What a test of HTTP needs: see the fixture. */
export interface Together {
  readonly petstore: Petstore;
  readonly port: number;
}

/**
 * Three processes on one database, with the keys and in the folder that are given; in the end they
 * are killed.
 */
export class Processes {
  readonly url: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'petstore-servers-'));
  readonly #env: Readonly<Record<string, string>>;
  readonly #servers: StartedServer[] = [];

  private constructor(url: string, key: string) {
    this.url = url;
    this.#env = { PETSTORE_API_KEYS: key, PORT: '0' };
  }

  static async start(url: string, key: string): Promise<Processes> {
    const processes = new Processes(url, key);
    try {
      await Promise.all(Array.from({ length: count }, (_, index) => processes.startOne(index)));
    } catch (error) {
      await processes.end();
      throw error;
    }
    return processes;
  }

  get servers(): readonly StartedServer[] {
    return this.#servers;
  }

  /** Where they listen, in their order. */
  get ports(): readonly number[] {
    return this.#servers.map(({ port }) => port);
  }

  /** Starts the server of a place, once more where it is gone; resolves once it listens. */
  async startOne(index: number): Promise<void> {
    const server = new StartedServer(process.execPath, [serverFile, '--storage', this.url], {
      cwd: this.#folder,
      env: this.#env,
    });
    const before = this.#servers[index];
    // Until it listens its place is that of the one before, where nobody answers.
    if (before === undefined) this.#servers[index] = server;
    try {
      await server.said('listening');
    } catch (error) {
      await server.end('SIGKILL');
      throw error;
    }
    this.#servers[index] = server;
  }

  async end(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.end('SIGKILL')));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The three processes of this test file, behind one port. */
interface Shared extends Together {
  readonly url: string;
}
const ends: (() => Promise<void>)[] = [];
let shared: Promise<Shared> | undefined;

after(async () => {
  for (const end of ends.reverse()) await end();
});

async function startShared(key: string): Promise<Shared> {
  const url = await newDatabase();
  const processes = await Processes.start(url, key);
  ends.push(() => processes.end());
  const balancer = await balanceConnections(() => processes.ports);
  ends.push(() => balancer.close());
  const petstore = createPetstore({
    keys: [key],
    storage: await postgresStorage(url, { maxConnections: 2 }),
  });
  ends.push(async () => {
    await petstore.close();
    assert.equal(balancer.counts.length, count, 'each server had its turn');
  });
  return { petstore, port: balancer.port, url };
}

/**
 * Three processes that hold no animal; they are those of the test before, their tables made empty
 * by another hand. Of full pages that were asked for again they keep what is gone: a test of such
 * pages has servers of its own (the fixture's `ofItsOwn`).
 */
export async function emptyProcesses(key: string): Promise<Together> {
  const { petstore, port, url } = await (shared ??= startShared(key));
  await query(
    url,
    `WITH pets AS (DELETE FROM petstore_pets), keys AS (DELETE FROM petstore_idempotency)
      UPDATE petstore_counters SET last_id = 0`,
  );
  return { petstore, port };
}

/** Three servers within this process, for options that no flag has. */
export async function startWithin(
  t: Ending,
  options: Partial<PetstoreOptions> & Pick<PetstoreOptions, 'keys'>,
): Promise<Together> {
  const url = await newDatabase();
  const petstores: Petstore[] = [];
  const ports: number[] = [];
  let balancer: Balancer | undefined;
  atEnd(t, async () => {
    await balancer?.close();
    await Promise.all(petstores.map((petstore) => petstore.close()));
  });
  for (let index = 0; index < count; index++) {
    const petstore = createPetstore({
      storage: await postgresStorage(url, { maxConnections: 2 }),
      ...options,
    });
    petstores.push(petstore);
    ports.push((await petstore.listen({ port: 0 })).port);
  }
  balancer = await balanceConnections(() => ports);
  const [petstore] = petstores;
  assert.ok(petstore !== undefined);
  return { petstore, port: balancer.port };
}
