/** Paging: the parameters `limit` and `after`, and the reply with a page (C1 to C6). */
import { PetstoreError } from './errors.js';
import { asByteString, parseInt64 } from './json.js';
import {
  errorResponses,
  int64,
  parameter,
  response,
  type OpenApiOperation,
  type OpenApiValue,
} from './openapi.js';
import { jsonReply, Pieces, type Reply } from './reply.js';
import type { Query } from './request.js';
import type { PageQuery, TextPage } from './storage.js';

const limitRule = { minimum: 1, maximum: 100, default: 20 } as const;
const badLimit = new PetstoreError(
  'invalid_parameter',
  'limit must be an integer from 1 to 100, in decimal digits.',
);
const afterRule = 'after must be an integer from 0 to 9223372036854775807, in decimal digits.';
const badAfter = new PetstoreError('invalid_parameter', afterRule);

/** The page that a query asks for. @throws PetstoreError `invalid_parameter` (C1 to C3). */
export function parsePage(query: Query): PageQuery {
  const limit = query.get('limit') ?? `${limitRule.default}`;
  if (!/^(?:[1-9][0-9]?|100)$/.test(limit)) throw badLimit;
  const text = query.get('after');
  const after = text === undefined ? undefined : parseInt64(text);
  if (text !== undefined && (after === undefined || after < 0n)) throw badAfter;
  return { limit: Number(limit), after };
}

/** A page of the list at a path: a bare array, and a Link to the next page (C6). */
export function pageReply(
  path: string,
  { limit, status }: ListQuery,
  { texts, next }: TextPage,
): Reply {
  const isLong = texts.reduce((bytes, text) => bytes + text.length + 1, 1) > 65_536;
  const body = isLong
    ? new Pieces([
        ...texts.flatMap((text, index) => [asByteString(index === 0 ? '[' : ','), text]),
        asByteString(']'),
      ])
    : asByteString(`[${texts.join(',')}]`);
  if (next === undefined) return jsonReply(200, body);
  const filter = status === undefined ? '' : `&status=${status}`;
  return jsonReply(200, body, [
    'Link',
    `<${path}?limit=${limit}${filter}&after=${next}>; rel="next"`,
  ]);
}

type ListQuery = PageQuery & { readonly status?: string | undefined };

/**
 * The Operation Object of a list of `things`: `status` is the schema of that parameter, `content`
 * of a page.
 */
export function listDocument(
  operationId: string,
  tag: string,
  things: string,
  status: OpenApiValue,
  content: OpenApiValue,
): OpenApiOperation {
  const page = response(`A page of ${things}.`, content, {
    Link: 'The next page, rel="next"; absent on the last.',
  });
  return {
    operationId,
    tags: [tag],
    summary: `List ${things}`,
    description: `A page of ${things} by ascending id; the header Link leads to the next page.`,
    parameters: [
      parameter('query', 'limit', `Maximum number of ${things} to return.`, {
        type: 'integer',
        ...limitRule,
      }),
      parameter('query', 'status', `Returns only ${things} with this status.`, status),
      parameter('query', 'after', `Returns only ${things} with an id above this one.`, {
        ...int64,
        minimum: 0,
      }),
    ],
    responses: { 200: page, ...errorResponses(['invalid_parameter', 'unauthorized']) },
  };
}
