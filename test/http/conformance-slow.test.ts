/**
 * The suite that anyone can run against a petstore, `petstore/conformance`, with what waits for the
 * times of C44, on a petstore as it is where nothing is said.
 */
import { after, describe } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { key, start } from '../support/fixture.js';

const { port } = await start({ after });
describe('a petstore', () => testPetstore({ url: `http://127.0.0.1:${port}`, key, slow: true }));
