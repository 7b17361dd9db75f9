/**
 * Measures the figures of the documents, part by part, on each version of Node. After each part it
 * writes the documents, so that a run that ends early keeps what it measured. PARTS chooses parts;
 * by default those are measured whose figures are older than src. SHORT makes a quick trial of all
 * parts, and writes into a copy. The argument `check` only fails if a part is outdated.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testsOf } from '../mutants/mutants.js';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { chartOf } from './chart.js';
import { figuresOf, gitIn, staleness, tableOf, withFigures, type Measured } from './documents.js';
import { defaultParts } from './parts.js';
import { section, wrapped } from './report.js';

const [firstMajor, ...laterMajors] = ['20', '24'] as const;
/** The commands of the parts that are measured on each version of Node. */
const commands = new Map([
  ...Object.keys(defaultParts).map((name) => [name, `make bench PARTS=${name}`] as const),
  ['torture', 'make torture'],
]);
/** The commands of the parts that are measured on the first version alone. */
const commandsOfFirst = new Map([
  ['lines', 'make bench PARTS=lines'],
  ['right', 'make bench-right'],
  ['mutants', 'make mutants'],
]);

/** The folders of src whose mutants a short trial makes: all but `conformance`, whose tests are slow. */
const quickFolders = Object.keys(testsOf)
  .filter((name) => name !== 'conformance')
  .join(' ');

/** A part on one version of Node. */
interface Task {
  /** Its name, such as `speed-20`. */
  readonly part: string;
  readonly major: string;
  readonly command: string;
}

const tasksOn = (major: string, chosen: ReadonlyMap<string, string>): readonly Task[] =>
  Array.from(chosen, ([name, command]) => ({ part: `${name}-${major}`, major, command }));
const tasks = [
  ...tasksOn(firstMajor, new Map([...commands, ...commandsOfFirst])),
  ...laterMajors.flatMap((major) => tasksOn(major, commands)),
];

const { SHORT, PARTS } = callersEnvironment;
const isShort = SHORT !== undefined;
const docs = isShort ? join(root, 'coverage/evidence/docs') : join(root, 'docs');
const resultsFolder = join(docs, 'figures/results');

if (process.argv[2] === 'check') check();
else measure();

/** Returns the stored results of a part; undefined if it has not been measured. */
function resultsOf({ part }: Task): Measured | undefined {
  const path = join(resultsFolder, `${part}.json`);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** Returns why a part must be measured again; undefined if its figures belong to src. */
function whyOutdated(task: Task): string | undefined {
  return staleness(resultsOf(task)?.commit, root);
}

function check(): void {
  for (const task of tasks) {
    const why = whyOutdated(task);
    if (why === undefined) continue;
    process.stderr.write(
      `${task.part} is outdated: ${why}. Run \`make evidence PARTS=${task.part}\`.\n`,
    );
    process.exitCode = 1;
  }
}

/** Returns the tasks to be done. @throws RangeError if PARTS names an unknown part */
function chosenTasks(): readonly Task[] {
  if (PARTS === undefined) return isShort ? tasks : tasks.filter(whyOutdated);
  return PARTS.split(' ').map((part) => {
    const known = tasks.map((task) => task.part).join(', ');
    const task = tasks.find((each) => each.part === part);
    if (task === undefined) throw new RangeError(`unknown part ${part}; the parts are ${known}`);
    return task;
  });
}

function measure(): void {
  const changes = gitIn(root, 'status', '--porcelain', '--', 'src', 'test');
  if (changes !== '' && !isShort)
    throw new Error(`cannot measure uncommitted changes; commit them first:\n${changes}`);
  if (isShort) cpSync(join(root, 'docs'), docs, { recursive: true });
  mkdirSync(resultsFolder, { recursive: true });

  for (const { part, major, command } of chosenTasks()) {
    // Read before the measurement, because HEAD may move meanwhile.
    const commit = gitIn(root, 'rev-parse', 'HEAD');
    const path = join(resultsFolder, `${part}.json`);
    const script = `node --version | grep '^v${major}\\.' && ${command}`;
    const args = ['--yes', `--package=node@${major}`, '--', 'sh', '-c', script];
    const little = isShort && { BUDGET_S: '150', COUNT: '30', FOLDERS: quickFolders };
    const env = { ...little, ...callersEnvironment, PARTS: '', FIGURES: path };
    const { status } = spawnSync('npx', args, { cwd: root, env, stdio: 'inherit' });
    if (status !== 0) throw new Error(`\`${command}\` failed on Node ${major}`);

    const date = new Date().toISOString().slice(0, 10);
    const results = { part, commit, date, ...JSON.parse(readFileSync(path, 'utf8')) };
    writeFileSync(path, `${JSON.stringify(results, undefined, 1)}\n`);
    write();
  }
}

/** Writes all stored results into the documents, a report for each version, and the chart. */
function write(): void {
  const all = tasks.flatMap((task) => resultsOf(task) ?? []);
  const lineOf = ({ part, commit, date, node, conditions }: Measured): string =>
    wrapped(`- ${part}: commit ${commit.slice(0, 10)}, ${date}, Node ${node}. ${conditions}`, '  ');
  const figures = figuresOf(all).set('run', all.map(lineOf).join('\n'));
  for (const name of readdirSync(docs).filter((each) => each.endsWith('.md'))) {
    const path = join(docs, name);
    writeFileSync(path, withFigures(readFileSync(path, 'utf8'), figures));
  }
  for (const major of [firstMajor, ...laterMajors]) {
    const ofMajor = all.filter(({ part }) => part.endsWith(`-${major}`));
    if (ofMajor.length === 0) continue;
    const blocks = [
      `# All figures on Node ${major}`,
      ...ofMajor.flatMap((results) => [lineOf(results), ...results.tables.map(section)]),
    ];
    writeFileSync(join(docs, `figures/node-${major}.md`), `${blocks.join('\n\n')}\n`);
  }
  const speed = tableOf(all, 'speed');
  if (speed !== undefined) writeFileSync(join(docs, 'figures/speed.svg'), chartOf(speed));
  process.stdout.write(`\nWritten into ${docs}.\n`);
}
