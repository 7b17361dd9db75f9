/** The rules on adding pets: C19 to C32, C53 and C57 of docs/contract.md. */
import { randomUUID } from 'node:crypto';
import { toByteString } from '../index.js';
import { allSettled } from './all-settled.js';
import type { RawResponse } from './raw-connection.js';
import { expect, Inapplicable, Mismatch } from './outcome.js';
import type { Chapter } from './rule.js';
import { changedNames, exactCategories, expectSample, uniqueNameOf } from './sample-pets.js';
import {
  petsIn,
  expectHeader,
  expectList,
  expectSuccess,
  problemWith,
  headerOf,
  queryAfter,
  isSameInt64,
  isSuccess,
  jsonOf,
  membersOf,
  memberText,
  causesOf,
  toDraft,
  differenceFrom,
  type AddedPet,
  type ReceivedPet,
  type JsonDraft,
  type TestedServer,
} from './tested-server.js';

/** Expects 400 with `code` for each body. */
async function refuseBodies(
  server: TestedServer,
  code: 'invalid_body' | 'invalid_json',
  bodies: readonly string[],
  causes: readonly string[] = [],
): Promise<void> {
  for (const body of bodies) {
    const headers = ['Content-Type: application/json'];
    const response = await server.request('POST', '/pets', { headers, body });
    server.expectError(response, 400, code, undefined, causes);
  }
}

/** Returns true if a name is another one without some characters, or in another case. */
function isMangled(came: string, name: string): boolean {
  const [one, other] = [came, name].map((text) => text.toLowerCase().replace(/[^a-z0-9]/g, ''));
  return one !== '' && other?.startsWith(one ?? ' ') === true;
}

/** Expects a pet to be added and returned with the same member; compares numbers by value. */
async function expectMember(
  server: TestedServer,
  given: JsonDraft,
  name: 'name' | 'categoryId',
  expected = given[name] ?? '',
): Promise<AddedPet> {
  const draft = toDraft(server, given);
  const response = await server.post(server.json(draft));
  const sent = `${name} ${draft[name]}`;
  expectSuccess(response, sent);

  expect(
    response,
    jsonOf(response) !== undefined,
    'JSON',
    undefined,
    sent,
    causesOf(response.sent),
  );
  const pet = petIn(response);
  const came = memberText(pet, name);
  const isRight = came === expected || isSameInt64(came, expected);
  const causes = name === 'name' && isMangled(came, expected) ? [] : ['C30'];
  expect(response, isRight, expected, came, draft[name], causes);
  return { ...pet, draft };
}

/** Expects each pet of the run to have an id of its own. */
function expectNoReuse({ reusedId }: TestedServer): void {
  if (reusedId === undefined) return;
  const { id, response } = reusedId;
  expect(response, false, 'an id that no other pet has', `id ${id}, which an earlier pet has`);
}

/** Expects pets that were added at the same time to be at their URLs. */
async function expectAllThere(server: TestedServer, pets: readonly AddedPet[]): Promise<void> {
  if (await server.isGetPetGone()) return;
  const responses: RawResponse[] = [];
  for (const { id } of pets) responses.push(await server.request('GET', `/pets/${id}`));
  const lost = responses.findIndex((response) => !isSuccess(response));
  const response = responses[lost];
  if (response === undefined) return;

  // Without others at once, some servers lose pets too.
  for (let times = 0; times < 40; times++)
    await server.expectKept(await server.add({ status: 'available' }));
  const expected = `the pet ${pets[lost]?.id}, which was added with others at once`;
  expect(response, false, expected, undefined, undefined, ['P3', 'C34']);
}

/** Expects long names to be refused, or stored unchanged. */
async function expectLongNames(server: TestedServer): Promise<void> {
  for (const length of [120, 300, 1_200, 5_000]) {
    const longName = () => uniqueNameOf(server, ' long'.repeat(length / 10));
    const response = await server.post(server.json({ name: longName() }));
    if ([400, 413, 422].includes(response.status)) {
      server.note(`the server refuses a name of ${length} characters, which is left open`);
      return;
    }
    const given = { name: longName(), status: 'pending' };
    await expectStored(server, await expectMember(server, given, 'name'));
  }
}

/**
 * Returns the pet in the response to adding it.
 *
 * @throws Mismatch with the cause C30 if there is no pet with an id
 */
function petIn(response: RawResponse): ReceivedPet {
  const [pet] = petsIn(response);
  expect(
    response,
    pet !== undefined,
    'the added pet',
    undefined,
    undefined,
    causesOf(response.sent),
  );
  return pet;
}

/**
 * Expects a pet to be the same at its URL and in the list as it was added.
 *
 * @param other True if the pet is compared with what the server returned, and not with the draft.
 */
