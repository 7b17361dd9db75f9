/**
 * Checks that the tests detect every fixed fault. For each it changes src in a copy, builds, and
 * runs the test file that must fail. A test file that exceeds its time proves nothing.
 */
import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { callersEnvironment } from '../support/environment.js';
import { Checkout, removeCheckouts } from './checkout.js';
import { fixedFaults, type FixedFault } from './fixed.js';
import { mutantOf, mutatedText } from './mutants.js';

/** The longest time in ms of a test file. */
const limitMs = 120_000;
/** The number of test files that run at once. Most of them wait more than they compute. */
const atOnce = 2 * availableParallelism();

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => process.exit(130));
process.once('exit', removeCheckouts);

const print = (line: string): boolean => process.stdout.write(`${line}\n`);
const { ONLY = '' } = callersEnvironment;
const faults = fixedFaults.filter(({ file, rule }) => file.includes(ONLY) || rule === ONLY);
assert.ok(faults.length > 0, `ONLY=${ONLY} is neither a rule nor a part of a path below src`);

const clean = Checkout.ofHere();
await clean.buildAll();
const checkouts = Array.from({ length: atOnce }, () => clean.copy());

/** Returns the outcome of the test file on a fault: `killed`, or why that is not proved. */
async function outcomeOf(fault: FixedFault, checkout: Checkout): Promise<string> {
  const path = `src/${fault.file}`;
  const source = checkout.read(path);
  checkout.write(path, mutatedText(mutantOf(fault)));
  try {
    const messages = await checkout.buildSource();
    if (messages !== '') return `does not compile: ${messages.split('\n')[0]}`;
    const file = join('test-dist', `${fault.test}.test.js`);
    const outcome = await checkout.test(file, limitMs, { only: fault.rule ?? '' });
    return { failed: 'killed', passed: 'survived', late: 'only exceeded its time' }[outcome];
  } finally {
    checkout.write(path, source);
  }
}

const left = faults.values();
let killedCount = 0;
await Promise.all(
  checkouts.map(async (checkout) => {
    for (let next = left.next(); !next.done; next = left.next()) {
      const { rule = 'no number', harm, file, test } = next.value;
      const outcome = await outcomeOf(next.value, checkout);
      if (outcome === 'killed') killedCount++;
      else print(`${outcome}: ${rule}: ${harm} (src/${file}, test/${test}.test.ts)`);
    }
  }),
);

const seconds = Math.round(performance.now() / 1000);
print(`${killedCount} of ${faults.length} fixed faults killed, in ${seconds} s`);
process.exit(killedCount === faults.length ? 0 : 1);
