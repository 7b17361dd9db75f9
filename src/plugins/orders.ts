/** The plugin `orders`: keeps orders of pets in the storage of the pets. It is experimental. */
import {
  errorResponses,
  int64OfJsonNumber,
  int64Schema,
  jsonContent,
  JsonNumber,
  jsonReply,
  listDocument,
  pageReply,
  maxBodyValues,
  parseJson,
  parsePage,
  readParameter,
  limitParameter,
  afterParameter,
  PetstoreError,
  response,
  schemaRef,
  toByteString,
  type JsonValue,
  type ListParameters,
  type PageQuery,
  type Operation,
  type Plugin,
  type RecordKind,
} from '../index.js';

/** The query of a list of orders. */
interface OrderQuery extends PageQuery {
  readonly status?: string | undefined;
}

const orderListParameters: ListParameters<OrderQuery> = {
  limit: limitParameter,
  status: {
    name: 'status',
    read: (text) => (text === 'placed' ? text : undefined),
    refusal: new PetstoreError('invalid_parameter', 'status must be placed.'),
    describe: (things) => `Returns only ${things} with this status.`,
    schema: schemaRef('OrderStatus'),
  },
  after: afterParameter,
};

/** An order in a request. */
interface NewOrder {
  /** The id of a stored pet. */
  readonly petId: bigint;
  /** From 1 to `maxQuantity`. */
  readonly quantity: bigint;
}

/** An order before it has an id. */
interface Order extends NewOrder {
  /** In the format of `toISOString`. */
  readonly placedAt: string;
}

const path = '/v1/store/orders';
const maxQuantity = 2n ** 31n - 1n;
const petIdRule = 'petId must be the id of a pet';

/**
 * Serves `GET` and `POST /v1/store/orders`. The specification defines only the path, so the fields
 * of an order may change.
 */
export function ordersPlugin(): Plugin {
  return ({ storage, clock, route, describe, waitFor }) => {
    const orders = storage.records?.('orders', orderKind);
    if (orders === undefined)
      throw new TypeError(
        'ordersPlugin needs a storage with records; this storage keeps only pets',
      );
    waitFor(orders.opened);

    const list: Operation['handler'] = async ({ query }) => {
      const page = parsePage(query);
      const status = readParameter(query, orderListParameters.status);
      const orderQuery: OrderQuery = { ...page, status };
      return pageReply(path, orderQuery, await orders.list(page));
    };
    const place: Operation['handler'] = async ({ body }) => {
      const order = parseOrder(parseJson(body, maxBodyValues));
      if ((await storage.get(order.petId)) === undefined)
        throw new PetstoreError('invalid_body', `${petIdRule}.`);
      const { json } = await orders.insert({ ...order, placedAt: new Date(clock()).toISOString() });
      return jsonReply(201, json);
    };
    route({
      path,
      methods: {
        GET: { handler: list, document: { ...listing, 'x-experimental': true } },
        POST: { handler: place, document: placing, readsBody: true },
      },
    });

    describe(({ components, tags }) => {
      Object.assign(components.schemas, schemas);
      tags.push({
        name: 'orders',
        description: 'Experimental: the fields of an order may change.',
      });
    });
  };
}

/** The JSON of stored orders. */
const orderKind: RecordKind<Order> = {
  json: (id, { petId, quantity, placedAt }) => {
    const order = `"petId":${petId},"quantity":${quantity},"status":"placed"`;
    return toByteString(`{"id":${id},${order},"placedAt":"${placedAt}"}`);
  },
  parse: (json) => {
    const value = parseJson(json);
    const id = integer(value, 'id');
    const placedAt = member(value, 'placedAt');
    const isTime =
      typeof placedAt === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(placedAt);
    if (id < 1n || member(value, 'status') !== 'placed' || !isTime)
      throw new PetstoreError('invalid_body', 'This is not an order.');
    return { id, draft: { ...parseOrder(value), placedAt } };
  },
};

/** @throws PetstoreError `invalid_body` that names every invalid field */
function parseOrder(value: JsonValue): NewOrder {
  const petId = integer(value, 'petId');
  const quantity = integer(value, 'quantity');
  const problems = petId < 1n ? [petIdRule] : [];
  if (quantity < 1n || quantity > maxQuantity)
    problems.push(`quantity must be an integer from 1 to ${maxQuantity}`);
  if (problems.length > 0) throw new PetstoreError('invalid_body', `${problems.join('; ')}.`);
  return { petId, quantity };
}

/** Returns an int64 member, or 0 for any other value. No member of an order may be 0. */
function integer(value: JsonValue, name: string): bigint {
  const number = member(value, name);
  return (number instanceof JsonNumber && int64OfJsonNumber(number.text)) || 0n;
}

function member(value: JsonValue, name: string): JsonValue | undefined {
  return value instanceof Map ? value.get(name) : undefined;
}

// The plugin's part of the OpenAPI document.

const newOrder = { petId: 4, quantity: 1 };
const order = { id: 1, ...newOrder, status: 'placed', placedAt: '2026-11-21T08:00:00.000Z' };
const ordersContent = jsonContent({ type: 'array', items: schemaRef('Order') }, [order]);
const listing = listDocument('listOrders', 'orders', 'orders', orderListParameters, ordersContent);

const placing = {
  operationId: 'placeOrder',
  tags: ['orders'],
  summary: 'Place an order',
  description: 'The pet must exist. It does not change.',
  'x-experimental': true,
  requestBody: { required: true, content: jsonContent(schemaRef('NewOrder'), newOrder) },
  responses: {
    201: response('Order placed.', jsonContent(schemaRef('Order'), order)),
    ...errorResponses([
      'invalid_body',
      'unauthorized',
      'content_too_large',
      'unsupported_media_type',
      'unavailable',
    ]),
  },
};

const draftProperties = {
  petId: { ...int64Schema, minimum: 1, description: 'The id of a pet in the store.' },
  quantity: {
    type: 'integer',
    format: 'int32',
    minimum: 1,
    maximum: Number(maxQuantity),
    description: 'Number of pets.',
  },
};

const objectOf = (properties: object) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

const schemas = {
  OrderStatus: { type: 'string', enum: ['placed'], description: 'The only status so far.' },
  NewOrder: objectOf(draftProperties),
  Order: objectOf({
    id: { ...int64Schema, description: 'Assigned by the service.' },
    ...draftProperties,
    status: schemaRef('OrderStatus'),
    placedAt: { type: 'string', format: 'date-time', description: 'When the order was placed.' },
  }),
};
