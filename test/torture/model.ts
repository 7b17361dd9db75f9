/**
 * R12: any sequence of adds, also with keys, reads, restarts, kills and failing disks shows what a
 * plain map would.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { errnos } from '../support/disk.js';
import { anyText } from '../support/text.js';
import { FileBackend, MemoryBackend, type Backend } from './backends.js';
import { equal, PlainMap, send, type Sent } from './plain-map.js';
import { randomOf } from './random.js';
import { count, inTime, type TortureRow } from './row.js';
import { type Pet, type PetDraft, petStatuses, PetstoreError, reasonOf } from '../../dist/index.js';

const fullSequences = 1000;
const steps = 30;

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
const id = fc.integer({ min: -1, max: 60 });
const calls = fc.integer({ min: 1, max: 6 });

/** Returns a kind of step with its weight and its arguments. */
const kind = <Name extends string, Said extends object>(
  weight: number,
  name: Name,
  said: { [Part in keyof Said]: fc.Arbitrary<Said[Part]> },
) => ({ weight, arbitrary: fc.record(said).map((each) => ({ do: name, ...each })) });

const step = fc.oneof(
  kind(8, 'add', { drafts }),
  kind(6, 'once', { key, body: fc.integer({ min: 0, max: 1 }), draft }),
  kind(4, 'get', { id }),
  kind(4, 'page', { limit: fc.integer({ min: 1, max: 20 }), status, after: id }),
  kind(2, 'restart', {}),
  kind(3, 'kill', { key, drafts, calls, powerCut: fc.boolean() }),
  kind(3, 'fail', { calls, errno: fc.constantFrom(...errnos) }),
);
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never;

/** A story of that many steps, nearly always. fast-check shortens it by leaving steps out. */
const story = fc
  .array(fc.option(step, { freq: 1_000 }), { minLength: steps, maxLength: steps })
  .map((all) => all.filter((each) => each !== null));

export const model: TortureRow = {
  id: 'R12',
  title:
    'model: random inserts (also with idempotency keys), reads, restarts, kills, power cuts and failing disks, compared with a plain map, in memory and on a file',
  fullS: 75,
  run: async (share) => {
    let done = 0;
    // Each story has a seed of its own, the first that of the row, so that TORTURE_SEED repeats it.
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
 * @throws Error if a storage differs from the map, with the shortest story that fast-check finds.
 * TORTURE_SEED with BUDGET_S=0 repeats its seed
 */
export async function tryStory(seed: number): Promise<void> {
  const property = fc.asyncProperty(story, async (story) => {
    await play(new MemoryBackend(), story);
    const file = new FileBackend(randomOf(seed));
    assert.ok(await file.open());
    await play(file, story);
  });
  await fc.assert(property, { numRuns: 1, seed, includeErrorInReport: true });
}

async function play(backend: Backend, sequence: readonly Step[]): Promise<void> {
  const map = new PlainMap();
  for (const [index, each] of sequence.entries()) {
    try {
      await take(backend, map, each);
    } catch (error) {
      assert.fail(`${backend.name}, step ${index + 1}, ${each.do}: ${reasonOf(error)}`);
    }
  }
  await backend.restart();
  await map.adopt(backend);
  await map.holdKeys(backend);
}

async function take(backend: Backend, map: PlainMap, each: Step): Promise<void> {
  const { storage } = backend;
  switch (each.do) {
    case 'add':
      return map.add(
        backend,
        each.drafts.map((draft) => ({ draft })),
      );
    case 'once': {
      // A new key gets a pet of its own. A known key gets its first pet again, unless the body
      // differs.
      const sent = map.keyed(each.key, each.body, each.draft);
      const known = map.keys.get(each.key);
      if (known === undefined) return map.add(backend, [sent]);
      const response = await inTime(send(backend, sent), 'adding once');
      if (known.body === each.body) return equal(response, known.pet);
      return equal(response instanceof PetstoreError && response.code, 'idempotency_mismatch');
    }
    case 'get':
      return equal(await storage.get(BigInt(each.id)), map.pets.get(BigInt(each.id)));
    case 'page': {
      const { limit, after, status } = each;
      const matching = [...map.pets.values()].filter(
        (pet) => pet.id > after && (status === undefined || pet.status === status),
      );
      const query = { limit, after: BigInt(after), ...(status && { status }) };
      return equal(await storage.list(query), matching.slice(0, limit));
    }
    case 'fail':
      return backend.failAfter(each.calls, each.errno);
    case 'restart':
      await backend.restart();
      return map.adopt(backend);
    case 'kill':
      await kill(backend, map, each);
      return map.adopt(backend);
  }
}

/** Ends the process in the middle of adding. What was acknowledged before must survive. */
async function kill(
  backend: Backend,
  map: PlainMap,
  { key, drafts, calls, powerCut }: Extract<Step, { do: 'kill' }>,
): Promise<void> {
  const killed = backend.killAfter(calls);
  const answered = new Map<Sent, Pet>();
  const all = drafts.map((draft, index) =>
    index === 0 && !map.keys.has(key) ? map.keyed(key, 0, draft) : { draft },
  );
  const adding = all.map(async (sent) => {
    const response = await send(backend, sent);
    if (!(response instanceof Error)) answered.set(sent, response);
  });
  await inTime(Promise.race([killed, Promise.all(adding)]), 'a kill');
  await new Promise(setImmediate);
  for (const sent of all) {
    const pet = answered.get(sent);
    if (pet === undefined) map.maybe = [...map.maybe, sent];
    else map.keep(sent, pet);
  }
  await backend.revive(powerCut);
}
