/** Adding: C19 to C32, C53 and C57 of docs/contract.md. */
import { randomInt, randomUUID } from 'node:crypto';
import { toByteString } from '../index.js';
import type { Answer } from './raw-connection.js';
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  animalsOf,
  expectHeader,
  expectSuccess,
  faultOf,
  headerOf,
  isSameInt64,
  isSuccess,
  jsonOf,
  membersOf,
  memberText,
  untried,
  type Animal,
  type Draft,
  type Server,
} from './server-under-test.js';

/** Expects 400 for each of these bodies. */
async function refuseBodies(
  server: Server,
  code: 'invalid_body' | 'invalid_json',
  bodies: readonly string[],
): Promise<void> {
  for (const body of bodies) {
    const headers = ['Content-Type: application/json'];
    server.expectError(await server.request('POST', '/pets', { headers, body }), 400, code);
  }
}

/** Expects a draft to be taken, and a member to be answered alike; a number by its value. */
async function expectMember(
  server: Server,
  draft: Draft,
  name: 'name' | 'categoryId',
  expected = draft[name] ?? '',
): Promise<Animal> {
  const json = server.json({ name: server.uniqueName(), ...draft });
  const answer = await server.post(json);
  const sent = `${name} ${draft[name]}`;
  expectSuccess(answer, sent);

  expect(answer, jsonOf(answer) !== undefined, 'JSON', undefined, sent);
  const animal = animalOf(answer);
  const came = memberText(animal, name);
  const isRight = came === expected || isSameInt64(came, expected);
  if (!isRight) await needsEcho(server);
  expect(answer, isRight, expected, came, draft[name]);
  return animal;
}

/** Says that a rule needs answers that are of the animal which was added. */
async function needsEcho(server: Server): Promise<void> {
  const name = server.uniqueName();
  const added = await server.add({ name });
  if (memberText(added, 'name') !== name) untried('the animal that was added as the answer', 'C30');
}

/**
 * The animal of an answer to adding.
 *
 * @throws Untried where there is none, with an id
 */
function animalOf(answer: Answer): Animal {
  const [animal] = animalsOf(answer);
  return animal ?? untried('an animal that was added, with its id', 'C30');
}

/**
 * Expects a member to be read back as it was answered before, wherever the animal is found: at its
 * own address, and in the list.
 */
async function expectStored(server: Server, animal: Animal, name: string): Promise<void> {
  const isGone = await server.isGetPetGone();
  const answer = isGone ? undefined : await server.request('GET', `/pets/${animal.id}`);
  const found = [
    ...(answer !== undefined && isSuccess(answer) ? animalsOf(answer) : []),
    ...(await server.list('?limit=100')).filter(({ id }) => id === animal.id),
  ];

  // That an address leads to this animal, and to no other, is a matter of C31 and C34.
  const other = name === 'name' ? 'categoryId' : 'name';
  for (const each of found) {
    if (memberText(each, other) !== memberText(animal, other)) continue;
    const [came, expected] = [memberText(each, name), memberText(animal, name)];
    expect(each.answer, came === expected, expected, came);
  }
}

/** Expects 415 for each of these lines, with a body that is right without it and with none. */
async function refuseTypes(server: Server, lines: readonly string[]): Promise<void> {
  for (const line of lines)
    for (const body of [server.json(), 'no JSON', '']) {
      const answer = await server.request('POST', '/pets', { headers: [line], body });
      server.expectError(answer, 415, 'unsupported_media_type', line);
      expectHeader(answer, 'Accept', /^application\/json$/, 'application/json');
    }
}

/** Expects 422 for a body that differs from the first in its bytes, though not in what it says. */
async function refuseOtherBodies(server: Server, key: string): Promise<void> {
  const json = server.json();
  for (const other of [
    server.json({ status: 'sold' }),
    `${json} `,
    json.replace('5}', '5.0}'),
    json.replace('verify', '\\u0076erify'),
  ])
    server.expectError(await server.post(other, [key]), 422, 'idempotency_mismatch');

  const beyond = `Idempotency-Key: ${randomUUID()}`;
  const added = await server.post(server.json({ name: '"é"' }), [beyond]);
  const again = await server.post(server.json({ name: '"é"' }), [beyond]);
  expect(again, again.body === added.body, `the first answer again, ${added.body}`);
  for (const name of ['"\\u00e9"', '"e"', '"\u00ea"'])
    server.expectError(
      await server.post(server.json({ name }), [beyond]),
      422,
      'idempotency_mismatch',
    );
}

