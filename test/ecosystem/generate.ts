// Owns the types that openapi-typescript makes of the document; openapi-fetch.check.ts is compiled
// against them.
import { mkdirSync, writeFileSync } from 'node:fs';
import openapiTypes, { astToString } from 'openapi-typescript';
import { documentText } from './scene.js';

mkdirSync(new URL('generated', import.meta.url), { recursive: true });
writeFileSync(
  new URL('generated/petstore.ts', import.meta.url),
  astToString(await openapiTypes(await documentText())),
);
