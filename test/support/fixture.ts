/** Starts a petstore on a free port for a test, and sends requests to it. */
import assert from 'node:assert/strict';
import { atEnd, type Ending } from './at-end.js';
import {
  createPetstore,
  type Listening,
  type ListenOptions,
  type Petstore,
  type PetstoreOptions,
} from '../../dist/index.js';
import { callersEnvironment } from './environment.js';
import { Client, type RawResponse } from './client.js';

export const key = 'psk_test';

/** True if the suite runs on the documented interface of Node alone (C79). */
const isDocumented = callersEnvironment.PETSTORE_TEST_INTERFACE === 'documented';
const nodeInterfaceOfTests = isDocumented ? ({ nodeInterface: 'documented' } as const) : {};

/** A petstore that listens until the end of the test. */
export interface Running {
  readonly petstore: Petstore;
  readonly port: number;
}

/** Starts a petstore for one test. */
export async function start(
  t: Ending,
  options: Partial<PetstoreOptions> = {},
  listenOptions: ListenOptions = {},
): Promise<Running & Listening> {
  const petstore = createPetstore({ keys: [key], ...options });
  const listening = await petstore.listen({ port: 0, ...nodeInterfaceOfTests, ...listenOptions });
  atEnd(t, () => petstore.close());
  return { petstore, ...listening };
}

/** Opens a connection until the end of the test, and sends the bytes. */
export async function connectTo(
  t: Ending,
  { port }: Pick<Running, 'port'>,
  bytes = '',
): Promise<Client> {
  const client = (await Client.connect(port)).send(bytes);
  atEnd(t, () => client.destroy());
  return client;
}

/** The parts of a request besides its method and target. */
export interface RequestParts {
  /** Header lines besides Host and Authorization. */
  readonly headers?: readonly string[];
  /** The value of Authorization; null for none. */
  readonly authorization?: string | null;
  /** A byte string, for which Content-Length is added. */
  readonly body?: string;
  readonly version?: string;
}

/** Returns the bytes of a request, by default with the valid key. */
export function requestBytes(
  method: string,
  target: string,
  { headers = [], authorization = `Bearer ${key}`, body, version = '1.1' }: RequestParts = {},
): string {
  const lines = [`${method} ${target} HTTP/${version}`, 'Host: petstore', ...headers];
  if (authorization !== null) lines.push(`Authorization: ${authorization}`);
  if (body !== undefined) lines.push(`Content-Length: ${body.length}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

/** Sends a request as {@link exchange} does. */
export async function sendRequest(
  port: number,
  method: string,
  target: string,
  words: RequestParts = {},
): Promise<RawResponse & { readonly kept: boolean }> {
  return await exchange(port, requestBytes(method, target, words), method);
}

/**
 * Sends bytes on a new connection, and returns the response. Checks that the connection then closes
 * or stays open, as the response says.
 */
export async function exchange(
  port: number,
  bytes: string,
  method = 'GET',
  send: 'whole' | 'drip' = 'whole',
): Promise<RawResponse & { readonly kept: boolean }> {
  const client = await Client.connect(port);
  try {
    if (send === 'whole') client.send(bytes);
    else await client.drip(bytes);
    const response = await client.nextResponse(method);
    const closes = response.headers.get('connection')?.includes('close') ?? false;
    if (closes) await client.closed();
    else {
      client.send(requestBytes('GET', '/healthz', { authorization: null }));
      assert.equal((await client.nextResponse()).body, '{"status":"ok"}');
    }
    return { ...response, kept: !closes };
  } finally {
    client.destroy();
  }
}

/** Adds a pet by its JSON text, and returns the JSON of the stored pet. */
export async function add(port: number, json: string): Promise<string> {
  const response = await sendRequest(port, 'POST', '/v1/pets', {
    body: Buffer.from(json).toString('latin1'),
  });
  assert.equal(response.status, 201, response.body);
  return response.body;
}

/** Returns all stored pets, each as `ID NAME CATEGORY STATUS`. */
export async function storedPets({ petstore }: Running): Promise<readonly string[]> {
  const pets = await petstore.storage.list({ limit: 100_000 });
  return pets.map(
    ({ id, name, categoryId, status }) => `${id} ${name} ${categoryId} ${status ?? '-'}`,
  );
}
