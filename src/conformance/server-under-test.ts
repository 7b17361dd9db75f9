/** The server under test: requests to it in a few words, and what rules expect of its answers. */
import { randomUUID } from 'node:crypto';
import {
  errorCodes,
  int64OfJsonNumber,
  JsonNumber,
  parseJson,
  petStatuses,
  reasonOf,
  toByteString,
  type JsonValue,
} from '../index.js';
import { Connection, connectTo, NoAnswer, type Answer, type HeldBytes } from './raw-connection.js';
import { expect, Mismatch, Untried } from './outcome.js';

/**
 * Who says that a rule holds, from few rules to all: the petstore's specification alone; HTTP's
 * standards as well; and docs/contract.md whole, which decides what both leave open.
 */
export const levels = ['specification', 'http', 'full'] as const;

/** A level of the suite; each holds the rules of those before it. */
export type Level = (typeof levels)[number];

/** From this moment `GET /pets/{petId}` is gone (C35). */
const goneFrom = Date.UTC(2030, 11, 6);

/** The bound of the values of one JSON text, so that its memory is bounded too. */
const maxJsonValues = 2 ** 20;

/** What a request in words may say beside its method and path. */
export interface Words {
  /** Header lines beside Host and Authorization. */
  readonly headers?: readonly string[];
  /** The value of Authorization, null for none; the key, where it is left out. */
  readonly authorization?: string | null;
  /** Each character is a byte; its Content-Length is added. */
  readonly body?: string;
}

/** The members of an animal that a request adds, as JSON writes their values. */
export interface Draft {
  readonly name?: string;
  readonly categoryId?: string;
  readonly status?: string;
}

/** An animal of an answer. */
export interface Animal {
  readonly id: bigint;
  /** All its members, the id too. */
  readonly members: ReadonlyMap<string, JsonValue>;
  /** The answer that it came in. */
  readonly answer: Answer;
}

/** A server, and the key that it takes. */
export class Server {
  /** Its address. */
  readonly url: URL;
  /** The path that those of the specification follow, such as `/v1`; without a slash at the end. */
  readonly basePath: string;
  /** What stands before `/healthz` and `/openapi.json`: the base path without its last segment. */
  readonly rootPath: string;
  readonly key: string;
  /** How much is asked of it. */
  readonly level: Level;
  /** A text that no other run puts into its animals' names. */
  readonly run = randomUUID();
  readonly #held: HeldBytes = { count: 0 };
  #names = 0;

  constructor(url: URL, key: string, level: Level) {
    this.url = url;
    this.basePath = url.pathname === '/' ? '/v1' : url.pathname.replace(/\/+$/, '');
    this.rootPath = this.basePath.replace(/\/[^/]*$/, '');
    this.key = key;
    this.level = level;
  }

  /** The bytes of a request to a path behind the base path, with the key. */
  bytesOf(method: string, path: string, words: Words = {}): string {
    return this.bytesTo(method, `${this.basePath}${path}`, words);
  }

  /** The bytes of a request to any target, with the key. */
  bytesTo(method: string, target: string, words: Words = {}): string {
    const { headers = [], authorization = `Bearer ${this.key}`, body } = words;
    const lines = [`${method} ${target} HTTP/1.1`, `Host: ${this.url.host}`, ...headers];
    if (authorization !== null) lines.push(`Authorization: ${authorization}`);
    if (body !== undefined) lines.push(`Content-Length: ${body.length}`);
    return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
  }

  /** Works with a connection of its own, which is closed behind it. */
  async withConnection<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const socket = await connectTo(this.url).catch((error: unknown) => {
      throw new NoAnswer(`no connection (${reasonOf(error)})`, '', '');
    });
    const connection = new Connection(socket, this.#held);
    try {
      return await work(connection);
    } finally {
      connection.destroy();
    }
  }

  /**
   * The answer to these bytes, on a connection of their own.
   *
   * @throws Mismatch where none comes
   */
  async exchange(bytes: string, method = 'GET'): Promise<Answer> {
    return this.withConnection((connection) => {
      connection.send(bytes);
      return connection.answer(method);
    }).catch((error: unknown) => {
      if (!(error instanceof NoAnswer)) throw error;
      throw new Mismatch({ sent: bytes, came: error.came }, 'an answer', error.message);
    });
  }

  /** The answer to a request to a path behind the base path. */
  async request(method: string, path: string, words?: Words): Promise<Answer> {
    return this.exchange(this.bytesOf(method, path, words), method);
  }

  /** The answer to a body of JSON that is to be added. */
  async post(json: string, headers: readonly string[] = []): Promise<Answer> {
    const body = toByteString(json);
    return this.request('POST', '/pets', {
      headers: ['Content-Type: application/json', ...headers],
      body,
    });
  }

