// The storage on PGlite, as docs/postgres.md describes it.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { testStorage } from '../../dist/conformance/index.js';
import type { PetStorage } from '../../dist/index.js';
import { addOnce } from '../storage/once.js';
import { rex } from '../storage/pets.js';
import { notesIn } from '../storage/records.js';
import { atEnd } from '../support/at-end.js';
import { folder as newFolder, root } from '../support/process.js';

/** A package that depends on petstore, pg and PGlite, with the code of the document. */
const here = newFolder({ after });
const code = /^```mjs\n(\/\/ pglite-storage\.js\n.*?)^```/ms.exec(
  readFileSync(join(root, 'docs/postgres.md'), 'utf8'),
)?.[1];
mkdirSync(join(here, 'node_modules'));
for (const [name, target] of [
  ['petstore', '.'],
  ['pg', 'node_modules/pg'],
  ['@electric-sql', 'test/ecosystem/node_modules/@electric-sql'],
] as const)
  symlinkSync(join(root, target), join(here, 'node_modules', name));
writeFileSync(join(here, 'package.json'), '{ "type": "module" }');
writeFileSync(join(here, 'pglite-storage.js'), code ?? assert.fail('no code'));

const { pgliteStorage }: { pgliteStorage(folder?: string): Promise<PetStorage> } = await import(
  pathToFileURL(join(here, 'pglite-storage.js')).href
);

async function open(t: TestContext, folder?: string): Promise<PetStorage> {
  const storage = await pgliteStorage(folder);
  atEnd(t, () => storage.close());
  return storage;
}

describe('a storage on PGlite in memory', () => {
  testStorage({ open: () => pgliteStorage() });
});

test('a storage on PGlite keeps pets in a folder', async (t) => {
  const folder = join(here, 'data');
  const first = await pgliteStorage(folder);
  assert.equal((await first.insert(rex)).id, 1n);
  await first.close();

  const second = await open(t, folder);
  assert.deepEqual(await second.get(1n), { id: 1n, ...rex });
  assert.equal(await addOnce(second, 'a'), 2n);
  assert.equal(await addOnce(second, 'a'), 2n);
  const notes = notesIn(second);
  assert.equal((await notes.insert('a')).id, 1n);
});

test('a storage on PGlite goes on after its connection was idle and closed', async (t) => {
  const storage = await open(t);
  await storage.insert(rex);
  // The pool closes a connection that was idle for 10 s.
  await new Promise((resolve) => setTimeout(resolve, 11_000));
  assert.equal((await storage.insert(rex)).id, 2n);
  await storage.ready?.();
});
