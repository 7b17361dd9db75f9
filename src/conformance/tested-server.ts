/** The tested server: sends it requests, and reads pets, headers and errors from its responses. */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
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
import { allSettled } from './all-settled.js';
import {
  RawConnection,
  connectTo,
  NoResponse,
  RateLimited,
  type RawResponse,
  type HeldBytes,
} from './raw-connection.js';
import { KeyMask } from './key-mask.js';
import type { Level } from './levels.js';
import { expect, Inapplicable, Mismatch, Untried } from './outcome.js';

/** The time from which `GET /pets/{petId}` is gone (C35). */
const goneFrom = Date.UTC(2030, 11, 6);

/** The time that a run waits in all for a server that limits the rate of requests. */
const rateBudgetMs = 120_000;

/** The most times that a request is repeated after a response 429. */
const maxRepeats = 12;

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

/** The entries of added pets in a list. */
export interface SearchResult {
  /** The response that the entries come from. */
  readonly response: RawResponse;
  readonly found: readonly ReceivedPet[];
  /** True if a pet without an entry is missing; false if it may be on a later page. */
  readonly isWhole: boolean;
}

/** A pet that this run has added. */
export interface AddedPet extends ReceivedPet {
  /** The members as they were sent, as JSON text; `status` without quotes. */
  readonly draft: JsonDraft & { readonly name: string; readonly categoryId: string };
}

/** The options of a `TestedServer`. */
export interface TestedServerOptions {
  readonly url: URL;
  readonly key: string;
  readonly level: Level;
  /** The category of the pets that are added, in digits. */
  readonly category: string;
  /** The time for one response, in milliseconds. */
  readonly patienceMs: number;
  readonly stories: StoryOptions;
  /** Called with a sentence about how the run adapts itself to the server. */
  readonly onNote: (note: string) => void;
}

/** The number of stories, and the seed that they are drawn from. */
export interface StoryOptions {
  readonly count: number;
  readonly seed: number;
}

/** The tested server, and an API key that it accepts. */
export class TestedServer {
  readonly url: URL;
  readonly key: string;
  readonly level: Level;
  readonly patienceMs: number;
  readonly stories: StoryOptions;
  /** Hides the key in reports. */
  readonly mask: KeyMask;
  /** A unique text in the names of the pets that this run adds. */
  readonly runId = randomUUID();
  /** The time of the first response, in milliseconds. */
  responseMs = 0;
  readonly #held: HeldBytes = { count: 0 };
  readonly #notes = new Set<string>();
  /** The first response to adding a pet, by id. */
  readonly #responsesById = new Map<bigint, ReceivedPet>();
  #reusedId: ReceivedPet | undefined;
  readonly #firstPets: AddedPet[] = [];
  readonly #firstLists: RawResponse[] = [];
  readonly #onNote: (note: string) => void;
  #isGetPetGone: boolean | undefined;
  #basePath: string;
  #category: string;
  #nameCount = 0;
  #rateBudgetMs = rateBudgetMs;
  /** The time until which requests wait after a response 429. */
  #pausedUntil = 0;

  constructor({ url, key, level, category, patienceMs, stories, onNote }: TestedServerOptions) {
    this.url = url;
    this.#basePath = url.pathname === '/' ? '/v1' : url.pathname.replace(/\/+$/, '');
    this.key = key;
    this.level = level;
    this.patienceMs = patienceMs;
    this.stories = stories;
    this.mask = new KeyMask(key);
    this.#category = category;
    this.#onNote = onNote;
  }

  /** The path before `/pets`, such as `/v1`, without a slash at its end. */
  get basePath(): string {
    return this.#basePath;
  }

  /** The path before `/healthz` and `/openapi.json`: the base path without its last segment. */
  get rootPath(): string {
    return this.#basePath.replace(/\/[^/]*$/, '');
  }

  /** The category of the pets that are added, in digits. */
  get category(): string {
    return this.#category;
  }

