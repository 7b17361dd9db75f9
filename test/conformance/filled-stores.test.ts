// Tests that `verify` finds each wrong petstore also if it has pets of other clients.
import { test } from 'node:test';
import { startPlain, type PlainPetstore } from './servers/plain-petstore.js';
import { wrongPetstores } from './servers/wrong-petstores.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

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
    assertBreaksOnly(await verdictsOf(await startPlain(t, petstore), { level }), number);
  });
