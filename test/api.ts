/** Writes docs/api.d.ts anew, from what tsc made of src. `test/api.test.ts` compares the two. */
import { writeFileSync } from 'node:fs';
import { apiFile, publicApi } from './support/api.js';

writeFileSync(apiFile, publicApi());
