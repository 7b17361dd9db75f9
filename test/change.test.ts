// Tests that a pet is easy to change: a copy of the source gets a field, a filter, a status and a
// query parameter, and each storage and the petstore then pass their suites.
import './support/unmeasured.js';
import assert from 'node:assert/strict';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder as newFolder, root, StartedProcess, type Ended } from './support/process.js';

/** A text that occurs once in a file of src, and its replacement. */
type Edit = readonly [file: string, text: string, becomes: string];

/** Adds a row to the field table, a filter on another row, and a status. */
const fieldEdits: readonly Edit[] = [
  [
    'pet.ts',
    '  status: filterable(petStatus),\n',
    "  status: filterable(petStatus),\n  breed: text('Its breed.'),\n",
  ],
  [
    'pet.ts',
    "int64('Identifier of the category the pet belongs to.')",
    "filterable(int64('Identifier of the category the pet belongs to.'))",
  ],
  ['pet.ts', "'sold'] as const", "'sold', 'adopted'] as const"],
];

/** Fixes the compile error about the filter. */
const filterEdits: readonly Edit[] = [
  [
    'postgres/filters.ts',
    '\n};\n\n/** Returns the statements that create the indexes',
    `
  categoryId: {
    condition: (categoryId, addValue) =>
      op(categoryOfJson, '=', \`CAST(\${addValue(categoryId)} AS pg_catalog.int8)\`),
    migrations: (pets) => [
      \`CREATE INDEX IF NOT EXISTS petstore_pets_category ON \${pets} ((\${categoryOfJson}), id)\`,
    ],
  },
};

/** Returns the statements that create the indexes`,
  ],
  [
    'postgres/filters.ts',
    'const filters:',
    `// The text of a pet has quotes without a backslash only around names and values.
const categoryOfJson =
  \`CAST(pg_catalog.substring(pg_catalog.encode(json, 'escape'), ',"categoryId":(-?[0-9]+)')
  AS pg_catalog.int8)\`;

const filters:`,
  ],
];

/** Adds a member to the query that is not a filter. */
const parameterEdits: readonly Edit[] = [
  [
    'storage.ts',
    'export interface PetQuery extends PageQuery, PetFilter {}',
    `export interface PetQuery extends PageQuery, PetFilter {
  readonly before?: bigint | undefined;
}`,
  ],
];

/** Fixes the compile errors about the member of the query. */
const queryEdits: readonly Edit[] = [
  [
    'operations.ts',
    '  after: afterParameter,\n',
    "  after: afterParameter,\n  before: { ...afterParameter, name: 'before' },\n",
  ],
  [
    'operations.ts',
    '{ limit, ...parseFilter(query), after };',
    `{
      limit,
      ...parseFilter(query),
      after,
      before: readParameter(query, petListParameters.before),
    };`,
  ],
  [
    'engine/catalogue.ts',
    "const { limit, after = 0n }: ReadQuery<'limit' | 'after'>",
    "const { limit, after = 0n, before }: ReadQuery<'limit' | 'after' | 'before'>",
  ],
  [
    'engine/catalogue.ts',
    'const matches = positions?.length ?? this.size;',
    'const end = before === undefined ? this.size : countBelow(this.#ids, this.size, before);\n' +
      'const matches = positions ? countBelow(positions, positions.length, end) : end;',
  ],
  [
    'conformance/list-suite.ts',
    '{ ...filter, limit, after };',
    '{ ...filter, limit, after, before: undefined };',
  ],
  [
    'postgres/table-reader.ts',
    "const { limit, after = 0n }: ReadQuery<'limit' | 'after'>",
    "const { limit, after = 0n, before }: ReadQuery<'limit' | 'after' | 'before'>",
  ],
  [
    'postgres/table-reader.ts',
    '      ...filterOf(query),\n',
    '      ...filterOf(query),\n      before,\n',
  ],
  [
    'postgres/statements.ts',
    "const { limit, after = 0n }: ReadQuery<'limit' | 'after'>",
    "const { limit, after = 0n, before }: ReadQuery<'limit' | 'after' | 'before'>",
  ],
  [
    'postgres/statements.ts',
    "int8('$1'))} ORDER BY id",
    `int8('$1'))} \${before === undefined ? '' : 'AND ' + op('id', '<', \`\${before}\`)} ORDER BY id`,
  ],
];

test('a new field, filter or status is one edit, and the compiler names all other places', async (t) => {
  const folder = newFolder(t);
  const isOurs = (path: string): boolean => !/node_modules|\/generated$/.test(path);
  for (const name of ['src', 'test', 'build.js', 'tsconfig.json', 'package.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true, filter: isOurs });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));

  const edit = (edits: readonly Edit[]): void => {
    for (const [file, text, becomes] of edits) {
      const path = join(folder, 'src', file);
      const source = readFileSync(path, 'utf8');
      assert.equal(source.split(text).length - 1, 1, `src/${file} must contain once: ${text}`);
      writeFileSync(
        path,
        source.replace(text, () => becomes),
      );
    }
  };
  const run = (...args: readonly string[]): Promise<Ended> => {
    // The coverage of a copy would not count.
    const env = { NODE_V8_COVERAGE: undefined };
    return new StartedProcess(process.execPath, args, { cwd: folder, env }).ended;
  };
  const compile = async (...args: readonly string[]): Promise<string> =>
    (await run(join(root, 'node_modules/typescript/bin/tsc'), ...args)).stdout;

  const compileErrors = async (): Promise<readonly unknown[]> => {
    const places = (await compile('--noEmit')).matchAll(/^(src\S+)\(/gm);
    return [...new Set(Array.from(places, ([, file]) => file))].sort();
  };

  edit(fieldEdits);
  assert.deepEqual(await compileErrors(), ['src/postgres/filters.ts']);

  edit([...filterEdits, ...parameterEdits]);
  assert.deepEqual(await compileErrors(), [
    'src/conformance/list-suite.ts',
    'src/engine/catalogue.ts',
    'src/operations.ts',
    'src/postgres/statements.ts',
    'src/postgres/table-reader.ts',
  ]);

  edit(queryEdits);
  assert.deepEqual(await run('build.js'), { code: 0, signal: null, stdout: '', stderr: '' });
  const added = { extends: './test/tsconfig.json', files: ['test/change/added.ts'], include: [] };
  writeFileSync(join(folder, 'added.json'), JSON.stringify(added));
  assert.equal(await compile('--project', 'added.json'), '');

  const { code, stdout } = await run('--test-reporter=tap', 'test-dist/change/added.js');
  const failures = stdout.split('\n').filter((line) => /not ok|error:|expected|actual/.test(line));
  assert.equal(code, 0, failures.join('\n'));
  assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) > 80, stdout.slice(-500));
});
