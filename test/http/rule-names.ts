/** The names of the rules of `verify`, which are the names of tests in conformance.test.ts. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../src/conformance', import.meta.url));
const rule = /^ +number: '(\w+)',\n +sentence: (['"])(.+)\2,$/gm;

/** Each has the form `C10 an id that is not a canonical int64 is 404`. */
export const ruleNames: readonly string[] = readdirSync(folder).flatMap((file) =>
  [...readFileSync(join(folder, file), 'utf8').matchAll(rule)].map(
    ([, number = '', , sentence = '']) => `${number} ${sentence}`,
  ),
);
