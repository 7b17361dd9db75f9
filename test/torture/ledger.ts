/**
 * The ledger of the clients: all acknowledged and all served pets, with which a file is compared.
 */
import assert from 'node:assert/strict';
import { monotonicS, type Clients } from './clients.js';
import type { Random, SentDraft } from './random.js';

/** The body of a 201, and the time of its request, which only power cuts need. */
interface Acknowledgement {
  readonly body: string;
  readonly sentAtS?: number;
}

/** Pets by id, as the exact bodies that were acknowledged. */
export class Ledger {
  readonly #acknowledged = new Map<
    string,
    { readonly body: string; readonly sentAtS: number; readonly receivedAtS: number }
  >();
  /**
   * The pets that a list contained, acknowledged or not (F10). They must never change, and their
   * ids must never be used again.
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
      'the response has another pet',
    );
    assert.ok(!this.#acknowledged.has(id) && !this.#served.has(id), `id ${id} is assigned twice`);
    this.#acknowledged.set(id, { body, sentAtS, receivedAtS: monotonicS() });
  }

  /**
   * Removes the 201s that arrived after the start of a power cut, because a real client would not
   * have received them, and returns their number. A request that was sent after the end of the cut
   * must not have a 201. Both times are by {@link monotonicS}.
   */
  removeUnreceived({
    beganS,
    endedS,
  }: {
    readonly beganS: number;
    readonly endedS: number;
  }): number {
    const unreceived = [...this.#acknowledged].filter(
      ([, { receivedAtS }]) => receivedAtS >= beganS,
    );
    for (const [id, { sentAtS }] of unreceived) {
      assert.ok(sentAtS < endedS, `id ${id} was sent after the power cut, but is acknowledged`);
      this.#acknowledged.delete(id);
    }
    return unreceived.length;
  }

  /** Reads all pages and some pets by id: no pet is lost or altered, and no id occurs twice. */
  async check(clients: Clients, random: Random): Promise<void> {
    const found = await readAllPages(clients);
    for (const [id, { body }] of this.#acknowledged)
      assert.equal(found.get(id), body, `the acknowledged pet ${id} is lost or altered`);
    for (const [id, body] of this.#served)
      assert.equal(found.get(id), body, `pet ${id}, which was served before, is lost or altered`);
    for (const [id, body] of found) this.#served.set(id, body);
    const all = [...this.#acknowledged];
    for (let tries = Math.min(5, all.length); tries > 0; tries--) {
      const [id, { body }] = random.pick(all);
      assert.equal(
        (await clients.get(`/v1/pets/${id}`)).body,
        body,
        `another pet has the id ${id}`,
      );
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
    const pets = body === '[]' ? [] : body.slice(1, -1).split(/,(?=\{"id":)/);
    for (const pet of pets) {
      const id = BigInt(idOf(pet));
      assert.ok(id > last, `id ${id} is listed after id ${last}`);
      found.set(String(id), pet);
      last = id;
    }
    isFull = pets.length === limit;
  }
  return found;
}

/** Returns the digits of the id at the start of a pet's text. */
export function idOf(pet: string): string {
  return /^\{"id":([0-9]+),/.exec(pet)?.[1] ?? assert.fail(`no id: ${pet.slice(0, 80)}`);
}
