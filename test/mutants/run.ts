/**
 * Kills mutants: changes src at one place after the other, each on a copy that the compiler takes,
 * and runs the tests that reach the place until one fails. What survives is printed.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { keep, markdownTable, type Table } from '../bench/report.js';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { randomOf } from '../torture/random.js';
import { faultsByHand } from './by-hand.js';
import { Checkout, removeCheckouts } from './checkout.js';
import { offsetsIn, reached } from './coverage.js';
import {
  foldersThatHold,
  makeMutants,
  mutantOf,
  mutatedText,
  told,
  type Mutant,
} from './mutants.js';
import { unchanged } from './unchanged.js';

const { SEED = Math.floor(Math.random() * 2 ** 32), COUNT = '400' } = callersEnvironment;
const [seed, count] = [Number(SEED), Number(COUNT)];
assert.ok(Number.isSafeInteger(count) && count > 0, 'COUNT must be a whole number above 0');
assert.ok(Number.isSafeInteger(seed), 'SEED must be a whole number');

/** What part of all should be killed; of few, chance takes so many standard deviations. */
const goal = 0.9;
const deviations = 4;
/** So long a mutant is tried, in milliseconds, by the files that are worth most. */
const patienceMs = 60_000;
/** So long a file of tests may take without a mutant, many side by side. */
const firstMs = 300_000;
/** Most files of tests wait more than they compute. */
const atOnce = 2 * availableParallelism();

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => process.exit(130));
process.once('exit', removeCheckouts);

const say = (line: string): boolean => process.stdout.write(`${line}\n`);
const sayTime = (what: string): boolean =>
  say(`${what}, ${Math.round(performance.now() / 1000)} s so far`);
say(`${count} mutants, seed ${seed}: make mutants COUNT=${count} SEED=${seed} tries them again`);

/** Does a work for each item, so many at once, each by one of the workers. */
async function share<Worker, Item>(
  workers: readonly Worker[],
  items: Iterable<Item>,
  work: (worker: Worker, item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  await Promise.all(
    workers.map(async (worker) => {
      for (let next = rest.next(); !next.done; next = rest.next()) await work(worker, next.value);
    }),
  );
}

const made = await makeMutants();
const harmless = unchanged.map((change) => ({ change, text: mutatedText(mutantOf(change)) }));
const isHarmless = (mutant: Mutant, { change, text }: (typeof harmless)[number]): boolean =>
  change.file === mutant.file && text === mutatedText(mutant);
for (const each of harmless)
  assert.ok(
    made.some((mutant) => isHarmless(mutant, each)),
    `unchanged.ts has what is no mutant: ${JSON.stringify(each.change)}`,
  );
const harmful = made.filter((mutant) => !harmless.some((each) => isHarmless(mutant, each)));
const byHand = faultsByHand.map(mutantOf);
// The compiler refuses about every third of them.
const chosen = randomOf(seed)
  .shuffled(harmful)
  .slice(0, 3 * count);

const clean = Checkout.ofHere();
await clean.buildAll();
const checkouts = Array.from({ length: atOnce }, () => clean.copy());

/** A file of tests, with what it reaches. */
interface TestFile {
  readonly name: string;
  readonly folder: string;
  readonly ms: number;
  readonly reaches: ReadonlySet<Mutant>;
}

// What spares itself the coverage elsewhere needs it here.
clean.write('test-dist/support/unmeasured.js', '');
const offsets = offsetsIn(clean, [...byHand, ...chosen]);
const folders = new Set([...byHand, ...chosen].flatMap(({ room }) => foldersThatHold[room] ?? []));
const names = [...folders].flatMap((folder) =>
  readdirSync(join(clean.folder, 'test-dist', folder))
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join(folder, name)),
);
const files: TestFile[] = [];
await share(
  Array.from({ length: 2 * atOnce }, () => clean),
  names,
  async (checkout, name) => {
    const coverage = join(checkout.folder, 'coverage', name);
    mkdirSync(coverage, { recursive: true });
    const test = () => checkout.test(join('test-dist', name), firstMs, coverage);
    // What fails by chance is for `make test` to tell; here it would only end the run.
    const startedAt = performance.now();
    let outcome = await test();
    const ms = performance.now() - startedAt;
    if (outcome !== 'passed') {
      say(`once more, as it fails without a mutant: ${name}`);
      outcome = await test();
    }
    assert.equal(outcome, 'passed', `test-dist/${name}, which has no mutant to fail for`);
    const reaches = reached(coverage, offsets);
    files.push({ name, folder: name.replace(/\/.*/, ''), ms, reaches });
  },
);
sayTime(`${names.length} files of tests`);

interface Verdict {
  readonly mutant: Mutant;
  readonly how: 'refused' | 'killed' | 'hung' | 'survived';
  /** By which file of tests, or why. */
  readonly by: string;
}

/** How often a file of tests has killed a mutant, of any file of src and of each. */
const kills = new Map<string, number>();
const killsBy = (...names: readonly string[]): number => kills.get(names.join(' ')) ?? 0;

