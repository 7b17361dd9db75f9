// Runs 150 sequences of R12 in two seconds. The torture runs a thousand.
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { trySequence } from './model.js';

const sequences = 150;

test('R12 behaves like a plain map on each storage, in random sequences of operations', async (t) => {
  const first = randomInt(2 ** 32 - sequences);
  t.diagnostic(`${sequences} sequences, with the seeds from ${first} on`);
  for (let seed = first; seed < first + sequences; seed++) await trySequence(seed);
});
