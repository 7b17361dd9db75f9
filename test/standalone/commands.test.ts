// import and check: what goes in, what is refused, what a file is said to hold.
import assert from 'node:assert/strict';
import { appendFileSync, closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { assertRefused, folder, root, run, Running, serverFile, start, until } from './process.js';

const animals = join(root, 'data/animals.jsonl');
const pets = 'data/pets.jsonl';

describe('import FILE', { concurrency: 4 }, () => {
  test('adds the animals of data/animals.jsonl in their order, exactly, and says how many', async (t) => {
    const cwd = folder(t);
    const { code, stdout, stderr } = await run(['import', animals], { cwd });
    assert.deepEqual([code, stdout, stderr], [0, '301 animals added to file:data/pets.jsonl\n', '']);
    const sources = readFileSync(animals, 'utf8').trimEnd().split('\n');
    const lines = readFileSync(join(cwd, pets), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{"id"'));
    assert.deepEqual(
      lines,
      sources.map((line, index) => line.replace('{', `{"id":${index + 1},`)),
    );
    const server = await start(t, [], { cwd });
    assert.equal((await server.said('listening'))['pets'], 301);
  });

  test('--storage and PETSTORE_STORAGE name where to, and animals already there stay', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), '\ufeff{"name":"a","categoryId":1}\r\n\r\n{"id":9,"name":"b","categoryId":9223372036854775807,"status":"sold"}');
    assert.equal((await run(['import', 'in.jsonl', '--storage=file:out.jsonl'], { cwd })).stdout, '2 animals added to file:out.jsonl\n');
    assert.equal((await run(['import', 'in.jsonl'], { cwd, env: { PETSTORE_STORAGE: 'file:out.jsonl' } })).code, 0);
    assert.match(readFileSync(join(cwd, 'out.jsonl'), 'utf8'), /{"id":4,"name":"b","categoryId":9223372036854775807,"status":"sold"}\n{"commit".*\n$/);
    assert.deepEqual(readdirSync(cwd).sort(), ['in.jsonl', 'out.jsonl']);
  });

  test('many animals go through in order, over pieces and batches', async (t) => {
    const cwd = folder(t);
    const count = 20_000;
    writeFileSync(join(cwd, 'in.jsonl'), Array.from({ length: count }, (_, index) => `{"name":"Ünï-${index}","categoryId":${index}}\n`).join(''));
    assert.equal((await run(['import', 'in.jsonl'], { cwd })).code, 0);
    const lines = readFileSync(join(cwd, pets), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{"id"'));
    assert.deepEqual(
      lines,
      Array.from({ length: count }, (_, index) => `{"id":${index + 1},"name":"Ünï-${index}","categoryId":${index}}`),
    );
  });

  const badLines: readonly (readonly [string, Buffer, RegExp])[] = [
    ['no JSON', Buffer.from('{"name":'), /in\.jsonl line 3: Not valid JSON.*byte 8/],
    ['no object', Buffer.from('[]'), /in\.jsonl line 3: the line must be a JSON object/],
    ['a bad field', Buffer.from('{"name":"x","categoryId":1,"status":"lost"}'), /in\.jsonl line 3: status must be/],
    ['bad UTF-8', Buffer.from('{"name":"\xff","categoryId":1}', 'latin1'), /in\.jsonl line 3: Not valid JSON: invalid UTF-8/],
  ];
  for (const [what, line, message] of badLines) {
    test(`a line with ${what} is named by number, exit 2, and nothing is stored`, async (t) => {
      const cwd = folder(t);
      const good = Buffer.from('{"name":"ok","categoryId":1}\n\n');
      writeFileSync(join(cwd, 'in.jsonl'), Buffer.concat([good, line, Buffer.from('\n'), good]));
      assertRefused(await run(['import', 'in.jsonl'], { cwd }), 2, message);
      assert.deepEqual(readdirSync(cwd), ['in.jsonl']);
    });
  }

  const refusals: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['no file named', ['import'], /one FILE/],
    ['two files named', ['import', 'a', 'b'], /one FILE/],
    ['a file that is not there', ['import', 'nowhere.jsonl'], /nowhere\.jsonl cannot be read/],
    ['a folder', ['import', '.'], /not a regular file/],
    ['a device', ['import', '/dev/null'], /not a regular file/],
    ['memory:', ['import', animals, '--storage', 'memory:'], /^--storage memory: would forget/],
  ];
  for (const [what, args, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const cwd = folder(t);
      assertRefused(await run(args, { cwd }), 2, line);
      assert.deepEqual(readdirSync(cwd), []);
    });
  }

  test('a storage that cannot be used is refused with exit 3', async (t) => {
    const cwd = folder(t);
    mkdirSync(join(cwd, 'pets'));
    assertRefused(await run(['import', animals, '--storage', 'file:pets'], { cwd }), 3, /folder/);
  });

  test('a file without line ends is refused before it fills the memory', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), '');
    truncateSync(join(cwd, 'in.jsonl'), 2 ** 27);
    assertRefused(await run(['import', 'in.jsonl'], { cwd }), 2, /in\.jsonl line 1 is longer than/);
  });

  const changes: readonly (readonly [string, (path: string, bytes: number) => void, RegExp])[] = [
    ['gets a bad line', (path, bytes) => withDescriptor(path, (descriptor) => writeSync(descriptor, 'x', bytes - 3)), /line 200000/],
    ['becomes shorter', (path, bytes) => truncateSync(path, bytes - 56), /another number of lines/],
  ];
  for (const [what, change, message] of changes) {
    test(`a file that ${what} between the checking and the adding: exit 2, and the count is honest`, async (t) => {
      const cwd = folder(t);
      const path = join(cwd, 'in.jsonl');
      const count = 200_000;
      const line = '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n';
      writeFileSync(path, line.repeat(count));
      // Opening says that it cut the torn tail, and then the adding begins.
      writeFileSync(join(cwd, 'out.jsonl'), '{"id":1,"na');
      const importing = new Running(process.execPath, [serverFile, 'import', 'in.jsonl', '--storage', 'file:out.jsonl'], { cwd });
      await until('the opening', () => importing.stderr.includes('torn tail'));
      change(path, count * line.length);
      const { code, stderr } = await importing.ended;
      assert.equal(code, 2, stderr);
      assert.match(stderr, /in\.jsonl changed while it was imported \(.*\); \d+ animals were added, where it had 200000\n$/);
      assert.match(stderr, message);
      const added = Number(/(\d+) animals were added/.exec(stderr)?.[1]);
      assert.ok(added < count);
      assert.match((await run(['check', 'out.jsonl'], { cwd })).stdout, new RegExp(`sound\\n  animals  ${added} `));
    });
  }

  test('what does not fit on the disk: exit 3, and the count is honest', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'in.jsonl'), '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","categoryId":1}\n'.repeat(4_000));
    const limited = ['-c', 'ulimit -f 200; exec "$0" "$1" import in.jsonl', process.execPath, serverFile];
    // Coverage is a file, too.
    const ended = await new Running('sh', limited, { cwd, env: { NODE_V8_COVERAGE: '' } }).ended;
    assertRefused(ended, 3, /^\d+ of 4000 animals were added, then: The disk is full\.$/m);
    const added = Number(/^\d+/.exec(ended.stderr)?.[0]);
    assert.ok(added > 0 && added < 4_000);
    assert.match((await run(['check', pets], { cwd })).stdout, new RegExp(`sound\\n  animals  ${added} `));
  });

  test('a progress bar is drawn on a terminal, and nowhere else', { skip: !existsSync('/usr/bin/script') }, async (t) => {
    const cwd = folder(t);
    const command = `"${process.execPath}" "${serverFile}" import "${animals}" >count`;
    const { stdout } = await new Running('script', ['-qec', command, '/dev/null'], { cwd }).ended;
    assert.match(stdout, /\rchecking \[[#-]{30}\] +\d+% \d+ animals/);
    assert.ok(stdout.endsWith('\r\u001b[K'));
    assert.equal(readFileSync(join(cwd, 'count'), 'utf8'), '301 animals added to file:data/pets.jsonl\n');
  });
});

describe('check FILE', { concurrency: 4 }, () => {
  test('says what a sound file holds, exit 0, even while a server is at work on it', async (t) => {
    const cwd = folder(t);
    await run(['import', animals], { cwd });
    await start(t, [], { cwd });
    const { code, stdout, stderr } = await run(['check', pets], { cwd });
    const text = readFileSync(join(cwd, pets), 'utf8');
    const count = (pattern: RegExp): number => text.match(pattern)?.length ?? 0;
    const statuses = ['available', 'pending', 'sold'].map((status) => `${count(new RegExp(`"status":"${status}"`, 'g'))} ${status}`);
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
    await run(['import', animals], { cwd });
    const before = readFileSync(join(cwd, pets));
    appendFileSync(join(cwd, pets), '{"id":302,"na');
    const { code, stdout } = await run(['check', pets], { cwd });
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^data/pets.jsonl has a torn tail: line \\d+, byte ${before.length}: .* 13 bytes .*\\n  animals  301 `));
    assert.equal(readFileSync(join(cwd, pets)).length, before.length + 13);
  });

  test('F3: damage is named by file, line and byte, exit 3', async (t) => {
    const cwd = folder(t);
    const text = '{"id":2,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n{"commit":{"from":0,"crc32":"00000000"}}\n';
    writeFileSync(join(cwd, 'bad.jsonl'), text);
    const ended = await run(['check', 'bad.jsonl'], { cwd });
    assertRefused(ended, 3, /^bad\.jsonl line 2, byte 35: /);
    assert.match(ended.stdout, /^bad\.jsonl is damaged: line 2, byte 35: [^\n]+\n {2}animals {2}1 /);
    assert.equal(readFileSync(join(cwd, 'bad.jsonl'), 'utf8'), text);
  });

  test('F3: --salvage writes what is sound of a damaged file to a new one, and lists what is missing', async (t) => {
    const cwd = folder(t);
    const animal = (id: number): string => `{"id":${id},"name":"a","categoryId":1}\n`;
    const commit = (from: number, text: string): string => `{"commit":{"from":${from},"crc32":"${crc32(text).toString(16).padStart(8, '0')}"}}\n`;
    writeFileSync(join(cwd, 'bad.jsonl'), animal(1) + animal(2) + commit(0, 'else') + animal(3) + commit(9, animal(3)));
    const ended = await run(['check', 'bad.jsonl', '--salvage', 'new.jsonl'], { cwd });
    assert.equal(ended.code, 0);
    assert.match(
      ended.stdout,
      /^1 animals of bad\.jsonl are sound; they are in new\.jsonl\n {2}left out {2}line 1: animal 1 .*\n {2}left out {2}line 2: .*\n {2}missing {3}ids 1 to 2\n$/,
    );
    assert.equal(readFileSync(join(cwd, 'new.jsonl'), 'utf8'), animal(3) + commit(0, animal(3)));
    assertRefused(await run(['check', 'bad.jsonl', '--salvage', 'new.jsonl'], { cwd }), 2, /new\.jsonl .*already/);
  });

  const refusals: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['no file named', ['check'], /one FILE/],
    ['two files named', ['check', 'a', 'b'], /one FILE/],
    ['a file that is not there', ['check', 'nowhere.jsonl'], /nowhere\.jsonl cannot be used/],
    ['a folder', ['check', '.'], /folder|regular file/],
  ];
  for (const [what, args, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const cwd = folder(t);
      assertRefused(await run(args, { cwd }), 2, line);
      assert.deepEqual(readdirSync(cwd), []);
    });
  }
});

function withDescriptor(path: string, use: (descriptor: number) => void): void {
  const descriptor = openSync(path, 'r+');
  use(descriptor);
  closeSync(descriptor);
}
