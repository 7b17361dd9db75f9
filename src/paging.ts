/** Paging: the parameters `limit` and `after`, the Link to the next page, and the reply with a page (C1 to C6). */
import { PetstoreError } from './errors.js';
import { parseInt64 } from './int64.js';
import type { PageQuery, TextPage } from './storage.js';
import { errorResponses, int64, response, type OpenApiOperation, type OpenApiValue } from './openapi.js';
import type { Query } from './request.js';
import { jsonReply, Pieces, type Reply } from './reply.js';

/** The rule of `limit`, in the specification's figures. */
const limitRule = { minimum: 1, maximum: 100, default: 20 } as const;

// Made once: a stack trace costs more than the rest of a 400.
const badLimit = invalidParameter(
  `limit must be an integer from ${limitRule.minimum} to ${limitRule.maximum}, in decimal digits.`,
);
const badAfter = invalidParameter('after must be an integer from 0 to 9223372036854775807, in decimal digits.');

/**
 * The page that the parameters `limit` and `after` of a query ask for.
 * @throws PetstoreError `invalid_parameter` where one is malformed, out of its range or given twice (C1 to C3).
 */
export function parsePage(query: Query): PageQuery {
  return { limit: parseLimit(query.get('limit')), after: parseAfter(query.get('after')) };
}

/** A body beyond this many bytes is joined only as it is sent: a client that does not read it costs nothing (C55). */
const joinedBytes = 65_536;

/**
 * The reply with a page of the list at a path: a bare array, and where more records match a Link to them (C6; RFC
 * 8288): the same query, status included, from the last shown record on.
 */
export function pageReply(path: string, query: ListQuery, { texts, next }: TextPage): Reply {
  const { limit, status } = query;
  const bytes = texts.reduce((sum, text) => sum + text.length + 1, 1);
  const isLong = bytes > joinedBytes;
  const body = isLong
    ? new Pieces([...texts.flatMap((text, index) => [index === 0 ? '[' : ',', text]), ']'])
    : `[${texts.join(',')}]`;
  if (next === undefined) return jsonReply(200, body);
  const filter = status === undefined ? '' : `&status=${status}`;
  return jsonReply(200, body, ['Link', `<${path}?limit=${limit}${filter}&after=${next}>; rel="next"`]);
}

/** What is listed: a page of the records, perhaps of one status. */
type ListQuery = PageQuery & { readonly status?: string | undefined };

/**
 * The Operation Object of a list that `parsePage` and `pageReply` serve: `things` says what is listed, `status` is the
 * schema of that parameter, `content` is that of a page.
 */
export function listDocument(
  operationId: string,
  tag: string,
  things: string,
  status: OpenApiValue,
  content: OpenApiValue,
): OpenApiOperation {
  const query = (name: string, description: string, schema: OpenApiValue): OpenApiValue => {
    return { name, in: 'query', required: false, description, schema };
  };
  const page = response(`A page of ${things}.`, content, { Link: 'The next page, rel="next"; absent on the last.' });
  return {
    operationId,
    tags: [tag],
    summary: `List ${things}`,
    description: `A page of ${things} by ascending id; the header Link leads to the next page.`,
    parameters: [
      query('limit', `Maximum number of ${things} to return.`, { type: 'integer', ...limitRule }),
      query('status', `Returns only ${things} with this status.`, status),
      query('after', `Returns only ${things} with an id above this one.`, { ...int64, minimum: 0 }),
    ],
    responses: { 200: page, ...errorResponses(['invalid_parameter', 'unauthorized']) },
  };
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return limitRule.default;
  const limit = /^[1-9][0-9]{0,2}$/.test(text) ? Number(text) : 0;
  if (limit < limitRule.minimum || limit > limitRule.maximum) throw badLimit;
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
