/**
 * Owns clients that add animals with hardly a pause, and the book of what they were answered. Knows
 * no database.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Caller } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import { apiKey } from '../support/process.js';

/** Clients of one server, each with one request under way. */
export class Writers {
  readonly #port: number;
  /** The body of each 201 by its id. */
  readonly #answered = new Map<number, string>();
  readonly #tried: string[] = [];
  #isStopping = false;
  #clients: readonly Promise<void>[] = [];
  #waiting: (() => void)[] = [];
  /** How many were answered 503, or not at all. */
  refused = 0;
  /** Any other answer. */
  readonly others: string[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** How many were answered 201. */
  get added(): number {
    return this.#answered.size;
  }

  start(clients: number): void {
    this.#clients = Array.from({ length: clients }, (_, index) => this.#write(index));
  }

  /** Resolves behind the next 201 to a request that is sent from now on. */
  async oneMore(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#clients);
  }

  /** Holds the rows against the book. */
  compare(rows: readonly { readonly id: number; readonly json: string }[]): {
    readonly missing: readonly string[];
    readonly doubled: readonly string[];
  } {
    const present = new Map(rows.map(({ id, json }) => [id, json]));
    const counts = new Map<string, number>();
    for (const { json } of rows) counts.set(nameOf(json), (counts.get(nameOf(json)) ?? 0) + 1);
    return {
      missing: [...this.#answered]
        .filter(([id, json]) => present.get(id) !== json)
        .map(([, json]) => json),
      doubled: this.#tried.filter((name) => (counts.get(name) ?? 0) > 1),
    };
  }

  async #write(client: number): Promise<void> {
    const caller = new Caller(this.#port);
    for (let count = 0; !this.#isStopping; count++) {
      const name = `${client}-${count}`;
      this.#tried.push(name);
      const waiting = this.#waiting.splice(0);
      if (await this.#add(caller, name)) for (const resolve of waiting) resolve();
      else this.#waiting.push(...waiting);
      await sleep(20);
    }
    caller.end();
  }

  async #add(caller: Caller, name: string): Promise<boolean> {
    const authorization = `Bearer ${apiKey}`;
    const bytes = bytesOf('POST', '/v1/pets', {
      authorization,
      body: JSON.stringify({ name, categoryId: 1 }),
    });
    const answer = await caller.ask(bytes);
    // Without one nobody was told anything.
    if (answer === undefined || answer.status === 503) this.refused++;
    else if (answer.status === 201)
      this.#answered.set(Number(/^\{"id":(\d+),/.exec(answer.body)?.[1]), answer.body);
    else this.others.push(`${answer.status} ${answer.body}`);
    return answer?.status === 201;
  }
}

function nameOf(json: string): string {
  return /"name":"([^"]*)"/.exec(json)?.[1] ?? '';
}
