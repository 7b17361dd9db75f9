/** Owns paging: the parameters `limit` and `after`, and the Link to the next page. Knows not what is listed. */
import { PetstoreError } from '../errors.js';
import { parseInt64 } from '../int64.js';
import type { PageQuery, TextPage } from '../storage.js';
import type { OpenApiValue } from './openapi.js';
import type { Query } from './query.js';
import { jsonReply, type Reply } from './reply.js';

/** The rule of `limit`, in the specification's figures. */
const limitRule = { minimum: 1, maximum: 100, default: 20 } as const;

// Made once: a stack trace costs more than the rest of a 400.
const badLimit = invalidParameter(`limit must be an integer from ${limitRule.minimum} to ${limitRule.maximum}, in decimal digits.`);
const badAfter = invalidParameter('after must be an integer from 0 to 9223372036854775807, in decimal digits.');

/**
 * The page that a query asks for.
 * @throws PetstoreError `invalid_parameter` (C1 to C3).
 */
export function parsePage(query: Query): PageQuery {
  return { limit: parseLimit(query.get('limit')), after: parseAfter(query.get('after')) };
}

/**
 * The reply with a page of the list at a path: a bare array, and where more records match a Link to them (C6). The query's
 * status is part of that.
 */
export function pageReply(path: string, { limit, status }: PageQuery & { readonly status?: string | undefined }, { texts, next }: TextPage): Reply {
  const body = `[${texts.join(',')}]`;
  if (next === undefined) return jsonReply(200, body);
  const filter = status === undefined ? '' : `&status=${status}`;
  // RFC 8288: the same query, from the last shown record on.
  return jsonReply(200, body, ['Link', `<${path}?limit=${limit}${filter}&after=${next}>; rel="next"`]);
}

/** A Parameter Object of a query. */
export function queryParameter(name: string, description: string, schema: OpenApiValue): OpenApiValue {
  return { name, in: 'query', required: false, description, schema };
}

/** The Parameter Object of `limit`; `things` says what is listed. */
export function limitParameter(things: string): OpenApiValue {
  return queryParameter('limit', `Maximum number of ${things} to return.`, { type: 'integer', ...limitRule });
}

/** The Parameter Object of `after`. */
export function afterParameter(things: string): OpenApiValue {
  return queryParameter('after', `Returns only ${things} with an id above this one.`, { type: 'integer', format: 'int64', minimum: 0 });
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return limitRule.default;
  const limit = /^[1-9][0-9]{0,2}$/.test(text) ? Number(text) : 0;
  if (limit < limitRule.minimum || limit > limitRule.maximum) {
    throw badLimit;
  }
  return limit;
}

function parseAfter(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const after = parseInt64(text);
  if (after === undefined || after < 0n) throw badAfter;
  return after;
}

/** The 400 of a query. */
export function invalidParameter(message: string): PetstoreError {
  return new PetstoreError('invalid_parameter', message);
}
