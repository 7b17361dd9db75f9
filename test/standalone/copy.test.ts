// Tests the command copy between storage files, and copyPets of the library.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  copyPets,
  fileStorage,
  fileTarget,
  memoryStorage,
  type PetStorage,
  type TextTarget,
  toByteString,
} from '../../dist/index.js';
import { petLinesIn, digestOf, edgeCasePets, somePets, filesOf, writePets } from './copy.js';
import { commitOf } from '../storage/commit-line.js';
import { folder, type Ended } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testInFolder, testRefusals, WorkingFolder } from '../support/working-folder.js';

/** Asserts exit 3 with a message. Earlier steps may have printed their results. */
function assertRefusedBehind({ code, stderr }: Ended, line: RegExp): void {
  assert.equal(code, 3, stderr);
  assert.match(stderr, line);
}

const copying = 'copy --from file:a --to file:b';

describe('copy --from STORAGE --to STORAGE', { concurrency: 4 }, () => {
  testInFolder(
    'copies pets byte for byte with their ids, and changes nothing when run again',
    filesOf({ a: edgeCasePets }),
    async (here) => {
      const sum = `SHA-256 of both ${digestOf(edgeCasePets)}\n`;
      await here.prints(copying, `6 pets of file:a copied to file:b; ${sum}`);
      assert.deepEqual(petLinesIn(here.at('b')), edgeCasePets);
      const bytes = here.bytes('b');
      await here.prints(
        copying,
        `6 pets of file:a copied to file:b, 6 of them already there; ${sum}`,
      );
      assert.deepEqual(here.bytes('b'), bytes);
      await here.prints('check b', /^b is sound\n {2}pets {5}6 /);
    },
  );

  testInFolder(
    'adds the new pets to an earlier copy, and a server continues with the next id',
    filesOf({ a: somePets(1_300), b: somePets(777) }),
    async (here) => {
      await here.prints(
        copying,
        /^1300 pets of file:a copied to file:b, 777 of them already there; /,
      );
      assert.deepEqual(petLinesIn(here.at('b')), somePets(1_300));
      const server = await here.start('--storage file:b');
      assert.equal((await server.add('Rex')).headers.get('location'), '/v1/pets/1301');
    },
  );

  testInFolder(
    'writes the same file for a copy and for a copy of the copy',
    filesOf({ a: somePets(1_300) }),
    async (here) => {
      await here.command(copying);
      await here.done('copy --from file:b --to file:c');
      assert.deepEqual(here.bytes('c'), here.bytes('b'));
    },
  );

  const digest = digestOf(['a']);
  const record = `{"idempotency":{"key":"${digest}","body":"${digest}","at":1795132800000}}`;
  testInFolder(
    'copies pets without their idempotency keys',
    filesOf({ a: [record, ...somePets(3)] }),
    async (here) => {
      await here.prints(
        copying,
        `3 pets of file:a copied to file:b; SHA-256 of both ${digestOf(somePets(3))}\n`,
      );
      assert.deepEqual(petLinesIn(here.at('b')), somePets(3));
      assert.ok(!here.read('b').includes('idempotency'));
    },
  );

  testInFolder('copies an empty storage', filesOf({ a: [] }), async (here) => {
    await here.prints(copying, /^0 pets of file:a copied to file:b; /);
    assert.equal(here.size('b'), 0);
  });

  testInFolder('resumes after kill -9', async (here) => {
    const pets = somePets(60_000);
    writePets(here.at('a'), pets);
    for (const least of [1, 1_000_000]) {
      const cut = here.begin(copying);
      await until('a part of it', () => here.size('b') > least);
      assert.equal((await cut.end('SIGKILL')).signal, 'SIGKILL');
    }
    const present = petLinesIn(here.at('b')).length;
    assert.ok(present > 0 && present < pets.length, `${present} were copied before`);
    // Standard error is not compared, because a slow machine logs the progress of reading.
    const { stdout } = await here.done(copying);
    assert.equal(
      stdout,
      `60000 pets of file:a copied to file:b, ${present} of them already there; SHA-256 of both ${digestOf(pets)}\n`,
    );
    assert.deepEqual(petLinesIn(here.at('b')), pets);
  });

  const orders = [
    '{"id":1,"petId":2,"quantity":3,"status":"placed","placedAt":"2026-11-21T16:00:00.000Z"}',
    '{"id":5,"petId":9223372036854775807,"quantity":1,"status":"placed","placedAt":"2026-11-21T16:00:01.000Z"}',
  ];
  const notes = ['{"id":1,"text":"Ünï"}'];
  testInFolder(
    'copies the records of plugins and warns of files that only look like them',
    filesOf({
      a: somePets(3),
      'a.orders': orders,
      'a.notes': notes,
      'a.bak': somePets(2),
      'a.txt': ['a text'],
      'a.empty': [],
    }),
    async (here) => {
      mkdirSync(here.at('a.folder'));
      const { stdout, stderr } = await here.done(copying);
      assert.equal(
        stdout,
        `3 pets of file:a copied to file:b; SHA-256 of both ${digestOf(somePets(3))}
1 notes of file:a copied to file:b; SHA-256 of both ${digestOf(notes)}
2 orders of file:a copied to file:b; SHA-256 of both ${digestOf(orders)}
`,
      );
      // No warning for an empty file or a folder.
      const warning = '.*"level":"warn".*has no records of a plugin';
      assert.match(stderr, new RegExp(`^${warning}.*/a\\.bak".*\n${warning}.*/a\\.txt".*\n$`));
      assert.deepEqual(
        here.names().filter((name) => name.startsWith('b')),
        ['b', 'b.notes', 'b.orders'],
      );
      assert.deepEqual(petLinesIn(here.at('b.orders')), orders);
      writePets(here.at('b.orders'), [orders[1] ?? '']);
      assertRefusedBehind(
        await here.command(copying),
        /\nthe storage to copy to has other orders than the source/,
      );
      const server = await here.start('--storage file:b --plugin orders');
      assert.equal(await server.text('/v1/store/orders'), `[${orders[1]}]`);
    },
  );

  testInFolder(
    "exits with 3 if a plugin's records are damaged",
    filesOf({ a: somePets(1) }),
    async (here) => {
      const body = Buffer.from(`${orders.join('\n')}\n`);
      const lines = String(Buffer.concat([body, commitOf(body, 0)])).split(/(?<=\n)/);
      for (const damaged of [lines.slice(1), [lines.at(-1) ?? '', ...lines.slice(0, -1)]]) {
        here.write('a.orders', damaged.join(''));
        assertRefusedBehind(await here.command(copying), /a\.orders line \d, byte \d+: a commit /);
      }
    },
  );

  testInFolder(
    'copies orders that were edited by hand as the server reads them',
    filesOf({ a: somePets(1) }),
    async (here) => {
      const restOfOrder = '"quantity":9007199254740993.0e-3,"note":{"a":["\u2028Ü",null,true,-0]}}';
      const edited = [
        '',
        ' { "id": 1, "petId": 2,"quantity" :9007199254740993.0e-3, "note":{"a":[ "\\u2028\\u00dc",null,true, -0]} }\r',
        `{"petId":2,"id":2e0,${restOfOrder}`,
        `{"id":3,"petId":2,${restOfOrder}`,
        '{"id":4,"name":"\\u0052ex", "categoryId":3}',
      ];
      writePets(here.at('a.orders'), edited);
      const copied = [1, 2, 3]
        .map((id) => `{"id":${id},"petId":2,${restOfOrder}`)
        .concat(edited.slice(4));
      const sum = `SHA-256 of both ${digestOf(copied)}`;
      for (const again of ['', ', 4 of them already there'])
        await here.prints(
          copying,
          new RegExp(`\\n4 orders of file:a copied to file:b${again}; ${sum}\\n$`),
        );
      assert.deepEqual(petLinesIn(here.at('b.orders')), copied);
    },
  );

  const ofNothing = '{"commit":{"from":0,"crc32":"00000000"}}';
  testInFolder(
    'copies records that follow an empty commit or contain a carriage return',
    filesOf({
      a: somePets(1),
      'a.orders': [ofNothing, '', '{"id":1,\r"petId":2,"quantity":1}', '{"id":2,"petId":2}'],
      'a.empty': [ofNothing],
    }),
    (here) => here.prints(copying, /^1 pet .*\n2 orders .*\n$/),
  );

  testInFolder(
    'copies records with more members than a pet and warns of records with only those of a pet',
    filesOf({
      a: somePets(1),
      'a.staff': ['{"id":1,"name":"bob","categoryId":3,"since":2020}'],
      'a.vets': ['{"id":1,"name":"bob","categoryId":3}'],
      'a.old': ['{"name": "bob", "id": 1, "categoryId": 3, "status": "sold"}'],
    }),
    async (here) => {
      const { stdout, stderr } = await here.done(copying);
      assert.match(stdout, /^1 pet .*\n1 staff .*\n$/);
      assert.match(stderr, /^.*has no records of a plugin.*\/a\.old".*\n.*\/a\.vets".*\n$/);
    },
  );

  for (const [what, pets] of [
    ['another pet of the same id', ['{"id":1,"name":"other","categoryId":1}']],
    [
      'a pet between the ids',
      [...edgeCasePets.slice(0, 2), '{"id":5,"name":"other","categoryId":1}'],
    ],
    ['another last pet', [...edgeCasePets.slice(0, 2), '{"id":7,"name":"","categoryId":1}']],
    [
      'a pet after all others',
      [...edgeCasePets.slice(0, 4), '{"id":9223372036854775807,"name":"","categoryId":1}'],
    ],
  ] as const) {
    testInFolder(
      `exits with 3 and leaves a target with ${what} unchanged`,
      filesOf({ a: edgeCasePets, b: pets }),
      async (here) => {
        await here.refuses(
          copying,
          3,
          /^the storage to copy to has other pets than the source; copy to an empty storage\n$/,
        );
        assert.deepEqual(petLinesIn(here.at('b')), pets);
      },
    );
  }

  testRefusals(
    {
      // no option
      copy: /needs --from STORAGE and --to STORAGE/,
      // no target
      'copy --from file:a': /needs --from STORAGE and --to STORAGE/,
      // an operand
      [`${copying} x`]: /needs --from STORAGE and --to STORAGE/,
      // to memory
      'copy --from file:a --to memory:': /needs --from STORAGE and --to STORAGE, .*not memory:/,
      // from memory
      'copy --from memory: --to file:b': /needs --from STORAGE and --to STORAGE, .*not memory:/,
      // from a missing file
      'copy --from file:c --to file:b': /^--from file:c does not exist; name an existing/,
      // from an invalid storage
      'copy --from a --to file:b': /^--from must be file:PATH/,
      // to itself
      'copy --from file:a --to file:./a': /^--from file:a and --to file:\.\/a are the same/,
      // another option
      [`${copying} --storage file:a`]: /--storage is not for copy/,
    },
    filesOf({ a: edgeCasePets }),
  );
  testInFolder(
    'exits with 2 if source and target are the same file by a link',
    filesOf({ a: edgeCasePets }),
    async (here) => {
      symlinkSync('a', here.at('link'));
      await here.refuses('copy --from file:a --to file:link', 2, /are the same/);
      assert.deepEqual(petLinesIn(here.at('a')), edgeCasePets);
    },
  );

  testInFolder(
    'exits with 3 if a server has either storage open, or if it cannot be used',
    async (here) => {
      await here.start('--storage file:b');
      mkdirSync(here.at('c'));
      writePets(here.at('a'), edgeCasePets);
      await here.refuses(copying, 3, /^\/.*\/b is in use by process \d+/);
      await here.refuses('copy --from file:b --to file:d', 3, /^\/.*\/b is in use by process \d+/);
      await here.refuses('copy --from file:a --to file:c', 3, /folder/);
      assert.ok(!existsSync(here.at('d')));
    },
  );

  test('draws a count on a terminal', {
    skip: !existsSync('/usr/bin/script'),
  }, async (t) => {
    const here = new WorkingFolder(t, filesOf({ a: somePets(2_000) }));
    const { stdout } = await here.onTerminal(`${copying} >count`).ended;
    assert.match(stdout, /\rcopying \d+ pets/);
    assert.ok(stdout.endsWith('\r\u001b[K'));
    assert.match(here.read('count'), /^2000 pets of file:a copied to file:b; /);
  });
});