  /** A name that no other animal has, as JSON writes it. */
  uniqueName(): string {
    this.#names++;
    return `"verify ${this.run} ${this.#names}"`;
  }

  /** The JSON of a draft; its name is one of this run where none is given, always the same. */
  json({
    name = JSON.stringify(`verify ${this.run}`),
    categoryId = '5',
    status,
  }: Draft = {}): string {
    const members = [`"name":${name}`, `"categoryId":${categoryId}`];
    if (status !== undefined) members.push(`"status":${JSON.stringify(status)}`);
    return `{${members.join(',')}}`;
  }

  /**
   * Adds an animal that any server takes, for a rule about something else.
   *
   * @throws Untried where that fails
   */
  async add(draft?: Draft): Promise<Animal> {
    const answer = await this.post(this.json({ name: this.uniqueName(), ...draft }));
    const [animal] = isSuccess(answer) ? animalsOf(answer) : [];
    return animal ?? untried('an animal that was added, with its id', 'C30');
  }

  /**
   * The animals of a list, for a rule about something else.
   *
   * @throws Untried where that fails
   */
  async list(query: string): Promise<readonly Animal[]> {
    const answer = await this.request('GET', `/pets${query}`);
    const isList = isSuccess(answer) && Array.isArray(jsonOf(answer));
    return isList ? animalsOf(answer) : untried(`GET /pets${query}`, 'S1');
  }

  /**
   * The first animals behind an id, for a rule about something else.
   *
   * @param filter A parameter of the query, with its `&`.
   * @throws Untried where that fails
   */
  async listBehind(id: bigint, filter = ''): Promise<readonly Animal[]> {
    const animals = await this.list(`?${filter}${afterParameterOf(id)}`);
    const isBehind = animals.every((animal) => animal.id > id);
    return isBehind ? animals : untried('a page that begins behind `after`', 'C6');
  }

  /**
   * Says that a rule needs `GET /pets/{petId}`.
   *
   * @throws Untried from its sunset on, by the server's own clock
   */
  async needsGetPet(): Promise<void> {
    if (await this.isGetPetGone()) throw new Untried('GET /pets/{petId} is gone since its sunset');
  }

  /** Whether a request without a key is refused (C36), for a rule about something else. */
  async isKeyNeeded(): Promise<boolean> {
    return !isSuccess(await this.request('GET', '/pets?limit=1', { authorization: null }));
  }

  /** Whether `GET /pets/{petId}` is gone, by the server's own clock (C35, C64). */
  async isGetPetGone(): Promise<boolean> {
    const answer = await this.request('GET', '/pets?limit=1');
    const date = Date.parse(headerOf(answer, 'Date') ?? '');
    return (Number.isNaN(date) ? Date.now() : date) >= goneFrom;
  }

  /** An answer of each kind that a request can get, those of a broken head too, where they come. */
  async answersOfEachKind(): Promise<readonly Answer[]> {
    const header = ['Content-Type: text/plain'];
    const requests: readonly (readonly [method: string, path: string, words?: Words])[] = [
      ['GET', '/pets?limit=1'],
      ['POST', '/pets', { body: toByteString(this.json()) }],
      ['OPTIONS', '/pets'],
      ['PUT', '/pets'],
      ['GET', '/pets', { authorization: null }],
      ['GET', '/petz'],
      ['GET', `/pets/${2n ** 63n - 1n}`],
      ['GET', '/pets?limit=x'],
      ['POST', '/pets', { body: '{' }],
      ['POST', '/pets', { body: '{}' }],
      ['POST', '/pets', { body: '{}', headers: header }],
      ['POST', '/pets', { headers: ['Content-Length: 1099511627776'] }],
      ['GET', '/pets', { headers: ['Expect: miracles'] }],
      ['GET', '/pets', { headers: ['Host: another'] }],
      ['GET', `/pets?${'a'.repeat(50_000)}`],
      ['CONNECT', '/pets'],
      ['BREW', '/pets'],
    ];
    const answers = await Promise.all(
      requests.map(([method, path, words]) =>
        this.request(method, path, words).catch((error: unknown) => {
          if (error instanceof Mismatch) return undefined;
          throw error;
        }),
      ),
    );
    return answers.filter((answer) => answer !== undefined);
  }

