/** Owns what the head of a request says about its body, and refuses what will not be read. Knows no body's bytes. */
import { PetstoreError } from '../errors.js';
import type { Head } from './head.js';

/**
 * Refuses what the petstore can't promise (C45).
 * @throws PetstoreError `expectation_failed`.
 */
export function checkExpectation(head: Head): void {
  if (head.expect !== undefined && head.expect.toLowerCase() !== '100-continue') {
    throw new PetstoreError('expectation_failed', 'The only Expect that is known here is 100-continue.');
  }
}

/**
 * Refuses a body before any of it is read, so that `100 Continue` never asks for one in vain (C45).
 * @throws PetstoreError `unsupported_media_type` (C28) or `content_too_large` (C29).
 */
export function checkContent(head: Head, maxBodyBytes: number): void {
  if (head.contentType !== undefined && head.contentType !== 'application/json' && !isJson(head.contentType)) {
    throw unsupported('The Content-Type must be application/json, and its charset, if it names one, utf-8.');
  }
  if (head.contentEncoding !== undefined && !/^identity(?:[ \t]*,[ \t]*identity)*$/i.test(head.contentEncoding)) {
    throw unsupported('The body must come without Content-Encoding.');
  }
  if (head.contentLength !== undefined && Number(head.contentLength) > maxBodyBytes) throw tooLarge(maxBodyBytes);
}

/** The error for a body that is longer than what is read (C29). */
export function tooLarge(maxBodyBytes: number): PetstoreError {
  return new PetstoreError('content_too_large', `The body is over ${maxBodyBytes} bytes.`);
}

/** `application/json` with any parameters but another charset (RFC 9110 section 8.3.1). */
function isJson(mediaType: string): boolean {
  const [, type, parameters = ''] = /^([^\s;]+)[ \t]*((?:;[ \t]*(?:[^\s;="]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)[ \t]*)?)*)$/.exec(mediaType) ?? [];
  if (type?.toLowerCase() !== 'application/json') return false;
  const charsets = parameters.matchAll(/;[ \t]*charset=("(?:[^"\\]|\\.)*"|[^\s;"]+)|"(?:[^"\\]|\\.)*"/gi);
  return [...charsets].every(([, charset]) => charset === undefined || /^"?utf-8"?$/i.test(charset));
}

function unsupported(message: string): PetstoreError {
  return new PetstoreError('unsupported_media_type', message, { headers: ['Accept', 'application/json'] });
}
