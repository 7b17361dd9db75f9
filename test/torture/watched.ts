/** Observes a server during a fault: reads must work, and inserts must be refused in time. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { until } from '../support/waiting.js';
import type { Share } from './row.js';
import { Scene, type Begun, type StartOptions } from './scene.js';

/** The longest time of a refusal in ms, except on a disk that hangs. */
export const refusalMs = 100;
/** The number of inserts in flight when the fault occurs. */
const adders = 4;
/** The longest time of a probe in ms: that of an insert on a disk that hangs. */
const probeMs = 10_000;
/** The delay in ms that a busy machine may cause in one of ten responses. */
const busyMs = 1_000;

/** A scene with some pets. A reader and a probe send requests until its end. */
export class Watched {
  readonly #scene: Scene;
  readonly #watching: Promise<unknown>;
  #isWatching = true;

  private constructor(scene: Scene) {
    this.#scene = scene;
    this.#watching = Promise.all([this.#read(), this.#probe()]);
    this.#watching.catch(() => undefined);
  }

  /** Starts a server and adds a few pets. */
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
   * Adds pets until an insert is refused, and then `adds` more, which must be refused too. Returns
   * the time of the slowest refusal in milliseconds.
   */
  async refuses(withinMs = refusalMs, adds = 20): Promise<number> {
    const { clients, ledger } = this.#scene;
    const met = [...(await this.#scene.write(adders, (refused) => refused === 0))];
    // A nearly full disk may have room for a shorter pet, but not for one longer than a block.
    const page = { name: 'x'.repeat(5000), categoryId: 1 };
    for (let refused = 0; refused <= adds; ) {
      const response = await clients.add(page);
      if (response.status === 201 && refused === 0) ledger.acknowledge(page, response);
      else {
        met.push(response);
        refused++;
      }
    }
    for (const { status, ms } of met) {
      assert.equal(status, 503, `the response to an add is ${status}`);
      assert.ok(ms <= withinMs + busyMs, `a refusal took ${Math.round(ms)} ms`);
    }
    const late = met.filter(({ ms }) => ms > withinMs).length;
    assert.ok(
      late <= met.length / 10,
      `${late} of ${met.length} refusals took longer than ${withinMs} ms`,
    );
    // By C77 the result of a check is used for a second, so it may still be that before the fault.
    const isUnready = async () => (await clients.readiness()).status === 503;
    await until('/readyz to be 503', isUnready, 5_000);
    return Math.max(...met.map(({ ms }) => ms));
  }

  /** Checks that inserts succeed again by themselves, and that all pets survive a restart. */
  async recovers(): Promise<void> {
    const isReady = async () => (await this.#scene.clients.readiness()).status === 200;
    await until('/readyz to be 200 again', isReady, 5_000);
    for (let adds = 0; adds < 20; adds++) await this.#scene.add();
    await this.end();
    await this.startsAgain();
  }

  /** Checks that the next start needs no help and has all acknowledged pets. */
  async startsAgain(): Promise<void> {
    await (await Watched.start(this.#scene.share, this.#scene)).end();
  }

  /** Stops the server by SIGTERM, and checks that every read until then got a 200. */
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

  /** Checks that `/readyz` responds in time, with 200 or 503. */
  async #probe(): Promise<void> {
    while (this.#isWatching) {
      const { status, ms } = await this.#scene.clients.readiness();
      assert.ok(
        (status === 200 || status === 503) && ms <= probeMs,
        `the response of /readyz is ${status}, after ${Math.round(ms)} ms`,
      );
      await wait(50);
    }
  }
}
