/** Owns the proof that all do the same work: each server's answers, compared. Knows no figure. */
import { isDeepStrictEqual } from 'node:util';
import type { ApiRequest, Operation } from './operations.js';
import type { Server } from './session.js';

/** A contestant answers what it must not; the message is one line that names it. */
export class WrongAnswer extends Error {}

/**
 * Compares what servers answer to operations: the status always, the animals too. The first that is
 * not bare is what the others are held against.
 * @throws WrongAnswer for the first difference.
 */
export async function proveSameAnswers(
  servers: readonly Pick<Server, 'name' | 'url' | 'isBare'>[],
  operations: readonly Operation[],
): Promise<void> {
  for (const { name, requests, status } of operations) {
    let expected: unknown;
    for (const server of servers) {
      const wanted = server.isBare ? 200 : status;
      const given = await ask(server, name, requests[0]);
      if (given.status !== wanted)
        throw new WrongAnswer(`${server.name} answers ${name} with ${given.status}, not ${wanted}`);
      if (server.isBare || given.status >= 400) continue;
      const body: unknown = JSON.parse(given.text);
      expected ??= body;
      if (!isDeepStrictEqual(body, expected))
        throw new WrongAnswer(
          `${server.name} answers ${name} with another body than the others: ${given.text.slice(0, 200)}`,
        );
    }
  }
}

/** How long a contestant may take over one answer. */
const patienceMs = 10_000;

/**
 * What a server answers to a request, which the message of an error calls by a name.
 * @throws WrongAnswer where it does not answer.
 */
export async function ask(
  server: Pick<Server, 'name' | 'url'>,
  what: string,
  request: ApiRequest | undefined,
): Promise<{ readonly status: number; readonly text: string }> {
  if (request === undefined) throw new TypeError('an operation needs a request');
  const { method, path, key, body } = request;
  const headers = {
    ...(key && { Authorization: `Bearer ${key}` }),
    ...(body && { 'Content-Type': 'application/json' }),
  };
  const signal = AbortSignal.timeout(patienceMs);
  try {
    const response = await fetch(server.url + path, {
      method,
      headers,
      signal,
      ...(body && { body }),
    });
    return { status: response.status, text: await response.text() };
  } catch (error) {
    throw new WrongAnswer(`${server.name} does not answer ${what}: ${error}`);
  }
}
