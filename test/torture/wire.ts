/** Requests of the torture in bytes, for clients on bare sockets. */
import { bytesOf, type Words } from '../support/fixture.js';
import type { SentDraft } from './random.js';
import { apiKey } from './server.js';

/** The bytes of a request with the key of the torture's servers. */
export function requestBytes(method: string, target: string, words: Words = {}): string {
  return bytesOf(method, target, { authorization: `Bearer ${apiKey}`, ...words });
}

/** The bytes that add an animal. */
export function addBytes(draft: SentDraft, words: Words = {}): string {
  return requestBytes('POST', '/v1/pets', {
    ...words,
    body: Buffer.from(JSON.stringify(draft)).toString('latin1'),
  });
}

/** A body as it came over the wire, as text. */
export function textOf(byteString: string): string {
  return Buffer.from(byteString, 'latin1').toString();
}