/** What a file of tests is worth for its time: one that killed a neighbour may do it again. */
function worthOf({ name, ms }: TestFile, { file }: Mutant): number {
  return (1 + killsBy(name) + 10 * killsBy(name, file)) / ms;
}

async function verdictOn(mutant: Mutant, checkout: Checkout): Promise<Verdict> {
  const path = `src/${mutant.file}`;
  const source = checkout.read(path);
  checkout.write(path, mutatedText(mutant));
  try {
    const complaint = await checkout.buildSource();
    if (complaint !== '') return { mutant, how: 'refused', by: complaint };

    const held = foldersThatHold[mutant.room] ?? [];
    const inTurn = files
      .filter(({ folder, reaches }) => reaches.has(mutant) && held.includes(folder))
      .sort((one, other) => worthOf(other, mutant) - worthOf(one, mutant));
    const endsAt = performance.now() + patienceMs;
    for (const [index, { name, ms }] of inTurn.entries()) {
      if (performance.now() > endsAt)
        return { mutant, how: 'survived', by: `the first ${index} of ${inTurn.length} files` };

      const outcome = await checkout.test(join('test-dist', name), 20_000 + 5 * ms);
      if (outcome === 'passed') continue;
      for (const by of [[name], [name, mutant.file]]) kills.set(by.join(' '), killsBy(...by) + 1);
      return { mutant, how: outcome === 'failed' ? 'killed' : 'hung', by: name };
    }
    return { mutant, how: 'survived', by: `all ${inTurn.length} files that reach it` };
  } finally {
    checkout.write(path, source);
  }
}

/** Tries mutants, and adds to the verdicts; says which survives. */
const tryAll = (mutants: Iterable<Mutant>, verdicts: Verdict[]): Promise<void> =>
  share(checkouts, mutants, async (checkout, mutant) => {
    const verdict = await verdictOn(mutant, checkout);
    verdicts.push(verdict);
    if (verdict.how === 'survived') say(`survived ${verdict.by}: ${told(mutant)}`);
    if (verdict.how !== 'refused' && tried(verdicts).length % 50 === 0)
      sayTime(`${tried(verdicts).length} of ${count}`);
  });
const tried = (verdicts: readonly Verdict[]): readonly Verdict[] =>
  verdicts.filter(({ how }) => how !== 'refused');
const killed = (verdicts: readonly Verdict[]): readonly Verdict[] =>
  verdicts.filter(({ how }) => how === 'killed' || how === 'hung');

// Not even a change of nothing may fail, or each mutant would be killed by its build.
const [first = assert.fail('no copy')] = checkouts;
first.write('src/index.ts', `${first.read('src/index.ts')}// Nothing.\n`);
assert.equal(await first.buildSource(), '');
assert.equal(await first.test('test-dist/storage/memory.test.js', patienceMs), 'passed');

const verdictsByHand: Verdict[] = [];
await tryAll(byHand, verdictsByHand);

const verdicts: Verdict[] = [];
const left = chosen.values();
let given = 0;

/** As many as would be tried if the compiler took all that are under way. */
function* untilEnough(): Generator<Mutant> {
  const refused = (): number => verdicts.filter(({ how }) => how === 'refused').length;
  while (given - refused() < count) {
    const next = left.next();
    if (next.done) return;
    given++;
    yield next.value;
  }
}

while (tried(verdicts).length < count && given < chosen.length)
  await tryAll(untilEnough(), verdicts);

mkdirSync(join(root, 'coverage'), { recursive: true });
writeFileSync(
  join(root, 'coverage/mutants.txt'),
  [...verdictsByHand, ...verdicts]
    .map(({ how, by, mutant }) => `${how} ${by.split('\n')[0]}: ${told(mutant)}\n`)
    .join(''),
);

const partOf = (some: readonly Verdict[]): string =>
  `${killed(some).length} of ${some.length}, ${((100 * killed(some).length) / some.length).toFixed(1)} %`;
const rows = Object.keys(foldersThatHold)
  .map((room) => ({ room, some: tried(verdicts).filter(({ mutant }) => mutant.room === room) }))
  .filter(({ some }) => some.length > 0)
  .map(({ room, some }) => [room, partOf(some)]);
const table: Table = {
  key: 'mutants',
  title: 'Mutants',
  head: ['room', 'killed'],
  rows: [...rows, ['all', partOf(tried(verdicts))], ['by hand', partOf(verdictsByHand)]],
};
say(`\n${markdownTable(table.head, table.rows)}\n`);
keep(`${tried(verdicts).length} mutants, seed ${seed}.`, [table]);

const all = tried(verdicts).length;
const least = Math.floor(all * goal - deviations * Math.sqrt(all * goal * (1 - goal)));
const hung = verdicts.filter(({ how }) => how === 'hung').length;
say(`${hung} of them hung; the compiler refused ${verdicts.length - all} more`);
const isEnough = killed(verdicts).length >= least;
if (!isEnough) say(`too few: at least ${least} of ${all} must be killed`);
const areAllByHand = killed(verdictsByHand).length === faultsByHand.length;
if (!areAllByHand) say('each of those by hand must be killed');
process.exit(isEnough && areAllByHand ? 0 : 1);
