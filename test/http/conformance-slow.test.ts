/**
 * Runs the public suite `petstore/conformance` on a petstore with default options, with the slow
 * tests of C44.
 */
import { after, describe } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { key, start } from '../support/fixture.js';

const { port } = await start({ after });
describe('a petstore with default options', () =>
  testPetstore({ url: `http://127.0.0.1:${port}`, key, slow: true }));
