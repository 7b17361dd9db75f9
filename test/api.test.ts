// That a change of the public types is seen, and is one that was meant.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { apiFile, publicApi } from './support/api.js';

test('docs/api.d.ts has the public types as they are; where a change is meant, `make api` writes it', () => {
  assert.equal(publicApi(), readFileSync(apiFile, 'utf8'));
});
