/**
 * Checks that tests detect faults. It changes src at one place at a time, in a copy, and if the
 * result compiles, runs the tests that reach the place until one fails. It prints the mutants that
 * survive.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { keep, markdownTable, minutesSoFar, type Table } from '../bench/report.js';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { randomOf } from '../torture/random.js';
import { Checkout, removeCheckouts } from './checkout.js';
import { offsetsIn, reached } from './coverage.js';
import { lineOf, makeMutants, mustKill, mutatedText, testsOf, type Mutant } from './mutants.js';
import { harmfulOf } from './unchanged.js';

const { SEED = Math.floor(Math.random() * 2 ** 32), COUNT = '400', FOLDERS } = callersEnvironment;
const [seed, count] = [Number(SEED), Number(COUNT)];
const parts = FOLDERS?.split(' ') ?? Object.keys(testsOf);
assert.ok(Number.isSafeInteger(count) && count > 0, 'COUNT must be a whole number above 0');
assert.ok(Number.isSafeInteger(seed), 'SEED must be a whole number');
for (const part of parts)
  assert.ok(part in testsOf, `FOLDERS may name ${Object.keys(testsOf).join(', ')}`);

/** The share of mutants that must be killed, less this many standard deviations for chance. */
const goal = 0.9;
const deviations = 4;
/** A run of fewer mutants only reports those that survive. */
const smallestCounted = 100;
/** The time in ms for which test files are run on a mutant. */
const patienceMs = 60_000;
/** The longest time in ms of a test file without a mutant, while many run at once. */
const firstMs = 300_000;
/** The number of test files that run at once. Most of them wait more than they compute. */
const atOnce = 2 * availableParallelism();

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => process.exit(130));
process.once('exit', removeCheckouts);

const print = (line: string): boolean => process.stdout.write(`${line}\n`);
const printTime = (what: string): boolean =>
  print(`${what}, ${Math.round(performance.now() / 1000)} s so far`);
print(
  `${count} mutants, seed ${seed}: make mutants COUNT=${count} SEED=${seed} repeats the choice`,
);

/** Runs `work` for each item. Each worker takes the next item as soon as it is free. */
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

/** Returns the first items of all lists, then the second ones, and so on. */
function inTurns<Item>(lists: readonly (readonly Item[])[]): readonly Item[] {
  const longest = Math.max(...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, index) =>
    lists.flatMap((list) => list.slice(index, index + 1)),
  ).flat();
}

const harmful = harmfulOf(await makeMutants());
const shuffled = randomOf(seed).shuffled(harmful);
const byFolder = parts.map((part) => shuffled.filter(({ folder }) => folder === part));
/** The mutants to try, from each folder of src in turn. About a third of them do not compile. */
const chosen = inTurns(byFolder).slice(0, 3 * count);

const clean = Checkout.ofHere();
await clean.buildAll();
const checkouts = Array.from({ length: atOnce }, () => clean.copy());

/** A test file, its duration, and the mutants that it reaches. */
interface TestFile {
  readonly name: string;
  readonly ms: number;
  readonly reaches: ReadonlySet<Mutant>;
}

