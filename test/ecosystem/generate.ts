// Generates types from the OpenAPI document by openapi-typescript, which openapi-fetch.check.ts
// imports.
import { mkdirSync, writeFileSync } from 'node:fs';
import openapiTypes, { astToString } from 'openapi-typescript';
import { documentText } from './scene.js';

mkdirSync(new URL('generated', import.meta.url), { recursive: true });
writeFileSync(
  new URL('generated/petstore.ts', import.meta.url),
  astToString(await openapiTypes(await documentText())),
);
