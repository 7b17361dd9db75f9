/**
 * Runs the rows of the torture that its arguments name, all without any, each within its share of
 * BUDGET_S seconds.
 */
import type { Table } from '../bench/part.js';
import { keep, markdownTable } from '../bench/report.js';
import { damage } from './damage.js';
import { failingCalls } from './failing-calls.js';
import { faults } from './faults.js';
import { flooding } from './floods.js';
import { inputs } from './inputs.js';
import { keys } from './keys.js';
import { kill } from './kill.js';
import { lock } from './lock.js';
import { model } from './model.js';
import { overload } from './overload.js';
import { power } from './power.js';
import { Share, Skip, type Row } from './row.js';
import { slow } from './slow.js';
import { stop } from './stop.js';
import { syncOrder } from './sync-order.js';

const rows: readonly Row[] = [
  kill,
  power,
  syncOrder,
  failingCalls,
  damage,
  faults,
  lock,
  inputs,
  slow,
  overload,
  stop,
  model,
  keys,
  flooding,
];

const { BUDGET_S, TORTURE_SEED, TORTURE_NO_SKIP } = process.env;
const wanted = process.argv.slice(2);
const unknown = wanted.filter((id) => !rows.some((row) => row.id === id));
if (unknown.length > 0)
  throw new RangeError(
    `no row ${unknown.join(', ')}; there are ${rows.map((row) => row.id).join(', ')}`,
  );
const chosen = wanted.length === 0 ? rows : rows.filter((row) => wanted.includes(row.id));

const seed =
  TORTURE_SEED === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(TORTURE_SEED);
const startedAt = performance.now();
const endsAt = startedAt + 1000 * Number(BUDGET_S ?? Infinity);
let running: Share | undefined;

let isLeaving = false;

/** Nothing may outlive us: no process, no mount, no folder. */
async function leave(code: number): Promise<void> {
  isLeaving = true;
  await running?.end();
  process.exit(code);
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void leave(130));
process.once('uncaughtException', (error) => {
  process.stderr.write(`${error.stack}\n`);
  void leave(1);
});

interface Outcome {
  readonly row: Row;
  readonly word: 'ok' | 'skipped' | 'FAILED';
  readonly figure: string;
}

/**
 * A row's share is its part of the time that is left, so that what one leaves over goes to those
 * behind it.
 */
async function outcomeOf(row: Row, weightLeft: number): Promise<Outcome> {
  const left = Math.max(0, endsAt - performance.now()) / 1000;
  const share = new Share(left === Infinity ? left : (left * row.fullS) / weightLeft, seed);
  running = share;
  try {
    return { row, word: 'ok', figure: await row.run(share) };
  } catch (error) {
    if (error instanceof Skip) return { row, word: 'skipped', figure: error.message };
    return {
      row,
      word: 'FAILED',
      figure: error instanceof Error ? (error.stack ?? error.message) : String(error),
    };
  } finally {
    // What an interruption makes of the row is no figure.
    if (isLeaving) await new Promise(() => undefined);
    await share.end();
  }
}

process.stdout.write(`seed ${seed} (TORTURE_SEED=${seed} repeats it)\n`);
const outcomes: Outcome[] = [];
const inTurn = chosen.toSorted(
  (one, other) => Number(other.isAlwaysFull ?? false) - Number(one.isAlwaysFull ?? false),
);
for (const [index, row] of inTurn.entries()) {
  const rowStartedAt = performance.now();
  const outcome = await outcomeOf(
    row,
    inTurn.slice(index).reduce((sum, { fullS }) => sum + fullS, 0),
  );
  outcomes.push(outcome);
  const seconds = ((performance.now() - rowStartedAt) / 1000).toFixed(0);
  process.stdout.write(`${row.id} ${outcome.word}, ${seconds} s: ${outcome.figure}\n`);
}

outcomes.sort((one, other) => rows.indexOf(one.row) - rows.indexOf(other.row));
const table: Table = {
  key: 'torture',
  title: 'Torture',
  head: ['row', 'what was tried', 'figure'],
  rows: outcomes.map(({ row, word, figure }) => [
    row.id,
    row.title,
    `${word === 'ok' ? '' : `${word}: `}${figure.split('\n')[0]}`,
  ]),
};
process.stdout.write(`\n${markdownTable(table.head, table.rows)}\n`);
const minutes = (performance.now() - startedAt) / 60_000;
keep(`torture of ${minutes.toFixed(1)} minutes, seed ${seed}.`, [table]);
const isGood = outcomes.every(
  ({ word }) => word === 'ok' || (word === 'skipped' && TORTURE_NO_SKIP !== '1'),
);
process.exit(isGood ? 0 : 1);
