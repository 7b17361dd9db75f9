/**
 * Kills mutants: changes src at one place after the other, each on a copy that the compiler takes,
 * and runs the tests that reach the place until one fails. What survives is printed.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { keep, markdownTable, type Table } from '../bench/report.js';
import { root } from '../support/process.js';
import { randomOf } from '../torture/random.js';
import { Checkout, removeCheckouts } from './checkout.js';
import { offsetsIn, reached } from './coverage.js';
import { makeMutants, type Mutant, placeOf, testsOf, textOf } from './mutants.js';
import { unchanged } from './unchanged.js';

const { SEED, COUNT = '400' } = process.env;
const seed = SEED === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(SEED);
const count = Number(COUNT);

/** What part of all should be killed; of few, chance takes so many standard deviations. */
const goal = 0.9;
const deviations = 4;
/** So long a mutant is tried, in milliseconds, by the files that promise most for their time. */
const patienceMs = 180_000;
/** Most files of tests wait more than they compute. */
const atOnce = 2 * availableParallelism();

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
process.once('exit', removeCheckouts);

const say = (line: string): boolean => process.stdout.write(`${line}\n`);
say(`${count} mutants, seed ${seed}: make mutants COUNT=${count} SEED=${seed} tries them again`);

/** Does a work for each item, so many at once, each by one of the workers. */
async function share<Worker, Item>(
  workers: readonly Worker[],
  items: Iterable<Item>,
  work: (worker: Worker, item: Item) => Promise<void>,
): Promise<void> {
  const left = items[Symbol.iterator]();
  await Promise.all(
    workers.map(async (worker) => {
      for (let next = left.next(); !next.done; next = left.next()) await work(worker, next.value);
    }),
  );
}

const stale = unchanged.filter(({ file, text }) => textOf(file).split(text).length !== 2);
if (stale.length > 0) throw new Error(`no text of src: ${JSON.stringify(stale)}`);

/** Whether a mutant is one of those that change nothing. */
function isUnchanged({ file, from, to, replacement }: Mutant): boolean {
  const source = textOf(file);
  const mutated = source.slice(0, from) + replacement + source.slice(to);
  return unchanged.some(
    (each) => each.file === file && source.replace(each.text, () => each.becomes) === mutated,
  );
}

const all = (await makeMutants()).filter((mutant) => !isUnchanged(mutant));
// The compiler refuses about every third of them.
const random = randomOf(seed);
const chosen = Array.from(all, (mutant) => ({ mutant, chance: random.below(2 ** 32) }))
  .sort((one, other) => one.chance - other.chance)
  .slice(0, 3 * count)
  .map(({ mutant }) => mutant);

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
const offsets = offsetsIn(clean, chosen);
const folders = new Set(chosen.flatMap(({ room }) => testsOf[room] ?? []));
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
    const startedAt = performance.now();
    const outcome = await checkout.test(join('test-dist', name), patienceMs, coverage);
    const ms = performance.now() - startedAt;
    if (outcome !== 'passed') throw new Error(`fails without a mutant: test-dist/${name}`);
    const reaches = reached(coverage, offsets);
    files.push({ name, folder: name.replace(/\/.*/, ''), ms, reaches });
  },
);
say(`${names.length} files of tests, ${Math.round(performance.now() / 1000)} s so far`);

interface Verdict {
  readonly mutant: Mutant;
  readonly how: 'refused' | 'killed' | 'hung' | 'survived';
  readonly by: string;
}

/** How often a file of tests has killed a mutant, of any file of src and of each. */
const kills = new Map<string, number>();
const killsBy = (...names: readonly string[]): number => kills.get(names.join(' ')) ?? 0;

/** What a file of tests promises for its time: the one that killed a neighbour may do it again. */
function promiseOf({ name, ms }: TestFile, { file }: Mutant): number {
  return (1 + killsBy(name) + 10 * killsBy(name, file)) / ms;
}

