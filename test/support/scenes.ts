/** Petstores, storages and plugins for several tests, and requests with an expected response. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import {
  jsonReply,
  memoryStorage,
  type Log,
  type Operation,
  type PetStorage,
  type PetstoreOptions,
  type Plugin,
  type Reply,
  toByteString,
} from '../../dist/index.js';
import { atEnd, type Ending } from './at-end.js';
import { inspect } from 'node:util';
import { assertResponse, header } from './client.js';
import { sendRequest, key, start, type Running, type RequestParts } from './fixture.js';
import { gate, until } from './waiting.js';

/** The JSON of a pet, and the JSON of the same pet once it is added as the first. */
export const petJson = '{"name":"a","categoryId":1}';
export const firstPetJson = '{"id":1,"name":"a","categoryId":1}';

export const noKey = { authorization: null };
/** The headers of a request by `fetch`. */
export const keyHeaders = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };

/**
 * Sends a request, checks the response, and returns it.
 * @param request - The method and target, such as `GET /v1/pets`.
 * @param expected - As in `assertResponse`.
 * @param headers - Expected headers of the response; undefined for an absent header.
 */
export async function expectResponse(
  port: number,
  request: string,
  expected: number | string,
  words: RequestParts = {},
  headers: Readonly<Record<string, string | undefined>> = {},
): Promise<Awaited<ReturnType<typeof sendRequest>>> {
  const [method = '', target = ''] = request.split(' ');
  const response = await sendRequest(port, method, target, words);
  assertResponse(response, expected, request);
  for (const [name, value] of Object.entries(headers))
    assert.equal(header(response, name), value, `${request}: ${name}`);
  return response;
}

/** Calls {@link expectResponse} for each row, one after the other. */
export async function expectResponses(
  port: number,
  rows: readonly (readonly [
    request: string,
    expected: number | string,
    words?: RequestParts,
    headers?: Readonly<Record<string, string | undefined>>,
  ])[],
): Promise<void> {
  for (const row of rows) await expectResponse(port, ...row);
}

/** Returns the OpenAPI document of a petstore. */
export const documentOf = async (port: number) =>
  JSON.parse((await sendRequest(port, 'GET', '/openapi.json', noKey)).body);

/** Starts a petstore with plugins. */
export const startWith = (t: Ending, ...plugins: readonly Plugin[]): Promise<Running> =>
  start(t, { plugins });

/** Starts a petstore, and collects its log lines as texts. */
export async function startLogged(
  t: Ending,
  options?: Partial<PetstoreOptions>,
): Promise<Running & { readonly lines: string[] }> {
  const lines: string[] = [];
  const log: Log = (...line) => lines.push(inspect(line, { depth: 9, breakLength: Infinity }));
  return { ...(await start(t, { ...options, log })), lines };
}

/** Starts a host's server on a free port until the end of the test, and returns the port. */
export async function serve(t: Ending, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  atEnd(t, () => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return Object(server.address()).port;
}

/** Returns functions that send a request by the petstore's port, by `handler`, and by `fetch`. */
export async function everyTransport(
  t: Ending,
  { petstore, port }: Running,
): Promise<readonly ((path: string, init?: RequestInit) => Promise<Response>)[]> {
  const foreign = await serve(t, petstore.handler);
  return [
    (path, init) => fetch(`http://127.0.0.1:${port}${path}`, init),
    (path, init) => fetch(`http://127.0.0.1:${foreign}${path}`, init),
    (path, init) => petstore.fetch(`http://any${path}`, init),
  ];
}

/** Returns a memory storage with only the required functions, some of them replaced. */
export function plainStorage(
  change: (memory: PetStorage) => Partial<PetStorage> = () => ({}),
): PetStorage {
  const { insert, get, list, close } = memoryStorage();
  const plain = { durable: false, insert, get, list, close };
  return { ...plain, ...change(plain) };
}

/** Returns a key verifier that blocks until `unblock` is called. */
export function blockedKeys() {
  const [verifying, unblock] = [gate(), gate()];
  const keys = async (): Promise<string> => {
    verifying.open();
    await unblock.opened;
    return 'me';
  };
  return { keys, verifying: verifying.opened, unblock: unblock.open };
}

/** Returns a storage whose `insert` blocks until `release` is called. */
export function blockedStorage() {
  const [inserting, release] = [gate(), gate()];
  const storage = plainStorage(({ insert }) => ({
    insert: async (draft) => {
      inserting.open();
      await release.opened;
      return insert(draft);
    },
  }));
  return { storage, inserting: inserting.opened, release: release.open };
}

/** Returns a plugin with one route, for GET. */
export const routePlugin =
  (path: string, handler: Operation['handler']): Plugin =>
  ({ route }) =>
    route({ path, methods: { GET: { handler } } });

/** Returns a reply with a JSON text. */
export const okReply = (json: string, headers: readonly string[] = []): Reply =>
  jsonReply(200, toByteString(json), headers);

/** Returns a plugin that counts the requests of `/v1/pets` that reach their operation. */
export function countingPets() {
  let count = 0;
  const plugin: Plugin = ({ around }) =>
    around((request, next) => {
      if (request.route === '/v1/pets') count++;
      return next();
    });
  return { plugin, reaches: (wanted: number) => until('requests', () => count >= wanted) };
}
