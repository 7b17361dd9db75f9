/** Orders of animals, kept beside them: experimental. */
import { errorResponses, int64OfJsonNumber, jsonContent, JsonNumber, jsonReply, listDocument } from '../index.js';
import { pageReply, parseJson, parsePage, PetstoreError, response, schemaRef, type JsonValue } from '../index.js';
import type { Operation, PetStorage, Plugin, RecordKind, Records } from '../index.js';

interface Order {
  /** Of an animal that was in the store when the order was placed. */
  readonly petId: bigint;
  readonly quantity: bigint;
  /** ISO 8601. */
  readonly placedAt: string;
}

const path = '/v1/store/orders';
const maxQuantity = 2n ** 31n - 1n;

/** Serves `GET` and `POST /v1/store/orders`; the specification names only the path: the fields may change. */
export function ordersPlugin(): Plugin {
  return ({ storage, clock, route, describe, waitFor }) => {
    if (storage.records === undefined) throw new TypeError('this storage keeps nothing but animals, so no orders');
    const orders = storage.records('orders', orderKind);
    waitFor(orders.opened);
    route({ path, methods: { GET: listOrders(orders), POST: placeOrder(orders, storage, clock) } });
    describe(({ components, tags }) => {
      Object.assign(components.schemas, schemas);
      tags.push({ name: 'orders', description: 'Experimental: the fields of an order may change.' });
    });
  };
}

const orderKind: RecordKind<Order> = {
  json: (id, { petId, quantity, placedAt }) =>
    `{"id":${id},"petId":${petId},"quantity":${quantity},"status":"placed","placedAt":"${placedAt}"}`,
  parse: (json) => {
    const value = parseJson(json);
    const [id, placedAt, status] = [integer(value, 'id'), member(value, 'placedAt'), member(value, 'status')];
    const isTime = typeof placedAt === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(placedAt);
    if (id === undefined || id < 1n || status !== 'placed' || !isTime)
      throw new PetstoreError('invalid_body', 'This is no order.');
    return { id, draft: { ...parseOrder(value), placedAt } };
  },
};

function listOrders(orders: Records<Order>): Operation {
  return {
    handler: async ({ query }) => {
      const page = parsePage(query);
      const status = query.get('status');
      if (status !== undefined && status !== 'placed')
        throw new PetstoreError('invalid_parameter', 'status must be placed.');
      return pageReply(path, { ...page, status }, await orders.list(page));
    },
    document: {
      ...listDocument('listOrders', 'orders', 'orders', schemaRef('OrderStatus'), ordersContent),
      'x-experimental': true,
    },
  };
}

function placeOrder(orders: Records<Order>, storage: PetStorage, clock: () => number): Operation {
  return {
    readsBody: true,
    handler: async ({ body }) => {
      const order = parseOrder(parseJson(body));
      if ((await storage.get(order.petId)) === undefined)
        throw new PetstoreError('invalid_body', 'petId must be the id of an animal.');
      const { json } = await orders.insert({ ...order, placedAt: new Date(clock()).toISOString() });
      return jsonReply(201, json);
    },
    document: {
      operationId: 'placeOrder',
      tags: ['orders'],
      summary: 'Place an order',
      description: 'For an animal that is there; the animal itself does not change.',
      'x-experimental': true,
      requestBody: { required: true, content: jsonContent(schemaRef('NewOrder'), newOrder) },
      responses: {
        201: response('Order placed.', jsonContent(schemaRef('Order'), order)),
        ...errorResponses(['invalid_body', 'unauthorized', 'content_too_large', 'unsupported_media_type']),
      },
    },
  };
}

/** @throws PetstoreError `invalid_body` that names every bad field. */
function parseOrder(value: JsonValue): Pick<Order, 'petId' | 'quantity'> {
  const [petId, quantity] = [integer(value, 'petId'), integer(value, 'quantity')];
  const isQuantity = quantity !== undefined && quantity >= 1n && quantity <= maxQuantity;
  if (petId !== undefined && isQuantity) return { petId, quantity };
  const broken: string[] = [];
  if (petId === undefined) broken.push('petId must be the id of an animal');
  if (!isQuantity) broken.push(`quantity must be an integer from 1 to ${maxQuantity}`);
  throw new PetstoreError('invalid_body', `${broken.join('; ')}.`);
}

function integer(value: JsonValue, name: string): bigint | undefined {
  const number = member(value, name);
  return number instanceof JsonNumber ? int64OfJsonNumber(number.text) : undefined;
}

function member(value: JsonValue, name: string) {
  return value instanceof Map ? value.get(name) : undefined;
}

const newOrder = { petId: 4, quantity: 1 };
const order = { id: 1, ...newOrder, status: 'placed', placedAt: '2026-11-21T08:00:00.000Z' };
const ordersContent = jsonContent({ type: 'array', items: schemaRef('Order') }, [order]);

const int64 = { type: 'integer', format: 'int64' };
const draftProperties = {
  petId: { ...int64, description: 'The id of an animal of the store.' },
  quantity: { type: 'integer', format: 'int32', minimum: 1, maximum: Number(maxQuantity), description: 'How many.' },
};
const schemas = {
  OrderStatus: { type: 'string', enum: ['placed'], description: 'So far there is one.' },
  NewOrder: { type: 'object', required: ['petId', 'quantity'], properties: draftProperties },
  Order: {
    type: 'object',
    required: ['id', 'petId', 'quantity', 'status', 'placedAt'],
    properties: {
      id: { ...int64, description: 'Assigned by the service.' },
      ...draftProperties,
      status: schemaRef('OrderStatus'),
      placedAt: { type: 'string', format: 'date-time', description: 'When the order was placed.' },
    },
  },
};
