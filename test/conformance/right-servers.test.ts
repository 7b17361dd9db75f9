// Tests that `verify` passes each petstore that is right in an unusual way.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { verifyPetstore } from '../../dist/conformance/index.js';
import { key, PlainPetstore, sleep, startPlain } from './servers/plain-petstore.js';
import { rightPetstores } from './servers/right-petstores.js';
import { numbersOf, verdictsOf } from './verdicts.js';

for (const { is, level, start, only = [] } of rightPetstores)
  test(`verify passes a petstore that ${is}`, async (t) => {
    const verdicts = await verdictsOf(await start(t), { level });
    const broken = verdicts.filter(({ outcome }) => outcome === 'failed' || outcome === 'warned');
    assert.deepEqual(
      broken.map((each) => [each.number, each.failure]),
      [],
    );
    assert.deepEqual(numbersOf(verdicts, 'untried'), []);
    assert.deepEqual(numbersOf(verdicts, 'inapplicable'), only);
  });

/** Returns the notes of a run of one rule on a petstore whose responses take `ms`. */
async function notesOf(t: TestContext, ms: number): Promise<readonly string[]> {
  const petstore = new PlainPetstore();
  petstore.handle = async (request) => {
    await sleep(ms);
    return PlainPetstore.prototype.handle.call(petstore, request);
  };
  const notes: string[] = [];
  const onNote = (note: string) => void notes.push(note);
  const url = await startPlain(t, petstore);
  for await (const { outcome } of verifyPetstore({ url, key, only: ['C14'], stories: 0, onNote }))
    assert.equal(outcome, 'passed');
  return notes;
}

test('verify first says how long a run on a slow server may take', async (t) => {
  const [slow, ...others] = await notesOf(t, 510);
  assert.match(
    slow ?? '',
    /^a response takes about \d+\.\d s, so the run may take (a minute|\d+ minutes); --only S1,S2 .*--stories 0/,
  );
  assert.deepEqual(others, []);
});