describe('copyPets', () => {
  const source = memoryStorage({
    pets: ['Rex', 'Tom', 'Kim'].map((name) => ({ name, categoryId: 1n })),
  });
  type Pets = Parameters<TextTarget['adopt']>[0];
  /** Copies to a file, with the pets changed on the way. */
  const copyChanged = (
    path: string,
    from: PetStorage,
    change: (pets: Pets) => Pets,
  ): Promise<unknown> =>
    copyPets(from, {
      open: () => fileStorage(path),
      openTarget: async () => {
        const target = await fileTarget(path);
        return {
          adopt: (pets) => target.adopt(change(pets)),
          close: () => target.close(),
        };
      },
    });

  test('copies from any storage and reports each step', async (t) => {
    const path = join(folder(t), 'b');
    const to = { open: () => fileStorage(path), openTarget: () => fileTarget(path) };
    const steps: unknown[] = [];
    const report = await copyPets(source, to, (...step) => steps.push(step));
    assert.deepEqual(report, { count: 3, present: 0, sha256: digestOf(petLinesIn(path)) });
    assert.deepEqual(steps, [
      ['copying', 3],
      ['checking', 3],
    ]);
  });

  const altered = ({ id, json }: Pets[number]): Pets[number] => ({
    id,
    json: toByteString(json.replace('Rex', 'Max')),
  });
  for (const [what, change] of [
    ['omits a pet', (pets: Pets) => pets.slice(1)],
    ['alters a pet', (pets: Pets) => pets.map(altered)],
  ] as const)
    test(`detects a target that ${what}`, async (t) => {
      const message = /^the copy differs: the source has 3 .*, the copy has [23] with SHA-256/;
      const copying = copyChanged(join(folder(t), 'b'), source, change);
      await assert.rejects(copying, { code: 'storage_damaged', message });
    });

  test('adds long pets in smaller batches', async (t) => {
    const long = { name: 'x'.repeat(50_000), categoryId: 1n };
    const batches: number[] = [];
    await copyChanged(
      join(folder(t), 'b'),
      memoryStorage({ pets: new Array(600).fill(long) }),
      (pets) => {
        batches.push(pets.length);
        return pets;
      },
    );
    assert.deepEqual(
      batches,
      [16, 83, 83, 83, 83, 83, 83, 83, 3],
      'the first batch is sized before the length is known',
    );
  });

  test('copies pets of over 4 MiB one by one', async (t) => {
    const long = { name: 'x'.repeat(2 ** 22), categoryId: 1n };
    const from = memoryStorage({ pets: [long, long] });
    const { texts = assert.fail() } = from;
    // A storage that bounds its pages in bytes.
    const list: typeof texts.list = (query) => texts.list({ ...query, limit: query.limit && 1 });
    const batches: number[] = [];
    await copyChanged(join(folder(t), 'b'), { ...from, texts: { ...texts, list } }, (pets) => {
      batches.push(pets.length);
      return pets;
    });
    assert.deepEqual(batches, [1, 1]);
  });

  test('rejects ids that the target already has', async (t) => {
    const path = join(folder(t), 'b');
    const target = await fileTarget(path);
    const pets = [{ id: 5n, json: toByteString('{"id":5,"name":"","categoryId":1}') }];
    await target.adopt(pets);
    await assert.rejects(target.adopt(pets), { code: 'storage_unusable' });
    await target.close();

    const again = await fileTarget(path);
    atEnd(t, () => again.close());
    await assert.rejects(again.adopt(pets), { code: 'storage_unusable' });
  });
});
