// The animal is safe to change: a copy of the source gets a field, a status and a query parameter,
// and each storage and the petstore keep their contract with it, and lose nothing of it.
import './support/unmeasured.js';
import assert from 'node:assert/strict';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder as newFolder, root, StartedProcess, type Ended } from './support/process.js';

/** A text that stands once in a file of src, and what stands there after the change. */
type Edit = readonly [file: string, text: string, becomes: string];

/** One row of the table, and one word. */
const fieldAndStatus: readonly Edit[] = [
  ['pet.ts', '  status: petStatus,\n', "  status: petStatus,\n  breed: text('Its breed.'),\n"],
  ['pet.ts', "'sold'] as const", "'sold', 'adopted'] as const"],
];

/** A member of the query, which nothing obeys yet. */
const parameter: readonly Edit[] = [
  [
    'storage.ts',
    '  readonly status?: PetStatus | undefined;\n}',
    '  readonly status?: PetStatus | undefined;\n  readonly before?: bigint | undefined;\n}',
  ],
];

/** What its compile errors lead to. */
const obeyed: readonly Edit[] = [
  [
    'operations.ts',
    '  after: afterParameter,\n',
    "  after: afterParameter,\n  before: { ...afterParameter, name: 'before' },\n",
  ],
  [
    'operations.ts',
    '{ limit, status, after };',
    '{ limit, status, after, before: readParameter(query, petListParameters.before) };',
  ],
  [
    'engine/catalogue.ts',
    "const { limit, status, after = 0n }: ReadQuery<'limit' | 'status' | 'after'>",
    "const { limit, status, after = 0n, before }: ReadQuery<'limit' | 'status' | 'after' | 'before'>",
  ],
  [
    'engine/catalogue.ts',
    'const matches = positions?.length ?? this.size;',
    'const end = before === undefined ? this.size : countBelow(this.#ids, this.size, before);\n' +
      'const matches = positions ? countBelow(positions, positions.length, end) : end;',
  ],
  [
    'conformance/storage.ts',
    '{ limit, status, after };',
    '{ limit, status, after, before: undefined };',
  ],
  ['postgres/records.ts', '      status,\n', '      status,\n      before: query.before,\n'],
  [
    'postgres/tables.ts',
    "({ limit, status }: ReadQuery<'limit' | 'status' | 'after'>)",
    "({ limit, status, before }: ReadQuery<'limit' | 'status' | 'after' | 'before'>)",
  ],
  [
    'postgres/tables.ts',
    'id > $1::int8 ORDER BY id',
    `id > $1::int8 \${before === undefined ? '' : 'AND id < ' + before} ORDER BY id`,
  ],
];

test('a field is one row, a status one word, and a query parameter a compile error where it is to be known', async (t) => {
  const folder = newFolder(t);
  const isOurs = (path: string): boolean => !/node_modules|\/generated$/.test(path);
  for (const name of ['src', 'test', 'tsconfig.json', 'package.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true, filter: isOurs });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));

  const edit = (edits: readonly Edit[]): void => {
    for (const [file, text, becomes] of edits) {
      const path = join(folder, 'src', file);
      const source = readFileSync(path, 'utf8');
      assert.equal(source.split(text).length - 1, 1, `src/${file} must say once ${text}`);
      writeFileSync(
        path,
        source.replace(text, () => becomes),
      );
    }
  };
  const run = (...args: readonly string[]): Promise<Ended> => {
    // The coverage of a copy is of no use.
    const env = { NODE_V8_COVERAGE: undefined };
    return new StartedProcess(process.execPath, args, { cwd: folder, env }).ended;
  };
  const compile = async (...args: readonly string[]): Promise<string> =>
    (await run(join(root, 'node_modules/typescript/bin/tsc'), ...args)).stdout;

  edit([...fieldAndStatus, ...parameter]);
  const places = (await compile('--noEmit')).matchAll(/^(src\S+)\(/gm);
  assert.deepEqual([...new Set(Array.from(places, ([, file]) => file))].sort(), [
    'src/conformance/storage.ts',
    'src/engine/catalogue.ts',
    'src/operations.ts',
    'src/postgres/records.ts',
    'src/postgres/tables.ts',
  ]);

  edit(obeyed);
  assert.equal(await compile(), '');
  const added = { extends: './test/tsconfig.json', files: ['test/change/added.ts'], include: [] };
  writeFileSync(join(folder, 'added.json'), JSON.stringify(added));
  assert.equal(await compile('--project', 'added.json'), '');

  const { code, stdout } = await run('--test-reporter=tap', 'test-dist/change/added.js');
  const told = stdout.split('\n').filter((line) => /not ok|error:|expected|actual/.test(line));
  assert.equal(code, 0, told.join('\n'));
  assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) > 80, stdout.slice(-500));
});
