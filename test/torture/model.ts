/** R12: any sequence of adds, reads, restarts, kills and failing disks shows just what a plain map would. */
import { inspect, isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { messageOf, PetstoreError } from '../../dist/errors.js';
import { petStatuses, type Pet, type PetDraft } from '../../dist/pet.js';
import { errnos } from '../storage/system-errors.js';
import { FileBackend, MemoryBackend, type Backend } from './backends.js';
import { randomOf } from './random.js';
import { count, hold, inTime, Violation, type Row } from './row.js';

const fullSequences = 1000;
const steps = 30;

type Step =
  | { readonly do: 'add'; readonly drafts: readonly PetDraft[] }
  | { readonly do: 'get'; readonly id: number }
  | { readonly do: 'page'; readonly limit: number; readonly status: PetDraft['status']; readonly after: number }
  | { readonly do: 'restart' }
  | { readonly do: 'kill'; readonly drafts: readonly PetDraft[]; readonly calls: number; readonly powerCut: boolean }
  | { readonly do: 'fail'; readonly calls: number; readonly errno: string };

const name = fc.oneof({ weight: 9, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) }, { weight: 1, arbitrary: fc.constant('long '.repeat(1500)) });
const categoryId = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const status = fc.option(fc.constantFrom(...petStatuses), { nil: undefined });
const draft = fc.tuple(name, categoryId, status).map(([name, categoryId, status]): PetDraft => ({ name, categoryId, ...(status && { status }) }));
const drafts = fc.array(draft, { minLength: 1, maxLength: 4 });
const calls = fc.integer({ min: 1, max: 6 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('add' as const), drafts }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('get' as const), id: fc.integer({ min: -1, max: 60 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('page' as const), limit: fc.integer({ min: 1, max: 20 }), status, after: fc.integer({ min: -1, max: 60 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('kill' as const), drafts, calls, powerCut: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fail' as const), calls, errno: fc.constantFrom(...errnos) }) },
);

export const model: Row = {
  id: 'R12',
  title: 'model: random adds, gets, pages, restarts, kills, power cuts, failing disks against a plain map, on memory and file',
  fullS: 75,
  run: async (share) => {
    let done = 0;
    // Each from a seed of its own, the first from that of the row: so TORTURE_SEED repeats any of them alone.
    for (let { seed } = share; share.goOn(done, fullSequences); seed = share.random.below(2 ** 32)) {
      const property = fc.asyncProperty(fc.array(step, { minLength: steps, maxLength: steps }), async (sequence) => {
        await play(new MemoryBackend(), sequence);
        await play(await FileBackend.open(share.workFolder, randomOf(seed)), sequence);
      });
      const details = await fc.check(property, { numRuns: 1, seed });
      if (details.failed) {
        const how = `\`TORTURE_SEED=${seed} BUDGET_S=0 make torture ROWS=R12\` repeats this sequence alone`;
        throw new Violation(`${how}: ${messageOf(details.errorInstance)}; as short as fast-check can make it: ${fc.stringify(details.counterexample)}`);
      }
      done++;
    }
    return `${count(done, fullSequences, 'sequences')} of ${steps} steps on each storage, each from a seed of its own that one which fails prints: 0 differences`;
  },
};

/** The plain map, and what may be there besides. */
class Model {
  /** By ascending id. */
  readonly pets = new Map<bigint, Pet>();
  /** Refused or cut off with their write begun (F10). */
  readonly maybe: PetDraft[] = [];

  get lastId(): bigint {
    return [...this.pets.keys()].at(-1) ?? 0n;
  }
}

async function play(backend: Backend, sequence: readonly Step[]): Promise<void> {
  const model = new Model();
  for (const [index, each] of sequence.entries()) {
    try {
      await take(backend, model, each);
    } catch (error) {
      throw new Violation(`${backend.name}, step ${index + 1}, ${each.do}: ${messageOf(error)}`);
    }
  }
  await backend.restart();
  await adopt(backend, model);
}

async function take(backend: Backend, model: Model, each: Step): Promise<void> {
  const { storage } = backend;
  if (each.do === 'add') return add(backend, model, each.drafts);
  if (each.do === 'get') return equal(await storage.get(BigInt(each.id)), model.pets.get(BigInt(each.id)));
  if (each.do === 'fail') return backend.failAfter(each.calls, each.errno);
  if (each.do === 'page') {
    const matching = [...model.pets.values()].filter((pet) => pet.id > each.after && (each.status === undefined || pet.status === each.status));
    const query = { limit: each.limit, after: BigInt(each.after), ...(each.status && { status: each.status }) };
    return equal(await storage.list(query), matching.slice(0, each.limit));
  }
  if (each.do === 'restart') await backend.restart();
  else await kill(backend, model, each);
  await adopt(backend, model);
}

/** Adds at once: all get the next ids in order, or where something failed none does. */
async function add(backend: Backend, model: Model, drafts: readonly PetDraft[]): Promise<void> {
  const outcomes = await inTime(Promise.allSettled(drafts.map((draft) => backend.storage.insert(draft))), 10_000, 'adding');
  for (const [index, outcome] of outcomes.entries()) {
    const draft = drafts[index];
    if (draft === undefined) continue;
    if (outcome.status === 'fulfilled') {
      equal(outcome.value, { id: model.lastId + 1n, ...draft });
      model.pets.set(outcome.value.id, outcome.value);
    } else {
      const { reason } = outcome;
      hold(backend.isTroubled && reason instanceof PetstoreError && reason.code === 'unavailable', `an add rejects with ${String(reason)}`);
      model.maybe.push(draft);
    }
  }
}

/** Ends the process in the middle of adding; what was answered until then must outlast it. */
async function kill(backend: Backend, model: Model, { drafts, calls, powerCut }: Extract<Step, { do: 'kill' }>): Promise<void> {
  const killed = backend.killAfter(calls);
  const answered = new Map<PetDraft, Pet>();
  const adding = drafts.map((draft) => backend.storage.insert(draft).then((pet) => void answered.set(draft, pet), () => undefined));
  await inTime(Promise.race([killed, Promise.all(adding)]), 10_000, 'a kill');
  await new Promise(setImmediate);
  for (const draft of drafts) {
    const pet = answered.get(draft);
    if (pet === undefined) model.maybe.push(draft);
    else model.pets.set(pet.id, pet);
  }
  await backend.revive(powerCut);
}

/** Behind a start all that was acknowledged is there, and of what was not only what was once sent; from now on that too. */
async function adopt({ storage }: Backend, model: Model): Promise<void> {
  if (!storage.durable) model.pets.clear();
  const found = await storage.list({ limit: 10_000 });
  equal(found.slice(0, model.pets.size), [...model.pets.values()]);
  for (const pet of found.slice(model.pets.size)) {
    const { id, ...rest } = pet;
    hold(id === model.lastId + 1n && model.maybe.some((draft) => isDeepStrictEqual(draft, rest)), `there is an animal that nobody sent: ${id}`);
    model.pets.set(id, pet);
  }
  model.maybe.length = 0;
}

function equal(actual: unknown, expected: unknown): void {
  hold(isDeepStrictEqual(actual, expected), () => `answered is ${inspect(actual)}, the map has ${inspect(expected)}`);
}
