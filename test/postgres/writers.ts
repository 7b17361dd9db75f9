/**
 * Owns clients that add animals and read each back, with a pause behind each, and the book of what they
 * were answered. Knows no database.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { Caller } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import { apiKey } from '../support/process.js';
import { assertInTurn, idIn, type PetRow } from './scene.js';

/** Clients of one server, each with one request under way, until they are stopped or the test ends. */
export class Writers {
  readonly #port: number;
  readonly #pauseMs: number;
  /** The body of each 201 by its id. */
  readonly #answered = new Map<number, string>();
  readonly #clients: readonly Promise<void>[];
  #isStopping = false;
  #waiting: (() => void)[] = [];
  /** How many requests were answered 503, or not at all. */
  refused = 0;
  /** Any other answer that should not come. */
  readonly others: string[] = [];

  constructor(t: TestContext, port: number, clients: number, pauseMs = 20) {
    this.#port = port;
    this.#pauseMs = pauseMs;
    this.#clients = Array.from({ length: clients }, (_, index) => this.#write(index));
    atEnd(t, () => this.stop());
  }

  /** How many were answered 201. */
  get added(): number {
    return this.#answered.size;
  }

  /** Resolves behind the next 201 to a request that is sent from now on; fails where none comes. */
  async oneMore(what = 'an animal'): Promise<void> {
    const added = new Promise<void>((resolve) => this.#waiting.push(resolve));
    const overdue = sleep(30_000, undefined, { ref: false });
    await Promise.race([added, overdue.then(() => assert.fail(`waited in vain for ${what}`))]);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#clients);
  }

  /** Asserts that the database holds what was answered 201, nothing twice, and ids without gaps. */
  assertKept(rows: readonly PetRow[]): void {
    assert.deepEqual(this.others, [], 'nothing but 200, 201 and 503 was answered');
    assertInTurn(rows.map(({ id }) => id));
    for (const [id, json] of this.#answered) assert.equal(rows[id - 1]?.json, json);
    const names = new Set(rows.map(({ json }) => JSON.parse(json).name));
    assert.equal(names.size, rows.length, 'no animal is there twice');
  }

  async #write(client: number): Promise<void> {
    const caller = new Caller(this.#port);
    for (let count = 0; !this.#isStopping; count++) {
      const waiting = this.#waiting.splice(0);
      const draft = JSON.stringify({ name: `${this.#port}-${client}-${count}`, categoryId: 1 });
      const added = await this.#ask(caller, 201, 'POST', '/v1/pets', draft);
      if (added === undefined) this.#waiting.push(...waiting);
      else {
        const id = idIn(added);
        this.#answered.set(id, added);
        for (const resolve of waiting) resolve();
        const read = await this.#ask(caller, 200, 'GET', `/v1/pets/${id}`);
        if (read !== undefined && read !== added) this.others.push(`${read} for ${added}`);
      }
      await sleep(this.#pauseMs);
    }
    caller.end();
  }

  /** The body of an answer with this status. */
  async #ask(
    caller: Caller,
    status: number,
    method: string,
    path: string,
    body?: string,
  ): Promise<string | undefined> {
    const authorization = `Bearer ${apiKey}`;
    const words = { authorization, ...(body !== undefined && { body }) };
    const answer = await caller.ask(bytesOf(method, path, words));
    if (answer?.status === status) return answer.body;
    // Without an answer nobody was told anything.
    if (answer === undefined || answer.status === 503) this.refused++;
    else this.others.push(`${method} ${path}: ${answer.status} ${answer.body}`);
    return undefined;
  }
}
