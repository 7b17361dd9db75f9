/**
 * The suite that anyone can run against a petstore, `petstore/conformance`, against our own: on each
 * storage, twice in a row on one store, at both sides of the sunset and with a base URL.
 */
import { after, describe } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { fileStorage, type PetstoreOptions } from '../../dist/index.js';
import { key, start } from '../support/fixture.js';
import { newPath } from '../storage/scene.js';

const gone = Date.UTC(2030, 11, 6);

const servers: Readonly<Record<string, Partial<PetstoreOptions>>> = {
  'a petstore': {},
  'a petstore on a file': { storage: await fileStorage(newPath()) },
  'a petstore in the last millisecond of GET /pets/{petId}': { clock: () => gone - 1 },
  'a petstore without GET /pets/{petId}': { clock: () => gone },
  'a petstore with a base URL': { baseUrl: 'https://a.example/$&shop/v1/' },
};

for (const [name, options] of Object.entries(servers)) {
  const { port } = await start({ after }, options);
  const url = `http://127.0.0.1:${port}`;

  describe(name, () => {
    testPetstore({ url, key });
    if (name === 'a petstore' || name === 'a petstore on a file')
      describe('once more on its store', () => testPetstore({ url, key }));
  });
}
