// Checks the OpenAPI document by Spectral's rules for OpenAPI, whose hints count too.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { documentFile, npxArgs, run } from './scene.js';

test('spectral lint reports nothing by all rules of its set oas', async (t) => {
  const file = await documentFile(t);
  writeFileSync(join(dirname(file), '.spectral.yaml'), 'extends: spectral:oas\n');
  await run(t, dirname(file), 'npx', ...npxArgs('spectral', 'lint', '--fail-severity=hint', file));
});
