/**
 * The client's own record of every 201 and of all that was served, with which a file is compared.
 */
import assert from 'node:assert/strict';
import { monotonicS, type Clients } from './clients.js';
import type { Random, SentDraft } from './random.js';

/** What a 201 contained, and, if the power may fail, when it was requested. */
interface Acknowledgement {
  readonly body: string;
  readonly sentAtS?: number;
}

/** Pets by id, as the exact bodies that were acknowledged. */
export class Ledger {
  readonly #acknowledged = new Map<
    string,
    { readonly body: string; readonly sentAtS: number; readonly heardAtS: number }
  >();
  /**
   * What a list showed, acknowledged or not (F10). It must never change, nor may its id be used
   * again.
   */
  readonly #served = new Map<string, string>();

  /** The number of 201s. */
  get size(): number {
    return this.#acknowledged.size;
  }

  /** Records a 201. Its body must be what was sent, with a new id. */
  acknowledge(sent: SentDraft, { body, sentAtS = 0 }: Acknowledgement): void {
    const id = idOf(body);
    assert.equal(
      body,
      `{"id":${id},${JSON.stringify(sent).slice(1)}`,
      'another animal is answered',
    );
    assert.ok(!this.#acknowledged.has(id) && !this.#served.has(id), `id ${id} is given twice`);
    this.#acknowledged.set(id, { body, sentAtS, heardAtS: monotonicS() });
  }

  /**
   * Removes the 201s that came after the start of a power cut, because no client can have received
   * them; returns their number. Requests sent after its end must not be acknowledged. Both times by
   * {@link monotonicS}.
   */
  forgetCut({ beganS, endedS }: { readonly beganS: number; readonly endedS: number }): number {
    const unheard = [...this.#acknowledged].filter(([, { heardAtS }]) => heardAtS >= beganS);
    for (const [id, { sentAtS }] of unheard) {
      assert.ok(sentAtS < endedS, `id ${id} is acknowledged, though sent behind the power cut`);
      this.#acknowledged.delete(id);
    }
    return unheard.length;
  }

  /** Reads every page of the list and some pets by id: none lost, none altered, no id twice. */
  async check(clients: Clients, random: Random): Promise<void> {
    const found = await readAllPages(clients);
    for (const [id, { body }] of this.#acknowledged)
      assert.equal(found.get(id), body, `id ${id}, acknowledged, is lost or altered`);
    for (const [id, body] of this.#served)
      assert.equal(found.get(id), body, `id ${id}, served before, is lost or altered`);
    for (const [id, body] of found) this.#served.set(id, body);
    const all = [...this.#acknowledged];
    for (let tries = Math.min(5, all.length); tries > 0; tries--) {
      const [id, { body }] = random.pick(all);
      assert.equal((await clients.get(`/v1/pets/${id}`)).body, body, `id ${id} is answered`);
    }
  }
}

const limit = 100;

/** Returns the exact text of every pet by id, read page by page. */
export async function readAllPages(clients: Clients): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let last = 0n;
  for (let isFull = true; isFull; ) {
    const { body } = await clients.get(`/v1/pets?limit=${limit}&after=${last}`);
    // A quotation mark in a name has a backslash before it.
    const animals = body === '[]' ? [] : body.slice(1, -1).split(/,(?=\{"id":)/);
    for (const animal of animals) {
      const id = BigInt(idOf(animal));
      assert.ok(id > last, `id ${id} is listed behind id ${last}`);
      found.set(String(id), animal);
      last = id;
    }
    isFull = animals.length === limit;
  }
  return found;
}

/** Returns the digits of the id at the start of a pet's text. */
export function idOf(animal: string): string {
  return /^\{"id":([0-9]+),/.exec(animal)?.[1] ?? assert.fail(`no id: ${animal.slice(0, 80)}`);
}
