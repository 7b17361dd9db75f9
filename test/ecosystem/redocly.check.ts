// Redocly reads the OpenAPI document: it finds no error and nothing to warn of.
import { test } from 'node:test';
import { root } from '../support/process.js';
import { documentFile, npxArgs, run } from './scene.js';

test('redocly lint reports no error and no warning, even with its strict rules', async (t) => {
  const file = await documentFile(t);
  // The strict rules make errors of all warnings.
  await run(t, root, 'npx', ...npxArgs('redocly', 'lint', '--extends=recommended-strict', file));
});