/** Expects a key whose requests were refused to be as good as new. */
async function expectOnlyAddedKept(server: Server): Promise<void> {
  const key = `Idempotency-Key: ${randomUUID()}`;
  for (const json of ['{', '{}', '{', '{}']) {
    const answer = await server.post(json, [key]);
    const isRefused = !isSuccess(answer) && answer.status !== 422;
    expect(answer, isRefused, 'the refusal of a body that is none, each time');
  }
  expectSuccess(await server.post(server.json(), [key]), 'a key whose requests were refused');
  const late = await server.post('{}', [key]);
  expect(late, late.status === 400, '400: the body is none, whatever its key was used for');
}

/** Expects every key of visible characters to stand for an animal of its own. */
async function expectAnyCharacter(server: Server): Promise<void> {
  const visible = Array.from({ length: 94 }, (_, at) => String.fromCharCode(0x21 + at));
  const unique = randomUUID();
  const keys = [...visible.map((one) => `${unique}${one}`), `${visible.join('')}${unique}`];
  keys.push(`"${unique}"`, `${unique}${'k'.repeat(219)}`, `${unique}${'k'.repeat(218)}`);

  const bodies = new Map<string, string>();
  for (const key of [...keys, ...keys]) {
    // Optional space around a value is no part of it (RFC 9110 §5.5).
    const line = bodies.has(key) ? `idempotency-KEY: \t ${key} ` : `Idempotency-Key: ${key}`;
    const answer = await server.post(server.json(), [line]);
    const body = bodies.get(key) ?? answer.body;
    expect(answer, answer.body === body, body, undefined, line);
    bodies.set(key, body);
  }
  const different = new Set(bodies.values()).size;
  const answer = await server.post(server.json());
  const expected = `${keys.length} animals by as many keys`;
  expect(answer, different === keys.length, expected, `${different} animals`);
}

/** Expects 400 for what is no key, whatever the body, and a message that does not echo it. */
async function refuseKeys(server: Server): Promise<void> {
  const line = 'Idempotency-Key: secret';
  const values = ['', ' ', 'se cret', 'se\tcret', 'secret\xe9', '\x80secret', 'secret, secret'];
  values.push(`secret${'k'.repeat(250)}`, 'secret'.repeat(1000));
  for (const lines of [
    ...values.map((value) => [`Idempotency-Key: ${value}`]),
    [line, line],
    [line, 'idempotency-key:'],
  ])
    for (const json of [server.json(), '{']) {
      const answer = await server.post(json, lines);
      server.expectError(answer, 400, 'invalid_parameter', lines.join(', '));
      expect(answer, !answer.body.includes('secret'), 'an error that does not echo the key');
    }
}

/** Expects other requests to be answered as ever, whatever the header says. */
async function expectKeysIgnored(server: Server): Promise<void> {
  const headers = ['Idempotency-Key: a b', 'Idempotency-Key: k'];
  for (const [method, path] of [
    ['GET', '/pets?limit=1'],
    ['OPTIONS', '/pets'],
    ['PUT', '/pets'],
    ['GET', '/petz'],
  ] as const) {
    const { status } = await server.request(method, path);
    const answer = await server.request(method, path, { headers });
    expect(answer, answer.status === status, `${status}, as without Idempotency-Key`);
  }
}

