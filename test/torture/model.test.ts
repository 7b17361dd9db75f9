// Plays a share of R12 for some two seconds; the torture plays a thousand stories.
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { tryStory } from './model.js';

const stories = 150;

test('R12 behaves like a plain map on each storage, in random sequences of operations', async (t) => {
  const first = randomInt(2 ** 32 - stories);
  t.diagnostic(`${stories} stories, of the seeds from ${first}`);
  for (let seed = first; seed < first + stories; seed++) await tryStory(seed);
});
