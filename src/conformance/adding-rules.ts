/** The rules on adding pets: C19 to C32, C53 and C57 of docs/contract.md. */
import { randomInt, randomUUID } from 'node:crypto';
import { toByteString } from '../index.js';
import type { RawResponse } from './raw-connection.js';
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  petsIn,
  expectHeader,
  expectSuccess,
  problemWith,
  headerOf,
  isSameInt64,
  isSuccess,
  jsonOf,
  membersOf,
  memberText,
  skipUntil,
  type ReceivedPet,
  type JsonDraft,
  type TestedServer,
} from './tested-server.js';

/** Expects 400 with `code` for each body. */
async function refuseBodies(
  server: TestedServer,
  code: 'invalid_body' | 'invalid_json',
  bodies: readonly string[],
): Promise<void> {
  for (const body of bodies) {
    const headers = ['Content-Type: application/json'];
    server.expectError(await server.request('POST', '/pets', { headers, body }), 400, code);
  }
}

/** Expects a pet to be added and returned with the same member; compares numbers by value. */
async function expectMember(
  server: TestedServer,
  draft: JsonDraft,
  name: 'name' | 'categoryId',
  expected = draft[name] ?? '',
): Promise<ReceivedPet> {
  const json = server.json({ name: server.uniqueName(), ...draft });
  const response = await server.post(json);
  const sent = `${name} ${draft[name]}`;
  expectSuccess(response, sent);

  expect(response, jsonOf(response) !== undefined, 'JSON', undefined, sent);
  const pet = petIn(response);
  const came = memberText(pet, name);
  const isRight = came === expected || isSameInt64(came, expected);
  if (!isRight) await requireEcho(server);
  expect(response, isRight, expected, came, draft[name]);
  return pet;
}

/** @throws Untried if the response to adding a pet is not that pet */
async function requireEcho(server: TestedServer): Promise<void> {
  const name = server.uniqueName();
  const added = await server.add({ name });
  if (memberText(added, 'name') !== name) skipUntil('the added pet in the response', 'C30');
}

/**
 * Returns the pet in the response to adding it.
 *
 * @throws Untried if there is no pet with an id
 */
function petIn(response: RawResponse): ReceivedPet {
  const [pet] = petsIn(response);
  return pet ?? skipUntil('an added pet with its id', 'C30');
}

/**
 * Expects a member to be the same in the response to adding the pet, at the pet's URL and in the
 * list.
 */
async function expectStored(server: TestedServer, pet: ReceivedPet, name: string): Promise<void> {
  const isGone = await server.isGetPetGone();
  const response = isGone ? undefined : await server.request('GET', `/pets/${pet.id}`);
  const found = [
    ...(response !== undefined && isSuccess(response) ? petsIn(response) : []),
    ...(await server.list('?limit=100')).filter(({ id }) => id === pet.id),
  ];

  // Pets whose other member differs are skipped: C31 and C34 check that a URL leads to one pet.
  const other = name === 'name' ? 'categoryId' : 'name';
  for (const each of found) {
    if (memberText(each, other) !== memberText(pet, other)) continue;
    const [came, expected] = [memberText(each, name), memberText(pet, name)];
    expect(each.response, came === expected, expected, came);
  }
}

/** Expects 415 for each header line, whatever the body. */
async function refuseTypes(server: TestedServer, lines: readonly string[]): Promise<void> {
  for (const line of lines)
    for (const body of [server.json(), 'not JSON', '']) {
      const response = await server.request('POST', '/pets', { headers: [line], body });
      server.expectError(response, 415, 'unsupported_media_type', line);
      expectHeader(response, 'Accept', /^application\/json$/, 'application/json');
    }
}

/** Expects 422 for bodies that differ in their bytes, also if their JSON values are equal. */
async function refuseOtherBodies(server: TestedServer, key: string): Promise<void> {
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
  expect(again, again.body === added.body, `the first response again, ${added.body}`);
  for (const name of ['"\\u00e9"', '"e"', '"\u00ea"'])
    server.expectError(
      await server.post(server.json({ name }), [beyond]),
      422,
      'idempotency_mismatch',
    );
}

