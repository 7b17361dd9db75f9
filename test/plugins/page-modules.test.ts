// Tests the modules of the page at `/` that need no browser: exact JSON, the states of an add, the
// place in the list, curl commands and the download.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { memoryStorage } from '../../dist/index.js';
import { childEnvironment } from '../support/environment.js';
import { key, start, storedPets } from '../support/fixture.js';
import { root } from '../support/process.js';

const moduleOf = (name: string) => import(join(root, 'src/plugins/page', name));
const { parseExactly, objectTexts } = await moduleOf('exact-json.js');
const { Adding, bodyOf, plainInteger } = await moduleOf('adding.js');
const { KeptTexts, keyName, pendingName } = await moduleOf('kept.js');
const { Place } = await moduleOf('place.js');
const { addCommand, listCommand } = await moduleOf('curl.js');
const { Download } = await moduleOf('download.js');
const { bodyOf: responseBodyOf, nextQuery, RequestError } = await moduleOf('requests.js');

test('parseExactly keeps all digits, and reads strings as JSON.parse does', () => {
  assert.deepEqual(
    parseExactly('{"id":9223372036854775807,"a":[-0.5e+7,"1 \\"2\\" \\\\"],"b":null}'),
    {
      id: '9223372036854775807',
      a: ['-0.5e+7', '1 "2" \\'],
      b: null,
    },
  );
  for (const wrong of ['', '{', '"', '"\\"', '[1,]', '<p>'])
    assert.throws(() => parseExactly(wrong), SyntaxError, wrong);
  const strings = fc.jsonValue({ noUnicodeString: false }).map((value) => {
    const text = JSON.stringify(value, (_, each) =>
      typeof each === 'number' ? String(each) : each,
    );
    return text ?? 'null';
  });
  fc.assert(fc.property(strings, (text) => assert.deepEqual(parseExactly(text), JSON.parse(text))));
  const long = `{"id":1,"name":"${'\\"n\\\\'.repeat(2 ** 20)}"}`;
  assert.equal(parseExactly(long).name.length, 3 * 2 ** 20);
});

test('objectTexts returns the objects of an array byte for byte', () => {
  const objects = ['{"a":"[{\\"}"}', '{ "b" : { "c":[ {} ] } }', '{}', '{"é":"\u2028"}'];
  assert.deepEqual(objectTexts(`[${objects.join(',')}]`), objects);
  assert.deepEqual(objectTexts(' [ ] '), []);
});

test('a response is of a petstore only if it is a list, a pet or an error', () => {
  for (const [text, isOk, expected] of [
    ['[]', true, true],
    ['{"id":7}', true, true],
    ['{"message":"No."}', false, true],
    ['{"message":"No."}', true, false],
    ['{"id":7}', false, false],
    ['null', true, false],
    ['"id"', true, false],
    ['<p>', true, false],
  ] as const)
    assert.equal(responseBodyOf(text, isOk) !== undefined, expected, text);
  assert.equal(nextQuery('</v1/pets?limit=1&after=1>; rel="next"'), 'limit=1&after=1');
  assert.equal(nextQuery('</v1/pets>; rel="successor-version"'), undefined);
});

test('bodyOf keeps the digits of a category, and lets the server refuse any other text', () => {
  const body = (category: string, status = '') => bodyOf({ name: 'a"', category, status });
  assert.equal(body('-9223372036854775808'), '{"name":"a\\"","categoryId":-9223372036854775808}');
  assert.equal(
    body('1,"x":1', 'sold'),
    '{"name":"a\\"","categoryId":"1,\\"x\\":1","status":"sold"}',
  );
  assert.deepEqual(['+7', '-007', '00', '0', '7.0', ''].map(plainInteger), [
    '7',
    '-7',
    '0',
    '0',
    '7.0',
    '',
  ]);
});

/** Returns a storage of texts as a browser has it, and its texts. */
function sessionOf(broken?: 'open' | 'write') {
  const texts = new Map<string, string>();
  const storage = {
    getItem: (name: string) => texts.get(name) ?? null,
    removeItem: (name: string) => void texts.delete(name),
    setItem: (name: string, text: string) => {
      if (broken === 'write') throw new Error('the quota is exceeded');
      texts.set(name, text);
    },
  };
  const open = () => {
    if (broken === 'open') throw new Error('the storage is blocked');
    return storage;
  };
  return { texts, kept: new KeptTexts(open) };
}

test('KeptTexts keeps texts in memory if the browser stores none', () => {
  for (const broken of [undefined, 'open', 'write'] as const) {
    const { texts, kept } = sessionOf(broken);
    assert.equal(kept.get(keyName), undefined);
    assert.equal(kept.set(keyName, 'a'), broken === undefined);
    assert.equal(kept.get(keyName), 'a');
    assert.equal(texts.size, broken === undefined ? 1 : 0);
    kept.remove(keyName);
    assert.equal(kept.get(keyName), undefined);
  }
  // A text that is too long must not leave the one that it replaces.
  const { texts, kept } = sessionOf('write');
  texts.set(keyName, 'old');
  kept.set(keyName, 'new');
  assert.deepEqual([kept.get(keyName), texts.size], ['new', 0]);
});

