// Tests that `verify` finds each wrong petstore of the folder servers at its own number alone, and
// passes each right one.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { verifyPetstore, type Level, type Verdict } from '../../dist/conformance/index.js';
import { root } from '../support/process.js';
import { key, startPlain, type PlainPetstore } from './servers/plain-petstore.js';
import { rightPetstores } from './servers/right-petstores.js';
import { withTables } from './servers/table.js';
import { subtlePetstores } from './servers/subtle-petstores.js';
import { wrongPetstores } from './servers/wrong-petstores.js';

/** Returns the verdicts of a run. */
async function verdictsOf(url: string, level: Level, apiKey = key): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for await (const verdict of verifyPetstore({ url, key: apiKey, level })) verdicts.push(verdict);
  return verdicts;
}

const numbersOf = (verdicts: readonly Verdict[], outcome: Verdict['outcome']) =>
  verdicts.filter((each) => each.outcome === outcome).map(({ number }) => number);

test('docs/verify.md has the tables of the servers', () => {
  const document = readFileSync(join(root, 'docs/verify.md'), 'utf8');
  assert.equal(document, withTables(document), 'run test/conformance/servers/table.ts');
});

/** Adds pets of another client to a store. */
function fill({ pets }: PlainPetstore, count: number): void {
  const statuses = [undefined, 'available', 'pending', 'sold'];
  for (let added = 0; added < count; added++) {
    const status = statuses[added % 4];
    pets.push({
      id: String(pets.length + 1),
      name: `Pet "É" <${added}>`,
      categoryId: String(added % 9),
      ...(status !== undefined && { status }),
    });
  }
}

for (const { number, does, level, make } of wrongPetstores)
  test(`verify fails ${number} on a petstore with pets that ${does}`, async (t) => {
    const petstore = make();
    fill(petstore, 30);
    const verdicts = await verdictsOf(await startPlain(t, petstore), level);
    assert.deepEqual(numbersOf(verdicts, 'failed'), [number]);
  });

for (const { number, does, level, make } of [...wrongPetstores, ...subtlePetstores])
  test(`verify fails only ${number} on a petstore that ${does}`, async (t) => {
    const verdicts = await verdictsOf(await startPlain(t, make()), level);
    // A SHOULD of HTTP is a warning; Node's parser does not know every method (C18).
    const failed = verdicts.filter(
      (each) => each.outcome === 'failed' || (each.outcome === 'warned' && each.number !== 'C18'),
    );
    assert.deepEqual(
      failed.map((each) => each.number),
      [number],
      JSON.stringify(
        failed.map(({ failure }) => [failure?.sent, failure?.came, failure?.expected]),
      ),
    );
    for (const { number: other, reason } of verdicts.filter(({ outcome }) => outcome === 'untried'))
      assert.equal(reason, `depends on ${number}, which is broken`, other);
    assert.ok(!JSON.stringify(verdicts).includes(key), 'the verdicts contain the key');
  });

for (const { is, level, start, only = [] } of rightPetstores)
  test(`verify passes a petstore that ${is}`, async (t) => {
    const verdicts = await verdictsOf(await start(t), level);
    const failed = verdicts.filter(({ outcome }) => outcome === 'failed');
    assert.deepEqual(
      failed.map((each) => [each.number, each.failure]),
      [],
    );
    assert.deepEqual(numbersOf(verdicts, 'untried'), []);
    assert.deepEqual(numbersOf(verdicts, 'inapplicable'), only);
  });