  /** Expects an error's status and, where all of the contract is asked for, its code. */
  expectError(answer: Answer, status: number, code: string, sent?: string): void {
    expect(answer, answer.status === status, String(status), undefined, sent);

    const body = jsonOf(answer);
    const given = body instanceof Map ? body.get('code') : undefined;
    // An error without a code is a matter of P3 alone, and a code that nobody knows one of C50.
    if (this.level !== 'full' || typeof given !== 'string' || !Object.hasOwn(errorCodes, given))
      return;
    expect(answer, given === code, `${status} ${code}`, `${status} ${given}`, sent);
  }

  /** Expects the same error for each request, all of them at once. */
  async expectErrors(
    status: number,
    code: string,
    requests: Iterable<Promise<Answer>>,
  ): Promise<void> {
    for (const answer of await Promise.all(requests)) this.expectError(answer, status, code);
  }
}

/** Whether a request was carried out: which of 200 and 201 is right is a matter of its own rule. */
export function isSuccess({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** Expects that a request was carried out. */
export function expectSuccess(answer: Answer, sent?: string): void {
  expect(answer, isSuccess(answer), 'success', undefined, sent);
}

/** The one value of a header; undefined where it is absent, or came twice. */
export function headerOf(answer: Answer, name: string): string | undefined {
  const values = answer.headers.get(name.toLowerCase()) ?? [];
  return values.length === 1 ? values[0] : undefined;
}

/** Expects a header to be what a pattern says. */
export function expectHeader(answer: Answer, name: string, pattern: RegExp, form: string): void {
  const value = headerOf(answer, name);
  const came = value === undefined ? `no ${name}` : `${name}: ${value}`;
  expect(answer, value !== undefined && pattern.test(value), `${name}: ${form}`, came);
}

/** The JSON of a body, with exact numbers; undefined where it is none. */
export function jsonOf(answer: Answer): JsonValue | undefined {
  try {
    return parseJson(answer.body, maxJsonValues);
  } catch {
    return undefined;
  }
}

/** The members of a body that is an object; none of any other. */
export function membersOf(answer: Answer): Animal['members'] {
  const json = jsonOf(answer);
  return json instanceof Map ? json : new Map();
}

/**
 * The parameter of a list that begins behind an id.
 *
 * @throws Untried for a negative id, which `after` cannot say
 */
export function afterParameterOf(id: bigint): string {
  if (id < 0n) throw new Untried('its ids are negative, which `after` cannot say');
  return `after=${id}`;
}

/** The animals of a list, or the animal of any other body; what is none is left out. */
export function animalsOf(answer: Answer): readonly Animal[] {
  const json = jsonOf(answer);
  const values: readonly (JsonValue | undefined)[] = Array.isArray(json) ? json : [json];

  return values.flatMap((members) => {
    const number = members instanceof Map ? members.get('id') : undefined;
    const id = number instanceof JsonNumber ? int64OfJsonNumber(number.text) : undefined;
    return members instanceof Map && id !== undefined ? [{ id, members, answer }] : [];
  });
}

/** Whether an animal was added by this suite, in this run or another, as one that is right. */
export function isOfSuite(value: JsonValue): boolean {
  const name = value instanceof Map ? value.get('name') : undefined;
  return typeof name === 'string' && /^verify [0-9a-f-]{36}( \d+)?$/.test(name);
}

/** Whether two values, as JSON writes them, are one int64, however it is written. */
export function isSameInt64(one: string, other: string): boolean {
  const int64Of = (text: string) => (/^-?\d/.test(text) ? int64OfJsonNumber(text) : undefined);
  return int64Of(one) !== undefined && int64Of(one) === int64Of(other);
}

/** What is wrong with the members of an animal by the specification; undefined where nothing is. */
export function faultOf(members: JsonValue | undefined): string | undefined {
  if (!(members instanceof Map)) return 'an animal that is no object';

  for (const name of ['id', 'categoryId']) {
    const number = members.get(name);
    // Whether each digit of it is right, up to the ends of an int64, is a matter of C23.
    if (!(number instanceof JsonNumber) || !Number.isInteger(Number(number.text)))
      return `an animal whose ${name} is no integer`;
  }
  if (typeof members.get('name') !== 'string') return 'an animal whose name is no string';

  const status = members.get('status');
  const isStatus = petStatuses.some((each) => each === status);
  return status === undefined || isStatus ? undefined : 'an animal whose status is none';
}

/** A member as JSON writes it, so that no number is rounded; `nothing` where it is absent. */
export function memberText({ members }: Pick<Animal, 'members'>, name: string): string {
  const value = members.get(name);
  if (value === undefined) return 'nothing';
  return value instanceof JsonNumber ? value.text : JSON.stringify(value);
}

/**
 * Says that a rule cannot be tried, as the server fails at another.
 *
 * @throws Untried always
 */
export function untried(what: string, number: string): never {
  throw new Untried(`it needs ${what}: see ${number}`);
}
