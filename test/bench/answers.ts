/** Owns the proof that all do the same work: each server's answers, compared. Knows no figure. */
import assert from 'node:assert/strict';
import type { ApiRequest, Operation } from './operations.js';
import type { Server } from './session.js';

/**
 * Compares what servers answer to operations: the status always, the animals too.
 * @throws AssertionError for a difference.
 */
export async function assertSameAnswers(
  servers: readonly Server[],
  operations: readonly Operation[],
): Promise<void> {
  const [first, ...others] = servers.filter(({ isBare }) => !isBare);
  if (first === undefined) return;
  for (const { name, requests, status } of operations) {
    const [request] = requests;
    if (request === undefined || status === 'mixed')
      throw new TypeError(`${name} has no one answer`);
    const expected = await answer(first, request);
    assert.equal(expected.status, status, `${first.name}: ${name}`);
    for (const other of others) {
      const given = await answer(other, request);
      assert.equal(given.status, status, `${other.name}: ${name}`);
      if (status < 400) assert.deepEqual(given.body, expected.body, `${other.name}: ${name}`);
    }
  }
}

async function answer(
  { url }: Server,
  { method, path, key, body }: ApiRequest,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const headers = {
    ...(key && { Authorization: `Bearer ${key}` }),
    ...(body && { 'Content-Type': 'application/json' }),
  };
  const response = await fetch(url + path, { method, headers, ...(body && { body }) });
  return { status: response.status, body: await response.json() };
}
