/**
 * Runs the rows of the torture that its arguments name, by default all. Each gets a share of
 * BUDGET_S seconds.
 */
import { callersEnvironment } from '../support/environment.js';
import { keep, markdownTable, minutesSoFar, type Table } from '../bench/report.js';
import { changedNodes } from './changed-nodes.js';
import { damagedFiles } from './damage.js';
import { failingCalls } from './failing-calls.js';
import { realFaults } from './faults.js';
import { flooding } from './floods.js';
import { inputs } from './inputs.js';
import { keys } from './keys.js';
import { kill } from './kill.js';
import { lock } from './lock.js';
import { model } from './model.js';
import { overload } from './overload.js';
import { power } from './power.js';
import { Share, Skip, type TortureRow } from './row.js';
import { slow } from './slow.js';
import { stop } from './stop.js';
import { syncOrder } from './sync-order.js';

const rows: readonly TortureRow[] = [
  kill,
  power,
  syncOrder,
  failingCalls,
  damagedFiles,
  realFaults,
  lock,
  inputs,
  slow,
  overload,
  stop,
  model,
  keys,
  flooding,
  changedNodes,
];

const { BUDGET_S, TORTURE_SEED, TORTURE_NO_SKIP } = callersEnvironment;
const wanted = process.argv.slice(2);
const unknown = wanted.filter((id) => !rows.some((row) => row.id === id));
if (unknown.length > 0)
  throw new RangeError(
    `unknown row ${unknown.join(', ')}; the rows are ${rows.map((row) => row.id).join(', ')}`,
  );

const seed = Number(TORTURE_SEED ?? Math.floor(Math.random() * 2 ** 32));
const endsAt = performance.now() + 1000 * Number(BUDGET_S ?? Infinity);
let share = new Share(0, seed);
let isLeaving = false;

/** Ends the run without leaving a process, a mount or a folder. */
async function leave(code: number): Promise<void> {
  isLeaving = true;
  await share.end();
  process.exit(code);
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void leave(130));
process.once('uncaughtException', (error) => {
  process.stderr.write(`${error.stack}\n`);
  void leave(1);
});

process.stdout.write(`seed ${seed} (TORTURE_SEED=${seed} repeats it)\n`);
const figures = new Map<TortureRow, string>();
const bad: TortureRow[] = [];
const chosen = rows
  .filter(({ id }) => wanted.length === 0 || wanted.includes(id))
  .sort((one, other) => Number(other.isAlwaysFull ?? 0) - Number(one.isAlwaysFull ?? 0));
for (const [index, row] of chosen.entries()) {
  // A share of the time that is left, so that later rows get the time that this row does not use.
  const part = row.fullS / chosen.slice(index).reduce((sum, { fullS }) => sum + fullS, 0);
  const rowStartedAt = performance.now();
  share = new Share((part * Math.max(0, endsAt - rowStartedAt)) / 1000, seed);
  let [word, figure] = ['ok', ''];
  try {
    figure = await row.run(share);
  } catch (error) {
    word = error instanceof Skip ? 'skipped' : 'FAILED';
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    figure = (word === 'FAILED' ? stack : undefined) ?? message;
    if (word === 'FAILED' || TORTURE_NO_SKIP === '1') bad.push(row);
  }
  // Drops the result of an interrupted row.
  if (isLeaving) await new Promise(() => undefined);
  // A failed cleanup must not stop the next row.
  await share.end().catch((error) => process.stderr.write(`cleaning up: ${error}\n`));
  const tookS = ((performance.now() - rowStartedAt) / 1000).toFixed(0);
  process.stdout.write(`${row.id} ${word}, ${tookS} s: ${figure}\n`);
  figures.set(row, `${word === 'ok' ? '' : `${word}: `}${figure.split('\n')[0]}`);
}

const table: Table = {
  key: 'torture',
  title: 'Torture',
  head: ['row', 'test', 'result'],
  rows: rows.flatMap((row) => {
    const figure = figures.get(row);
    return figure === undefined ? [] : [[row.id, row.title, figure]];
  }),
};
process.stdout.write(`\n${markdownTable(table.head, table.rows)}\n`);
keep(`Torture of ${minutesSoFar()}, seed ${seed}.`, [table]);
process.exit(bad.length === 0 ? 0 : 1);
