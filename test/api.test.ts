// Tests that docs/api.d.ts is up to date, so that each change of the public types is deliberate.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { apiFile, publicApi } from './support/api.js';

test('docs/api.d.ts has the public types; `make api` updates it', () => {
  assert.equal(publicApi(), readFileSync(apiFile, 'utf8'));
});