  /** Tells the user once how the run adapts itself to the server. */
  note(note: string): void {
    if (this.#notes.has(note)) return;
    this.#notes.add(note);
    this.#onNote(this.mask.hide(note));
  }

  /**
   * Follows a redirect of the list to another base path. Does nothing for other redirects, which
   * S1 reports.
   */
  async followRedirect({ status, headers }: RawResponse): Promise<void> {
    const [location = ''] = headers.get('location') ?? [];
    if (status < 301 || status > 308 || !URL.canParse(location, this.url.origin)) return;

    const { origin, pathname } = new URL(location, this.url.origin);
    const [, basePath] = /^(.*)\/pets$/.exec(pathname) ?? [];
    if (origin !== this.url.origin || basePath === undefined || basePath === this.#basePath) return;

    const before = this.#basePath;
    this.#basePath = basePath;
    const { status: statusThere } = await this.request('GET', '/pets?limit=1');
    if (statusThere === 200)
      this.note(`the server redirects ${before}/pets, so the base path ${basePath} is tested`);
    else this.#basePath = before;
  }

  /** Reads the filtered lists before the run adds pets, because they may be empty then. */
  async readFirstLists(): Promise<void> {
    for (const status of petStatuses)
      this.#firstLists.push(await this.request('GET', `/pets?status=${status}`));
  }

  /** The filtered lists from before the run added pets. */
  get firstLists(): readonly RawResponse[] {
    return this.#firstLists;
  }

  /** Finds a category that the server accepts, because the specification leaves categories open. */
  async findCategory(): Promise<void> {
    const first = await this.post(this.json());
    if (![400, 404, 409, 422].includes(first.status)) return;

    for (const category of ['1', '2', '3', '10']) {
      const response = await this.post(this.json({ categoryId: category }));
      if (!isSuccess(response)) continue;
      this.note(`the server refuses category ${this.#category}, so pets have ${category}`);
      this.#category = category;
      return;
    }
  }

  /** Returns true if the server accepts a category that nobody has created. */
  async acceptsCategory(categoryId: string): Promise<boolean> {
    return isSuccess(await this.post(this.json({ categoryId })));
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

  /**
   * Opens a connection for `work`, and closes it afterwards. Repeats the work if the server limits
   * the rate of requests.
   *
   * @throws Untried if the server limits the rate for too long
   */
  async withConnection<T>(work: (connection: RawConnection) => Promise<T>): Promise<T> {
    for (let repeats = 0; ; repeats++) {
      await this.#waitForRate();
      const socket = await connectTo(this.url, this.patienceMs).catch((error: unknown) => {
        throw new NoResponse(`no connection (${reasonOf(error)})`, '', '');
      });
      const connection = new RawConnection(socket, {
        held: this.#held,
        patienceMs: this.patienceMs,
        refusesRateLimit: true,
      });
      try {
        return await work(connection);
      } catch (error) {
        if (!(error instanceof RateLimited)) throw error;
        this.#pause(error, repeats);
      } finally {
        connection.destroy();
      }
    }
  }

  /** Makes all requests wait after a response 429. */
  #pause({ retryAfterSeconds }: RateLimited, repeats: number): void {
    this.note('the server limits the rate of requests (429), so the run waits');
    const ms = retryAfterSeconds === undefined ? 250 * 2 ** Math.min(repeats, 4) : 0;
    const pauseMs = Math.max(ms, (retryAfterSeconds ?? 0) * 1_000, 100);
    const now = performance.now();
    if (this.#pausedUntil <= now) this.#rateBudgetMs -= pauseMs;
    if (repeats >= maxRepeats || this.#rateBudgetMs < 0)
      throw new Untried(
        'the server limits the rate of requests (429) for too long; raise its limit',
      );
    this.#pausedUntil = Math.max(this.#pausedUntil, now + pauseMs);
  }

  async #waitForRate(): Promise<void> {
    for (;;) {
      const leftMs = this.#pausedUntil - performance.now();
      if (leftMs <= 0) return;
      await sleep(leftMs);
    }
  }

  /**
   * Sends bytes on a new connection and returns the response.
   *
   * @throws Mismatch if there is no whole response
   */
  async exchange(bytes: string, method = 'GET'): Promise<RawResponse> {
    return this.withConnection(async (connection) => {
      connection.send(bytes);
      const response = await connection.finalResponse(method);
      // C16 checks a response to HEAD.
      if (method !== 'HEAD' && isWholeButLonger(response, connection.received)) {
        const more = connection.received.length;
        const reason = `${more} bytes after the end that Content-Length gives`;
        throw new NoResponse(reason, bytes, response.came + connection.received);
      }
      return response;
    }).catch((error: unknown) => {
      if (!(error instanceof NoResponse)) throw error;
      throw toMismatch(error, bytes);
    });
  }

  /** Sends a request and returns the response. `path` follows the base path. */
  async request(method: string, path: string, parts?: RequestParts): Promise<RawResponse> {
    return this.exchange(this.requestBytes(method, path, parts), method);
  }

  /** Sends JSON to add a pet and returns the response. */
  async post(json: string, headers: readonly string[] = []): Promise<RawResponse> {
    const body = toByteString(json);
    const response = await this.request('POST', '/pets', {
      headers: ['Content-Type: application/json', ...headers],
      body,
    });
    const [pet] = response.status === 201 ? petsIn(response) : [];
    if (pet !== undefined) this.#noteId(pet);
    return response;
  }

  /** Notes the id of an added pet. A retry gets the same pet again. */
  #noteId(pet: ReceivedPet): void {
    const before = this.#responsesById.get(pet.id);
    if (before === undefined) this.#responsesById.set(pet.id, pet);
    else if (before.members.get('name') !== pet.members.get('name')) this.#reusedId ??= pet;
  }

  /** A pet of this run with the id of an earlier pet; undefined if each pet has its own id. */
  get reusedId(): ReceivedPet | undefined {
    return this.#reusedId;
  }

  /**
   * Expects the first pets of the run to be at their URLs still.
   *
   * @throws Mismatch that breaks C34 if one is gone, although a new pet is at its URL
   */
  async expectFirstPets(): Promise<void> {
    if (await this.isGetPetGone()) return;
    for (const pet of this.#firstPets) {
      const first = await this.request('GET', `/pets/${pet.id}`);
      if (isSuccess(first) || !(await this.isRightAtUrl(await this.add()))) continue;
      const expected = `the pet ${pet.id}, which was there before`;
      throw new Mismatch(first, expected, {}, ['P3', 'C30'], 'C34');
    }
  }

  /** Returns a name that no other pet has, as JSON text. */
  uniqueName(): string {
    this.#nameCount++;
    return `"verify ${this.runId} ${this.#nameCount}"`;
  }

  /** Returns the JSON of a pet to add, by default with a unique name. */
  json({ name = this.uniqueName(), categoryId = this.#category, status }: JsonDraft = {}): string {
    const members = [`"name":${name}`, `"categoryId":${categoryId}`];
    if (status !== undefined) members.push(`"status":${JSON.stringify(status)}`);
    return `{${members.join(',')}}`;
  }

  /**
   * Adds a pet, for a check of another rule.
   *
   * @throws Mismatch with the cause C30 if that fails
   */
  async add(given: JsonDraft = {}): Promise<AddedPet> {
    const draft = toDraft(this, given);
    const response = await wholeResponse(this.post(this.json(draft)));
    const [pet] = isSuccess(response) ? petsIn(response) : [];
    const causes = ['P3', 'C30', 'C31'];
    expect(response, pet !== undefined, 'the added pet, with its id', undefined, undefined, causes);
    const added = { ...pet, draft };
    if (this.#firstPets.length < 3) this.#firstPets.push(added);
    return added;
  }

  /**
   * Returns the pets of a list, for a check of another rule.
   *
   * @throws Mismatch with the cause S1 if that fails
   */
  async list(query: string): Promise<readonly ReceivedPet[]> {
    const response = await wholeResponse(this.request('GET', `/pets${query}`));
    expectList(response);
    return petsIn(response);
  }

  /**
   * Returns the first pets whose id is greater than `id`, for a check of another rule.
   *
   * @param filter A query parameter followed by `&`.
   * @throws Mismatch with the cause S1 or C6 if that fails
   */
  async listAfter(id: bigint, filter = ''): Promise<readonly ReceivedPet[]> {
    const query = `?${filter}limit=100&${queryAfter(id)}`;
    const response = await this.request('GET', `/pets${query}`);
    expectList(response);
    const pets = petsIn(response);
    const areAfter = pets.every((pet) => pet.id > id);
    const expected = `pets with ids greater than ${id}`;
    expect(response, areAfter, expected, undefined, undefined, ['S1', 'C6']);
    return pets;
  }

  /**
   * Expects pets of a list to be at their URLs with the same members. It sees a list that changes
   * pets even if the pets of this run are not on its first page.
   */
  async expectSameAtUrls(list: RawResponse, causes: readonly string[] = []): Promise<void> {
    if (await this.isGetPetGone()) return;
    const pets = petsIn(list);
    const sample = [...pets.slice(0, 3), ...pets.slice(3, -3).slice(0, 6), ...pets.slice(-3)];
    for (const { id, members } of sample) {
      const one = await this.request('GET', `/pets/${id}`);
      const found = one.status === 200 ? jsonOf(one) : undefined;
      // C34 checks a pet at its URL.
      if (!(found instanceof Map)) continue;
      for (const name of ['id', 'name', 'categoryId', 'status']) {
        if (isUnusual(found.get(name)) || isUnusual(members.get(name))) continue;
        const expected = `${name} ${memberText({ members: found }, name)}, as at /pets/${id}`;
        const came = memberText({ members }, name);
        const isSame =
          `${name} ${came}, as at /pets/${id}` === expected ||
          isSameInt64(came, memberText({ members: found }, name));
        const all = [...causes, 'C34', 'C30', 'C31'];
        expect(list, isSame, expected, `${name} ${came}`, undefined, all);
      }
    }
  }

  /**
   * Expects a pet that a response does not show to be at its URL, or in the list.
   *
   * @throws Mismatch that breaks C30 if the pet is lost
   */
  async expectKept(pet: AddedPet): Promise<void> {
    if (await this.isGetPetGone()) return;
    const one = await this.request('GET', `/pets/${pet.id}`);
    if (isSuccess(one)) return;
    const { found, isWhole } = await this.search([pet]);
    if (found.length > 0) return;
    if (!isWhole) {
      // The list of one status may be whole, although the list of all is not.
      const { status } = pet.draft;
      const filter = status === undefined ? '' : `status=${status}&`;
      const some = await this.search([pet], filter);
      if (some.found.length > 0 || !some.isWhole) return;
    }
    const expected = `the pet ${pet.id}, which was added before`;
    const summaries = { came: `${one.status}, and a list without it` };
    throw new Mismatch(one, expected, summaries, ['P3'], 'C30');
  }

  /** Returns true if a pet is at its URL as it was added. */
  async isRightAtUrl(pet: AddedPet): Promise<boolean> {
    const response = await this.request('GET', `/pets/${pet.id}`);
    return isSuccess(response) && differenceFrom(pet, jsonOf(response)) === undefined;
  }

  /** Returns true if the list has a pet as it was added. */
  async isRightInList(pet: AddedPet): Promise<boolean> {
    const { found } = await this.search([pet]);
    return found.some(({ members }) => differenceFrom(pet, new Map(members)) === undefined);
  }

  /**
   * Adds pets, many at the same time unless the server is so slow that the last would be late.
   *
   * @param atOnce The most at the same time.
   */
  async addMany(
    count: number,
    atOnce: number,
    given: JsonDraft = {},
  ): Promise<readonly AddedPet[]> {
    const inTime = Math.floor(this.patienceMs / 3 / Math.max(1, this.responseMs));
    const width = Math.max(2, Math.min(atOnce, inTime));
    const added: AddedPet[] = [];
    for (let left = count; left > 0; left -= width)
      added.push(
        ...(await allSettled(Array.from({ length: Math.min(left, width) }, () => this.add(given)))),
      );
    return added;
  }

  /**
   * Adds pets until the store has at least `count`, as far as one page of the list shows it.
   *
   * @param count At most 101, because a page has at most 100 pets.
   */
  async fill(count: number): Promise<void> {
    // A wrong list may not show all pets. S1 and S2 then say so.
    for (let rounds = 0; rounds < 3; rounds++) {
      const listed = (await this.list('?limit=100')).length;
      // A full page may be all of the store. Few pets are pending, so that a list finds those.
      await this.addMany(count - listed, 20, { status: 'sold' });
      if (listed >= 100) return;
    }
  }

  /**
   * Looks for pets that this run has added in the list. The specification has no way to reach a pet
   * that is not on the first page, so a filter and the parameter `after` are tried too.
   *
   * @param filter A query parameter followed by `&`.
   */
  async search(pets: readonly AddedPet[], filter = ''): Promise<SearchResult> {
    const ids = new Set(pets.map(({ id }) => id));
    const ownOf = (some: readonly ReceivedPet[]) => some.filter(({ id }) => ids.has(id));
    const isWholeWith = (response: RawResponse, found: readonly ReceivedPet[]) =>
      petCountOf(response) < 100 || new Set(found.map(({ id }) => id)).size === ids.size;

    const first = await this.request('GET', `/pets?${filter}limit=100`);
    expectList(first);
    const found = ownOf(petsIn(first));
    if (isWholeWith(first, found)) return { response: first, found, isWhole: true };

    const statuses = new Set(pets.map(({ draft }) => draft.status));
    const [status] = statuses;
    if (filter === '' && statuses.size === 1 && status !== undefined) {
      const filtered = await this.request('GET', `/pets?status=${status}&limit=100`);
      const some = isSuccess(filtered) ? ownOf(petsIn(filtered)) : [];
      if (new Set(some.map(({ id }) => id)).size === ids.size)
        return { response: filtered, found: some, isWhole: true };
    }

    const least = [...ids].reduce((one, other) => (one < other ? one : other));
    if (least <= 0n) return { response: first, found, isWhole: false };
    const page = await this.request('GET', `/pets?${filter}limit=100&after=${least - 1n}`);
    const later = isSuccess(page) ? ownOf(petsIn(page)) : [];
    const isPage = isSuccess(page) && petsIn(page).every(({ id }) => id >= least);
    return isPage
      ? { response: page, found: later, isWhole: isWholeWith(page, later) }
      : { response: first, found, isWhole: false };
  }

  /**
   * Checks that `GET /pets/{petId}` is still served.
   *
   * @throws Inapplicable from its sunset on, by the server's clock
   */
  async requireGetPet(): Promise<void> {
    if (await this.isGetPetGone())
      throw new Inapplicable('GET /pets/{petId} is gone since its sunset');
  }

  /** Returns true if a request without a key is refused (C36). */
  async requiresKey(): Promise<boolean> {
    return !isSuccess(await this.request('GET', '/pets?limit=1', { authorization: null }));
  }

  /** Returns true if `GET /pets/{petId}` is gone by the server's clock (C35, C64). */
  async isGetPetGone(): Promise<boolean> {
    if (this.#isGetPetGone !== undefined) return this.#isGetPetGone;
    const response = await this.request('GET', '/pets?limit=1');
    const date = Date.parse(headerOf(response, 'Date') ?? '');
    this.#isGetPetGone = (Number.isNaN(date) ? Date.now() : date) >= goneFrom;
    return this.#isGetPetGone;
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
    const responses = await allSettled(
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
  expectError(
    response: RawResponse,
    status: number,
    code: string,
    sent?: string,
    moreCauses: readonly string[] = [],
  ): void {
    // A success is this rule's own fault; another error may come from a fault in the operation.
    const causes = [...(isSuccess(response) ? [] : causesOf(response.sent)), ...moreCauses];
    expect(response, response.status === status, String(status), undefined, sent, causes);

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
    for (const response of await allSettled([...requests]))
      this.expectError(response, status, code);
  }
}

/** Returns true for any status of success. Another rule checks which one it must be. */
export function isSuccess({ status }: RawResponse): boolean {
  return status >= 200 && status < 300;
}

/** Expects any status of success. */
export function expectSuccess(response: RawResponse, sent?: string): void {
  const causes = causesOf(response.sent);
  expect(response, isSuccess(response), 'success', undefined, sent, causes);
}

/** Expects a success with an array, for a check of another rule than S1. */
export function expectList(response: RawResponse): void {
  const isList = isSuccess(response) && Array.isArray(jsonOf(response));
  expect(response, isList, '200 and a list', undefined, undefined, causesOf(response.sent));
}

/**
 * Returns the numbers of the rules of the operation that a request is for. If one is broken, it
 * explains an unexpected response.
 */
export function causesOf(sent: string): readonly string[] {
  const [, method = '', petPath] = /^([A-Z]+) \S*?\/pets(\/\S)?/.exec(sent) ?? [];
  if (method === 'POST') return ['P3', 'C30'];
  if (method !== 'GET' && method !== 'HEAD') return ['P3'];
  return ['P3', 'S1', ...(petPath === undefined ? [] : ['C34'])];
}

/** Returns the mismatch for a request that got no whole response. It breaks P3 if one began. */
export function toMismatch(error: NoResponse, sent = error.sent): Mismatch {
  const { came, message } = error;
  const breaks = came.startsWith('HTTP/') ? 'P3' : undefined;
  const exchange = { sent, came };
  return new Mismatch(exchange, 'a whole response', { came: message }, causesOf(sent), breaks);
}

/**
 * Returns a response to a plain request.
 *
 * @throws Mismatch that breaks P3 if it is not whole
 */
async function wholeResponse(response: Promise<RawResponse>): Promise<RawResponse> {
  return response.catch((error: unknown) => {
    if (!(error instanceof Mismatch)) throw error;
    const { exchange, expected, summaries, causes } = error;
    throw new Mismatch(exchange, expected, summaries, causes, 'P3');
  });
}

/**
 * Sends a further request on a connection and returns its response.
 *
 * @throws Mismatch with the cause C52 if there is no response
 */
export async function nextOnConnection(
  connection: RawConnection,
  bytes: string,
): Promise<RawResponse> {
  connection.send(bytes);
  return connection.finalResponse().catch((error: unknown) => {
    if (!(error instanceof NoResponse)) throw error;
    const { exchange, expected, summaries, causes } = toMismatch(error);
    throw new Mismatch(exchange, expected, summaries, [...causes, 'C52']);
  });
}

/** Returns true if more bytes follow a response that gave its length. */
function isWholeButLonger({ status, headers }: RawResponse, rest: string): boolean {
  return rest !== '' && status !== 204 && status !== 304 && headers.has('content-length');
}

/** True if the client may send another request on the connection of this response. */
export function isPersistent({ version, headers }: RawResponse): boolean {
  const options = listOf(headers.get('connection'));
  return version === '1.1' ? !options.includes('close') : options.includes('keep-alive');
}

/** Returns the lowercase members of a list header, whose values may stand in several lines. */
export function listOf(values: readonly string[] = []): readonly string[] {
  return values.flatMap((value) => value.split(',')).map((each) => each.trim().toLowerCase());
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
 * @throws Inapplicable for a negative id, which `after` does not allow
 */
export function queryAfter(id: bigint): string {
  if (id < 0n) throw new Inapplicable('the server uses negative ids, which `after` does not allow');
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

/** Returns true for a value that C23 or C25 checks: a large number, or a name that some change. */
function isUnusual(value: JsonValue | undefined): boolean {
  if (value instanceof JsonNumber) return !Number.isSafeInteger(Number(value.text));
  return typeof value === 'string' && !/^[\w<>&"',.-]+( [\w<>&"',.-]+)*$/.test(value);
}

/** Returns the number of values in the list of a body. */
function petCountOf(response: RawResponse): number {
  const list = jsonOf(response);
  return Array.isArray(list) ? list.length : 0;
}

/**
 * Compares all members of a pet with the pet that was added. Returns the difference, or undefined.
 *
 * @param pet The value in a response.
 */
export function differenceFrom(
  { id, draft, members }: AddedPet,
  pet: JsonValue | undefined,
): string | undefined {
  const problem = problemWith(pet);
  if (problem !== undefined || !(pet instanceof Map)) return problem ?? 'no pet';

  const status = draft.status === undefined ? undefined : JSON.stringify(draft.status);
  const wanted = {
    id: String(id),
    name: plainText(draft.name),
    categoryId: draft.categoryId,
    // A server may set a status if there was none.
    status: status ?? memberText({ members }, 'status'),
  };
  for (const [name, expected] of Object.entries(wanted)) {
    const came = memberText({ members: pet }, name);
    if (came !== expected && !isSameInt64(came, expected))
      return `${name} ${came}, not ${expected}`;
  }
  return undefined;
}

/**
 * Returns the rules that explain a difference of a pet: those on the member that differs.
 *
 * @param difference A result of `differenceFrom`.
 */
export function causesOfDifference(
  difference: string | undefined,
  pet: AddedPet,
): readonly string[] {
  if (difference?.startsWith('name ')) return ['C30', 'C25'];
  if (difference?.startsWith('categoryId ')) return ['C30', 'C23'];
  const isStatus = /^status |status$/.test(difference ?? '');
  return isStatus && pet.draft.status === undefined ? ['C30', 'C19'] : ['C30'];
}

/** Returns a JSON text in the form that `JSON.stringify` writes. */
function plainText(json: string): string {
  return JSON.stringify(JSON.parse(json));
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
 * Checks that the server refuses requests without a key, for a check of another rule.
 *
 * @throws Mismatch with the cause C36 if it does not
 */
export async function requireKeys(server: TestedServer): Promise<void> {
  const response = await server.request('GET', '/pets?limit=1', { authorization: null });
  const isRefused = !isSuccess(response);
  expect(response, isRefused, '401 without a key', undefined, undefined, ['C36']);
}

/** Returns a draft with a unique name and the category of the run, unless they are given. */
export function toDraft(server: TestedServer, given: JsonDraft): AddedPet['draft'] {
  return { name: server.uniqueName(), categoryId: server.category, ...given };
}