// Slow test files turn coverage off elsewhere; here it is needed.
clean.write('test-dist/support/unmeasured.js', '');
const offsets = offsetsIn(clean, chosen);
const names = readdirSync(join(clean.folder, 'test-dist'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.js') && parts.some((part) => mustKill(part, name)))
  .sort();
const files: TestFile[] = [];
await share(
  Array.from({ length: 2 * atOnce }, () => clean),
  names,
  async (checkout, name) => {
    const coverage = join(checkout.folder, 'coverage', name);
    mkdirSync(coverage, { recursive: true });
    const test = () => checkout.test(join('test-dist', name), firstMs, { coverage });
    // A test may fail once by chance. `make test` reports that; here it would only end the run.
    const startedAt = performance.now();
    let outcome = await test();
    const ms = performance.now() - startedAt;
    if (outcome !== 'passed') {
      print(`${name} failed without a mutant, and runs again`);
      outcome = await test();
    }
    assert.equal(outcome, 'passed', `test-dist/${name} fails without a mutant`);
    const reaches = reached(coverage, offsets);
    files.push({ name, ms, reaches });
  },
);
printTime(`${names.length} test files`);

interface Verdict {
  readonly mutant: Mutant;
  /** `refused` if it does not compile, `hung` if a test file did not end in time. */
  readonly how: 'refused' | 'killed' | 'hung' | 'survived';
  /** The test file that killed it, or the reason. */
  readonly by: string;
}

/** The number of mutants that a test file has killed: of all files of src, and of each file. */
const kills = new Map<string, number>();
const killsBy = (...names: readonly string[]): number => kills.get(names.join(' ')) ?? 0;

/**
 * Returns the priority of a test file. One that killed a mutant of the same file may do so again.
 */
function priorityOf({ name, ms }: TestFile, { file }: Mutant): number {
  return (1 + killsBy(name) + 10 * killsBy(name, file)) / ms;
}

async function verdictOn(mutant: Mutant, checkout: Checkout): Promise<Verdict> {
  const path = `src/${mutant.file}`;
  const source = checkout.read(path);
  checkout.write(path, mutatedText(mutant));
  try {
    const messages = await checkout.buildSource();
    if (messages !== '') return { mutant, how: 'refused', by: messages };

    const ordered = files
      .filter(({ name, reaches }) => reaches.has(mutant) && mustKill(mutant.folder, name))
      .sort((one, other) => priorityOf(other, mutant) - priorityOf(one, mutant));
    const endsAt = performance.now() + patienceMs;
    for (const [index, { name, ms }] of ordered.entries()) {
      if (performance.now() > endsAt)
        return { mutant, how: 'survived', by: `the first ${index} of ${ordered.length} files` };

      const outcome = await checkout.test(join('test-dist', name), 20_000 + 5 * ms);
      if (outcome === 'passed') continue;
      for (const by of [[name], [name, mutant.file]]) kills.set(by.join(' '), killsBy(...by) + 1);
      return { mutant, how: outcome === 'failed' ? 'killed' : 'hung', by: name };
    }
    return { mutant, how: 'survived', by: `all ${ordered.length} files that reach it` };
  } finally {
    checkout.write(path, source);
  }
}

/** Tries mutants, adds the verdicts to `verdicts`, and prints the mutants that survive. */
const tryAll = (mutants: Iterable<Mutant>, verdicts: Verdict[]): Promise<void> =>
  share(checkouts, mutants, async (checkout, mutant) => {
    const verdict = await verdictOn(mutant, checkout);
    verdicts.push(verdict);
    if (verdict.how === 'survived') print(`survived ${verdict.by}: ${lineOf(mutant)}`);
    if (verdict.how !== 'refused' && tried(verdicts).length % 50 === 0)
      printTime(`${tried(verdicts).length} of ${count}`);
  });
const tried = (verdicts: readonly Verdict[]): readonly Verdict[] =>
  verdicts.filter(({ how }) => how !== 'refused');
const killed = (verdicts: readonly Verdict[]): readonly Verdict[] =>
  verdicts.filter(({ how }) => how === 'killed' || how === 'hung');

// Checks that a harmless change passes. Otherwise the build would kill every mutant.
const [first = assert.fail('no copy')] = checkouts;
first.write('src/index.ts', `${first.read('src/index.ts')}// Nothing.\n`);
assert.equal(await first.buildSource(), '');
assert.equal(await first.test('test-dist/storage/memory.test.js', patienceMs), 'passed');

const verdicts: Verdict[] = [];
const left = chosen.values();
let begun = 0;

/** Yields mutants until `count` are tried, if all that are in progress compile. */
function* untilEnough(): Generator<Mutant> {
  const refused = (): number => verdicts.filter(({ how }) => how === 'refused').length;
  while (begun - refused() < count) {
    const next = left.next();
    if (next.done) return;
    begun++;
    yield next.value;
  }
}

while (tried(verdicts).length < count && begun < chosen.length)
  await tryAll(untilEnough(), verdicts);

mkdirSync(join(root, 'coverage'), { recursive: true });
writeFileSync(
  join(root, 'coverage/mutants.txt'),
  verdicts
    .map(({ how, by, mutant }) => `${how} ${by.split('\n')[0]}: ${lineOf(mutant)}\n`)
    .join(''),
);

const partOf = (some: readonly Verdict[]): string =>
  `${killed(some).length} of ${some.length}, ${((100 * killed(some).length) / some.length).toFixed(1)} %`;
const rows = parts
  .map((folder) => ({
    folder,
    some: tried(verdicts).filter(({ mutant }) => mutant.folder === folder),
  }))
  .filter(({ some }) => some.length > 0)
  .map(({ folder, some }) => [folder, partOf(some)]);
const table: Table = {
  key: 'mutants',
  title: 'Mutants',
  head: ['folder', 'killed'],
  rows: [...rows, ['all', partOf(tried(verdicts))]],
};
print(`\n${markdownTable(table.head, table.rows)}\n`);
keep(`${tried(verdicts).length} mutants, seed ${seed}, ${minutesSoFar()}.`, [table]);

const all = tried(verdicts).length;
const least = Math.floor(all * goal - deviations * Math.sqrt(all * goal * (1 - goal)));
const hung = verdicts.filter(({ how }) => how === 'hung').length;
print(`${hung} of them hung; ${verdicts.length - all} others did not compile`);
const isEnough = all < smallestCounted || killed(verdicts).length >= least;
if (!isEnough) print(`too few were killed: at least ${least} of ${all} must be`);
process.exit(isEnough ? 0 : 1);
