/**
 * A server watched while something is wrong: readers must be served throughout, adding must be
 * refused in time.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Answer, Client } from './client.js';
import type { Ledger } from './ledger.js';
import { write } from './ledger.js';
import { hold, until, type Share } from './row.js';
import { started, type Server, type StartOptions } from './server.js';

/** How many adds at once meet the fault. */
const adders = 4;
/** As an add on a disk that hangs. */
const probeMs = 10_000;

/** By how much a busy machine may make one answer of ten later than it would be. */
const busyMs = 1_000;

/**
 * A server with some animals, one reader that never pauses for long, and the book of what was
 * acknowledged.
 */
export class Watched {
  readonly server: Server;
  readonly client: Client;
  readonly #share: Share;
  readonly #ledger: Ledger;
  readonly #reading: Promise<unknown>;
  #isWatching = true;

  private constructor(share: Share, ledger: Ledger, server: Server, client: Client) {
    this.#share = share;
    this.#ledger = ledger;
    this.server = server;
    this.client = client;
    this.#reading = Promise.all([this.#read(), this.#probe()]);
    this.#reading.catch(() => undefined);
  }

  /** Starts a server, holds its file against the ledger, and adds a few animals. */
  static async start(
    share: Share,
    path: string,
    ledger: Ledger,
    options?: StartOptions,
  ): Promise<Watched> {
    const { server, client } = await started(share, path, options);
    await ledger.check(client, share.random);
    let adds = 0;
    const others = await write(client, ledger, share.random, () => adds++ < 20);
    hold(
      others.length === 0,
      () => `an add is answered ${others[0]?.status} while nothing is wrong`,
    );
    return new Watched(share, ledger, server, client);
  }

  /**
   * Adds until the fault is met, and so many more; answers how many milliseconds the slowest
   * refusal took.
   */
  async refuses(withinMs: number, adds: number): Promise<number> {
    const { client } = this;
    const adder = () => write(client, this.#ledger, this.#share.random, (refused) => refused === 0);
    const met: Answer[] = (await Promise.all(Array.from({ length: adders }, adder))).flat();
    // What was too long for a disk that is nearly full tells nothing of what is shorter; but longer
    // than a page is too long.
    const page = { name: 'x'.repeat(5000), categoryId: 1 };
    for (let refused = 0; refused <= adds; ) {
      const answer = await client.add(page);
      if (answer.status === 201 && refused === 0) this.#ledger.acknowledge(page, answer);
      else {
        met.push(answer);
        refused++;
      }
    }
    for (const { status, ms } of met) {
      hold(status === 503, `an add is answered ${status}`);
      hold(ms <= withinMs + busyMs, `a refusal takes ${Math.round(ms)} ms`);
    }
    const late = met.filter(({ ms }) => ms > withinMs);
    hold(
      late.length <= met.length / 10,
      () => `${late.length} of ${met.length} refusals take more than ${withinMs} ms`,
    );
    hold((await client.get('/readyz')).status === 503, 'it says that it is ready');
    return Math.max(...met.map(({ ms }) => ms));
  }

  /** Waits until it is ready by itself, and adds again. */
  async recovers(): Promise<void> {
    await until(
      'it is ready again by itself',
      5000,
      async () => (await this.client.get('/readyz')).status === 200,
    );
    let adds = 0;
    const others = await write(this.client, this.#ledger, this.#share.random, () => adds++ < 20);
    hold(others.length === 0, () => `once it is ready an add is answered ${others[0]?.status}`);
  }

  /** Ends the server on request; every read until then was answered 200. */
  async end(): Promise<void> {
    await this.#ledger.check(this.client, this.#share.random);
    this.#isWatching = false;
    await this.#reading;
    this.client.close();
    hold((await this.server.end('SIGTERM')).code === 0, 'it does not end with 0');
  }

  async #read(): Promise<void> {
    while (this.#isWatching) {
      for (const path of ['/v1/pets?limit=20', '/v1/pets/1']) {
        const { status } = await this.client.get(path);
        hold(status === 200, `a reader is answered ${status}`);
      }
      await wait(5);
    }
  }

  /** Whether it is ready or not, it says so in time. */
  async #probe(): Promise<void> {
    while (this.#isWatching) {
      const { status, ms } = await this.client.get('/readyz');
      hold(
        (status === 200 || status === 503) && ms <= probeMs,
        `/readyz is answered ${status}, behind ${Math.round(ms)} ms`,
      );
      await wait(50);
    }
  }
}
