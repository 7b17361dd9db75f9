/** Clients that add pets and read each back, and the record of their responses. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { SerialClient } from '../support/client.js';
import { requestBytes } from '../support/fixture.js';
import { apiKey } from '../support/process.js';
import { assertConsecutive, idIn, type PetRow } from './scene.js';

/** Clients of one server, each with one request in flight, until they stop or the test ends. */
export class Writers {
  readonly #port: number;
  readonly #pauseMs: number;
  /** The body of each 201 by its id. */
  readonly #bodies = new Map<number, string>();
  readonly #clients: readonly Promise<void>[];
  #isStopping = false;
  #waiting: (() => void)[] = [];
  /** The number of requests with a 503 or without a response. */
  refused = 0;
  /** All other responses, which must not occur. */
  readonly others: string[] = [];

  constructor(t: TestContext, port: number, clients: number, pauseMs = 20) {
    this.#port = port;
    this.#pauseMs = pauseMs;
    this.#clients = Array.from({ length: clients }, (_, index) => this.#write(index));
    atEnd(t, () => this.stop());
  }

  /** The number of responses with 201. */
  get added(): number {
    return this.#bodies.size;
  }

  /** Waits for the 201 of a request that is sent from now on. @throws AssertionError after 30 s */
  async oneMore(what = 'a pet'): Promise<void> {
    const added = new Promise<void>((resolve) => this.#waiting.push(resolve));
    const overdue = sleep(30_000, undefined, { ref: false });
    await Promise.race([added, overdue.then(() => assert.fail(`waited too long for ${what}`))]);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#clients);
  }

  /** Asserts that the database holds each pet of a 201, no pet twice, and ids without gaps. */
  assertKept(rows: readonly PetRow[]): void {
    assert.deepEqual(this.others, [], 'all responses are 200, 201 or 503');
    assertConsecutive(rows.map(({ id }) => id));
    for (const [id, json] of this.#bodies) assert.equal(rows[id - 1]?.json, json);
    const names = new Set(rows.map(({ json }) => JSON.parse(json).name));
    assert.equal(names.size, rows.length, 'no pet is stored twice');
  }

  async #write(client: number): Promise<void> {
    const caller = new SerialClient(this.#port);
    for (let count = 0; !this.#isStopping; count++) {
      const waiting = this.#waiting.splice(0);
      // Long names, so that two batches are in flight.
      const rest = client % 2 === 0 ? '' : 'x'.repeat(30_000);
      const name = `${this.#port}-${client}-${count}${rest}`;
      const draft = JSON.stringify({ name, categoryId: 1 });
      const added = await this.#ask(caller, 201, 'POST', '/v1/pets', draft);
      if (added === undefined) this.#waiting.push(...waiting);
      else {
        const id = idIn(added);
        this.#bodies.set(id, added);
        for (const resolve of waiting) resolve();
        const read = await this.#ask(caller, 200, 'GET', `/v1/pets/${id}`);
        if (read !== undefined && read !== added) this.others.push(`${read} for ${added}`);
      }
      await sleep(this.#pauseMs);
    }
    caller.end();
  }

  /** Sends a request and returns the body if the response has this status. */
  async #ask(
    caller: SerialClient,
    status: number,
    method: string,
    path: string,
    body?: string,
  ): Promise<string | undefined> {
    const authorization = `Bearer ${apiKey}`;
    const words = { authorization, ...(body !== undefined && { body }) };
    const response = await caller.send(requestBytes(method, path, words));
    if (response?.status === status) return response.body;
    if (response === undefined || response.status === 503) this.refused++;
    else this.others.push(`${method} ${path}: ${response.status} ${response.body}`);
    return undefined;
  }
}
