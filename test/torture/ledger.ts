/**
 * The client's own book of every 201, and of all that was ever served: the proof against which a
 * file is held.
 */
import { monotonicS, type Answer, type Client } from './client.js';
import { idOf, readAllPages } from './pages.js';
import type { Random, SentDraft } from './random.js';
import { randomDraft } from './random.js';
import { hold } from './row.js';

/**
 * What is heard with a 201: the body, and where the power may go, when it was asked for by {@link
 * monotonicS}.
 */
export type Acknowledgement = Pick<Answer, 'body'> & Partial<Pick<Answer, 'sentAtS'>>;

/** Animals by id, as the exact bodies that were acknowledged. */
export class Ledger {
  readonly #acknowledged = new Map<string, string>();
  /** By the clock of {@link monotonicS}. */
  readonly #times = new Map<string, { readonly sentAtS: number; readonly heardAtS: number }>();
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
    const { id, ...rest } = JSON.parse(body);
    const key = idOf(body);
    hold(Number.isInteger(id) && key === String(id), `a 201 without an id: ${body.slice(0, 80)}`);
    hold(
      JSON.stringify(rest) === JSON.stringify(sent),
      `id ${key} is answered with another animal`,
    );
    hold(!this.#acknowledged.has(key) && !this.#served.has(key), `id ${key} is given twice`);
    this.#acknowledged.set(key, body);
    this.#times.set(key, { sentAtS, heardAtS: monotonicS() });
  }

  /**
   * Takes back what was heard from the beginning of a power cut on, as no client can have heard it;
   * answers how many that were. What was only sent behind its end may not be acknowledged at all.
   * Both by {@link monotonicS}.
   */
  forgetCut({ beganS, endedS }: { readonly beganS: number; readonly endedS: number }): number {
    let forgotten = 0;
    for (const [id, { sentAtS, heardAtS }] of this.#times) {
      if (heardAtS < beganS) continue;
      const behindMs = 1000 * (sentAtS - endedS);
      hold(
        behindMs < 0,
        `id ${id} is acknowledged, though it was sent ${behindMs.toFixed(1)} ms behind the power cut`,
      );
      this.#acknowledged.delete(id);
      this.#times.delete(id);
      forgotten++;
    }
    return forgotten;
  }

  /**
   * Reads every page of the list, and some animals by id: nothing lost, nothing altered, no id
   * twice.
   */
  async check(client: Client, random: Random): Promise<void> {
    const found = await readAllPages(client);
    for (const [what, book] of [
      ['acknowledged', this.#acknowledged],
      ['served before', this.#served],
    ] as const) {
      for (const [id, body] of book) {
        hold(found.has(id), `id ${id}, ${what}, is lost`);
        hold(found.get(id) === body, `id ${id}, ${what}, is altered`);
      }
    }
    for (const [id, body] of found) this.#served.set(id, body);
    const ids = [...this.#acknowledged.keys()];
    for (let index = 0; index < Math.min(5, ids.length); index++) {
      const id = random.pick(ids);
      const one = await client.get(`/v1/pets/${id}`);
      hold(
        one.status === 200 && one.body === this.#acknowledged.get(id),
        `id ${id} is not answered as acknowledged`,
      );
    }
  }
}

/**
 * Adds one animal after the other until the connection breaks or `goOn` ends it; answers what was
 * not 201.
 */
export async function write(
  client: Client,
  ledger: Ledger,
  random: Random,
  goOn: (others: number) => boolean = () => true,
): Promise<readonly Answer[]> {
  const others: Answer[] = [];
  while (goOn(others.length)) {
    const sent = randomDraft(random);
    const answer = await client.add(sent).catch(() => undefined);
    if (answer === undefined) break;
    if (answer.status === 201) ledger.acknowledge(sent, answer);
    else others.push(answer);
  }
  return others;
}
