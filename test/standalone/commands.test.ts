// Tests the commands import and check.
import assert from 'node:assert/strict';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { assertRefused, root, type Ended } from '../support/process.js';
import { commitOf } from '../storage/commit-line.js';
import { petLinesIn, somePets } from './copy.js';
import { until } from '../support/waiting.js';
import {
  assertPrinted,
  testInFolder,
  testRefusal,
  testRefusals,
  WorkingFolder,
} from '../support/working-folder.js';

const sampleFile = join(root, 'data/animals.jsonl');
const petsFile = 'data/pets.jsonl';

/** Returns the file from which these pets are imported: their lines without ids. */
const sourceOf = (some: readonly string[]): string =>
  some.map((line) => `${line.replace(/"id":\d+,/, '')}\n`).join('');

const pet = (id: number): string => `{"id":${id},"name":"a","categoryId":1}\n`;
const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
/** Returns lines with their commit record, whose checksum may be that of other lines. */
const batch = (from: number, text: string, summed = text): string =>
  `${text}${commitOf(Buffer.from(summed), from)}`;

describe('import FILE', { concurrency: 4 }, () => {
  testInFolder('adds the pets of data/animals.jsonl in order and prints how many', async (here) => {
    assertPrinted(
      await here.begin(['import', sampleFile]).ended,
      '301 pets added to file:data/pets.jsonl\n',
    );
    const sources = readFileSync(sampleFile, 'utf8').trimEnd().split('\n');
    assert.deepEqual(
      petLinesIn(here.at(petsFile)),
      sources.map((line, index) => line.replace('{', `{"id":${index + 1},`)),
    );
    const server = await here.start();
    assert.equal((await server.waitForLog('listening'))['pets'], 301);
  });

  testInFolder(
    'adds to the storage of --storage or PETSTORE_STORAGE and keeps the pets already there',
    {
      'in.jsonl':
        '\ufeff{"name":"a","categoryId":1}\r\n\r\n{"id":9,"name":"b","categoryId":9223372036854775807,"status":"sold"}',
    },
    async (here) => {
      const { stdout } = await here.command('import in.jsonl --storage=file:out.jsonl');
      assert.equal(stdout, '2 pets added to file:out.jsonl\n');
      here.write('in.jsonl', `{"name":"c","categoryId":1}\n${here.read('in.jsonl')}`);
      await here.done('PETSTORE_STORAGE=file:out.jsonl import in.jsonl');
      assert.match(
        here.read('out.jsonl'),
        /{"id":5,"name":"b","categoryId":9223372036854775807,"status":"sold"}\n{"commit".*\n$/,
      );
      assert.deepEqual(here.names(), ['in.jsonl', 'out.jsonl']);
    },
  );

  testInFolder(
    'reads standard input for - and checks all lines before it adds the first',
    {
      'in.jsonl': '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n',
    },
    async (here) => {
      const bad = await here.shell('{ cat in.jsonl; echo "{}"; } | "$0" "$1" import -').ended;
      assertRefused(bad, 2, /^standard input line 3: name is missing/);
      assert.deepEqual(here.names(), ['in.jsonl']);
      const good = here.shell('cat in.jsonl in.jsonl | "$0" "$1" import -');
      assertPrinted(await good.ended, '4 pets added to file:data/pets.jsonl\n');
      await here.prints(`check ${petsFile}`, /sound\n {2}pets {5}4 /);
    },
  );

  testInFolder(
    'skips the first lines with --after, blank lines included, without checking them',
    {
      'in.jsonl': 'no JSON\n\n{"name":"c","categoryId":3}\n{"name":"d","categoryId":4}',
    },
    async (here) => {
      await here.prints('import in.jsonl --after 3', '1 pet added to file:data/pets.jsonl\n');
      assert.match(here.read(petsFile), /^\{"import":.*\}\n\{"id":1,"name":"d",/);
      await here.refuses('import in.jsonl --after -1', 2, /^--after must be a whole number/);
    },
  );

  testInFolder(
    'rejects --after past the last line of the file and changes no file',
    async (here) => {
      const lines = '{"name":"a","categoryId":1}\n\n{"name":"b","categoryId":2}';
      for (const end of ['', '\n']) {
        here.write('in.jsonl', lines + end);
        await here.refuses(
          'import in.jsonl --after 4',
          2,
          /^--after 4 is past the end of in\.jsonl, which has 3 lines; name a line/,
        );
      }
      here.write('in.jsonl', '');
      await here.refuses(
        'import in.jsonl --after 1',
        2,
        /^--after 1 is past the end of in\.jsonl, which has 0 lines;/,
      );
      assert.deepEqual(here.names(), ['in.jsonl']);
      here.write('in.jsonl', `${lines}\n`);
      await here.prints('import in.jsonl --after 3', '0 pets added to file:data/pets.jsonl\n');
    },
  );

  testInFolder(
    'F11 prints how many pets were added when interrupted, and resumes when run again',
    async (here) => {
      const count = 100_000;
      const many = somePets(count);
      // The log says that the torn tail was cut before the first pet is added.
      here.write(petsFile, '{"id":1,"na');
      here.write('in.jsonl', sourceOf(many));
      const importing = here.begin('import in.jsonl');
      await until(
        'some animals',
        () => importing.stderr.includes('torn tail') && here.size(petsFile) > 1_000,
      );
      const { code, stdout, stderr } = await importing.end('SIGINT');
      assert.deepEqual([code, stdout], [130, '']);
      const message =
        /^interrupted: at least (\d+) of 100000 pets were added; run the same command again to resume$/m.exec(
          stderr,
        );
      const again = await here.command('import in.jsonl');
      const [, rest = '', before = ''] =
        /^(\d+) pets added to file:data\/pets\.jsonl; (\d+) of in\.jsonl were already there\n$/.exec(
          again.stdout,
        ) ?? [];
      assert.ok(
        Number(before) >= Number(message?.[1]) && Number(before) < count,
        `${stderr}${again.stdout}`,
      );
      assert.equal(Number(rest) + Number(before), count);
      assert.deepEqual(petLinesIn(here.at(petsFile)), many);
    },
  );

  test('make seed adds the sample pets only once', {
    skip: !existsSync('/usr/bin/make'),
  }, async (t) => {
    const here = new WorkingFolder(t);
    mkdirSync(here.at('data'));
    copyFileSync(sampleFile, here.at('data/animals.jsonl'));
    for (const name of ['dist', 'src']) symlinkSync(join(root, name), here.at(name));
    // -o: make treats the installed packages and the build as up to date.
    const line = `make -f "${root}/Makefile" -o node_modules/.package-lock.json -o dist/server.js seed`;
    const seed = (): Promise<Ended> => here.shell(line).ended;
    assert.match((await seed()).stdout, /^301 pets added to file:data\/pets\.jsonl$/m);
    const bytes = here.bytes(petsFile);
    assertPrinted(await seed(), /^data\/pets\.jsonl has the pets of data\/animals\.jsonl$/m);
    assert.deepEqual(here.bytes(petsFile), bytes);
  });

  testInFolder(
    'prints unknown members once, on standard error',
    {
      'in.jsonl':
        '{"id":7,"name":"a","categoryId":1,"tags":[]}\n{"name":"b","categoryId":1,"tags":{"id":1}}\n',
    },
    async (here) => {
      const { code, stdout, stderr } = await here.command('import in.jsonl');
      assert.deepEqual([code, stdout], [0, '2 pets added to file:data/pets.jsonl\n']);
      assert.equal(
        stderr,
        'ignored unknown members: "id","tags"; a pet has name, categoryId, status\n',
      );
      const many = Array.from({ length: 11 }, (_, index) => `"m${index}":1`).join(',');
      here.write('in.jsonl', `{"name":"a","categoryId":1,${many}}\n`);
      assert.match((await here.command('import in.jsonl')).stderr, /"m9"; a pet has/);
    },
  );

  // Invalid lines as byte strings. Each follows a valid line and a blank line.
  for (const [what, line, message] of [
    ['invalid JSON', '{"name":', /in\.jsonl line 3: Not valid JSON.*byte 8/],
    ['an array', '[]', /in\.jsonl line 3: the line must be a JSON object/],
    [
      'an invalid field',
      '{"name":"x","categoryId":1,"status":"lost"}',
      /in\.jsonl line 3: status must be/,
    ],
    [
      'no categoryId',
      '{"name":"x"}',
      /in\.jsonl line 3: categoryId is missing; it must be an integer/,
    ],
    [
      'an empty object',
      '{}',
      /line 3: name is missing; it must be a string; categoryId is missing; it must/,
    ],
    [
      'invalid UTF-8',
      '{"name":"\xff","categoryId":1}',
      /in\.jsonl line 3: Not valid JSON: invalid UTF-8/,
    ],
  ] as const) {
    const good = '{"name":"ok","categoryId":1}\n\n';
    const source = Buffer.from(`${good}${line}\n${good}`, 'latin1');
    testRefusal('import in.jsonl', message, { 'in.jsonl': source }, `a line of ${what}`);
  }

  const indented = '{\n  "name": "a",\n  "categoryId": 1\n}\n';
  const inOneLine = '[{"name":"a","categoryId":1},{"name":"b","categoryId":1}]';
  const one = '{"name":"a","categoryId":1}\n';
  for (const [what, content, message] of [
    ['indented JSON', indented, /in\.jsonl line 1: .*Write each pet on a line .*`jq -c \.`/],
    [
      'an array in one line',
      inOneLine,
      /in\.jsonl line 1: the line must be a JSON object.*`jq -c '\.\[\]'`/,
    ],
    ['an indented array', `[\n  ${one}]\n`, /in\.jsonl line 1: .*`jq -c '\.\[\]'`/],
    ['two pets in a line', one.trim() + one, /in\.jsonl line 1: .*`jq -c \.`/],
    ['UTF-16', Buffer.from(`\uFEFF${one}`, 'utf16le'), /in\.jsonl is UTF-16; .*`iconv -f UTF-16 /],
    ['big-endian UTF-16', Buffer.from(`\uFEFF${one}`, 'utf16le').swap16(), /in\.jsonl is UTF-16; /],
    ['UTF-16 without a byte order mark', Buffer.from(one, 'utf16le'), /in\.jsonl is UTF-16LE; /],
    [
      'big-endian UTF-16 without a byte order mark',
      Buffer.from(one, 'utf16le').swap16(),
      /in\.jsonl is UTF-16BE; /,
    ],
  ] as const) {
    testRefusal('import in.jsonl', message, { 'in.jsonl': content }, `a file of ${what}`);
    testRefusal('--seed in.jsonl', message, { 'in.jsonl': content }, `a seed of ${what}`);
  }

  for (const [what, lines] of [
    ['CR LF', '{"name":"a","categoryId":1}\r\n\r\n{"name":"b","categoryId":2}\r\n'],
    ['a byte order mark', '\uFEFF{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n'],
    ['no last newline', '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}'],
    [
      'blank lines at both ends',
      '\n \n{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n\n',
    ],
    ['all of these', '\uFEFF\r\n{"name":"a","categoryId":1}\r\n{"name":"b","categoryId":2}'],
  ] as const)
    testInFolder(`accepts a file and a seed with ${what}`, { 'in.jsonl': lines }, async (here) => {
      await here.prints('import in.jsonl', '2 pets added to file:data/pets.jsonl\n');
      const both = '[{"id":1,"name":"a","categoryId":1},{"id":2,"name":"b","categoryId":2}]';
      const seeded = await here.start('--storage memory: --seed in.jsonl');
      assert.equal(await seeded.text('/v1/pets'), both);
    });

  testInFolder('adds a pet of the longest body, as a server exports it', async (here) => {
    const name = 'x'.repeat(2 ** 24 - '{"name":"","categoryId":1e18}'.length);
    const line = `{"id":9223372036854775807,"name":"${name}","categoryId":1000000000000000000}\n`;
    here.write('in.jsonl', line.repeat(2));
    await here.done('import in.jsonl');
    await here.prints(`check ${petsFile}`, /sound\n {2}pets {5}2 /);
  });

  testRefusals({
    // no file named
    import: /one FILE/,
    // two files named
    'import a b': /one FILE/,
    // a missing file
    'import nowhere.jsonl': /nowhere\.jsonl cannot be read/,
    // a folder
    'import .': /\. cannot be read .*; name a JSON Lines file/,
  });
  testRefusal(
    ['import', sampleFile, '--storage', 'memory:'],
    /^--storage memory: would lose the imported pets/,
  );

  for (const [what, bytes, message] of [
    ['without line ends', 2 ** 27, /in\.jsonl line 1 is longer than 16 MiB\. .*`jq -c \.`/],
    ['of over 2 GiB', 2 ** 31, /is longer than 2 GiB; split it$/m],
  ] as const)
    testInFolder(`rejects a file ${what} with one line`, { 'in.jsonl': '' }, async (here) => {
      truncateSync(here.at('in.jsonl'), bytes);
      await here.refuses('import in.jsonl', 2, message);
    });

  testInFolder(
    'adds the checked pets, even if the file changes before they are added',
    async (here) => {
      const path = here.at('in.jsonl');
      const count = 100_000;
      const line = '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n';
      here.write('in.jsonl', line.repeat(count));
      // The log says that the torn tail was cut before the first pet is added.
      here.write('out.jsonl', '{"id":1,"na');
      // Other tests measure the coverage of an import; here it would cost a fifth of the time.
      const env = { NODE_V8_COVERAGE: '' };
      const importing = here.begin('import in.jsonl --storage file:out.jsonl', env);
      await until('the opening', () => importing.stderr.includes('torn tail'));
      // Makes the last line but one invalid, and cuts off the last one.
      const descriptor = openSync(path, 'r+');
      writeSync(descriptor, 'x', (count - 1) * line.length - 3);
      closeSync(descriptor);
      truncateSync(path, (count - 1) * line.length);
      assert.ok(here.size('out.jsonl') < count * line.length, 'the import still runs');
      const { code, stdout } = await importing.ended;
      assert.deepEqual([code, stdout], [0, `${count} pets added to file:out.jsonl\n`]);
      await here.prints('check out.jsonl', new RegExp(`sound\n  pets     ${count} `));
    },
  );

  testInFolder(
    'exits with 3 and one line if the limit of open files is too low to load the modules',
    {},
    async (here) => {
      // 256 is enough for any number of modules. Files of coverage would need more.
      const limits = [...Array.from({ length: 24 }, (_, index) => 18 + index), 256];
      const ends = await Promise.all(
        limits.map(
          (limit) =>
            here.shell(`unset NODE_V8_COVERAGE; ulimit -n ${limit}; exec "$0" "$1" --version`)
              .ended,
        ),
      );
      // Below some limit, Node itself crashes or cannot read dist/server.js.
      const ofModules = ends.filter(({ stderr }) => /dist\/(?!server\.js)/.test(stderr));
      assert.deepEqual(ofModules, []);
      const refused = ends.filter(({ code }) => code === 3);
      assert.ok(refused.length > 0);
      for (const ended of refused)
        assertRefused(
          ended,
          3,
          /^too many open files: raise the limit, such as by `ulimit -n 1024`\n$/,
        );
      assert.equal(ends.at(-1)?.code, 0);
    },
  );

  testInFolder(
    'exits with 3 when the disk is full and prints the number of pets added',
    {
      'in.jsonl':
        '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n'.repeat(4_000),
    },
    async (here) => {
      // The file limit would also apply to the file of the coverage.
      const env = { NODE_V8_COVERAGE: '' };
      const ended = await here.shell('ulimit -f 200; exec "$0" "$1" import in.jsonl', env).ended;
      assertRefused(
        ended,
        3,
        /^At least \d+ of 4000 pets were added, then: The disk is full\. Run the same command again to resume\.$/m,
      );
      const added = Number(/^At least (\d+)/.exec(ended.stderr)?.[1]);
      assert.ok(added > 0 && added < 4_000);
      assert.equal(ended.stdout, '');
      await here.prints(`check ${petsFile}`, new RegExp(`sound\\n  pets     ${added} `));
    },
  );

  testInFolder(
    'F11 adds a source only once; another file or another --after is another source',
    {
      'in.jsonl': '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n',
      'other.jsonl': '{"name":"c","categoryId":3}\n',
    },
    async (here) => {
      for (const [source, said] of [
        ['in.jsonl', '2 pets added to file:data/pets.jsonl'],
        ['in.jsonl', '0 pets added to file:data/pets.jsonl; 2 of in.jsonl were already there'],
        ['other.jsonl', '1 pet added to file:data/pets.jsonl'],
        ['in.jsonl --after 1', '1 pet added to file:data/pets.jsonl'],
      ])
        await here.prints(`import ${source}`, `${said}\n`);
      await here.prints(`check ${petsFile}`, /sound\n {2}pets {5}4 /);
    },
  );

  testInFolder(
    'F11 adds only the new pets of a file that has grown since its import',
    { 'in.jsonl': sourceOf(somePets(3_001)) },
    async (here) => {
      const all = sourceOf(somePets(3_500));
      const lineEnds = [...all.matchAll(/\n/g)].map(({ index }) => index + 1);
      const first = (count: number) => all.slice(0, lineEnds[count - 1]);
      await here.done('import in.jsonl');
      for (const [content, added, before] of [
        [first(3_003), 2, 3_001],
        [first(3_100).trimEnd(), 97, 3_003],
        [first(3_100), 0, 3_100],
        // As saved by an editor that adds a byte order mark, CR LF and blank lines.
        [`\uFEFF${first(3_200).replaceAll('\n', '\r\n')}\r\n\r\n`, 100, 3_100],
        [all, 300, 3_200],
        [all, 0, 3_500],
        [first(3_001), 0, 3_001],
      ] as const) {
        here.write('in.jsonl', content);
        await here.prints(
          'import in.jsonl',
          `${added} pets added to file:data/pets.jsonl; ${before} of in.jsonl were already there\n`,
        );
      }
      await here.prints(`check ${petsFile}`, /sound\n {2}pets {5}3500 /);

      // An import that was interrupted in its second batch, of a file that then grew.
      here.write('in.jsonl', first(3_001));
      await here.done('import in.jsonl --storage file:cut.jsonl');
      const ends = [...here.read('cut.jsonl').matchAll(/"commit".*\n/g)];
      const [{ index = 0 } = assert.fail()] = ends.slice(1);
      here.write('cut.jsonl', here.bytes('cut.jsonl').subarray(0, index));
      here.write('in.jsonl', all);
      await here.done('import in.jsonl --storage file:cut.jsonl');
      await here.prints('check cut.jsonl', /sound\n {2}pets {5}3500 /);
    },
  );

  testInFolder(
    'F11 imports only the new pets of a file that was the seed',
    { 'in.jsonl': '{"name":"a","categoryId":1}\n' },
    async (here) => {
      await (await here.start('--seed in.jsonl')).end();
      here.write('in.jsonl', '{"name":"a","categoryId":1}\n{"name":"b","categoryId":1}\n');
      await here.prints(
        'import in.jsonl',
        '1 pet added to file:data/pets.jsonl; 1 of in.jsonl were already there\n',
      );
    },
  );

  testInFolder(
    'F11 resumes after a kill at any byte of the storage file and adds each pet once',
    { 'in.jsonl': sourceOf(somePets(3_000)) },
    async (here) => {
      await here.command('import in.jsonl');
      const whole = here.bytes(petsFile);
      const ends = [...whole.toString().matchAll(/\{"commit".*\n/g)].map(
        ({ index, 0: line }) => index + line.length,
      );
      const [first = 0, ...others] = ends;
      assert.ok(others.length > 0, 'the import has several batches');
      for (const end of [1, 60, first, first + 30, first + 5_000, whole.length - 20]) {
        here.write(petsFile, whole.subarray(0, end));
        await here.done('import in.jsonl');
        assert.deepEqual(here.bytes(petsFile), whole, `cut at ${end}`);
      }
    },
  );

  test('draws a progress bar only on a terminal', {
    skip: !existsSync('/usr/bin/script'),
  }, async (t) => {
    const here = new WorkingFolder(t);
    const drawn = (await here.onTerminal(`import "${sampleFile}" >count`).ended).stdout;
    assert.match(drawn, /\rchecking \[[#-]{30}\] +\d+% \d+ pets/);
    assert.ok(drawn.endsWith('\r\u001b[K'));
    assert.equal(here.read('count'), '301 pets added to file:data/pets.jsonl\n');
  });
});

describe('check FILE', { concurrency: 4 }, () => {
  testInFolder(
    'reports a sound file with exit 0, even while a server has it open',
    async (here) => {
      await here.command(['import', sampleFile]);
      await here.start();
      const commits = here.read(petsFile).match(/"commit"/g)?.length;
      const bytes = here.size(petsFile);
      await here.prints(
        `check ${petsFile}`,
        `data/pets.jsonl is sound
  pets     301 (181 available, 45 pending, 50 sold, 25 without a status)
  commits  ${commits}
  bytes    ${bytes} (${bytes} committed)
`,
      );
    },
  );

  testInFolder('F2 reports a torn tail with exit 0 and does not change the file', async (here) => {
    const sound = batch(0, pet(1));
    here.write('torn.jsonl', `${sound}{"id":302,"na`);
    await here.prints(
      'check torn.jsonl',
      new RegExp(
        `^torn.jsonl has a torn tail: line 3, byte ${sound.length}: .* 13 bytes .*\\n  pets     1 `,
      ),
    );
    assert.equal(here.read('torn.jsonl'), `${sound}{"id":302,"na`);
  });

  testInFolder('F3 reports damage by file, line and byte with exit 3', async (here) => {
    const text =
      '{"id":2,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n{"commit":{"from":0,"crc32":"00000000"}}\n';
    here.write('bad.jsonl', text);
    const ended = await here.command('check bad.jsonl');
    assertRefused(
      ended,
      3,
      /^no server starts with bad\.jsonl; restore a backup, or save the sound pets with `node dist\/server\.js check bad\.jsonl --salvage OUT`$/m,
    );
    assert.match(ended.stdout, /^bad\.jsonl is damaged: line 2, byte 35: [^\n]+\n {2}pets {5}0 /);
    assert.equal(`${ended.stdout}${ended.stderr}`.match(/byte 35/g)?.length, 1, 'printed once');
    assert.equal(here.read('bad.jsonl'), text);
  });

  testInFolder('F3 counts only the pets of sound commits', async (here) => {
    const sound = batch(0, pet(1));
    for (const [rest, problem] of [
      [batch(sound.length, pet(2), 'another'), /line 4, .*checksum does not fit/],
      [`${pet(2)}[]\n`, /line 4, byte \d+: The line must be a JSON object;/],
    ] as const) {
      // With a batch after it, the invalid batch is damage, not a torn tail.
      here.write('bad.jsonl', sound + rest + batch(9, ''));
      const { code, stdout } = await here.command('check bad.jsonl');
      assert.equal(code, 3);
      assert.match(stdout, problem);
      assert.match(stdout, /\n {2}pets {5}1 \(0 .* 1 without a status\)\n {2}commits {2}1\n/);
    }
  });

  testInFolder(
    'F2 counts the pets after the last commit that a start would keep',
    { 'torn.jsonl': `${record}${pet(1)}{` },
    async (here) => {
      await here.prints(
        'check torn.jsonl',
        /; the next start moves 1 byte to torn\.jsonl\.torn-TIME\n {2}pets {5}1 .*\n {2}keys {5}1 idempotency key\n/s,
      );
    },
  );

  testInFolder(
    'F3 --salvage writes the sound pets to a new file and lists the missing ids',
    async (here) => {
      const text = batch(0, pet(1) + pet(2), 'else') + batch(9, pet(3));
      here.write('bad.jsonl', text);
      await here.prints(
        'check bad.jsonl --salvage new.jsonl',
        '1 pet of bad.jsonl saved in new.jsonl\n  left out  lines 1 to 2: the checksum does not fit\n  missing   ids 1 to 2\n',
      );
      assert.equal(here.read('new.jsonl'), batch(0, pet(3)));
      await here.refuses('check bad.jsonl --salvage new.jsonl', 2, /new\.jsonl .*already/);
    },
  );

  testInFolder(
    'F3 --salvage leaves no part of the new file if the disk is full',
    { 'bad.jsonl': Array.from({ length: 4_000 }, (_, index) => pet(index + 1)).join('') },
    async (here) => {
      // The file limit would also apply to the file of the coverage.
      const env = { NODE_V8_COVERAGE: '' };
      const line = 'ulimit -f 100; exec "$0" "$1" check bad.jsonl --salvage new.jsonl';
      assertRefused(await here.shell(line, env).ended, 2, /new\.jsonl cannot be used/);
      assert.deepEqual(here.names(), ['bad.jsonl']);
    },
  );

  testInFolder(
    'F3 --salvage prints one line for each range of lines left out for the same reason',
    async (here) => {
      const good = (text: string): string => batch(0, text);
      const bad = (text: string): string => batch(0, text, 'else');
      const many = Array.from({ length: 1_000 }, (_, index) => pet(index + 10)).join('');
      const parts = [
        ...[bad(pet(1)), bad(record + pet(2)), good(pet(3)), bad(pet(4)), bad(many)],
        ...[good(pet(2_000)), 'x\n', 'x\n', good(pet(2_001)), 'x\n'],
      ];
      here.write('bad.jsonl', parts.join(''));
      const said = `3 pets of bad.jsonl saved in new.jsonl
  left out  lines 1 to 4: the checksum does not fit
  left out  lines 8 to 1009: the checksum does not fit
  left out  lines 1013 to 1014: Not valid JSON: expected a value, at byte 0
  left out  line 1017: Not valid JSON: expected a value, at byte 0
  missing   ids 1 to 2, 4 to 1999
`;
      await here.prints('check bad.jsonl --salvage new.jsonl', said);
    },
  );

  testRefusals({
    // no file named
    check: /one FILE/,
    // two files named
    'check a b': /one FILE/,
    // a missing file
    'check nowhere.jsonl': /nowhere\.jsonl cannot be used/,
    // a folder
    'check .': /^\. cannot be used: (it is a folder|it is not a regular file)/,
    // a device
    [`check ${devNull}`]: /cannot be used: it is not a regular file; name a regular file$/m,
  });

  // stat shows these as regular files of 0 bytes.
  if (process.platform === 'linux')
    testRefusals({
      'check /proc/self/maps': /^\/proc\/self\/maps cannot be used: it is not a regular file/,
      'check /proc/self/mem': /mem cannot be used: EIO.*name another file/,
      'check /proc/self/maps --salvage out': /name a regular file/,
    });
});
