/**
 * R12: any sequence of adds, by keys too, reads, restarts, kills and failing disks shows just what
 * a plain map would.
 */
import { inspect, isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { errnos } from '../support/disk.js';
import { anyText } from '../support/text.js';
import { insertOnce, onceOf } from '../storage/once.js';
import { FileBackend, MemoryBackend, type Backend } from './backends.js';
import { PlainMap, type Sent } from './plain-map.js';
import { randomOf } from './random.js';
import { count, hold, inTime, Violation, type Row } from './row.js';
import {
  type Pet,
  type PetDraft,
  petStatuses,
  type PetStorage,
  PetstoreError,
  reasonOf,
} from '../../dist/index.js';

const fullSequences = 1000;
const steps = 30;

type Step =
  | { readonly do: 'add'; readonly drafts: readonly PetDraft[] }
  | { readonly do: 'once'; readonly key: number; readonly body: number; readonly draft: PetDraft }
  | { readonly do: 'get'; readonly id: number }
  | {
      readonly do: 'page';
      readonly limit: number;
      readonly status: PetDraft['status'];
      readonly after: number;
    }
  | { readonly do: 'restart' }
  | {
      readonly do: 'kill';
      readonly key: number;
      readonly drafts: readonly PetDraft[];
      readonly calls: number;
      readonly powerCut: boolean;
    }
  | { readonly do: 'fail'; readonly calls: number; readonly errno: string };

const name = fc.oneof(
  { weight: 9, arbitrary: anyText(12) },
  { weight: 1, arbitrary: fc.constant('long '.repeat(1500)) },
);
const categoryId = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const status = fc.option(fc.constantFrom(...petStatuses), { nil: undefined });
const draft = fc
  .tuple(name, categoryId, status)
  .map(([name, categoryId, status]): PetDraft => ({ name, categoryId, ...(status && { status }) }));
const drafts = fc.array(draft, { minLength: 1, maxLength: 4 });
const key = fc.integer({ min: 0, max: 3 });
const calls = fc.integer({ min: 1, max: 6 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('add' as const), drafts }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('once' as const),
      key,
      body: fc.integer({ min: 0, max: 1 }),
      draft,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('get' as const), id: fc.integer({ min: -1, max: 60 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('page' as const),
      limit: fc.integer({ min: 1, max: 20 }),
      status,
      after: fc.integer({ min: -1, max: 60 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('kill' as const),
      key,
      drafts,
      calls,
      powerCut: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('fail' as const),
      calls,
      errno: fc.constantFrom(...errnos),
    }),
  },
);

/** So many steps, nearly always; fast-check makes a story shorter by leaving out any of them. */
const story = fc
  .array(fc.option(step, { freq: 1_000 }), { minLength: steps, maxLength: steps })
  .map((all) => all.filter((each) => each !== null));

export const model: Row = {
  id: 'R12',
  title:
    'model: random adds, with idempotency keys too, gets, pages, restarts, kills, power cuts, failing disks against a plain map, on memory and file',
  fullS: 75,
  run: async (share) => {
    let done = 0;
    // Each from a seed of its own, the first from that of the row: so TORTURE_SEED repeats any of
    // them alone.
    for (
      let { seed } = share;
      share.goOn(done, fullSequences);
      seed = share.random.below(2 ** 32)
    ) {
      await tryStory(seed);
      done++;
    }
    return `${count(done, fullSequences, 'sequences')} of ${steps} steps on each storage, each from a seed of its own that one which fails prints: 0 differences`;
  },
};

/**
 * Plays the story of a seed on each storage.
 * @throws Violation where a storage shows another thing than the map; it tells the story, as short
 * as fast-check can make it.
 */
export async function tryStory(seed: number): Promise<void> {
  const property = fc.asyncProperty(story, async (story) => {
    await play(new MemoryBackend(), story);
    await play(await FileBackend.open(randomOf(seed)), story);
  });
  const details = await fc.check(property, { numRuns: 1, seed });
  if (!details.failed) return;
  const [shortest = []] = details.counterexample ?? [];
  const told = shortest.map((each, index) => `${index + 1}. ${wordsOf(each)}`);
  throw new Violation(
    [
      reasonOf(details.errorInstance),
      'The story that led there:',
      ...told,
      `\`TORTURE_SEED=${seed} BUDGET_S=0 make torture ROWS=R12\` tells it again.`,
    ].join('\n'),
  );
}

function wordsOf(each: Step): string {
  switch (each.do) {
    case 'add':
      return `Add at once: ${each.drafts.map(animal).join(', ')}.`;
    case 'once':
      return `Add by key ${each.key} with body ${each.body}.`;
    case 'get':
      return `Get the animal ${each.id}.`;
    case 'page':
      return `List ${each.limit} animals after ${each.after}, of ${each.status ?? 'any'} status.`;
    case 'restart':
      return 'Close the storage and open it again.';
    case 'kill': {
      const end = each.powerCut ? 'Cut the power' : 'Kill the process';
      return `${end} at call ${each.calls} of the disk from here, while adding, the first by key ${each.key} if that is new: ${each.drafts.map(animal).join(', ')}. Open the storage again.`;
    }
    case 'fail':
      return `Let call ${each.calls} of the disk from here fail with ${each.errno}.`;
  }
}

/** An animal in a word or two. */
function animal({ name, categoryId, status }: PetDraft): string {
  const short = name.length > 30 ? `${name.slice(0, 30)}… of ${name.length} characters` : name;
  return `${JSON.stringify(short)} of category ${categoryId}${status === undefined ? '' : `, ${status}`}`;
}

function send(storage: PetStorage, { draft, by }: Sent): Promise<Pet> {
  if (by === undefined) return storage.insert(draft);
  return insertOnce(storage, draft, onceOf(`key ${by.key}`, `body ${by.body}`, Date.now()));
}

async function play(backend: Backend, sequence: readonly Step[]): Promise<void> {
  const model = new PlainMap();
  for (const [index, each] of sequence.entries()) {
    try {
      await take(backend, model, each);
    } catch (error) {
      throw new Violation(`${backend.name}, step ${index + 1}, ${each.do}: ${reasonOf(error)}`);
    }
  }
  await backend.restart();
  await adopt(backend, model);
  for (const [key, { body, pet }] of model.keys)
    equal(await send(backend.storage, model.keyed(key, body, pet)), pet);
}

async function take(backend: Backend, model: PlainMap, each: Step): Promise<void> {
  const { storage } = backend;
  if (each.do === 'add') return add(backend, model, each.drafts);
  if (each.do === 'once') return addOnce(backend, model, each);
  if (each.do === 'get')
    return equal(await storage.get(BigInt(each.id)), model.pets.get(BigInt(each.id)));
  if (each.do === 'fail') return backend.failAfter(each.calls, each.errno);
  if (each.do === 'page') {
    const matching = [...model.pets.values()].filter(
      (pet) => pet.id > each.after && (each.status === undefined || pet.status === each.status),
    );
    const query = {
      limit: each.limit,
      after: BigInt(each.after),
      ...(each.status && { status: each.status }),
    };
    return equal(await storage.list(query), matching.slice(0, each.limit));
  }
  if (each.do === 'restart') await backend.restart();
  else await kill(backend, model, each);
  await adopt(backend, model);
}

/** Adds at once: all get the next ids in order, or where something failed none does. */
async function add(backend: Backend, model: PlainMap, drafts: readonly PetDraft[]): Promise<void> {
  const outcomes = await inTime(
    Promise.allSettled(drafts.map((draft) => backend.storage.insert(draft))),
    10_000,
    'adding',
  );
  for (const [index, outcome] of outcomes.entries()) {
    const draft = drafts[index];
    if (draft === undefined) continue;
    if (outcome.status === 'fulfilled') {
      equal(outcome.value, { id: model.lastId + 1n, ...draft });
      model.keep({ draft }, outcome.value);
    } else {
      holdRefused(backend, outcome.reason);
      model.maybe.push({ draft });
    }
  }
}

/**
 * Adds by a key: an animal of its own for a new one, the first again for a known one unless the
 * body is another.
 */
async function addOnce(
  backend: Backend,
  model: PlainMap,
  { key, body, draft }: Extract<Step, { do: 'once' }>,
): Promise<void> {
  const sent = model.keyed(key, body, draft);
  const known = model.keys.get(key);
  const outcome: unknown = await inTime(
    send(backend.storage, sent).catch((error: unknown) => error),
    10_000,
    'adding once',
  );
  if (known?.body === body) equal(outcome, known.pet);
  else if (known !== undefined)
    hold(
      outcome instanceof PetstoreError && outcome.code === 'idempotency_mismatch',
      () => `another body is answered ${inspect(outcome)}`,
    );
  else if (outcome instanceof Error) {
    holdRefused(backend, outcome);
    model.maybe.push(sent);
  } else {
    const pet = { id: model.lastId + 1n, ...sent.draft };
    equal(outcome, pet);
    model.keep(sent, pet);
  }
}

function holdRefused(backend: Backend, reason: unknown): void {
  hold(
    backend.isTroubled && reason instanceof PetstoreError && reason.code === 'unavailable',
    `an add rejects with ${String(reason)}`,
  );
}

/** Ends the process in the middle of adding; what was answered until then must outlast it. */
async function kill(
  backend: Backend,
  model: PlainMap,
  { key, drafts, calls, powerCut }: Extract<Step, { do: 'kill' }>,
): Promise<void> {
  const killed = backend.killAfter(calls);
  const answered = new Map<Sent, Pet>();
  const isNew = !model.keys.has(key);
  // The first by a key, if that is new.
  const all = drafts.map((draft, index) =>
    index === 0 && isNew ? model.keyed(key, 0, draft) : { draft },
  );
  const adding = all.map((sent) =>
    send(backend.storage, sent).then(
      (pet) => void answered.set(sent, pet),
      () => undefined,
    ),
  );
  await inTime(Promise.race([killed, Promise.all(adding)]), 10_000, 'a kill');
  await new Promise(setImmediate);
  for (const sent of all) {
    const pet = answered.get(sent);
    if (pet === undefined) model.maybe.push(sent);
    else model.keep(sent, pet);
  }
  await backend.revive(powerCut);
}

/**
 * Behind a start all that was acknowledged is there, and of what was not only what was once sent;
 * from now on that too.
 */
async function adopt({ storage }: Backend, model: PlainMap): Promise<void> {
  if (!storage.durable) {
    model.pets.clear();
    model.keys.clear();
  }
  const found = await storage.list({ limit: 10_000 });
  equal(found.slice(0, model.pets.size), [...model.pets.values()]);
  for (const pet of found.slice(model.pets.size)) {
    const { id, ...rest } = pet;
    const sent = model.maybe.find(({ draft }) => isDeepStrictEqual(draft, rest));
    hold(
      id === model.lastId + 1n && sent !== undefined,
      `there is an animal that nobody sent: ${id}`,
    );
    model.keep(sent, pet);
  }
  model.maybe.length = 0;
}

function equal(actual: unknown, expected: unknown): void {
  hold(
    isDeepStrictEqual(actual, expected),
    () => `answered is ${inspect(actual)}, the map has ${inspect(expected)}`,
  );
}
