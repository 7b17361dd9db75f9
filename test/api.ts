/** Writes the declarations of the build to docs/api.d.ts. */
import { writeFileSync } from 'node:fs';
import { apiFile, publicApi } from './support/api.js';

writeFileSync(apiFile, publicApi());
