/**
 * The suite that anyone can run against a petstore, `petstore/conformance`, against our own: at both
 * sides of the sunset, with a base URL, and on a store that others have filled.
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

describe('behind the end of GET /pets/{petId}, once more on its store', () => {
  before(() => {
    now = gone;
  });
  testPetstore(last);
});
