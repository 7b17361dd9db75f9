/** Adding: C19 to C32, C53 and C57 of docs/contract.md. */
import { randomUUID } from 'node:crypto';
import { toByteString } from '../index.js';
import type { Answer } from './connection.js';
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  animalsOf,
  expectHeader,
  expectSuccess,
  faultOf,
  isSuccess,
  jsonOf,
  memberText,
  untried,
  type Animal,
  type Draft,
  type Server,
} from './server.js';

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

/** Expects a draft to be taken, and a member to be answered as JSON writes it. */
async function expectMember(
  server: Server,
  draft: Draft,
  name: 'name' | 'categoryId',
  expected = draft[name] ?? '',
): Promise<Animal> {
  const answer = await server.post(server.json(draft));
  const sent = `${name} ${draft[name]}`;
  expectSuccess(answer, sent);

  const animal = animalOf(answer);
  const came = memberText(animal, name);
  if (came !== expected) await needsEcho(server);
  expect(answer, came === expected, expected, came, draft[name]);
  return animal;
}

/** Says that a rule needs answers that are of the animal which was added. */
async function needsEcho(server: Server): Promise<void> {
  const name = memberText(await server.add(), 'name');
  if (name !== `"${nameOf(server)}"`) untried('the animal that was added as the answer', 'C30');
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

/** Expects an animal to be read back, from its own address and its place in the list. */
async function expectStored(server: Server, animal: Animal, name: string): Promise<void> {
  const expected = memberText(animal, name);
  const isGone = await server.isGetPetGone();
  const answer = isGone ? undefined : await server.request('GET', `/pets/${animal.id}`);
  const [one] = answer && isSuccess(answer) ? animalsOf(answer) : [];
  if (answer !== undefined && one !== undefined)
    expect(answer, memberText(one, name) === expected, expected, memberText(one, name));

  const listed = (await server.list('?limit=100')).find(({ id }) => id === animal.id);
  if (listed !== undefined)
    expect(
      listed.answer,
      memberText(listed, name) === expected,
      expected,
      memberText(listed, name),
    );
}

/** Values of a header that is added to a body which is right without it. */
async function refuseTypes(server: Server, lines: readonly string[]): Promise<void> {
  const body = server.json();
  for (const line of lines) {
    const answer = await server.request('POST', '/pets', { headers: [line], body });
    server.expectError(answer, 415, 'unsupported_media_type', line);
    expectHeader(answer, 'Accept', /^application\/json$/, 'application/json');
  }
}

const nested = (depth: number): string =>
  `{"name":"a","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;

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
          ...['null', 'true', '5', '"a"', '[]', '[{"name":"a","categoryId":1}]'],
        ]),
      full: async (server) => {
        const answer = await server.post('{"name":5,"status":"gone"}');
        const message = memberText({ members: membersOf(answer) }, 'message');
        const hasAll = ['name', 'categoryId', 'status'].every((name) => message.includes(name));
        expect(answer, hasAll, 'a message that names name, categoryId and status', message);
      },
    },
    {
      number: 'C21',
      sentence: 'other members are ignored, id and __proto__ included: not stored, not echoed',
      cost: 'a client chooses ids, or keeps what nobody checks',
      full: async (server) => {
        const id = '4611686018427387904';
        const others = `"id":${id},"__proto__":{"a":1},"extra":[{}],"Name":"b"`;
        const answer = await server.post(`{${others},${server.json().slice(1)}`);
        expectSuccess(answer);

        const animal = animalOf(answer);
        const echoed = ['__proto__', 'extra', 'Name'].filter((name) => animal.members.has(name));
        const came = `the member ${echoed.join(', ')}`;
        expect(answer, echoed.length === 0, 'none of the other members', came);
        expect(answer, animal.id !== BigInt(id), 'an id of its own', `id ${id}`);
      },
    },
    {
      number: 'C22',
      sentence: '1.0, 1e2 and -0 are the integers 1, 100 and 0',
      cost: 'a client in a language with one type of number is refused for its way to write',
      full: async (server) => {
        for (const [given, digits] of [
          ['1.0', '1'],
          ['1e2', '100'],
          ['-0', '0'],
          ['12.50e1', '125'],
          ['-3E+0', '-3'],
        ] as const)
          await expectMember(server, { categoryId: given }, 'categoryId', digits);
      },
    },
    {
      number: 'C23',
      sentence: 'int64 exact',
      cost: 'ids past 2^53 silently become those of another category',
      specification: async (server) => {
        const exact = ['9007199254740993', '9223372036854775807', '-9223372036854775808'];
        for (const categoryId of exact) {
          const animal = await expectMember(server, { categoryId }, 'categoryId');
          await expectStored(server, animal, 'categoryId');
        }
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
            server.json({ categoryId }),
          ),
        ),
      full: (server) =>
        refuseBodies(
          server,
          'invalid_body',
          ['1e400', '1e-1', '1e99999999999', '9'.repeat(50_000)].map((categoryId) =>
            server.json({ categoryId }),
          ),
        ),
    },
    {
      number: 'C25',
      sentence: 'a name is any Unicode text, as it was given',
      cost: "half the world's names are mangled",
      specification: async (server) => {
        for (const name of ['Tüm', '猫', '🐈', 'a "b" \\c\n/'])
          await expectMember(server, { name: JSON.stringify(name) }, 'name');
        const animal = await expectMember(server, { name: JSON.stringify('ĞÜŞ 猫🐈') }, 'name');
        await expectStored(server, animal, 'name');
      },
      full: async (server) => {
        for (const name of ['', ' a ', '\u0000', 'e\u0301', '\u2028', '\uFEFF', '<b>&amp;'])
          await expectMember(server, { name: JSON.stringify(name) }, 'name');
        await expectMember(server, { name: '"\\u00fc\\ud83d\\udc08\\/"' }, 'name', '"ü🐈/"');
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
        await refuseBodies(server, 'invalid_json', [
          ...['{"name":"a","categoryId":1,}', "{'name':'a','categoryId':1}", '{"name":"a\n"}'],
          ...['01', '+1', '.5', '1.', 'NaN', '0x1'].map((categoryId) =>
            server.json({ categoryId }),
          ),
          server.json({ name: '"\xff"' }),
          server.json({ name: '"\xc0\x80"' }),
          server.json({ name: '"\xed\xa0\x80"' }),
          server.json({ name: '"\\ud800"' }),
          '{"name":"a","name":"b","categoryId":1}',
          '{"name":"a","categoryId":1,"x":[{"y":1,"\\u0079":2}]}',
          nested(64),
        ]);

        const [deep, marked] = [nested(63), `\uFEFF${server.json()}`];
        for (const json of [deep, marked]) {
          expectSuccess(await server.post(json));
        }

        const answer = await server.post('{"name":x');
        const message = memberText({ members: membersOf(answer) }, 'message');
        expect(answer, /\b8\b/.test(message), 'a message with the byte offset 8', message);
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
          'Content-Type: text/plain',
          'Content-Type: application/x-www-form-urlencoded',
          'Content-Type: application/jsonp',
          'Content-Type:',
          'Content-Type: application/json; charset=iso-8859-1',
          'Content-Encoding: gzip',
        ]);

        for (const line of [
          'Content-Type: application/json; charset=utf-8',
          'Content-Type: Application/JSON;charset="UTF-8"',
          'Content-Encoding: identity',
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
      full: (server) =>
        server.withConnection(async (connection) => {
          const headers = ['Content-Type: application/json', 'Content-Length: 1099511627776'];
          connection.send(`${server.bytesOf('POST', '/pets', { headers })}{"name":"`);
          const answer = await connection.answer();
          server.expectError(answer, 413, 'content_too_large');
          expect(answer, await connection.ends(), 'the end of the connection behind 413');
        }),
    },
    {
      number: 'C30',
      sentence: 'an animal that was added is 201, whole, with its id and its address',
      cost: 'a client does not learn what it has made',
      specification: async (server) => {
        const answer = await server.post(server.json({ status: 'pending' }));
        expect(answer, answer.status === 201, '201');
        const fault = faultOf(jsonOf(answer));
        expect(answer, fault === undefined, 'the animal with an id', fault);

        const [animal] = animalsOf(answer);
        const given = { name: `"verify ${server.run}"`, categoryId: '5', status: '"pending"' };
        for (const [name, expected] of Object.entries(given)) {
          const came = animal && memberText(animal, name);
          expect(answer, came === expected, `${name} ${expected}`, `${name} ${came}`);
        }
      },
      http: async (server) => {
        await server.needsGetPet();
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
        const { answer } = await server.add();
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
        for (const categoryId of ['0', '-5', '123456789'])
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
        await server.withConnection(async (connection) => {
          const headers = ['Content-Type: application/json', 'Content-Length: 1000'];
          connection.send(`${server.bytesOf('POST', '/pets', { headers })}${server.json()}`);
        });
        const last = await server.add();
        const between = (await server.listBehind(first.id)).filter(({ id }) => id < last.id);
        const came = `${between.length} animals between two that were added`;
        const isRight = between.every(({ members }) => members.get('name') !== nameOf(server));
        expect(last.answer, isRight, 'nothing of the body of which a part came', came);
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

        const other = await server.post(server.json({ status: 'sold' }), [key]);
        server.expectError(other, 422, 'idempotency_mismatch');

        for (const value of ['', 'a b', 'a'.repeat(256), 'k\xe9y']) {
          const answer = await server.post(server.json(), [`Idempotency-Key: ${value}`]);
          server.expectError(answer, 400, 'invalid_parameter', `Idempotency-Key: ${value}`);
        }
        const bare = await server.post(server.json());
        expect(bare, bare.body !== first.body, 'an animal of its own without the key');
      },
    },
  ],
};

const nameOf = (server: Server): string => `verify ${server.run}`;

function membersOf(answer: Parameters<typeof jsonOf>[0]): Animal['members'] {
  const json = jsonOf(answer);
  return json instanceof Map ? json : new Map();
}
