/** The tested server: sends it requests, and reads pets, headers and errors from its responses. */
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
import {
  RawConnection,
  connectTo,
  NoResponse,
  type RawResponse,
  type HeldBytes,
} from './raw-connection.js';
import type { Level } from './levels.js';
import { expect, Mismatch, Untried } from './outcome.js';

/** The time from which `GET /pets/{petId}` is gone (C35). */
const goneFrom = Date.UTC(2030, 11, 6);

/** The maximum number of values in a JSON text, which bounds the memory it takes. */
const maxJsonValues = 2 ** 20;

/** The parts of a request other than its method and path. */
export interface RequestParts {
  /** Header lines in addition to Host and Authorization. */
  readonly headers?: readonly string[];
  /** The value of Authorization, or null for no such header. By default it has the API key. */
  readonly authorization?: string | null;
  /** A byte string, for which Content-Length is added. */
  readonly body?: string;
}

/** The members of a pet to add, each as JSON text. */
export interface JsonDraft {
  readonly name?: string;
  readonly categoryId?: string;
  readonly status?: string;
}

/** A pet in a response. */
export interface ReceivedPet {
  readonly id: bigint;
  /** All members, including the id. */
  readonly members: ReadonlyMap<string, JsonValue>;
  readonly response: RawResponse;
}

/** The tested server, and an API key that it accepts. */
export class TestedServer {
  readonly url: URL;
  /** The path before `/pets`, such as `/v1`, without a slash at its end. */
  readonly basePath: string;
  /** The path before `/healthz` and `/openapi.json`: the base path without its last segment. */
  readonly rootPath: string;
  readonly key: string;
  readonly level: Level;
  /** A unique text in the names of the pets that this run adds. */
  readonly runId = randomUUID();
  readonly #held: HeldBytes = { count: 0 };
  #nameCount = 0;

  constructor(url: URL, key: string, level: Level) {
    this.url = url;
    this.basePath = url.pathname === '/' ? '/v1' : url.pathname.replace(/\/+$/, '');
    this.rootPath = this.basePath.replace(/\/[^/]*$/, '');
    this.key = key;
    this.level = level;
  }

  /** Returns the bytes of a request with the key. `path` follows the base path. */
  requestBytes(method: string, path: string, parts: RequestParts = {}): string {
    return this.targetBytes(method, `${this.basePath}${path}`, parts);
  }

  /** Returns the bytes of a request with the key and any request target. */
  targetBytes(method: string, target: string, parts: RequestParts = {}): string {
    const { headers = [], authorization = `Bearer ${this.key}`, body } = parts;
    const lines = [`${method} ${target} HTTP/1.1`, `Host: ${this.url.host}`, ...headers];
    if (authorization !== null) lines.push(`Authorization: ${authorization}`);
    if (body !== undefined) lines.push(`Content-Length: ${body.length}`);
    return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
  }

