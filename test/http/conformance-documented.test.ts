/** Runs the public suite on a port that uses only the documented interface of Node (C79). */
import { after, describe } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { key, start } from '../support/fixture.js';

const { port } = await start({ after }, {}, { nodeInterface: 'documented' });

describe('a petstore on the documented interface of Node', () =>
  testPetstore({ url: `http://127.0.0.1:${port}`, key }));