async function expectStored(server: TestedServer, pet: AddedPet): Promise<void> {
  const compare = (response: RawResponse, value: unknown, causes: readonly string[]): void => {
    const difference = differenceFrom(pet, value instanceof Map ? value : undefined);
    const expected = `the pet ${pet.id} as it was added`;
    expect(response, difference === undefined, expected, difference, undefined, causes);
  };

  if (!(await server.isGetPetGone())) {
    const response = await server.request('GET', `/pets/${pet.id}`);
    const causes = ['P3', 'C30', 'C34'];
    const expected = 'the added pet';
    if (!isSuccess(response)) {
      await server.expectKept(pet);
      // If the list has the pet, only its URL is wrong.
      throw new Mismatch(response, expected, {}, causes, 'C34');
    }
    compare(response, jsonOf(response), [...causes, 'C31']);
  }

  const { response, found, isWhole } = await server.search([pet]);
  const causes = ['P3', 'S1', 'S2', 'C7', 'C31'];
  const isThere = found.length > 0 || !isWhole;
  if (!isThere) await server.expectKept(pet);
  expect(response, isThere, `the added pet ${pet.id}`, 'a list without it', undefined, causes);
  for (const { members } of found) compare(response, members, causes);
}

/**
 * Returns the categories that the server may not refuse, because the specification does not say
 * which categories exist.
 *
 * @throws Inapplicable if the server refuses unknown categories
 */
