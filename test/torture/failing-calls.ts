/**
 * R4: when any call of the disk fails in any way, once or from then on, no acknowledged pet is
 * lost.
 */
import assert from 'node:assert/strict';
import { errnos } from '../support/disk.js';
import { FileBackend, filePath } from './backends.js';
import { petText } from './files.js';
import { Machine } from './machine.js';
import { PlainMap } from './plain-map.js';
import type { CallName, DiskFault } from './process-disk.js';
import { randomOf } from './random.js';
import { count, inTime, type TortureRow, type Share } from './row.js';
import { reasonOf, type Pet } from '../../dist/index.js';

/** A cut line after a pet without a commit record. */
const torn = '{"torn';
const uncommitted: Pet = { id: 7n, name: 'not committed', categoryId: 5n, status: 'sold' };

/** What is done to a storage. */
interface Play {
  /** The batches that the file has at first, by their sizes. Without them there is no file. */
  readonly begins?: readonly number[];
  readonly isTorn?: true;
  /** The batches that are added, by their sizes. */
  readonly adds: readonly number[];
  /** The batches, counted from 0, for which the disk has no room. */
  readonly full?: readonly number[];
}

const begins = [2, 1, 3];
const plays: Readonly<Record<string, Play>> = {
  create: { adds: [2] },
  open: { begins, adds: [2] },
  'open with a torn tail': { begins, isTorn: true, adds: [1] },
  'several batches': { adds: [1, 3, 2, 90, 1] },
  recovery: { begins, adds: [1, 2, 1, 2, 1], full: [1, 2] },
  'open and close': { begins, adds: [] },
};

/** Returns the fault of a call by its distance from the first call that fails. */
type FaultOf = (behind: number) => DiskFault;

/** Gives the first failing call and the next ones a fault each. */
const inTurn =
  (...faults: readonly DiskFault[]): FaultOf =>
  (behind) =>
    faults[behind];

/** Gives the first failing call and all later ones the same fault. */
const always =
  (fault: DiskFault): FaultOf =>
  (behind) =>
    behind >= 0 ? fault : undefined;

type Kind = readonly [name: string, faultOf: FaultOf, of?: 'all calls' | 'writes'];

const kinds: readonly Kind[] = [
  ...errnos.flatMap((errno): readonly Kind[] => [
    [`${errno} once`, inTurn(errno)],
    [`${errno} from then on`, always(errno)],
  ]),
  ['a write of 1 byte', inTurn(1), 'writes'],
  ['writes of 7 bytes from then on', always(7), 'writes'],
  ['a write of no byte', inTurn(0), 'writes'],
  ['a write of 10 bytes and then ENOSPC', inTurn(10, 'ENOSPC'), 'writes'],
  ['a write of 10 bytes and then EIO', inTurn(10, 'EIO'), 'writes'],
];

export const failingCalls: TortureRow = {
  id: 'R4',
  title: `call N of the disk fails, for every N, with ${errnos.join(', ')} and short writes, once and from then on`,
  fullS: 15,
  run: async (share) => {
    const cases = await casesOf(share);
    // In random order, so that a short run tries some of each.
    let done = 0;
    for (const [what, ...each] of share.random.shuffled(cases)) {
      if (!share.goOn(done, cases.length)) break;
      await playCase(share, ...each).catch((error) => assert.fail(`${what}: ${reasonOf(error)}`));
      done++;
    }
    return `${count(done, cases.length, 'cases')} in ${Object.keys(plays).length} scenes: 0 acknowledged animals lost, by a kill or a power cut behind each either; 0 hangs; each in the state of F5 or F6`;
  },
};

/** Returns every kind of fault at every call of every play. */
export async function casesOf(share: Share) {
  const cases: (readonly [what: string, play: Play, kind: Kind, at: number])[] = [];
  for (const [name, play] of Object.entries(plays)) {
    // A run without a fault counts the calls.
    const last = await playCase(share, play, ['no fault', () => undefined], 1);
    for (let at = 1; at <= last; at++)
      for (const kind of kinds) cases.push([`${name}, call ${at}, ${kind[0]}`, play, kind, at]);
  }
  return cases;
}

/**
 * Plays a case, and starts again after a kill and after power cuts. Returns the number of calls.
 */
export async function playCase(
  share: Share,
  play: Play,
  [, faultOf, of = 'all calls']: Kind,
  at: number,
): Promise<number> {
  const map = new PlainMap();
  const backend = new FileBackend(share.random, await begun(play, map));
  let isFull = false;
  let before: CallName | undefined;
  backend.fault = (call, number) => {
    // A disk that fills up writes a part first.
    const full = before === 'write' ? 'ENOSPC' : 20;
    if (call === 'write' || call === 'truncate') before = call;
    const fault = of === 'all calls' || call === 'write' ? faultOf(number - at) : undefined;
    return fault ?? (isFull && call === 'write' ? full : undefined);
  };
  const playing = async (): Promise<void> => {
    if (!(await backend.open())) return;
    for (const [index, many] of play.adds.entries()) {
      isFull = play.full?.includes(index) ?? false;
      await add(backend, map, many);
    }
    await backend.close();
  };
  await inTime(playing(), 'hangs', 15_000);
  for (const machine of backend.remains()) await startAgain(share, play, machine, map);
  return backend.calls;
}

let lastKey = 0;

/** Adds `many` pets at once, every other one with a new key. */
function add(backend: FileBackend, map: PlainMap, many: number): Promise<void> {
  const sent = Array.from({ length: many }, (_, index) => {
    const keyed = map.keyed(++lastKey, 0, { name: '', categoryId: 5n });
    return index % 2 === 0 ? { draft: keyed.draft } : keyed;
  });
  return map.add(backend, sent);
}

/** Returns the machine at the beginning of a play. */
async function begun({ begins, isTorn }: Play, map: PlainMap): Promise<Machine> {
  const machine = new Machine();
  if (begins === undefined) return machine;
  const backend = new FileBackend(randomOf(0), machine);
  assert.ok(await backend.open());
  for (const many of begins) await add(backend, map, many);
  await backend.close();
  if (isTorn) {
    machine.append(filePath, `${petText(7, uncommitted.name)}\n${torn}`);
    map.keep({ draft: uncommitted }, uncommitted);
  }
  return machine;
}

/**
 * Checks that a start without faults serves all acknowledged pets, and that all it serves survives
 * the next power cut.
 */
async function startAgain(
  share: Share,
  { isTorn }: Play,
  machine: Machine,
  before: PlainMap,
): Promise<void> {
  const map = new PlainMap(before);
  const backend = new FileBackend(share.random, machine);
  assert.ok(await backend.open());
  await map.adopt(backend);
  await add(backend, map, 1);
  const isThere = machine.paths.some((name) => machine.file(name)?.toString().endsWith(torn));
  assert.equal(isThere, isTorn ?? false, 'the torn tail is gone without a copy');
  await backend.revive(true);
  await map.adopt(backend);
  await map.holdKeys(backend);
}