  /** Opens a connection for `work`, and closes it afterwards. */
  async withConnection<T>(work: (connection: RawConnection) => Promise<T>): Promise<T> {
    const socket = await connectTo(this.url).catch((error: unknown) => {
      throw new NoResponse(`no connection (${reasonOf(error)})`, '', '');
    });
    const connection = new RawConnection(socket, this.#held);
    try {
      return await work(connection);
    } finally {
      connection.destroy();
    }
  }

  /**
   * Sends bytes on a new connection and returns the response.
   *
   * @throws Mismatch if there is no response
   */
  async exchange(bytes: string, method = 'GET'): Promise<RawResponse> {
    return this.withConnection((connection) => {
      connection.send(bytes);
      return connection.nextResponse(method);
    }).catch((error: unknown) => {
      if (!(error instanceof NoResponse)) throw error;
      throw new Mismatch({ sent: bytes, came: error.came }, 'a response', error.message);
    });
  }

  /** Sends a request and returns the response. `path` follows the base path. */
  async request(method: string, path: string, parts?: RequestParts): Promise<RawResponse> {
    return this.exchange(this.requestBytes(method, path, parts), method);
  }

  /** Sends JSON to add a pet and returns the response. */
  async post(json: string, headers: readonly string[] = []): Promise<RawResponse> {
    const body = toByteString(json);
    return this.request('POST', '/pets', {
      headers: ['Content-Type: application/json', ...headers],
      body,
    });
  }

  /** Returns a name that no other pet has, as JSON text. */
  uniqueName(): string {
    this.#nameCount++;
    return `"verify ${this.runId} ${this.#nameCount}"`;
  }

  /** Returns the JSON of a pet to add. By default the name is the same in the whole run. */
  json({
    name = JSON.stringify(`verify ${this.runId}`),
    categoryId = '5',
    status,
  }: JsonDraft = {}): string {
    const members = [`"name":${name}`, `"categoryId":${categoryId}`];
    if (status !== undefined) members.push(`"status":${JSON.stringify(status)}`);
    return `{${members.join(',')}}`;
  }

  /**
   * Adds a pet, for a check of another rule.
   *
   * @throws Untried if that fails
   */
  async add(draft?: JsonDraft): Promise<ReceivedPet> {
    const response = await this.post(this.json({ name: this.uniqueName(), ...draft }));
    const [pet] = isSuccess(response) ? petsIn(response) : [];
    return pet ?? skipUntil('a pet that was added, with its id', 'C30');
  }

  /**
   * Returns the pets of a list, for a check of another rule.
   *
   * @throws Untried if that fails
   */
  async list(query: string): Promise<readonly ReceivedPet[]> {
    const response = await this.request('GET', `/pets${query}`);
    const isList = isSuccess(response) && Array.isArray(jsonOf(response));
    return isList ? petsIn(response) : skipUntil(`GET /pets${query}`, 'S1');
  }

  /**
   * Returns the first pets whose id is greater than `id`, for a check of another rule.
   *
   * @param filter A query parameter followed by `&`.
   * @throws Untried if that fails
   */
  async listAfter(id: bigint, filter = ''): Promise<readonly ReceivedPet[]> {
    const pets = await this.list(`?${filter}${queryAfter(id)}`);
    const areAfter = pets.every((pet) => pet.id > id);
    return areAfter ? pets : skipUntil('a page that begins after the id of `after`', 'C6');
  }

  /**
   * Checks that `GET /pets/{petId}` is still served.
   *
   * @throws Untried from its sunset on, by the server's clock
   */
  async requireGetPet(): Promise<void> {
    if (await this.isGetPetGone()) throw new Untried('GET /pets/{petId} is gone since its sunset');
  }

  /** Returns true if a request without a key is refused (C36). */
  async requiresKey(): Promise<boolean> {
    return !isSuccess(await this.request('GET', '/pets?limit=1', { authorization: null }));
  }

  /** Returns true if `GET /pets/{petId}` is gone by the server's clock (C35, C64). */
  async isGetPetGone(): Promise<boolean> {
    const response = await this.request('GET', '/pets?limit=1');
    const date = Date.parse(headerOf(response, 'Date') ?? '');
    return (Number.isNaN(date) ? Date.now() : date) >= goneFrom;
  }

  /** Sends a request of each kind, malformed ones included, and returns the responses. */
  async responsesOfEachKind(): Promise<readonly RawResponse[]> {
    const header = ['Content-Type: text/plain'];
    const requests: readonly (readonly [method: string, path: string, parts?: RequestParts])[] = [
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
    const responses = await Promise.all(
      requests.map(([method, path, parts]) =>
        this.request(method, path, parts).catch((error: unknown) => {
          if (error instanceof Mismatch) return undefined;
          throw error;
        }),
      ),
    );
    return responses.filter((response) => response !== undefined);
  }

  /** Expects the status of an error and, at the level `full`, its code. */
  expectError(response: RawResponse, status: number, code: string, sent?: string): void {
    expect(response, response.status === status, String(status), undefined, sent);

    const body = jsonOf(response);
    const given = body instanceof Map ? body.get('code') : undefined;
    // P3 checks that there is a code, and C50 that the contract lists it.
    if (this.level !== 'full' || typeof given !== 'string' || !Object.hasOwn(errorCodes, given))
      return;
    expect(response, given === code, `${status} ${code}`, `${status} ${given}`, sent);
  }

  /** Expects the same error for each of several concurrent requests. */
  async expectErrors(
    status: number,
    code: string,
    requests: Iterable<Promise<RawResponse>>,
  ): Promise<void> {
    for (const response of await Promise.all(requests)) this.expectError(response, status, code);
  }
}

/** Returns true for any status of success. Another rule checks which one it must be. */
export function isSuccess({ status }: RawResponse): boolean {
  return status >= 200 && status < 300;
}

/** Expects any status of success. */
export function expectSuccess(response: RawResponse, sent?: string): void {
  expect(response, isSuccess(response), 'success', undefined, sent);
}

/** Returns the value of a header; undefined if it is absent or there are several. */
export function headerOf(response: RawResponse, name: string): string | undefined {
  const values = response.headers.get(name.toLowerCase()) ?? [];
  return values.length === 1 ? values[0] : undefined;
}

/** Expects one header whose value matches a pattern. */
export function expectHeader(
  response: RawResponse,
  name: string,
  pattern: RegExp,
  form: string,
): void {
  const value = headerOf(response, name);
  const came = value === undefined ? `no ${name}` : `${name}: ${value}`;
  expect(response, value !== undefined && pattern.test(value), `${name}: ${form}`, came);
}

/** Parses the body as JSON with exact numbers; returns undefined if it is not valid. */
export function jsonOf(response: RawResponse): JsonValue | undefined {
  try {
    return parseJson(response.body, maxJsonValues);
  } catch {
    return undefined;
  }
}

/** Returns the members of the object in the body; an empty map if it is not an object. */
export function membersOf(response: RawResponse): ReceivedPet['members'] {
  const json = jsonOf(response);
  return json instanceof Map ? json : new Map();
}

/**
 * Returns the query parameter of a list that begins after an id.
 *
 * @throws Untried for a negative id, which `after` does not allow
 */
export function queryAfter(id: bigint): string {
  if (id < 0n) throw new Untried('the server uses negative ids, which `after` does not allow');
  return `after=${id}`;
}

/** Returns the pets of a list, or the one pet of a body, without values that have no valid id. */
export function petsIn(response: RawResponse): readonly ReceivedPet[] {
  const json = jsonOf(response);
  const values: readonly (JsonValue | undefined)[] = Array.isArray(json) ? json : [json];

  return values.flatMap((members) => {
    const number = members instanceof Map ? members.get('id') : undefined;
    const id = number instanceof JsonNumber ? int64OfJsonNumber(number.text) : undefined;
    return members instanceof Map && id !== undefined ? [{ id, members, response }] : [];
  });
}

/** Returns true for a valid pet that this suite added, in this run or another. */
export function isOfSuite(value: JsonValue): boolean {
  const name = value instanceof Map ? value.get('name') : undefined;
  return typeof name === 'string' && /^verify [0-9a-f-]{36}( \d+)?$/.test(name);
}

/** Returns true if two JSON texts are the same int64, such as `1` and `1.0`. */
export function isSameInt64(one: string, other: string): boolean {
  const int64Of = (text: string) => (/^-?\d/.test(text) ? int64OfJsonNumber(text) : undefined);
  return int64Of(one) !== undefined && int64Of(one) === int64Of(other);
}

/** Checks a pet against the specification; returns the problem, if any. */
export function problemWith(members: JsonValue | undefined): string | undefined {
  if (!(members instanceof Map)) return 'a pet that is not an object';

  for (const name of ['id', 'categoryId']) {
    const number = members.get(name);
    // C23 checks that each digit is right.
    if (!(number instanceof JsonNumber) || !Number.isInteger(Number(number.text)))
      return `a pet whose ${name} is not an integer`;
  }
  if (typeof members.get('name') !== 'string') return 'a pet whose name is not a string';

  const status = members.get('status');
  const isStatus = petStatuses.some((each) => each === status);
  return status === undefined || isStatus ? undefined : 'a pet with an unknown status';
}

/** Returns a member as JSON text, which rounds no number; `nothing` if it is absent. */
export function memberText({ members }: Pick<ReceivedPet, 'members'>, name: string): string {
  const value = members.get(name);
  if (value === undefined) return 'nothing';
  return value instanceof JsonNumber ? value.text : JSON.stringify(value);
}

/**
 * Skips a check until the server keeps another rule.
 *
 * @param need What the check needs from the other rule.
 * @throws Untried always
 */
export function skipUntil(need: string, otherRule: string): never {
  throw new Untried(`this check needs ${need}; fix ${otherRule} first`);
}