async function acceptedCategories(
  server: TestedServer,
  categories: readonly string[],
): Promise<readonly string[]> {
  if (server.level === 'full') return categories;
  if (!(await server.acceptsCategory('123456789'))) {
    const reason = 'the server refuses unknown categories, which the specification leaves open';
    server.note(reason);
    throw new Inapplicable(reason);
  }
  if (await server.acceptsCategory('-5')) return categories;
  server.note('the server refuses negative categories, which the specification leaves open');
  return categories.filter((category) => !category.startsWith('-'));
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

/** Expects requests with one key at the same time to add one pet; some may be 409. */
async function expectOnePetOfMany(server: TestedServer): Promise<void> {
  const before = await server.add();
  const json = server.json();
  const key = `Idempotency-Key: ${randomUUID()}`;
  const responses = await allSettled(Array.from({ length: 8 }, () => server.post(json, [key])));
  const [first] = responses.filter(isSuccess);
  for (const response of responses) {
    const isRight = response.status === 409 || response.body === first?.body;
    expect(response, isRight, 'the response of one pet, or 409');
  }
  const added = await server.listAfter(before.id);
  const name = JSON.parse(json).name;
  const own = added.filter(({ members }) => members.get('name') === name);
  const [one] = own;
  expect(one?.response ?? before.response, own.length === 1, 'one pet', `${own.length} pets`);
}

/** Expects 422 for bodies that differ in their bytes, also if their JSON values are equal. */
async function refuseOtherBodies(server: TestedServer, key: string, json: string): Promise<void> {
  for (const other of [
    server.json({ status: 'sold' }),
    `${json} `,
    json.replace(/\}$/, '.0}'),
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
  const json = server.json();
  for (const key of [...keys, ...keys]) {
    // Space around a value is not part of it (RFC 9110 §5.5).
    const line = bodies.has(key) ? `idempotency-KEY: \t ${key} ` : `Idempotency-Key: ${key}`;
    const response = await server.post(json, [line]);
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
  'x'.repeat(20_000), 'y'.repeat(65_000), "'; DROP TABLE pets;--",
];

/** Says in words why a pet could not be added; undefined if the status alone says it. */
function createdProblem({ status, body }: RawResponse): string | undefined {
  if (/^\s*<(!doctype|html)/i.test(body)) return `${status} with an HTML page`;
  if (status === 403) return '403: the key may only read; give a key that may add pets';
  if (status === 503) return '503: the server takes no pets at present';
  if (status >= 300 && status < 400) return `a redirect, ${status}`;
  return undefined;
}

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
      sentenceBelowFull: 'a pet that is added without a status has none, or one of the three',
      cost: 'a pet is offered or hidden although nobody said so',
      sources: { specification: 'the specification, PetStatus: three values' },
      specification: async (server) => {
        const pet = await server.add();
        const status = memberText(pet, 'status');
        const isRight = /^(nothing|"(available|pending|sold)")$/.test(status);
        const came = `status ${status}`;
        expect(pet.response, isRight, 'no status, or one of the three', came);
        await expectStored(server, pet);
        await expectSample(server, 'C19');
      },
      full: async (server) => {
        const pet = await server.add();
        const came = `status ${memberText(pet, 'status')}`;
        expect(pet.response, !pet.members.has('status'), 'no member status', came);
        await expectStored(server, pet);
      },
    },
    {
      number: 'C20',
      sentence: 'a body that is not an object, or has a missing or invalid field, is 400',
      cost: 'the catalogue holds pets that no client can read',
      sources: { specification: 'the specification, Endpoints, 2. Add an animal: 400' },
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
          ...['true', '["a"]', '{}'].map((name) => `{"name":${name},"categoryId":1}`),
          ...['[1]', '{}', 'false', '""', '"abc"'].map((id) => `{"name":"a","categoryId":${id}}`),
          ...['["sold"]', '{}', 'false', '0', '" sold"', '"sold "', '"SOLD"'].map(
            (status) => `{"name":"a","categoryId":1,"status":${status}}`,
          ),
          ...['null', 'true', '5', '"a"', '"{}"', '[]', '[{"name":"a","categoryId":1}]'],
        ]),
      full: async (server) => {
        // Some JSON libraries ignore the case of member names.
        await refuseBodies(server, 'invalid_body', ['{"Name":"a","CategoryId":1}']);
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
        const listed = await server.list(`?limit=1&${queryAfter(pet.id - 1n)}`);
        const one = await server.request('GET', `/pets/${pet.id}`);
        for (const { response: later, members } of [...listed, ...petsIn(one)]) {
          const stored = [...members.keys()].filter((name) => !known.includes(name));
          expect(
            later,
            stored.length === 0,
            'no unknown member',
            `the member ${stored.join(', ')}`,
          );
        }
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
      sources: { specification: 'the specification, Animal: categoryId is an int64' },
      specification: async (server) => {
        const accepted = await acceptedCategories(server, exactCategories);
        for (const categoryId of accepted) {
          const pet = await expectMember(server, { categoryId, status: 'pending' }, 'categoryId');
          await expectStored(server, pet);
        }
        await expectSample(server, 'C23');
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
      sources: { specification: 'the specification, Animal: categoryId is an int64' },
      specification: (server) =>
        refuseBodies(
          server,
          'invalid_body',
          ['1.5', '9223372036854775808', '-9223372036854775809', '1e30'].map((categoryId) =>
            server.json({ name: '"a"', categoryId }),
          ),
          ['C20'],
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
      sources: { specification: 'the specification, Animal: name is free text' },
      specification: async (server) => {
        for (const name of [...changedNames, 'ĞÜŞ 猫🐈']) {
          const given = { name: uniqueNameOf(server, name), status: 'pending' };
          await expectStored(server, await expectMember(server, given, 'name'));
        }
        await expectSample(server, 'C25');
        await expectLongNames(server);
      },
      full: async (server) => {
        for (const name of oddNames) {
          const pet = await expectMember(server, { name: JSON.stringify(name) }, 'name');
          await expectStored(server, pet);
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
      sources: { specification: 'the specification, Endpoints, 2. Add an animal: 400' },
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
            const response = await connection.finalResponse();
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
      hasStories: true,
      sources: {
        specification: 'the specification, Endpoints, 2. Add an animal',
        should: 'RFC 9110 §10.2.2 and §15.3.2: Location identifies the created resource',
      },
      specification: async (server) => {
        for (const status of ['pending', undefined, 'available', 'sold']) {
          const draft = toDraft(server, status === undefined ? {} : { status });
          const response = await server.post(server.json(draft));
          expect(response, response.status === 201, '201', createdProblem(response));
          const members = jsonOf(response);
          const isJson = members !== undefined || response.body === '';
          const isPet = members instanceof Map;
          const withId = 'the pet with an id';
          expect(response, isPet, withId, undefined, undefined, isJson ? [] : ['P3']);
          // C19 checks the status of a pet that is added without one.
          const [pet] = petsIn(response);
          const others = new Map([...members].filter(([name]) => name !== 'status'));
          const fault = problemWith(status === undefined ? others : members);
          expect(response, fault === undefined, 'the pet with an id', fault);
          expect(response, pet !== undefined, 'an id that is an int64');

          const compared = status === undefined ? others : members;
          const added = { ...pet, members: compared, draft };
          const difference = differenceFrom(added, compared);
          // C25 checks other names. A name of another pet is a fault of this rule.
          const causes = difference?.startsWith('name ') ? ['C25'] : [];
          const expected = 'the pet as it was sent';
          expect(response, difference === undefined, expected, difference, undefined, causes);
          if (pet !== undefined) await server.expectKept({ ...pet, draft });
        }
      },
      should: async (server) => {
        if (await server.isGetPetGone()) return;
        const pet = await server.add();
        const { id, response } = pet;
        const location = headerOf(response, 'Location');
        const base = `${server.url.origin}${server.basePath}/pets`;
        const url = new URL(URL.canParse(location ?? '', base) ? (location ?? '') : '', base);
        const { origin, pathname, search } = url;
        const isOfPet = pathname.endsWith(`/pets/${id}`);
        expect(response, isOfPet, `Location: …/pets/${id}`, `Location: ${location ?? 'none'}`);
        // A proxy before the server may have another host, or add the beginning of the path.
        const own = `${server.basePath}/pets/${id}`;
        const isBeforeOwn = pathname !== own && pathname.endsWith(own);
        if (origin !== server.url.origin || isBeforeOwn) return;
        const one = await server.exchange(server.targetBytes('GET', `${pathname}${search}`));
        const [found] = isSuccess(one) ? petsIn(one) : [];
        const came = `${one.status} at ${location}`;
        const expected = `the pet ${id} at its Location`;
        expect(one, found?.id === id, expected, came, undefined, ['C34', 'C56']);
      },
      full: async (server) => {
        if (await server.isGetPetGone()) return;
        const pet = await server.add({ status: 'sold' });
        const target = headerOf(pet.response, 'Location') ?? '';
        if (!target.startsWith(`${server.basePath}/`)) return;
        const response = await server.exchange(server.targetBytes('GET', target));
        const difference = differenceFrom(pet, jsonOf(response));
        const expected = 'the pet at its Location';
        expect(response, difference === undefined, expected, difference, undefined, ['C34']);
      },
    },
    {
      number: 'C31',
      sentence: 'an id is never used twice, and later pets have greater ids',
      sentenceBelowFull: 'an id is never used twice, also if many clients add pets at once',
      cost: 'two pets share a URL, or a client that pages misses one',
      hasStories: true,
      sources: { specification: 'the specification, Animal: id is unique' },
      specification: async (server) => {
        expectNoReuse(server);
        const adding = server.addMany(40, 40);
        const listing = Array.from({ length: 8 }, () => server.request('GET', '/pets?limit=100'));
        const [pets, lists] = await allSettled([adding, allSettled(listing)]);
        for (const list of lists) {
          expectList(list);
          const listed = petsIn(list).map(({ id }) => id);
          const isEachOnce = new Set(listed).size === listed.length;
          const expected = 'each pet once in a list that is read while pets are added';
          expect(list, isEachOnce, expected, undefined, undefined, ['S1']);
        }
        const ids = pets.map(({ id }) => id);
        const came = `ids ${ids.join(', ')}`;
        const { response } = pets[0] ?? (await server.add());
        expect(response, new Set(ids).size === ids.length, 'forty different ids', came);

        // Responses to requests at the same time must not be swapped.
        for (const pet of pets) {
          const difference = differenceFrom(pet, new Map(pet.members));
          const expected = 'the pet of this request';
          const causes = ['C30', 'C25', 'C19'];
          expect(pet.response, difference === undefined, expected, difference, undefined, causes);
        }
        await expectAllThere(server, pets);
        const { response: list, found, isWhole } = await server.search(pets);
        for (const pet of pets) {
          const entry = found.find(({ id }) => id === pet.id);
          const difference = entry && differenceFrom(pet, new Map(entry.members));
          const isThere = entry !== undefined || !isWhole;
          const expected = `the pet ${pet.id}, which was added with others at once`;
          const came = difference ?? 'a list without it';
          const isRight = isThere && difference === undefined;
          expect(list, isRight, expected, came, undefined, ['S1', 'S2', 'C30', 'C19']);
        }
        // Some servers begin again after 256 ids.
        await server.addMany(80, 40);
        expectNoReuse(server);
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
      full: async (server) => {
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
      hasStories: true,
      full: async (server) => {
        const key = `Idempotency-Key: ${randomUUID()}`;
        const json = server.json();
        const first = await server.post(json, [key]);
        if (first.status === 400) throw new Inapplicable('the server supports no idempotency keys');
        expectSuccess(first);

        const again = await server.post(json, [key]);
        const isSame = again.status === first.status && again.body === first.body;
        expect(again, isSame, `the first response again, ${first.body}`);

        const location = headerOf(first, 'Location');
        expect(again, headerOf(again, 'Location') === location, `Location: ${location}`);
        const bare = await server.post(json);
        expect(bare, bare.body !== first.body, 'another pet without the key');

        await expectOnePetOfMany(server);
        await refuseOtherBodies(server, key, json);
        await expectOnlyAddedKept(server);
        await expectAnyCharacter(server);
        await refuseKeys(server);
        await expectKeysIgnored(server);
      },
    },
  ],
};