/** Expects a key to stay unused if its requests were refused. */
async function expectOnlyAddedKept(server: TestedServer): Promise<void> {
  const key = `Idempotency-Key: ${randomUUID()}`;
  for (const json of ['{', '{}', '{', '{}']) {
    const response = await server.post(json, [key]);
    const isRefused = !isSuccess(response) && response.status !== 422;
    expect(response, isRefused, 'each invalid body to be refused');
  }
  expectSuccess(await server.post(server.json(), [key]), 'a key whose requests were refused');
  const late = await server.post('{}', [key]);
  expect(late, late.status === 400, '400 for the invalid body, although its key was used');
}

/** Expects each key of visible characters to add its own pet. */
async function expectAnyCharacter(server: TestedServer): Promise<void> {
  const visible = Array.from({ length: 94 }, (_, at) => String.fromCharCode(0x21 + at));
  const unique = randomUUID();
  const keys = [...visible.map((one) => `${unique}${one}`), `${visible.join('')}${unique}`];
  keys.push(`"${unique}"`, `${unique}${'k'.repeat(219)}`, `${unique}${'k'.repeat(218)}`);

  const bodies = new Map<string, string>();
  for (const key of [...keys, ...keys]) {
    // Space around a value is not part of it (RFC 9110 §5.5).
    const line = bodies.has(key) ? `idempotency-KEY: \t ${key} ` : `Idempotency-Key: ${key}`;
    const response = await server.post(server.json(), [line]);
    const body = bodies.get(key) ?? response.body;
    expect(response, response.body === body, body, undefined, line);
    bodies.set(key, body);
  }
  const different = new Set(bodies.values()).size;
  const response = await server.post(server.json());
  const expected = `${keys.length} pets by as many keys`;
  expect(response, different === keys.length, expected, `${different} pets`);
}

/** Expects 400 for invalid idempotency keys, and messages that do not repeat the key. */
async function refuseKeys(server: TestedServer): Promise<void> {
  const line = 'Idempotency-Key: secret';
  const values = ['', ' ', 'se cret', 'se\tcret', 'secret\xe9', '\x80secret', 'secret, secret'];
  values.push(`secret${'k'.repeat(250)}`, 'secret'.repeat(1000));
  for (const lines of [
    ...values.map((value) => [`Idempotency-Key: ${value}`]),
    [line, line],
    [line, 'idempotency-key:'],
  ])
    for (const json of [server.json(), '{']) {
      const response = await server.post(json, lines);
      server.expectError(response, 400, 'invalid_parameter', lines.join(', '));
      expect(response, !response.body.includes('secret'), 'an error that does not repeat the key');
    }
}

/** Expects Idempotency-Key to have no effect on other requests. */
async function expectKeysIgnored(server: TestedServer): Promise<void> {
  const headers = ['Idempotency-Key: a b', 'Idempotency-Key: k'];
  for (const [method, path] of [
    ['GET', '/pets?limit=1'],
    ['OPTIONS', '/pets'],
    ['PUT', '/pets'],
    ['GET', '/petz'],
  ] as const) {
    const { status } = await server.request(method, path);
    const response = await server.request(method, path, { headers });
    expect(response, response.status === status, `${status}, as without Idempotency-Key`);
  }
}

