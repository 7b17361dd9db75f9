/**
 * The client's own book of every 201, and of all that was ever served: the proof against which a
 * file is held.
 */
import assert from 'node:assert/strict';
import { monotonicS, type Clients } from './clients.js';
import type { Random, SentDraft } from './random.js';

/** What is heard with a 201, and, where the power may go, when it was asked for. */
interface Acknowledgement {
  readonly body: string;
  readonly sentAtS?: number;
}

/** Animals by id, as the exact bodies that were acknowledged. */
export class Ledger {
  readonly #acknowledged = new Map<
    string,
    { readonly body: string; readonly sentAtS: number; readonly heardAtS: number }
  >();
  /**
   * What a list showed, acknowledged or not (F10): it must never change either, nor its id be given
   * again.
   */
  readonly #served = new Map<string, string>();

  /** How many 201s it holds. */
  get size(): number {
    return this.#acknowledged.size;
  }

  /** Books a 201, whose body must be what was sent, under an id that nobody ever had. */
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
   * Takes back what was heard from the beginning of a power cut on, as no client can have heard it;
   * answers how many that were. What was only sent behind its end may not be acknowledged at all.
   * Both by {@link monotonicS}.
   */
  forgetCut({ beganS, endedS }: { readonly beganS: number; readonly endedS: number }): number {
    const unheard = [...this.#acknowledged].filter(([, { heardAtS }]) => heardAtS >= beganS);
    for (const [id, { sentAtS }] of unheard) {
      assert.ok(sentAtS < endedS, `id ${id} is acknowledged, though sent behind the power cut`);
      this.#acknowledged.delete(id);
    }
    return unheard.length;
  }

  /**
   * Reads every page of the list, and some animals by id: nothing lost, nothing altered, no id
   * twice.
   */
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

/** The exact text of every animal by its id, read page by page behind the last id seen. */
export async function readAllPages(clients: Clients): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let last = 0n;
  for (let isFull = true; isFull; ) {
    const { body } = await clients.get(`/v1/pets?limit=${limit}&after=${last}`);
    // A quotation mark within a name stands behind a backslash.
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

/** The id that an animal's text begins with, as its digits. */
export function idOf(animal: string): string {
  return /^\{"id":([0-9]+),/.exec(animal)?.[1] ?? assert.fail(`no id: ${animal.slice(0, 80)}`);
}