async function verdictOn(mutant: Mutant, checkout: Checkout): Promise<Verdict> {
  const path = `src/${mutant.file}`;
  const source = textOf(mutant.file);
  checkout.write(path, source.slice(0, mutant.from) + mutant.replacement + source.slice(mutant.to));
  try {
    const complaint = await checkout.buildSource();
    if (complaint !== '') return { mutant, how: 'refused', by: complaint };
    const inTurn = files
      .filter(
        ({ folder, reaches }) => reaches.has(mutant) && testsOf[mutant.room]?.includes(folder),
      )
      .sort((one, other) => promiseOf(other, mutant) - promiseOf(one, mutant));
    const endsAt = performance.now() + patienceMs;
    for (const [index, file] of inTurn.entries()) {
      if (performance.now() > endsAt)
        return { mutant, how: 'survived', by: `the first ${index} of ${inTurn.length} files` };
      const outcome = await checkout.test(join('test-dist', file.name), 20_000 + 5 * file.ms);
      if (outcome === 'passed') continue;
      for (const names of [[file.name], [file.name, mutant.file]])
        kills.set(names.join(' '), killsBy(...names) + 1);
      return { mutant, how: outcome === 'failed' ? 'killed' : 'hung', by: file.name };
    }
    return { mutant, how: 'survived', by: `all ${inTurn.length} files that reach it` };
  } finally {
    checkout.write(path, source);
  }
}

/** A mutant in a line. */
function told({ file, from, mutator, original, replacement }: Mutant): string {
  const { line, column } = placeOf(textOf(file), from);
  const inLine = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 200);
  return `src/${file}:${line + 1}:${column + 1} ${mutator}: ${inLine(original)} => ${inLine(replacement)}`;
}

const verdicts: Verdict[] = [];
const tried = (): readonly Verdict[] => verdicts.filter(({ how }) => how !== 'refused');
const left = chosen.values();
let given = 0;

/** As many as are missing, if the compiler takes those that are being tried. */
function* untilEnough(): Generator<Mutant> {
  while (given - (verdicts.length - tried().length) < count) {
    const next = left.next();
    if (next.done) return;
    given++;
    yield next.value;
  }
}

while (tried().length < count && given < chosen.length)
  await share(checkouts, untilEnough(), async (checkout, mutant) => {
    const verdict = await verdictOn(mutant, checkout);
    verdicts.push(verdict);
    if (verdict.how === 'survived') say(`survived ${verdict.by}: ${told(mutant)}`);
    if (verdict.how !== 'refused' && tried().length % 50 === 0)
      say(`${tried().length} of ${count}, ${Math.round(performance.now() / 1000)} s so far`);
  });

mkdirSync(join(root, 'coverage'), { recursive: true });
writeFileSync(
  join(root, 'coverage/mutants.txt'),
  verdicts.map(({ how, by, mutant }) => `${how} ${by.split('\n')[0]}: ${told(mutant)}\n`).join(''),
);

const isKilled = ({ how }: Verdict): boolean => how === 'killed' || how === 'hung';
const partOf = (some: readonly Verdict[]): string => {
  const killed = some.filter(isKilled).length;
  return `${killed} of ${some.length}, ${((100 * killed) / some.length).toFixed(1)} %`;
};
const rows = Object.keys(testsOf)
  .map((room) => ({ room, some: tried().filter(({ mutant }) => mutant.room === room) }))
  .filter(({ some }) => some.length > 0)
  .map(({ room, some }) => [room, partOf(some)]);
const table: Table = {
  key: 'mutants',
  title: 'Mutants',
  head: ['room', 'killed'],
  rows: [...rows, ['all', partOf(tried())]],
};
say(`\n${markdownTable(table.head, table.rows)}\n`);
keep(`${tried().length} mutants, seed ${seed}.`, [table]);

const killed = tried().filter(isKilled).length;
const hung = verdicts.filter(({ how }) => how === 'hung').length;
const least = count * (goal - deviations * Math.sqrt((goal * (1 - goal)) / count));
say(`${hung} of them hung; the compiler refused ${verdicts.length - tried().length} more`);
if (killed < least) say(`${killed} are too few: at least ${Math.ceil(least)} must be killed`);
process.exit(killed < least ? 1 : 0);