const rex = { name: 'Rex', category: '5', status: '' };
const tom = { name: 'Tom', category: '5', status: '' };

test('an add whose outcome is unknown keeps its idempotency key, also after a reload', () => {
  const { kept, texts } = sessionOf();
  const adding = new Adding(kept);
  const attempt = adding.attemptFor(rex, 'k');
  assert.match(attempt.key, /^[!-~]{20,255}$/);
  assert.equal(adding.attemptFor(rex, 'k'), attempt, 'the command that is shown has the same key');
  assert.notEqual(adding.attemptFor(rex, 'other').key, attempt.key);
  adding.begin(attempt);
  assert.equal(adding.state.is, 'in flight');
  const keys = (of: typeof adding) => of.pending.map(({ key }: { readonly key: string }) => key);
  assert.deepEqual(keys(new Adding(kept)), [attempt.key], 'a reload in flight');

  for (const status of [0, 200, 302, 408, 409, 429, 500, 503]) {
    adding.settle({ status, code: '' });
    assert.equal(adding.state.is, 'unknown', String(status));
    assert.equal(adding.attemptFor(rex, 'other').key, attempt.key);
    assert.notEqual(adding.attemptFor(tom, 'k').key, attempt.key);
    adding.begin(adding.attemptFor(rex, 'k'));
  }
  // The key was refused now, but the first request may have added the pet.
  adding.settle({ status: 401, code: 'unauthorized' });
  assert.equal(adding.state.is, 'unknown');
  assert.equal(new Adding(kept).attemptFor(rex, 'k').key, attempt.key);

  // Another add has an outcome, and the first one stays pending.
  adding.begin(adding.attemptFor(tom, 'k'));
  assert.equal(keys(new Adding(kept)).length, 2);
  adding.settle({ id: '7' });
  assert.deepEqual(keys(new Adding(kept)), [attempt.key]);

  adding.begin(adding.attemptFor(rex, 'k'));
  adding.settle({ id: '1' });
  assert.deepEqual(adding.state, { is: 'done', id: '1' });
  assert.deepEqual([adding.pending, texts.has(pendingName)], [[], false]);
  assert.notEqual(adding.attemptFor(rex, 'k').key, attempt.key, 'the same text is another pet now');
  assert.throws(() => adding.settle({ id: '1' }), /no add in flight/);

  for (let i = 0; i < 25; i++) {
    adding.begin(adding.attemptFor({ ...rex, name: `n${i}` }, 'k'));
    adding.settle({ status: 0, code: '' });
  }
  assert.deepEqual([adding.pending.length, adding.pending[19].fields.name], [20, 'n24']);
});

test('an add that the petstore refuses is over', () => {
  for (const status of [400, 401, 403, 413, 415, 422]) {
    const { kept, texts } = sessionOf();
    const adding = new Adding(kept);
    const attempt = adding.attemptFor(rex, 'k');
    adding.begin(attempt);
    adding.settle({ status, code: '' });
    assert.deepEqual([adding.state.is, texts.size], ['editing', 0], String(status));
    assert.notEqual(adding.attemptFor(rex, 'k').key, attempt.key);
  }
});

test('a repeat that the server cannot recognise is a risk, and a new add is none', () => {
  const { kept } = sessionOf();
  let now = 0;
  const hour = 3_600_000;
  const adding = new Adding(kept, () => now);
  const first = adding.attemptFor(rex, 'k');
  assert.equal(adding.riskOf(first, 'other'), undefined);
  now = hour;
  adding.begin(first);
  adding.settle({ status: 0, code: '' });
  const again = adding.attemptFor(rex, 'k');
  assert.equal(adding.riskOf(again, 'k'), undefined);
  assert.match(adding.riskOf(again, 'other'), /another API key/);
  now = 24 * hour;
  assert.equal(adding.riskOf(again, 'k'), undefined);
  now = 24 * hour + 1;
  assert.match(adding.riskOf(again, 'k'), /a day ago/);
  now = 0;
  assert.match(adding.riskOf(again, 'k'), /a day ago/, 'a clock that was set back');

  adding.forget(again);
  assert.deepEqual(adding.pending, []);
  adding.begin(adding.attemptFor(rex, 'k'));
  adding.settle({ status: 400, code: 'invalid_parameter' });
  const keyless = adding.attemptFor(rex, 'k');
  assert.equal(keyless.key, '');
  adding.begin(keyless);
  adding.settle({ status: 0, code: '' });
  assert.match(adding.riskOf(adding.attemptFor(rex, 'k'), 'k'), /keeps no idempotency keys/);
});

test('Adding ignores a kept text that is not an add', () => {
  for (const text of [
    '',
    '{',
    'null',
    '{}',
    '[{"fields":{}}]',
    '[1]',
    '[{"fields":null}]',
    '[null]',
  ]) {
    const { kept } = sessionOf();
    kept.set(pendingName, text);
    assert.deepEqual(new Adding(kept).pending, [], text);
  }
});

