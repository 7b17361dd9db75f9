/**
 * Measures all figures of the documents on each version of Node, and writes them into the
 * documents. SHORT makes a quick trial, and writes into a copy. The argument `check` only fails if
 * the figures are outdated.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { chartOf } from './chart.js';
import { commitLine, figuresOf, gitIn, staleness, tableOf, withFigures } from './documents.js';
import { section, wrapped, type Results } from './report.js';

const majors = ['20', '24'];
const targets = ['bench', 'torture'];
/** The targets for the first version of Node. Two of them have the same result on each version. */
const targetsOfFirst = [...targets, 'bench-right', 'mutants'];
const kept = join(root, 'coverage/evidence');
const isShort = callersEnvironment['SHORT'] !== undefined;
// Read once at the start, because HEAD may move while the benchmark runs.
const commit = gitIn(root, 'rev-parse', 'HEAD');

if (process.argv[2] === 'check') check();
else write(measure());

function check(): void {
  const why = staleness(readFileSync(join(root, 'docs/evidence.md'), 'utf8'), root);
  if (why === undefined) return;
  process.stderr.write(
    `The figures of docs/evidence.md are outdated: ${why}. Run \`make evidence\`.\n`,
  );
  process.exitCode = 1;
}

/**
 * Runs each target on each version of Node, and returns the results by version. Results of this
 * commit that exist are not measured again.
 */
function measure(): readonly (readonly Results[])[] {
  const changes = gitIn(root, 'status', '--porcelain', '--', 'src', 'test');
  if (changes !== '' && !isShort)
    throw new Error(`cannot measure uncommitted changes; commit them first:\n${changes}`);
  return majors.map((major) => {
    const folder = join(kept, isShort ? 'short' : commit, major);
    mkdirSync(folder, { recursive: true });
    return (major === majors[0] ? targetsOfFirst : targets).map((target) => {
      const path = join(folder, `${target}.json`);
      if (isShort || !existsSync(path)) {
        const command = `node --version | grep '^v${major}\\.' && make ${target}`;
        const args = ['--yes', `--package=node@${major}`, '--', 'sh', '-c', command];
        const little = isShort && { BUDGET_S: '150', COUNT: '30' };
        const env = { ...little, ...callersEnvironment, FIGURES: path };
        const { status } = spawnSync('npx', args, { cwd: root, env, stdio: 'inherit' });
        if (status !== 0) throw new Error(`\`make ${target}\` failed on Node ${major}`);
      }
      return JSON.parse(readFileSync(path, 'utf8'));
    });
  });
}

/** Writes the documents, a report for each version of Node, and the chart. */
function write(measured: ReturnType<typeof measure>): void {
  const docs = join(isShort ? join(kept, 'short') : root, 'docs');
  if (isShort) cpSync(join(root, 'docs'), docs, { recursive: true });
  const all = measured.flat();
  const date = new Date().toISOString().slice(0, 10);
  const run = [
    commitLine(commit, date),
    '',
    ...all.map(({ node, conditions }) => wrapped(`- Node ${node}. ${conditions}`, '  ')),
  ];
  const figures = figuresOf(all).set('run', run.join('\n'));
  for (const name of readdirSync(docs).filter((each) => each.endsWith('.md'))) {
    const path = join(docs, name);
    writeFileSync(path, withFigures(readFileSync(path, 'utf8'), figures));
  }
  for (const [index, results] of measured.entries()) {
    const major = majors[index];
    const blocks = [
      `# All figures on Node ${major}`,
      run[0],
      ...results.flatMap(({ conditions, tables }) => [wrapped(conditions), ...tables.map(section)]),
    ];
    writeFileSync(join(docs, `figures/node-${major}.md`), `${blocks.join('\n\n')}\n`);
  }
  writeFileSync(join(docs, 'figures/speed.svg'), chartOf(tableOf(all, 'speed')));
  process.stdout.write(`\nWritten into ${docs}.\n`);
}
