/**
 * R4: no acknowledged pet is lost if any call of the disk fails, in any way, once or from then on.
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

/** A torn tail: a pet without a commit record, and the beginning of a line. */
const torn = '{"torn';
const uncommitted: Pet = { id: 7n, name: 'not committed', categoryId: 5n, status: 'sold' };

/** The steps of a case, without its fault. */
interface Scenario {
  /** The sizes of the batches that the file has at first; no file if omitted. */
  readonly begins?: readonly number[];
  readonly isTorn?: true;
  /** The sizes of the batches that are added. */
  readonly adds: readonly number[];
  /** The indexes of the batches during which the disk is full. */
  readonly full?: readonly number[];
}

const begins = [2, 1, 3];
const scenarios: Readonly<Record<string, Scenario>> = {
  create: { adds: [2] },
  open: { begins, adds: [2] },
  'open with a torn tail': { begins, isTorn: true, adds: [1] },
  'several batches': { adds: [1, 3, 2, 90, 1] },
  recovery: { begins, adds: [1, 2, 1, 2, 1], full: [1, 2] },
  'open and close': { begins, adds: [] },
};

/** Returns the fault of a call by its distance from the first failing call, which has 0. */
type FaultOf = (distance: number) => DiskFault;

/** Gives one fault each to the first failing call and the calls after it. */
const inTurn =
  (...faults: readonly DiskFault[]): FaultOf =>
  (distance) =>
    faults[distance];

/** Gives the first failing call and all later ones the same fault. */
const always =
  (fault: DiskFault): FaultOf =>
  (distance) =>
    distance >= 0 ? fault : undefined;

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
  title: `call N of the disk fails, for each N, with ${errnos.join(', ')} or a short write, once or from then on`,
  fullS: 15,
  run: async (share) => {
    const cases = await casesOf(share);
    // In random order, so that a short run tries some of each.
    let done = 0;
    for (const [what, ...each] of share.random.shuffled(cases)) {
      if (!share.goOn(done, cases.length)) break;
      await runCase(share, ...each).catch((error) => assert.fail(`${what}: ${reasonOf(error)}`));
      done++;
    }
    return `${count(done, cases.length, 'cases')} in ${Object.keys(scenarios).length} scenarios, each followed by a kill and power cuts: 0 acknowledged pets lost, 0 hangs, each storage in the state of F5 or F6`;
  },
};

/** Returns the cases: each kind of fault at each call of each scenario. */
export async function casesOf(share: Share) {
  const cases: (readonly [what: string, scenario: Scenario, kind: Kind, at: number])[] = [];
  for (const [name, scenario] of Object.entries(scenarios)) {
    // A run without a fault counts the calls.
    const last = await runCase(share, scenario, ['no fault', () => undefined], 1);
    for (let at = 1; at <= last; at++)
      for (const kind of kinds) cases.push([`${name}, call ${at}, ${kind[0]}`, scenario, kind, at]);
  }
  return cases;
}

/**
 * Runs a case, and then starts again after a kill and after power cuts. Returns the number of calls
 * of the disk.
 */
export async function runCase(
  share: Share,
  scenario: Scenario,
  [, faultOf, of = 'all calls']: Kind,
  at: number,
): Promise<number> {
  const map = new PlainMap();
  const backend = new FileBackend(share.random, await begun(scenario, map));
  let isFull = false;
  let before: CallName | undefined;
  backend.fault = (call, number) => {
    // A disk that fills up writes a part of the bytes first.
    const full = before === 'write' ? 'ENOSPC' : 20;
    if (call === 'write' || call === 'truncate') before = call;
    const fault = of === 'all calls' || call === 'write' ? faultOf(number - at) : undefined;
    return fault ?? (isFull && call === 'write' ? full : undefined);
  };
  const running = async (): Promise<void> => {
    if (!(await backend.open())) return;
    for (const [index, many] of scenario.adds.entries()) {
      isFull = scenario.full?.includes(index) ?? false;
      await add(backend, map, many);
    }
    await backend.close();
  };
  await inTime(running(), 'hangs', 15_000);
  for (const machine of backend.remains()) await startAgain(share, scenario, machine, map);
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

/** Returns the machine in the initial state of a scenario. */
async function begun({ begins, isTorn }: Scenario, map: PlainMap): Promise<Machine> {
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
 * Checks that a start without faults serves all acknowledged pets, and that all pets that it serves
 * survive the next power cut.
 */
async function startAgain(
  share: Share,
  { isTorn }: Scenario,
  machine: Machine,
  before: PlainMap,
): Promise<void> {
  const map = new PlainMap(before);
  const backend = new FileBackend(share.random, machine);
  assert.ok(await backend.open());
  await map.adopt(backend);
  await add(backend, map, 1);
  const isThere = machine.paths.some((name) => machine.file(name)?.toString().endsWith(torn));
  assert.equal(isThere, isTorn ?? false, 'the torn tail was removed without a copy');
  await backend.revive(true);
  await map.adopt(backend);
  await map.checkKeys(backend);
}
