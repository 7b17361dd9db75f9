/**
 * Runs the public suite `petstore/conformance` on this petstore: before and after the sunset (C35),
 * with a base URL, and on a store that already has pets.
 */
import { after, before, describe } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { fileStorage } from '../../dist/index.js';
import { key, start } from '../support/fixture.js';
import { newPath } from '../storage/scene.js';

const gone = Date.UTC(2030, 11, 6);
let now = gone - 1;

const baseUrl = 'https://a.example/$&shop/v1/';
const other = await start(
  { after },
  {
    clock: () => now,
    baseUrl,
    storage: await fileStorage(newPath()),
  },
);
const last = { url: `http://127.0.0.1:${other.port}`, key };

describe('a petstore on a file with a base URL, in the last millisecond of GET /pets/{petId}', () =>
  testPetstore(last));

describe('the same petstore after the end of GET /pets/{petId}', () => {
  before(() => {
    now = gone;
  });
  testPetstore(last);
});