const nested = (depth: number): string =>
  `{"name":"a","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;

// biome-ignore format: short ones by the dozen, a line for each would hide the rules.
const otherSpellings = [
  ['1.0', '1'], ['1e2', '100'], ['-0', '0'], ['-0.0e-9', '0'], ['0e999999999', '0'],
  ['1E+2', '100'], ['10e-1', '1'], ['12.50e1', '125'], ['-3E+0', '-3'],
] as const;
// biome-ignore format: as above.
const otherSpellingsPast2To53 = [
  ['9007199254740993.0', '9007199254740993'], ['92233720368547758.07e2', '9223372036854775807'],
  ['-9223372036854775808.000', '-9223372036854775808'],
  ['100000000000000000000e-2', '1000000000000000000'],
] as const;
// biome-ignore format: as above.
const noIntegers = [
  '1e400', '-1e400', '1e19', '1e-1', '0.1', '1e99999999999999999999', '1e-99999999999999999999',
  '9'.repeat(50_000), `1.${'0'.repeat(50_000)}1`, `1e${'9'.repeat(50_000)}`,
];
// biome-ignore format: as above.
const oddNames = [
  '', ' ', ' a ', '  a  ', '\0', 'a\0b', '\t\n\r\x1f', '"\\/', '🐈\u200d⬛', 'e\u0301', 'é',
  '\uFEFFx', '\uffff\ufffe', '\u2028\u2029', '</script>&amp;', 'נמר', '\u{10ffff}',
  'x'.repeat(20_000), "'; DROP TABLE pets;--",
];

/** Bodies that are no JSON, and the byte where that shows. */
// biome-ignore format: as above.
const noJson: readonly (readonly [body: string, at: number])[] = [
  ['', 0], [' ', 1], ['{', 1], ['{"name":"a","categoryId":1', 26],
  ['{"name":"a","categoryId":1}}', 27], ['{"name":"a",}', 12], ['{name:"a"}', 1],
  ["{'name':'a'}", 1], ['{"a":01}', 6], ['{"a":1.}', 7], ['{"a":.5}', 5], ['{"a":+1}', 5],
  ['{"a":NaN}', 5], ['{"a":"\n"}', 6], ['{"a":"\\x"}', 6], ['{"a":1}//', 7], ['[1,]', 3],
  ['undefined', 0], ['tru', 3], ['nulL', 3], ['{"a":"\x80"}', 6], ['{"a":"\xc0\xaf"}', 6],
  ['{"a":"\xed\xa0\x80"}', 6], ['{"a":"\xf4\x90\x80\x80"}', 6], ['{"a":"\xe7\x8c"}', 6],
  ['\xff\xfe{\0}\0', 0], ['"\\', 2], ['"\\u00', 5],
  ['{"a":"\\ud83d"}', 6], ['{"a":"\\udc08\\ud83d"}', 6], ['{"\\ud800":1}', 2],
  ['{"a":1,"a":1}', 7], ['{"a":1,"\\u0061":2}', 7], ['{"x":[{"b":1,"b":2}]}', 13],
  ['{"__proto__":1,"__proto__":1}', 15], [`${'['.repeat(65)}${']'.repeat(65)}`, 64],
  [`{"a":${'['.repeat(64)}${']'.repeat(64)}}`, 68], ['\xef\xbb\xbf', 3],
  ['\xef\xbb\xbf\xef\xbb\xbf{}', 3], ['\xef\xbb{}', 0], ['\x0b{}', 0], ['\xa0{}', 0],
];

// biome-ignore format: as above.
const jsonTypes = [
  'application/json', 'APPLICATION/JSON', 'application/json; charset=utf-8',
  'application/json;charset=UTF-8', 'application/json; charset="utf-8"',
  'application/json ; charset=utf-8', 'application/json; profile=x', 'application/json;',
  'application/json; q="a=b"', 'application/json; q="a\\"b;charset=x"',
];
// biome-ignore format: as above.
const otherTypes = [
  '', 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x',
  'application/jsonx', 'application/merge-patch+json', 'application/problem+json', 'text/json',
  'application/*', '*/*', 'json', 'application/json; charset=latin1',
  'application/json; charset=utf-16', 'application/json; charset=""',
  'application/json; charset=utf-8; charset=latin1', 'application/json, text/plain',
  'application/json charset=utf-8', 'application/json; x y', 'application / json',
];
const otherCodings = ['gzip', 'br', 'deflate', 'gzip, identity', 'identity, gzip', 'x'];

/** Expects the message of an error to be as a pattern says. */
function expectMessage(answer: Answer, pattern: RegExp, what: string, sent?: string): void {
  const message = memberText({ members: membersOf(answer) }, 'message');
  expect(answer, pattern.test(message.slice(1, -1)), `a message that names ${what}`, message, sent);
}

export const adding: Chapter = {
  name: 'Adding',
  rules: [
    {
      number: 'C19',
      sentence: 'a status that is left out stays absent',
      cost: 'an animal is offered, or hidden, though nobody said so',
      full: async (server) => {
        const answer = await server.post(server.json());
        const animal = animalOf(answer);
        const came = `status ${memberText(animal, 'status')}`;
        expect(answer, !animal.members.has('status'), 'no member status', came);
        await expectStored(server, animal, 'status');
      },
    },
    {
      number: 'C20',
      sentence: 'a field that is missing or of another type, null and what is no object are 400',
      cost: 'the catalogue holds animals that no client can read',
      specification: (server) =>
        refuseBodies(server, 'invalid_body', [
          '{}',
          '{"name":"a"}',
          '{"categoryId":1}',
          '{"name":5,"categoryId":1}',
          '{"name":null,"categoryId":1}',
          '{"name":"a","categoryId":"1"}',
          '{"name":"a","categoryId":null}',
          '{"name":"a","categoryId":true}',
          '{"name":"a","categoryId":1,"status":"gone"}',
          '{"name":"a","categoryId":1,"status":"Sold"}',
          '{"name":"a","categoryId":1,"status":""}',
          '{"name":"a","categoryId":1,"status":5}',
          '{"name":"a","categoryId":1,"status":null}',
          '{"name":["a"],"categoryId":[1],"status":["sold"]}',
          '{"name":{},"categoryId":{},"status":{}}',
          '{"name":true,"categoryId":true,"status":false}',
          '{"Name":"a","CategoryId":1}',
          ...['null', 'true', '5', '"a"', '"{}"', '[]', '[{"name":"a","categoryId":1}]'],
        ]),
      full: async (server) => {
        const all = await server.post('{"name":5,"categoryId":"1","status":"gone"}');
        expectMessage(all, /(?=.*\bname\b)(?=.*\bcategoryId\b).*\bstatus\b/, 'all three fields');
        const missing = await server.post('{}');
        const isMissing = /\bname is missing\b.*\bcategoryId is missing\b/;
        expectMessage(missing, isMissing, 'name and categoryId as missing');
        const category = await server.post('{"name":"a","categoryId":1,"status":"gone"}');
        expectMessage(category, /^(?!.*categoryId).*available.*pending.*sold/, 'status alone');
      },
    },
    {
      number: 'C21',
      sentence: 'other members are ignored, id and __proto__ included: not stored, not echoed',
      cost: 'a client chooses ids, or keeps what nobody checks',
      full: async (server) => {
        const id = '4611686018427387904';
        const others = `"id":${id},"__proto__":{"status":"sold"},"extra":[{}],"Name":"b"`;
        const odd =
          '"constructor":null,"toString":1,"":1,"Status":"x","stat\\u0075s2":1,"price":1e400';
        const answer = await server.post(`{${others},${odd},${server.json().slice(1)}`);
        expectSuccess(answer);

        const animal = animalOf(answer);
        // A status that nobody gave is a matter of C19 alone.
        const known = ['id', 'name', 'categoryId', 'status'];
        const echoed = [...animal.members.keys()].filter((name) => !known.includes(name));
        const came = `the member ${echoed.join(', ')}`;
        expect(answer, echoed.length === 0, 'none of the other members', came);
        expect(answer, animal.id !== BigInt(id), 'an id of its own', `id ${id}`);
        await expectStored(server, animal, 'extra');
      },
    },
    {
      number: 'C22',
      sentence: '1.0, 1e2 and -0 are the integers 1, 100 and 0',
      cost: 'a client in a language with one type of number is refused for its way to write',
      full: async (server) => {
        for (const [given, digits] of otherSpellings) {
          const animal = await expectMember(server, { categoryId: given }, 'categoryId', digits);
          const came = memberText(animal, 'categoryId');
          expect(animal.answer, came === digits, digits, came, given);
        }
      },
    },
    {
      number: 'C23',
      sentence: 'int64 exact',
      cost: 'ids past 2^53 silently become those of another category',
      specification: async (server) => {
        // biome-ignore format: the edges of the range, and of what a double holds.
        const exact = [
          '9007199254740993', '-9007199254740993', '9007199254740992', '999999999999999',
          '9999999999999999', '9223372036854775807', '-9223372036854775808',
        ];
        for (const categoryId of exact) {
          const animal = await expectMember(server, { categoryId }, 'categoryId');
          await expectStored(server, animal, 'categoryId');
        }
      },
      full: async (server) => {
        for (const [given, digits] of otherSpellingsPast2To53)
          await expectMember(server, { categoryId: given }, 'categoryId', digits);
      },
    },
    {
      number: 'C24',
      sentence: 'a number that is no int64 is 400',
      cost: 'a wrong number is stored as another, or one digit too many costs seconds',
      specification: (server) =>
        refuseBodies(
          server,
          'invalid_body',
          ['1.5', '9223372036854775808', '-9223372036854775809', '1e30'].map((categoryId) =>
            server.json({ name: '"a"', categoryId }),
          ),
        ),
      full: (server) =>
        refuseBodies(
          server,
          'invalid_body',
          noIntegers.map((categoryId) => server.json({ categoryId })),
        ),
    },
    {
      number: 'C25',
      sentence: 'a name is any Unicode text, as it was given',
      cost: "half the world's names are mangled",
      specification: async (server) => {
        for (const name of ['Tüm', '猫', '🐈', 'a "b" \\c\n/'])
          await expectMember(server, { name: JSON.stringify(name) }, 'name');
        const draft = { name: JSON.stringify('ĞÜŞ 猫🐈'), categoryId: String(randomInt(2 ** 40)) };
        const animal = await expectMember(server, draft, 'name');
        await expectStored(server, animal, 'name');
      },
      full: async (server) => {
        for (const name of oddNames) {
          const animal = await expectMember(server, { name: JSON.stringify(name) }, 'name');
          await expectStored(server, animal, 'name');
        }
        await expectMember(server, { name: '"\\u00fc\\ud83d\\udc08\\/"' }, 'name', '"ü🐈/"');
        const escaped = await server.post('{"n\\u0061me":"a","categoryId":5}');
        expectSuccess(escaped, 'a name of a member that is escaped');
      },
    },
    {
      number: 'C26',
      sentence: 'what is no JSON is 400',
      cost: 'a broken upload is stored in part, or answered as a fault of the server',
      specification: (server) =>
        refuseBodies(server, 'invalid_json', [
          '',
          '{"name":"a","categoryId":1',
          'name=a&categoryId=1',
          '{"name":"a","categoryId":1}}',
          '{"name":"a","categoryId":}',
        ]),
      full: async (server) => {
        for (const [body, at] of noJson) {
          const headers = ['Content-Type: application/json'];
          const answer = await server.request('POST', '/pets', { headers, body });
          server.expectError(answer, 400, 'invalid_json');
          expectMessage(answer, new RegExp(`\\b${at}\\b`), `the byte ${at}`);
        }
        const headers = ['Content-Type: application/json'];
        const none = await server.request('POST', '/pets', { headers });
        server.expectError(none, 400, 'invalid_json');

        for (const json of [nested(63), `\uFEFF${server.json()}`, ` \t\r\n${server.json()} `])
          expectSuccess(await server.post(json));
      },
    },
    {
      number: 'C27',
      sentence: 'a body without a Content-Type is taken as JSON',
      cost: 'a short `curl` line or a shell script is refused',
      full: async (server) => {
        const body = toByteString(server.json());
        expectSuccess(await server.request('POST', '/pets', { body }));
      },
    },
    {
      number: 'C28',
      sentence: 'a body of another media type, charset or coding is 415',
      cost: 'bytes of one format are read as another',
      full: async (server) => {
        await refuseTypes(server, [
          ...otherTypes.map((type) => `Content-Type: ${type}`),
          ...otherCodings.map((coding) => `Content-Encoding: ${coding}`),
          'Content-Type: application/json\r\nContent-Type: text/plain',
        ]);

        for (const line of [
          ...jsonTypes.map((type) => `Content-Type: ${type}`),
          ...['identity', 'Identity', 'identity , identity'].map((c) => `Content-Encoding: ${c}`),
        ]) {
          const body = toByteString(server.json());
          const answer = await server.request('POST', '/pets', { headers: [line], body });
          expectSuccess(answer, line);
        }
      },
    },
    {
      number: 'C29',
      sentence: 'a body over the limit is 413, and the connection ends',
      cost: 'a client with a key fills the memory, or waits for ever',
      full: async (server) => {
        const type = 'Content-Type: application/json';
        const declared = (length: string): string =>
          server.bytesOf('POST', '/pets', { headers: [type, `Content-Length: ${length}`] });
        const refuse = (bytes: string): Promise<void> =>
          server.withConnection(async (connection) => {
            connection.send(bytes);
            const answer = await connection.answer();
            server.expectError(answer, 413, 'content_too_large');
            expect(answer, await connection.ends(), 'the end of the connection behind 413');
          });

        await refuse(`${declared('1099511627776')}{"name":"`);
        await refuse(declared('18446744073709551615'));

        // A byte more than the default limit; that of this server may be higher.
        const body = server.json();
        const padded = (bytes: number): string => ' '.repeat(bytes - body.length) + body;
        if (isSuccess(await server.post(padded(65_537)))) return;

        await refuse(`${declared('65537')}${padded(65_537)}`);
        const headers = [type, 'Transfer-Encoding: chunked'];
        const streamed = server.bytesOf('POST', '/pets', { headers });
        const pieces = `100\r\n${' '.repeat(256)}\r\n`.repeat(257);
        await refuse(`${streamed}10001\r\n${padded(65_537)}\r\n0\r\n\r\n`);
        await refuse(`${streamed}${pieces}0\r\n\r\n`);
        await refuse(`${streamed}fffffffff\r\n${' '.repeat(65_537)}`);
      },
    },
    {
      number: 'C30',
      sentence: 'an animal that was added is 201, whole, with its id and its address',
      cost: 'a client does not learn what it has made',
      specification: async (server) => {
        for (const status of ['pending', undefined]) {
          const name = server.uniqueName();
          const answer = await server.post(server.json({ name, ...(status && { status }) }));
          expect(answer, answer.status === 201, '201');
          const fault = faultOf(jsonOf(answer));
          expect(answer, fault === undefined, 'the animal with an id', fault);

          const [animal] = animalsOf(answer);
          const given = { name, categoryId: '5', ...(status && { status: `"${status}"` }) };
          for (const [member, expected] of Object.entries(given)) {
            const came = animal === undefined ? 'no animal' : memberText(animal, member);
            const isRight = came === expected || isSameInt64(came, expected);
            expect(answer, isRight, `${member} ${expected}`, `${member} ${came}`);
          }
        }
      },
      http: async (server) => {
        if (await server.isGetPetGone()) return;
        const { id, answer } = await server.add();
        expectHeader(answer, 'Location', new RegExp(`/pets/${id}$`), `…/pets/${id}`);
      },
    },
    {
      number: 'C31',
      sentence: 'an id is used once; those of later animals are greater',
      cost: 'two animals share an address, or a client that pages misses one',
      specification: async (server) => {
        const animals = await Promise.all(Array.from({ length: 20 }, () => server.add()));
        const ids = animals.map(({ id }) => id);
        const came = `ids ${ids.join(', ')}`;
        const { answer } = animals[0] ?? (await server.add());
        expect(answer, new Set(ids).size === ids.length, 'twenty different ids', came);
      },
      full: async (server) => {
        const before = await server.add();
        const behind = await server.add();
        const came = `${behind.id} after ${before.id}`;
        expect(behind.answer, behind.id > before.id, `an id greater than ${before.id}`, came);
      },
    },
    {
      number: 'C32',
      sentence: 'any category and a name that another animal has are taken',
      cost: 'an animal cannot be added until somebody has made its category',
      specification: async (server) => {
        for (const categoryId of ['0', '-1', '-5', '123456789'])
          await expectMember(server, { categoryId }, 'categoryId');
        for (const name of ['"Rex"', '"Rex"']) await expectMember(server, { name }, 'name');
      },
    },
    {
      number: 'C53',
      sentence: 'of a client that is gone in the middle of a body nothing is stored',
      cost: 'a lost connection leaves half an animal, and the repeated request another',
      full: async (server) => {
        const first = await server.add();
        const name = server.uniqueName();
        await server.withConnection(async (connection) => {
          const headers = ['Content-Type: application/json', 'Content-Length: 1000'];
          connection.send(
            `${server.bytesOf('POST', '/pets', { headers })}${server.json({ name })}`,
          );
        });
        await server.add();
        for (const { answer, members } of await server.listBehind(first.id)) {
          const isRight = JSON.stringify(members.get('name')) !== name;
          expect(answer, isRight, 'nothing of the body of which a part came', name);
        }
      },
    },
    {
      number: 'C57',
      sentence: 'with an Idempotency-Key the same request adds once, and is answered again',
      cost: 'a client that repeats a request after a lost answer adds the animal twice',
      full: async (server) => {
        const key = `Idempotency-Key: ${randomUUID()}`;
        const first = await server.post(server.json(), [key]);
        if (first.status === 400) throw new Untried('its storage keeps no idempotency keys');
        expectSuccess(first);

        const again = await server.post(server.json(), [key]);
        const isSame = again.status === first.status && again.body === first.body;
        expect(again, isSame, `the first answer again, ${first.body}`);

        const location = headerOf(first, 'Location');
        expect(again, headerOf(again, 'Location') === location, `Location: ${location}`);
        const bare = await server.post(server.json());
        expect(bare, bare.body !== first.body, 'an animal of its own without the key');

        await refuseOtherBodies(server, key);
        await expectOnlyAddedKept(server);
        await expectAnyCharacter(server);
        await refuseKeys(server);
        await expectKeysIgnored(server);
      },
    },
  ],
};
