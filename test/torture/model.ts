/**
 * R12: after any sequence of adds, also with keys, reads, restarts, kills and failing disks, a
 * storage has the same pets as a plain map.
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

/** Returns an arbitrary step of one kind, with its weight and its random arguments. */
const kind = <Name extends string, Args extends object>(
  weight: number,
  name: Name,
  args: { [Arg in keyof Args]: fc.Arbitrary<Args[Arg]> },
) => ({ weight, arbitrary: fc.record(args).map((each) => ({ do: name, ...each })) });

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

/** A sequence of about `steps` steps, which fast-check shortens by omitting steps. */
const sequence = fc
  .array(fc.option(step, { freq: 1_000 }), { minLength: steps, maxLength: steps })
  .map((all) => all.filter((each) => each !== null));

export const model: TortureRow = {
  id: 'R12',
  title:
    'model: random inserts (also with idempotency keys), reads, restarts, kills, power cuts and failing disks; memory and file storage compared with a plain map',
  fullS: 75,
  run: async (share) => {
    let done = 0;
    // Each sequence has a seed of its own. The first has that of the row, for TORTURE_SEED.
    for (
      let { seed } = share;
      share.goOn(done, fullSequences);
      seed = share.random.below(2 ** 32)
    ) {
      await trySequence(seed);
      done++;
    }
    return `${count(done, fullSequences, 'sequences')} of ${steps} steps on each storage: 0 differences (a failure prints the seed that repeats it)`;
  },
};

/**
 * Runs the sequence of a seed on each storage.
 * @throws Error if a storage differs from the map, with the shortest sequence that fast-check
 * finds. TORTURE_SEED with BUDGET_S=0 repeats the seed
 */
export async function trySequence(seed: number): Promise<void> {
  const property = fc.asyncProperty(sequence, async (sequence) => {
    await run(new MemoryBackend(), sequence);
    const file = new FileBackend(randomOf(seed));
    assert.ok(await file.open());
    await run(file, sequence);
  });
  await fc.assert(property, { numRuns: 1, seed, includeErrorInReport: true });
}

async function run(backend: Backend, steps: readonly Step[]): Promise<void> {
  const map = new PlainMap();
  for (const [index, each] of steps.entries()) {
    try {
      await take(backend, map, each);
    } catch (error) {
      assert.fail(`${backend.name}, step ${index + 1}, ${each.do}: ${reasonOf(error)}`);
    }
  }
  await backend.restart();
  await map.adopt(backend);
  await map.checkKeys(backend);
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
      // A new key gets a new pet. A known key gets its first pet again, unless the body differs.
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

/** Kills the process during adds. The pets that were acknowledged before must survive. */
async function kill(
  backend: Backend,
  map: PlainMap,
  { key, drafts, calls, powerCut }: Extract<Step, { do: 'kill' }>,
): Promise<void> {
  const killed = backend.killAfter(calls);
  const acknowledged = new Map<Sent, Pet>();
  const all = drafts.map((draft, index) =>
    index === 0 && !map.keys.has(key) ? map.keyed(key, 0, draft) : { draft },
  );
  const adding = all.map(async (sent) => {
    const response = await send(backend, sent);
    if (!(response instanceof Error)) acknowledged.set(sent, response);
  });
  await inTime(Promise.race([killed, Promise.all(adding)]), 'a kill');
  await new Promise(setImmediate);
  for (const sent of all) {
    const pet = acknowledged.get(sent);
    if (pet === undefined) map.maybe = [...map.maybe, sent];
    else map.keep(sent, pet);
  }
  await backend.revive(powerCut);
}