test('Place keeps the limit, and counts ids beyond 2^53 exactly', () => {
  const place = new Place('#status=sold&limit=5&after=40&pet=41');
  assert.equal(place.query, 'status=sold&limit=5&after=40');
  assert.equal(place.first, 'status=sold&limit=5');
  assert.equal(place.filtered(''), 'limit=5');
  assert.equal(place.filtered('pending'), 'status=pending&limit=5');
  assert.equal(
    place.at('9223372036854775807'),
    'limit=5&after=9223372036854775806&pet=9223372036854775807',
  );
  for (const wrong of ['0', '-1', '', '1e3', '9223372036854775808', '1 2', 'x'])
    assert.equal(place.at(wrong), undefined, wrong);
  assert.equal(place.guessedPrevious, undefined, 'ids of a filter have gaps');
  assert.equal(new Place('#after=9007199254740993').guessedPrevious, 'after=9007199254740973');
  assert.equal(new Place('#after=7&limit=5').guessedPrevious, 'after=2&limit=5');
  assert.equal(new Place('#after=4&limit=5').guessedPrevious, 'limit=5');
  assert.equal(new Place('#after=x').guessedPrevious, undefined);
  assert.deepEqual(
    ['', '#status=sold', '#after=20', '#after=16&pet=17', '#status=sold&after=0'].map(
      (hash) => new Place(hash).title,
    ),
    ['Pets', 'Sold pets', 'Pets after id 20', 'Pet 17', 'Sold pets'],
  );
});

test('the curl commands do what the page does', async (t) => {
  const running = await start(t);
  const url = `http://127.0.0.1:${running.port}/v1/pets`;
  const shell = async (command: string) => {
    const env = childEnvironment({ PETSTORE_KEY: key });
    return (await promisify(execFile)('sh', ['-c', command], { env })).stdout;
  };
  const name = `it's "x" $HOME \\ \u0000 {a,b} 猫`;
  const body = bodyOf({ name, category: '5', status: 'sold' });
  const command = addCommand(url, body, 'one-key');
  const added = await shell(command);
  assert.equal(added, `{"id":1,"name":${JSON.stringify(name)},"categoryId":5,"status":"sold"}\n`);
  assert.equal(await shell(command), added, 'the key makes it one pet');
  assert.equal((await storedPets(running)).length, 1);
  assert.equal(await shell(listCommand(`${url}?limit=5&status=sold`)), `[${added.trim()}]\n`);
  assert.equal(await shell(listCommand(`${url}?x={1,2}[3-4]'`)), `[${added.trim()}]\n`);
  assert.ok(!command.includes(key));
  assert.doesNotMatch(addCommand(url, body, ''), /Idempotency-Key/);
  assert.match(addCommand(url, 'x'.repeat(100_001), ''), /^# The pet is too long/);
});

test('a download has the bytes of every pet, waits when it is asked, and goes on after an error', async () => {
  const pets = Array.from({ length: 250 }, (_, index) => ({
    name: `"é" ${index}`,
    categoryId: 2n ** 62n,
  }));
  const storage = memoryStorage({ pets });
  const lines = (await storage.list({ limit: 250 })).map(
    ({ id, name, categoryId }) =>
      `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}}`,
  );
  const failures = [
    new RequestError('Busy.', { status: 503, waitSeconds: 2 }),
    new RequestError('Gone.'),
  ];
  const request = async (query: string) => {
    const after = Number(new URLSearchParams(query).get('after'));
    if (after === 100 && failures.length > 0) throw failures.shift();
    const next = after === 200 ? undefined : `limit=100&after=${after + 100}`;
    return { text: `[${lines.slice(after, after + 100).join(',')}]`, body: [], next };
  };
  const waits: number[] = [];
  const counts: number[] = [];
  const download = new Download();
  const options = {
    request,
    wait: async (seconds: number) => void waits.push(seconds),
    onPage: () => counts.push(download.count),
  };
  await assert.rejects(download.run(options), { message: 'Gone.' });
  const file: Blob = await download.run(options);
  assert.equal(await file.text(), lines.map((line) => `${line}\n`).join(''));
  assert.deepEqual([waits, counts], [[2], [100, 200, 250]]);

  const busy = async () => {
    throw new RequestError('Busy.', { status: 429, waitSeconds: 1 });
  };
  await assert.rejects(new Download().run({ ...options, request: busy }), { message: 'Busy.' });
  assert.equal(waits.length, 6);
  // Each page may have as many waits.
  let refusals = 0;
  const often = async (query: string) => (++refusals % 6 === 0 ? request(query) : busy());
  const whole: Blob = await new Download().run({ ...options, request: often });
  assert.deepEqual([await whole.text(), waits.length], [await file.text(), 21]);
  const endless = async () => ({ text: '[]', body: [], next: 'limit=100' });
  await assert.rejects(new Download().run({ ...options, request: endless }), /does not end/);
});
