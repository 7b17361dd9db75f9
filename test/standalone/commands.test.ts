// import and check: what goes in, what is refused, what a file is said to hold.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { command } from '../support/command.js';
import {
  assertRefused,
  folder,
  root,
  runServer,
  StartedProcess,
  serverFile,
  startServer,
  type Ended,
} from '../support/process.js';
import { until } from '../support/waiting.js';

const animals = join(root, 'data/animals.jsonl');
const pets = 'data/pets.jsonl';

describe('import FILE', { concurrency: 4 }, () => {
  test('adds the animals of data/animals.jsonl in their order, exactly, and says how many', async (t) => {
    const cwd = folder(t);
    const { code, stdout, stderr } = await runServer(['import', animals], { cwd });
    assert.deepEqual(
      [code, stdout, stderr],
      [0, '301 animals added to file:data/pets.jsonl\n', ''],
    );
    const sources = readFileSync(animals, 'utf8').trimEnd().split('\n');
    const lines = readFileSync(join(cwd, pets), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{"id"'));
    assert.deepEqual(
      lines,
      sources.map((line, index) => line.replace('{', `{"id":${index + 1},`)),
    );
    const server = await startServer(t, [], { cwd });
    assert.equal((await server.said('listening'))['pets'], 301);
  });

  test('--storage and PETSTORE_STORAGE name where to, and animals already there stay', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '\ufeff{"name":"a","categoryId":1}\r\n\r\n{"id":9,"name":"b","categoryId":9223372036854775807,"status":"sold"}',
    );
    assert.equal(
      (await command(['import', 'in.jsonl', '--storage=file:out.jsonl'], { cwd })).stdout,
      '2 animals added to file:out.jsonl\n',
    );
    writeFileSync(join(cwd, 'in.jsonl'), '\n', { flag: 'a' });
    assert.equal(
      (await command(['import', 'in.jsonl'], { cwd, env: { PETSTORE_STORAGE: 'file:out.jsonl' } }))
        .code,
      0,
    );
    assert.match(
      readFileSync(join(cwd, 'out.jsonl'), 'utf8'),
      /{"id":4,"name":"b","categoryId":9223372036854775807,"status":"sold"}\n{"commit".*\n$/,
    );
    assert.deepEqual(readdirSync(cwd).sort(), ['in.jsonl', 'out.jsonl']);
  });

  test('many animals go through in order, over pieces and batches', async (t) => {
    const cwd = folder(t);
    const count = 20_000;
    writeFileSync(
      join(cwd, 'in.jsonl'),
      Array.from(
        { length: count },
        (_, index) => `{"name":"Ünï-${index}","categoryId":${index}}\n`,
      ).join(''),
    );
    assert.equal((await runServer(['import', 'in.jsonl'], { cwd })).code, 0);
    const lines = readFileSync(join(cwd, pets), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{"id"'));
    assert.deepEqual(
      lines,
      Array.from(
        { length: count },
        (_, index) => `{"id":${index + 1},"name":"Ünï-${index}","categoryId":${index}}`,
      ),
    );
  });

  test('- takes standard input, all checked before the first is stored', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n',
    );
    const importOf = (command: string): Promise<Ended> =>
      new StartedProcess(
        'sh',
        ['-c', `{ ${command}; } | "$0" "$1" import -`, process.execPath, serverFile],
        { cwd },
      ).ended;
    assertRefused(
      await importOf('cat in.jsonl; echo "{}"'),
      2,
      /^standard input line 3: name is missing/,
    );
    assert.deepEqual(readdirSync(cwd), ['in.jsonl']);
    const { code, stdout, stderr } = await importOf('cat in.jsonl in.jsonl');
    assert.deepEqual([code, stdout, stderr], [0, '4 animals added to file:data/pets.jsonl\n', '']);
    assert.match((await command(['check', pets], { cwd })).stdout, /sound\n {2}animals {2}4 /);
  });

  test('--after leaves out lines, blank ones counted; what precedes it is not looked at', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      'no JSON\n\n{"name":"c","categoryId":3}\n{"name":"d","categoryId":4}',
    );
    const { stdout } = await command(['import', 'in.jsonl', '--after', '3'], { cwd });
    assert.equal(stdout, '1 animal added to file:data/pets.jsonl\n');
    assert.match(readFileSync(join(cwd, pets), 'utf8'), /^\{"import":.*\}\n\{"id":1,"name":"d",/);
    assertRefused(
      await command(['import', 'in.jsonl', '--after', '-1'], { cwd }),
      2,
      /^--after must be a whole number/,
    );
  });

  test('--after a line that the file does not have is refused, nothing touched; its last line may be named', async (t) => {
    const cwd = folder(t);
    const lines = '{"name":"a","categoryId":1}\n\n{"name":"b","categoryId":2}';
    for (const end of ['', '\n']) {
      writeFileSync(join(cwd, 'in.jsonl'), lines + end);
      for (const after of ['4', '99'])
        assertRefused(
          await command(['import', 'in.jsonl', '--after', after], { cwd }),
          2,
          new RegExp(
            `^--after ${after} is past the end of in\\.jsonl, which has 3 lines; name a line`,
          ),
        );
    }
    writeFileSync(join(cwd, 'in.jsonl'), '');
    assertRefused(
      await command(['import', 'in.jsonl', '--after', '1'], { cwd }),
      2,
      /^--after 1 is past the end of in\.jsonl, which has 0 lines;/,
    );
    assert.deepEqual(readdirSync(cwd), ['in.jsonl']);
    writeFileSync(join(cwd, 'in.jsonl'), `${lines}\n`);
    const { code, stdout } = await command(['import', 'in.jsonl', '--after', '3'], { cwd });
    assert.deepEqual([code, stdout], [0, '0 animals added to file:data/pets.jsonl\n']);
  });

  test('F11 interrupted it says how many it has added, and the same command adds the rest once', async (t) => {
    const cwd = folder(t);
    const count = 200_000;
    writeFileSync(
      join(cwd, 'in.jsonl'),
      Array.from({ length: count }, (_, index) => `{"name":"${index + 1}","categoryId":1}\n`).join(
        '',
      ),
    );
    // Opening says that it cut the torn tail, and then the adding begins.
    mkdirSync(join(cwd, 'data'));
    writeFileSync(join(cwd, pets), '{"id":1,"na');
    const importing = new StartedProcess(process.execPath, [serverFile, 'import', 'in.jsonl'], {
      cwd,
    });
    await until(
      'some animals',
      () => importing.stderr.includes('torn tail') && statSync(join(cwd, pets)).size > 1_000,
    );
    const { code, stdout, stderr } = await importing.end('SIGINT');
    assert.deepEqual([code, stdout], [130, '']);
    const told =
      /^interrupted: at least (\d+) of 200000 animals were added; the same command goes on$/m.exec(
        stderr,
      );
    const again = await command(['import', 'in.jsonl'], { cwd });
    const [, rest = '', before = ''] =
      /^(\d+) animals added to file:data\/pets\.jsonl; (\d+) of in\.jsonl were there before\n$/.exec(
        again.stdout,
      ) ?? [];
    assert.ok(
      Number(before) >= Number(told?.[1]) && Number(before) < count,
      `${stderr}${again.stdout}`,
    );
    assert.equal(Number(rest) + Number(before), count);
    const names = [...readFileSync(join(cwd, pets), 'utf8').matchAll(/"name":"(\d+)"/g)].map(
      ([, name]) => Number(name),
    );
    assert.deepEqual(
      names,
      Array.from({ length: count }, (_, index) => index + 1),
    );
  });

  test('make seed twice adds nothing twice', { skip: !existsSync('/usr/bin/make') }, async (t) => {
    const cwd = folder(t);
    mkdirSync(join(cwd, 'data'));
    copyFileSync(animals, join(cwd, 'data/animals.jsonl'));
    for (const name of ['dist', 'src']) symlinkSync(join(root, name), join(cwd, name));
    // What is installed and built is not looked at.
    const args = [
      '-f',
      join(root, 'Makefile'),
      '-o',
      'node_modules/.package-lock.json',
      '-o',
      'dist/server.js',
      'seed',
    ];
    const seed = (): Promise<Ended> => new StartedProcess('make', args, { cwd }).ended;
    assert.match((await seed()).stdout, /^301 animals added to file:data\/pets\.jsonl$/m);
    const bytes = readFileSync(join(cwd, pets));
    const { code, stdout, stderr } = await seed();
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^data\/pets\.jsonl has the animals of data\/animals\.jsonl$/m);
    assert.deepEqual(readFileSync(join(cwd, pets)), bytes);
  });

  test('members that no animal has are named once, on standard error', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '{"id":7,"name":"a","categoryId":1,"tags":[]}\n{"name":"b","categoryId":1,"tags":{"id":1}}\n',
    );
    const { code, stdout, stderr } = await command(['import', 'in.jsonl'], { cwd });
    assert.deepEqual([code, stdout], [0, '2 animals added to file:data/pets.jsonl\n']);
    assert.equal(stderr, 'ignored: "id","tags"; an animal has name, categoryId, status\n');
    const many = Array.from({ length: 11 }, (_, index) => `"m${index}":1`).join(',');
    writeFileSync(join(cwd, 'in.jsonl'), `{"name":"a","categoryId":1,${many}}\n`);
    assert.match((await command(['import', 'in.jsonl'], { cwd })).stderr, /"m9"; an animal has/);
  });

  const badLines: readonly (readonly [string, Buffer, RegExp])[] = [
    ['no JSON', Buffer.from('{"name":'), /in\.jsonl line 3: Not valid JSON.*byte 8/],
    ['no object', Buffer.from('[]'), /in\.jsonl line 3: the line must be a JSON object/],
    [
      'a bad field',
      Buffer.from('{"name":"x","categoryId":1,"status":"lost"}'),
      /in\.jsonl line 3: status must be/,
    ],
    [
      'no category',
      Buffer.from('{"name":"x"}'),
      /in\.jsonl line 3: categoryId is missing; it must be an integer/,
    ],
    [
      'nothing in it',
      Buffer.from('{}'),
      /line 3: name is missing; it must be a string; categoryId is missing; it must/,
    ],
    [
      'bad UTF-8',
      Buffer.from('{"name":"\xff","categoryId":1}', 'latin1'),
      /in\.jsonl line 3: Not valid JSON: invalid UTF-8/,
    ],
  ];
  for (const [what, line, message] of badLines) {
    test(`a line with ${what} is named by number, exit 2, and nothing is stored`, async (t) => {
      const cwd = folder(t);
      const good = Buffer.from('{"name":"ok","categoryId":1}\n\n');
      writeFileSync(join(cwd, 'in.jsonl'), Buffer.concat([good, line, Buffer.from('\n'), good]));
      assertRefused(await command(['import', 'in.jsonl'], { cwd }), 2, message);
      assert.deepEqual(readdirSync(cwd), ['in.jsonl']);
    });
  }

  const refusals: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['no file named', ['import'], /one FILE/],
    ['two files named', ['import', 'a', 'b'], /one FILE/],
    ['a file that is not there', ['import', 'nowhere.jsonl'], /nowhere\.jsonl cannot be read/],
    ['a folder', ['import', '.'], /\. cannot be read .*; name a file of JSON Lines/],
    ['memory:', ['import', animals, '--storage', 'memory:'], /^--storage memory: would forget/],
  ];
  for (const [what, args, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const cwd = folder(t);
      assertRefused(await command(args, { cwd }), 2, line);
      assert.deepEqual(readdirSync(cwd), []);
    });
  }

  test('a storage that cannot be used is refused with exit 3', async (t) => {
    const cwd = folder(t);
    mkdirSync(join(cwd, 'pets'));
    assertRefused(
      await runServer(['import', animals, '--storage', 'file:pets'], { cwd }),
      3,
      /folder/,
    );
  });

  test('a file without line ends is refused', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), '');
    truncateSync(join(cwd, 'in.jsonl'), 2 ** 27);
    assertRefused(
      await command(['import', 'in.jsonl'], { cwd }),
      2,
      /in\.jsonl line 1 is longer than 4 MiB/,
    );
  });

  test('a file of over 2 GiB is refused in one line', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), '');
    truncateSync(join(cwd, 'in.jsonl'), 2 ** 31);
    assertRefused(
      await command(['import', 'in.jsonl'], { cwd }),
      2,
      /greater than 2 GiB.*; split what is over 2 GiB$/m,
    );
  });

  test('of a file that changes between the checking and the adding, what was checked is added', async (t) => {
    const cwd = folder(t);
    const path = join(cwd, 'in.jsonl');
    const count = 100_000;
    const line = '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n';
    writeFileSync(path, line.repeat(count));
    // Opening says that it cut the torn tail, and then the adding begins.
    writeFileSync(join(cwd, 'out.jsonl'), '{"id":1,"na');
    const importing = new StartedProcess(
      process.execPath,
      [serverFile, 'import', 'in.jsonl', '--storage', 'file:out.jsonl'],
      // An import is measured above, and measuring many animals costs a fifth.
      { cwd, env: { NODE_V8_COVERAGE: '' } },
    );
    await until('the opening', () => importing.stderr.includes('torn tail'));
    // Its last line but one is a bad one, and its last is gone.
    withDescriptor(path, (descriptor) => writeSync(descriptor, 'x', (count - 1) * line.length - 3));
    truncateSync(path, (count - 1) * line.length);
    assert.ok(statSync(join(cwd, 'out.jsonl')).size < count * line.length, 'it is still adding');
    const { code, stdout } = await importing.ended;
    assert.deepEqual([code, stdout], [0, `${count} animals added to file:out.jsonl\n`]);
    assert.match(
      (await command(['check', 'out.jsonl'], { cwd })).stdout,
      new RegExp(`sound\n  animals  ${count} `),
    );
  });

  test('what does not fit on the disk: exit 3, and the count is honest', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n'.repeat(4_000),
    );
    const limited = [
      '-c',
      'ulimit -f 200; exec "$0" "$1" import in.jsonl',
      process.execPath,
      serverFile,
    ];
    // Coverage is a file, too.
    const ended = await new StartedProcess('sh', limited, { cwd, env: { NODE_V8_COVERAGE: '' } })
      .ended;
    assertRefused(
      ended,
      3,
      /^At least \d+ of 4000 animals were added, then: The disk is full\. The same command goes on\.$/m,
    );
    const added = Number(/^At least (\d+)/.exec(ended.stderr)?.[1]);
    assert.ok(added > 0 && added < 4_000);
    assert.equal(ended.stdout, '');
    assert.match(
      (await command(['check', pets], { cwd })).stdout,
      new RegExp(`sound\\n  animals  ${added} `),
    );
  });

  test('F11 the same command a second time adds nothing; another file, or another --after, is another source', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'in.jsonl'),
      '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n',
    );
    writeFileSync(join(cwd, 'other.jsonl'), '{"name":"c","categoryId":3}\n');
    const imported = async (...args: string[]) =>
      (await command(['import', ...args], { cwd })).stdout;
    assert.equal(await imported('in.jsonl'), '2 animals added to file:data/pets.jsonl\n');
    assert.equal(
      await imported('in.jsonl'),
      '0 animals added to file:data/pets.jsonl; 2 of in.jsonl were there before\n',
    );
    assert.equal(await imported('other.jsonl'), '1 animal added to file:data/pets.jsonl\n');
    assert.equal(
      await imported('in.jsonl', '--after', '1'),
      '1 animal added to file:data/pets.jsonl\n',
    );
    assert.match((await command(['check', pets], { cwd })).stdout, /sound\n {2}animals {2}4 /);
  });

  test('F11 an import that is killed at any byte of its file goes on, and each animal is there once', async (t) => {
    const cwd = folder(t);
    const count = 3_000;
    writeFileSync(
      join(cwd, 'in.jsonl'),
      Array.from({ length: count }, (_, index) => `{"name":"${index + 1}","categoryId":1}\n`).join(
        '',
      ),
    );
    await command(['import', 'in.jsonl'], { cwd });
    const whole = readFileSync(join(cwd, pets));
    const ends = [...whole.toString().matchAll(/\{"commit".*\n/g)].map(
      ({ index, 0: line }) => index + line.length,
    );
    assert.ok(ends.length > 1, 'several batches');
    for (const end of [
      1,
      60,
      ends[0] ?? 0,
      (ends[0] ?? 0) + 30,
      (ends[0] ?? 0) + 5_000,
      whole.length - 20,
    ]) {
      writeFileSync(join(cwd, pets), whole.subarray(0, end));
      assert.equal((await command(['import', 'in.jsonl'], { cwd })).code, 0, `cut at ${end}`);
      assert.deepEqual(readFileSync(join(cwd, pets)), whole, `cut at ${end}`);
    }
  });

  test('a progress bar is drawn on a terminal, and nowhere else', {
    skip: !existsSync('/usr/bin/script'),
  }, async (t) => {
    const cwd = folder(t);
    const command = `"${process.execPath}" "${serverFile}" import "${animals}" >count`;
    const { stdout } = await new StartedProcess('script', ['-qec', command, '/dev/null'], { cwd })
      .ended;
    assert.match(stdout, /\rchecking \[[#-]{30}\] +\d+% \d+ animals/);
    assert.ok(stdout.endsWith('\r\u001b[K'));
    assert.equal(
      readFileSync(join(cwd, 'count'), 'utf8'),
      '301 animals added to file:data/pets.jsonl\n',
    );
  });
});

describe('check FILE', { concurrency: 4 }, () => {
  test('says what a sound file holds, exit 0, even while a server is at work on it', async (t) => {
    const cwd = folder(t);
    await command(['import', animals], { cwd });
    await startServer(t, [], { cwd });
    const { code, stdout, stderr } = await command(['check', pets], { cwd });
    const text = readFileSync(join(cwd, pets), 'utf8');
    const count = (pattern: RegExp): number => text.match(pattern)?.length ?? 0;
    const statuses = ['available', 'pending', 'sold'].map(
      (status) => `${count(new RegExp(`"status":"${status}"`, 'g'))} ${status}`,
    );
    const bytes = Buffer.byteLength(text);
    const none = 301 - count(/"status":/g);
    assert.equal(
      stdout,
      `data/pets.jsonl is sound\n  animals  301 (${statuses.join(', ')}, ${none} without a status)\n  commits  ${count(/"commit"/g)}\n  bytes    ${bytes} (${bytes} committed)\n`,
    );
    assert.deepEqual([code, stderr], [0, '']);
  });

  test('F2: a torn tail that a start would cut is said, exit 0, and the file stays', async (t) => {
    const cwd = folder(t);
    await command(['import', animals], { cwd });
    const before = readFileSync(join(cwd, pets));
    appendFileSync(join(cwd, pets), '{"id":302,"na');
    const { code, stdout } = await command(['check', pets], { cwd });
    assert.equal(code, 0);
    assert.match(
      stdout,
      new RegExp(
        `^data/pets.jsonl has a torn tail: line \\d+, byte ${before.length}: .* 13 bytes .*\\n  animals  301 `,
      ),
    );
    assert.equal(readFileSync(join(cwd, pets)).length, before.length + 13);
  });

  test('F3: damage is named by file, line and byte, exit 3', async (t) => {
    const cwd = folder(t);
    const text =
      '{"id":2,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n{"commit":{"from":0,"crc32":"00000000"}}\n';
    writeFileSync(join(cwd, 'bad.jsonl'), text);
    const ended = await runServer(['check', 'bad.jsonl'], { cwd });
    assertRefused(
      ended,
      3,
      /^bad\.jsonl line 2, byte 35: .*`node dist\/server\.js check bad\.jsonl --salvage OUT`$/m,
    );
    assert.match(
      ended.stdout,
      /^bad\.jsonl is damaged: line 2, byte 35: [^\n]+\n {2}animals {2}0 /,
    );
    assert.equal(readFileSync(join(cwd, 'bad.jsonl'), 'utf8'), text);
  });

  test('F3: a line is called a line, and only animals under a sound commit are counted', async (t) => {
    const cwd = folder(t);
    const animal = (id: number): string =>
      `{"id":${id},"name":"a","categoryId":1,"status":"sold"}\n`;
    const sum = crc32(animal(1)).toString(16).padStart(8, '0');
    const sound = `${animal(1)}{"commit":{"from":0,"crc32":"${sum}"}}\n`;
    const commit = `{"commit":{"from":${sound.length},"crc32":"00000000"}}\n`;
    const cases: readonly (readonly [string, RegExp])[] = [
      [animal(2) + commit, /line 4, .*checksum does not fit/],
      [`${animal(2)}[]\n${commit}`, /line 4, byte \d+: The line must be a JSON object;/],
    ];
    for (const [rest, problem] of cases) {
      writeFileSync(join(cwd, 'bad.jsonl'), sound + rest);
      const { code, stdout } = await command(['check', 'bad.jsonl'], { cwd });
      assert.equal(code, 3);
      assert.match(stdout, problem);
      const [, ...counted] = stdout.split('\n');
      assert.deepEqual(counted.slice(0, 2), [
        '  animals  1 (0 available, 0 pending, 1 sold, 0 without a status)',
        '  commits  1',
      ]);
    }
  });

  test('F2: what a start would keep behind the last commit is counted, and one is said as one', async (t) => {
    const cwd = folder(t);
    const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
    writeFileSync(join(cwd, 'torn.jsonl'), `${record}{"id":1,"name":"a","categoryId":1}\n{`);
    const { code, stdout } = await command(['check', 'torn.jsonl'], { cwd });
    assert.equal(code, 0);
    assert.match(stdout, /; a start moves its 1 byte to torn\.jsonl\.torn-TIME\n {2}animals {2}1 /);
    assert.match(stdout, /\n {2}keys {5}1 idempotency key\n/);
  });

  test('F3: --salvage writes what is sound of a damaged file to a new one, and lists what is missing', async (t) => {
    const cwd = folder(t);
    const animal = (id: number): string => `{"id":${id},"name":"a","categoryId":1}\n`;
    const commit = (from: number, text: string): string =>
      `{"commit":{"from":${from},"crc32":"${crc32(text).toString(16).padStart(8, '0')}"}}\n`;
    writeFileSync(
      join(cwd, 'bad.jsonl'),
      animal(1) + animal(2) + commit(0, 'else') + animal(3) + commit(9, animal(3)),
    );
    const ended = await command(['check', 'bad.jsonl', '--salvage', 'new.jsonl'], { cwd });
    assert.equal(ended.code, 0);
    assert.match(
      ended.stdout,
      /^1 animal of bad\.jsonl saved in new\.jsonl\n {2}left out {2}lines 1 to 2: the checksum does not fit\n {2}missing {3}ids 1 to 2\n$/,
    );
    assert.equal(readFileSync(join(cwd, 'new.jsonl'), 'utf8'), animal(3) + commit(0, animal(3)));
    assertRefused(
      await command(['check', 'bad.jsonl', '--salvage', 'new.jsonl'], { cwd }),
      2,
      /new\.jsonl .*already/,
    );
  });

  test('F3: --salvage says ranges: a line for each reason, none for what was saved between, however many animals', async (t) => {
    const cwd = folder(t);
    const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
    const animal = (id: number): string => `{"id":${id},"name":"a","categoryId":1}\n`;
    const batch = (text: string, sum = crc32(text).toString(16).padStart(8, '0')): string =>
      `${text}{"commit":{"from":0,"crc32":"${sum}"}}\n`;
    const bad = (text: string): string => batch(text, '00000000');
    const many = Array.from({ length: 1_000 }, (_, index) => animal(index + 10)).join('');
    writeFileSync(
      join(cwd, 'bad.jsonl'),
      [
        ...[bad(animal(1)), bad(record + animal(2)), batch(animal(3)), bad(animal(4)), bad(many)],
        ...[batch(animal(2_000)), 'x\n', 'x\n', batch(animal(2_001)), 'x\n'],
      ].join(''),
    );
    const { stdout } = await command(['check', 'bad.jsonl', '--salvage', 'new.jsonl'], { cwd });
    assert.deepEqual(stdout.split('\n'), [
      '3 animals of bad.jsonl saved in new.jsonl',
      '  left out  lines 1 to 4: the checksum does not fit',
      '  left out  lines 8 to 1009: the checksum does not fit',
      '  left out  lines 1013 to 1014: Not valid JSON: expected a value, at byte 0',
      '  left out  line 1017: Not valid JSON: expected a value, at byte 0',
      '  missing   ids 1 to 2, 4 to 1999',
      '',
    ]);
  });

  type Refused = readonly [what: string, args: readonly string[], line: RegExp];
  // They say that they are regular, and of no bytes.
  const filesOfProc: readonly Refused[] =
    process.platform === 'linux'
      ? [
          [
            'a file of /proc',
            ['check', '/proc/self/maps'],
            /^\/proc\/self\/maps cannot be used: name a regular file/,
          ],
          [
            '/proc/self/mem',
            ['check', '/proc/self/mem'],
            /mem cannot be used: .*name another file \(EIO/,
          ],
          [
            'to salvage of /proc',
            ['check', '/proc/self/maps', '--salvage', 'out'],
            /name a regular file/,
          ],
        ]
      : [];
  const refusals: readonly Refused[] = [
    ['no file named', ['check'], /one FILE/],
    ['two files named', ['check', 'a', 'b'], /one FILE/],
    ['a file that is not there', ['check', 'nowhere.jsonl'], /nowhere\.jsonl cannot be used/],
    ['a folder', ['check', '.'], /^\. cannot be used: (it is a folder|name a regular file)/],
    [
      'what is no file',
      ['check', devNull],
      /cannot be used: name a regular file \(it is not a regular file\)$/m,
    ],
    ...filesOfProc,
  ];
  for (const [what, args, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const cwd = folder(t);
      assertRefused(await command(args, { cwd }), 2, line);
      assert.deepEqual(readdirSync(cwd), []);
    });
  }
});

function withDescriptor(path: string, use: (descriptor: number) => void): void {
  const descriptor = openSync(path, 'r+');
  use(descriptor);
  closeSync(descriptor);
}