const nested = (depth: number): string =>
  `{"name":"a","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;

// biome-ignore format: many short values; one per line would hide the rules.
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
const notInt64 = [
  '1e400', '-1e400', '1e19', '1e-1', '0.1', '1e99999999999999999999', '1e-99999999999999999999',
  '9'.repeat(50_000), `1.${'0'.repeat(50_000)}1`, `1e${'9'.repeat(50_000)}`,
];
// biome-ignore format: as above.
const oddNames = [
  '', ' ', ' a ', '  a  ', '\0', 'a\0b', '\t\n\r\x1f', '"\\/', '🐈\u200d⬛', 'e\u0301', 'é',
  '\uFEFFx', '\uffff\ufffe', '\u2028\u2029', '</script>&amp;', 'נמר', '\u{10ffff}',
  'x'.repeat(20_000), "'; DROP TABLE pets;--",
];

/** Bodies that are not JSON, each with the offset of its error in bytes. */
// biome-ignore format: as above.
const notJson: readonly (readonly [body: string, at: number])[] = [
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

/** Expects the message of an error to match a pattern. */
function expectMessage(response: RawResponse, pattern: RegExp, what: string, sent?: string): void {
  const message = memberText({ members: membersOf(response) }, 'message');
  expect(
    response,
    pattern.test(message.slice(1, -1)),
    `a message that names ${what}`,
    message,
    sent,
  );
}

export const adding: Chapter = {
  name: 'Adding',
  rules: [
    {
      number: 'C19',
      sentence: 'a pet that is added without a status has no status',
      cost: 'a pet is offered or hidden although nobody said so',
      full: async (server) => {
        const response = await server.post(server.json());
        const pet = petIn(response);
        const came = `status ${memberText(pet, 'status')}`;
        expect(response, !pet.members.has('status'), 'no member status', came);
        await expectStored(server, pet, 'status');
      },
    },
    {
      number: 'C20',
      sentence: 'a body that is not an object, or has a missing or invalid field, is 400',
      cost: 'the catalogue holds pets that no client can read',
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
      sentence: 'unknown members, also id and __proto__, are neither stored nor returned',
      cost: 'a client chooses ids, or stores data that nobody checks',
      full: async (server) => {
        const id = '4611686018427387904';
        const others = `"id":${id},"__proto__":{"status":"sold"},"extra":[{}],"Name":"b"`;
        const odd =
          '"constructor":null,"toString":1,"":1,"Status":"x","stat\\u0075s2":1,"price":1e400';
        const response = await server.post(`{${others},${odd},${server.json().slice(1)}`);
        expectSuccess(response);

        const pet = petIn(response);
        // C19 checks for a status that the request did not have.
        const known = ['id', 'name', 'categoryId', 'status'];
        const echoed = [...pet.members.keys()].filter((name) => !known.includes(name));
        const came = `the member ${echoed.join(', ')}`;
        expect(response, echoed.length === 0, 'no unknown member', came);
        expect(response, pet.id !== BigInt(id), 'an id that the server chose', `id ${id}`);
        await expectStored(server, pet, 'extra');
      },
    },
    {
      number: 'C22',
      sentence: '1.0, 1e2 and -0 are accepted as the integers 1, 100 and 0',
      cost: 'a client in a language with a single number type is refused',
      full: async (server) => {
        for (const [given, digits] of otherSpellings) {
          const pet = await expectMember(server, { categoryId: given }, 'categoryId', digits);
          const came = memberText(pet, 'categoryId');
          expect(pet.response, came === digits, digits, came, given);
        }
      },
    },
    {
      number: 'C23',
      sentence: 'an int64 is stored and returned exactly',
      cost: 'ids past 2^53 silently become those of another category',
      specification: async (server) => {
        // biome-ignore format: the limits of the range, and of what a double holds exactly.
        const exact = [
          '9007199254740993', '-9007199254740993', '9007199254740992', '999999999999999',
          '9999999999999999', '9223372036854775807', '-9223372036854775808',
        ];
        for (const categoryId of exact) {
          const pet = await expectMember(server, { categoryId }, 'categoryId');
          await expectStored(server, pet, 'categoryId');
        }
      },
      full: async (server) => {
        for (const [given, digits] of otherSpellingsPast2To53)
          await expectMember(server, { categoryId: given }, 'categoryId', digits);
      },
    },
    {
      number: 'C24',
      sentence: 'a number that is not an int64 is 400',
      cost: 'a wrong number is stored as another one, or a long number takes seconds',
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
          notInt64.map((categoryId) => server.json({ categoryId })),
        ),
    },
    {
      number: 'C25',
      sentence: 'a name may be any Unicode text, and is stored unchanged',
      cost: 'names in many languages are mangled',
      specification: async (server) => {
        for (const name of ['Tüm', '猫', '🐈', 'a "b" \\c\n/'])
          await expectMember(server, { name: JSON.stringify(name) }, 'name');
        const draft = { name: JSON.stringify('ĞÜŞ 猫🐈'), categoryId: String(randomInt(2 ** 40)) };
        const pet = await expectMember(server, draft, 'name');
        await expectStored(server, pet, 'name');
      },
      full: async (server) => {
        for (const name of oddNames) {
          const pet = await expectMember(server, { name: JSON.stringify(name) }, 'name');
          await expectStored(server, pet, 'name');
        }
        await expectMember(server, { name: '"\\u00fc\\ud83d\\udc08\\/"' }, 'name', '"ü🐈/"');
        const escaped = await server.post('{"n\\u0061me":"a","categoryId":5}');
        expectSuccess(escaped, 'an escaped member name');
      },
    },
    {
      number: 'C26',
      sentence: 'a body that is not JSON is 400',
      cost: 'a broken upload is stored in part, or reported as a fault of the server',
      specification: (server) =>
        refuseBodies(server, 'invalid_json', [
          '',
          '{"name":"a","categoryId":1',
          'name=a&categoryId=1',
          '{"name":"a","categoryId":1}}',
          '{"name":"a","categoryId":}',
        ]),
      full: async (server) => {
        for (const [body, at] of notJson) {
          const headers = ['Content-Type: application/json'];
          const response = await server.request('POST', '/pets', { headers, body });
          server.expectError(response, 400, 'invalid_json');
          expectMessage(response, new RegExp(`\\b${at}\\b`), `the byte ${at}`);
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
      sentence: 'a body without a Content-Type is read as JSON',
      cost: 'a short `curl` command is refused',
      full: async (server) => {
        const body = toByteString(server.json());
        expectSuccess(await server.request('POST', '/pets', { body }));
      },
    },
    {
      number: 'C28',
      sentence: 'a body with another media type, charset or coding is 415',
      cost: 'the server reads bytes of one format as another',
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
          const response = await server.request('POST', '/pets', { headers: [line], body });
          expectSuccess(response, line);
        }
      },
    },
    {
      number: 'C29',
      sentence: 'a body over the limit is 413, and the connection ends',
      cost: 'a client with a key fills the memory, or waits forever',
      full: async (server) => {
        const type = 'Content-Type: application/json';
        const declared = (length: string): string =>
          server.requestBytes('POST', '/pets', { headers: [type, `Content-Length: ${length}`] });
        const refuse = (bytes: string): Promise<void> =>
          server.withConnection(async (connection) => {
            connection.send(bytes);
            const response = await connection.nextResponse();
            server.expectError(response, 413, 'content_too_large');
            expect(response, await connection.ends(), 'the end of the connection after 413');
          });

        await refuse(`${declared('1099511627776')}{"name":"`);
        await refuse(declared('18446744073709551615'));

        // One byte over the default limit. The limit of this server may be higher.
        const body = server.json();
        const padded = (bytes: number): string => ' '.repeat(bytes - body.length) + body;
        if (isSuccess(await server.post(padded(65_537)))) return;

        await refuse(`${declared('65537')}${padded(65_537)}`);
        const headers = [type, 'Transfer-Encoding: chunked'];
        const streamed = server.requestBytes('POST', '/pets', { headers });
        const pieces = `100\r\n${' '.repeat(256)}\r\n`.repeat(257);
        await refuse(`${streamed}10001\r\n${padded(65_537)}\r\n0\r\n\r\n`);
        await refuse(`${streamed}${pieces}0\r\n\r\n`);
        await refuse(`${streamed}fffffffff\r\n${' '.repeat(65_537)}`);
      },
    },
    {
      number: 'C30',
      sentence: 'adding a pet is 201 with the whole pet, its id and its Location',
      cost: 'a client does not learn what it has created',
      specification: async (server) => {
        for (const status of ['pending', undefined]) {
          const name = server.uniqueName();
          const response = await server.post(server.json({ name, ...(status && { status }) }));
          expect(response, response.status === 201, '201');
          const fault = problemWith(jsonOf(response));
          expect(response, fault === undefined, 'the pet with an id', fault);

          const [pet] = petsIn(response);
          const given = { name, categoryId: '5', ...(status && { status: `"${status}"` }) };
          for (const [member, expected] of Object.entries(given)) {
            const came = pet === undefined ? 'no pet' : memberText(pet, member);
            const isRight = came === expected || isSameInt64(came, expected);
            expect(response, isRight, `${member} ${expected}`, `${member} ${came}`);
          }
        }
      },
      http: async (server) => {
        if (await server.isGetPetGone()) return;
        const { id, response } = await server.add();
        expectHeader(response, 'Location', new RegExp(`/pets/${id}$`), `…/pets/${id}`);
      },
    },
    {
      number: 'C31',
      sentence: 'an id is never used twice, and later pets have greater ids',
      cost: 'two pets share a URL, or a client that pages misses one',
      specification: async (server) => {
        const pets = await Promise.all(Array.from({ length: 20 }, () => server.add()));
        const ids = pets.map(({ id }) => id);
        const came = `ids ${ids.join(', ')}`;
        const { response } = pets[0] ?? (await server.add());
        expect(response, new Set(ids).size === ids.length, 'twenty different ids', came);
      },
      full: async (server) => {
        const before = await server.add();
        const later = await server.add();
        const came = `${later.id} after ${before.id}`;
        expect(later.response, later.id > before.id, `an id greater than ${before.id}`, came);
      },
    },
    {
      number: 'C32',
      sentence: 'a pet may have any category id, and the same name as another pet',
      cost: 'a pet cannot be added before somebody creates its category',
      specification: async (server) => {
        for (const categoryId of ['0', '-1', '-5', '123456789'])
          await expectMember(server, { categoryId }, 'categoryId');
        for (const name of ['"Rex"', '"Rex"']) await expectMember(server, { name }, 'name');
      },
    },
    {
      number: 'C53',
      sentence: 'nothing is stored if a client disconnects in the middle of a body',
      cost: 'a lost connection stores half a pet, and the retry stores another',
      full: async (server) => {
        const first = await server.add();
        const name = server.uniqueName();
        await server.withConnection(async (connection) => {
          const headers = ['Content-Type: application/json', 'Content-Length: 1000'];
          connection.send(
            `${server.requestBytes('POST', '/pets', { headers })}${server.json({ name })}`,
          );
        });
        await server.add();
        for (const { response, members } of await server.listAfter(first.id)) {
          const isRight = JSON.stringify(members.get('name')) !== name;
          expect(response, isRight, 'no pet from the incomplete body', name);
        }
      },
    },
    {
      number: 'C57',
      sentence: 'requests with the same Idempotency-Key and body add one pet and get one response',
      cost: 'a client that retries after a lost response adds the pet twice',
      full: async (server) => {
        const key = `Idempotency-Key: ${randomUUID()}`;
        const first = await server.post(server.json(), [key]);
        if (first.status === 400) throw new Untried('the server supports no idempotency keys');
        expectSuccess(first);

        const again = await server.post(server.json(), [key]);
        const isSame = again.status === first.status && again.body === first.body;
        expect(again, isSame, `the first response again, ${first.body}`);

        const location = headerOf(first, 'Location');
        expect(again, headerOf(again, 'Location') === location, `Location: ${location}`);
        const bare = await server.post(server.json());
        expect(bare, bare.body !== first.body, 'another pet without the key');

        await refuseOtherBodies(server, key);
        await expectOnlyAddedKept(server);
        await expectAnyCharacter(server);
        await refuseKeys(server);
        await expectKeysIgnored(server);
      },
    },
  ],
};
