/**
 * A server watched while something is wrong: readers must be served throughout, adding must be
 * refused in time.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { until } from '../support/waiting.js';
import type { Share } from './row.js';
import { Scene, type Begun, type StartOptions } from './scene.js';

/** How long a refusal may take, but for those that find out that a disk hangs. */
export const refusalMs = 100;
/** How many adds at once meet the fault. */
const adders = 4;
/** As an add on a disk that hangs. */
const probeMs = 10_000;
/** By how much a busy machine may make one answer of ten later than it would be. */
const busyMs = 1_000;

/** A scene with some animals, and one reader and one probe that never pause for long. */
export class Watched {
  readonly #scene: Scene;
  readonly #watching: Promise<unknown>;
  #isWatching = true;

  private constructor(scene: Scene) {
    this.#scene = scene;
    this.#watching = Promise.all([this.#read(), this.#probe()]);
    this.#watching.catch(() => undefined);
  }

  /** Starts a server, and adds a few animals. */
  static async start(
    share: Share,
    begun?: Partial<Begun>,
    options?: StartOptions,
  ): Promise<Watched> {
    const scene = await Scene.start(share, begun, options);
    for (let adds = 0; adds < 20; adds++) await scene.add();
    return new Watched(scene);
  }

  get server(): Scene['server'] {
    return this.#scene.server;
  }

  /**
   * Adds until the fault is met, and so many more; answers how many milliseconds the slowest
   * refusal took.
   */
  async refuses(withinMs = refusalMs, adds = 20): Promise<number> {
    const { clients, ledger } = this.#scene;
    const met = [...(await this.#scene.write(adders, (refused) => refused === 0))];
    // What was too long for a disk that is nearly full tells nothing of what is shorter; but longer
    // than a page is too long.
    const page = { name: 'x'.repeat(5000), categoryId: 1 };
    for (let refused = 0; refused <= adds; ) {
      const answer = await clients.add(page);
      if (answer.status === 201 && refused === 0) ledger.acknowledge(page, answer);
      else {
        met.push(answer);
        refused++;
      }
    }
    for (const { status, ms } of met) {
      assert.equal(status, 503, `an add is answered ${status}`);
      assert.ok(ms <= withinMs + busyMs, `a refusal takes ${Math.round(ms)} ms`);
    }
    const late = met.filter(({ ms }) => ms > withinMs).length;
    assert.ok(
      late <= met.length / 10,
      `${late} of ${met.length} refusals take over ${withinMs} ms`,
    );
    assert.equal((await clients.readiness()).status, 503, 'it says that it is ready');
    return Math.max(...met.map(({ ms }) => ms));
  }

  /** With the fault gone it adds again by itself, and what it added outlasts it. */
  async recovers(): Promise<void> {
    const isReady = async () => (await this.#scene.clients.readiness()).status === 200;
    await until('it to be ready again by itself', isReady, 5_000);
    for (let adds = 0; adds < 20; adds++) await this.#scene.add();
    await this.end();
    await this.startsAgain();
  }

  /** The next start needs no help and adds at once; all that was acknowledged is there. */
  async startsAgain(): Promise<void> {
    await (await Watched.start(this.#scene.share, this.#scene)).end();
  }

  /** Ends the server on request; every read until then was answered 200. */
  async end(): Promise<void> {
    await this.#scene.check();
    this.#isWatching = false;
    await this.#watching;
    await this.#scene.end();
  }

  async #read(): Promise<void> {
    while (this.#isWatching) {
      await this.#scene.clients.get('/v1/pets?limit=20');
      await this.#scene.clients.get('/v1/pets/1');
      await wait(5);
    }
  }

  /** Whether it is ready or not, it says so in time. */
  async #probe(): Promise<void> {
    while (this.#isWatching) {
      const { status, ms } = await this.#scene.clients.readiness();
      assert.ok(
        (status === 200 || status === 503) && ms <= probeMs,
        `/readyz is answered ${status}, behind ${Math.round(ms)} ms`,
      );
      await wait(50);
    }
  }
}
