// Checks the OpenAPI document by Redocly.
import { test } from 'node:test';
import { root } from '../support/process.js';
import { documentFile, npxArgs, run } from './scene.js';

test('redocly lint reports no error and no warning, even with its strict rules', async (t) => {
  const file = await documentFile(t);
  // The strict rules treat all warnings as errors.
  await run(t, root, 'npx', ...npxArgs('redocly', 'lint', '--extends=recommended-strict', file));
});
