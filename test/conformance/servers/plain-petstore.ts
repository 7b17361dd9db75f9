/**
 * A petstore on plain node:http that keeps the levels `specification` and `http`. Its parts can be
 * replaced, to make servers that are wrong in one way, or right in an unusual way.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, type Ending } from '../../support/at-end.js';
import { key } from '../../support/fixture.js';

export { key };

/** A stored pet. Its numbers are digits, because a double cannot hold an int64. */
export interface StoredPet {
  readonly id: string;
  readonly name: string;
  readonly categoryId: string;
  readonly status?: string | null;
}

/** A response before it is written. */
export interface Reply {
  readonly status: number;
  /** A JSON text. */
  readonly body: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
}

/** A request with its body. */
export interface ReceivedRequest {
  readonly method: string;
  /** The request target, as it was sent. */
  readonly target: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const statuses = ['available', 'pending', 'sold'];

/** The parts of a petstore. Each wrong server replaces some. */
export class PlainPetstore {
  readonly pets: StoredPet[] = [];
  readonly basePath: string = '/v1';

  /** Returns the id of the next pet. */
  nextId(): string {
    return String(this.pets.length + 1);
  }

  /** Returns true if Host is valid. Node accepts several Hosts, and a Host with a path. */
  hasValidHost({ rawHeaders, headers }: IncomingMessage): boolean {
    const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && /^host$/i.test(name));
    return hosts.length === 1 && /^[\w.:[\]-]+$/.test(headers.host ?? '');
  }

  /** Returns true if the server sends status 100 to a client that expects it. */
  sendsContinue(): boolean {
    return true;
  }

  isAuthorized({ headers }: ReceivedRequest): boolean {
    const [, given] = /^bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    return given === key;
  }

  /** Returns the problem with a draft, if any. */
  problemWith(draft: Draft): string | undefined {
    if (draft.name === undefined) return 'name must be a string';
    if (draft.categoryId === undefined || !isInt64(draft.categoryId))
      return 'categoryId must be an int64';
    return draft.hasStatus && !statuses.includes(draft.status ?? '')
      ? 'status must be one of the three'
      : undefined;
  }

  /** Returns the pet to store. */
  petOf(id: string, draft: Draft): StoredPet {
    const { name = '', categoryId = '0', status } = draft;
    return { id, name, categoryId, ...(status !== undefined && { status }) };
  }

  /** Returns the JSON of a pet. */
  json({ id, name, categoryId, status }: StoredPet): string {
    const members = [`"id":${id}`, `"name":${JSON.stringify(name)}`, `"categoryId":${categoryId}`];
    if (status !== undefined) members.push(`"status":${JSON.stringify(status)}`);
    return `{${members.join(',')}}`;
  }

  jsonInResponse(pet: StoredPet, _where: 'list' | 'get' | 'add'): string {
    return this.json(pet);
  }

  /** Returns the pets of a list. */
  find(status: string | null, limit: number): readonly StoredPet[] {
    return this.filtered(status).slice(0, limit);
  }

  filtered(status: string | null): readonly StoredPet[] {
    return this.pets.filter((pet) => status === null || pet.status === status);
  }

  limitOf(text: string | null): number | undefined {
    const limit = Number(text ?? '20');
    return limit >= 1 && limit <= 100 ? limit : undefined;
  }

  ok(status: number, body: string, headers: Reply['headers'] = {}): Reply {
    return { status, body, headers: { 'Content-Type': 'application/json', ...headers } };
  }

  error(status: number, code: string, headers: Reply['headers'] = {}): Reply {
    const body = JSON.stringify({ code, message: `This is ${code}.`, status });
    return this.ok(status, body, headers);
  }

  unauthorized(): Reply {
    return this.error(401, 'unauthorized', { 'WWW-Authenticate': 'Bearer' });
  }

  list({ query }: ReceivedRequest): Reply {
    const limit = this.limitOf(query.get('limit'));
    const status = query.get('status');
    if (limit === undefined) return this.error(400, 'invalid_parameter');
    const found = this.find(status, limit).map((pet) => this.jsonInResponse(pet, 'list'));
    return this.ok(200, `[${found.join(',')}]`);
  }

  async add({ body }: ReceivedRequest): Promise<Reply> {
    let draft: Draft;
    try {
      draft = draftOf(body);
    } catch {
      return this.error(400, 'invalid_json');
    }
    if (this.problemWith(draft) !== undefined) return this.error(400, 'invalid_body');
    const id = this.nextId();
    const pet = this.petOf(id, draft);
    this.pets.push(pet);
    return this.added(pet);
  }

  added(pet: StoredPet): Reply {
    const location = `${this.basePath}/pets/${pet.id}`;
    return this.ok(201, this.jsonInResponse(pet, 'add'), { Location: location });
  }

  get(id: string): Reply {
    const pet = this.pets.find((each) => each.id === id);
    return pet === undefined ? this.missing() : this.ok(200, this.jsonInResponse(pet, 'get'));
  }

  missing(): Reply {
    return this.error(404, 'not_found');
  }

  notAllowed(allow: string): Reply {
    return this.error(405, 'method_not_allowed', { Allow: allow });
  }

  unknownMethod(): Reply {
    return this.error(501, 'not_implemented');
  }

  async handle(request: ReceivedRequest): Promise<Reply> {
    const { method, path } = request;
    const isRead = method === 'GET' || method === 'HEAD';
    const list = `${this.basePath}/pets`;
    const [, id] = new RegExp(`^${list}/([^/]+)$`).exec(path) ?? [];

    if (path === list) {
      if (!isRead && method !== 'POST') return this.notAllowed('GET, HEAD, POST');
      if (!this.isAuthorized(request)) return this.unauthorized();
      return isRead ? this.list(request) : this.add(request);
    }
    if (id !== undefined) {
      if (!isRead) return this.notAllowed('GET, HEAD');
      return this.isAuthorized(request) ? this.get(id) : this.unauthorized();
    }
    return this.error(404, 'not_found');
  }

  /** Writes a response. */
  write(response: ServerResponse, { status, headers, body }: Reply, method: string): void {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    response.setHeader('Content-Length', Buffer.byteLength(body));
    response.writeHead(status);
    response.end(method === 'HEAD' ? undefined : body);
  }
}

/** The members of a body. A number is digits; a member of another type is undefined. */
export interface Draft {
  readonly name: string | undefined;
  readonly categoryId: string | undefined;
  readonly status: string | undefined;
  readonly hasStatus: boolean;
}

/** Parses a body, and keeps the digits of `categoryId`. @throws SyntaxError */
export function draftOf(body: string): Draft {
  const value: unknown = JSON.parse(body);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { name: undefined, categoryId: undefined, status: undefined, hasStatus: false };

  const members: Readonly<Record<string, unknown>> = { ...value };
  const { name, categoryId, status } = members;
  const [, digits] = /"categoryId"\s*:\s*(-?\d+)\s*[,}]/.exec(body) ?? [];
  return {
    name: typeof name === 'string' ? name : undefined,
    categoryId: typeof categoryId === 'number' ? digits : undefined,
    status: typeof status === 'string' ? status : undefined,
    hasStatus: 'status' in members,
  };
}

/** Decodes a path, or returns it as it is if it cannot be decoded. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const isInt64 = (digits: string): boolean => BigInt.asIntN(64, BigInt(digits)) === BigInt(digits);

/** Starts a petstore until the end of a test, and returns its URL. */
export async function startPlain(t: Ending, petstore: PlainPetstore): Promise<string> {
  const server = createServer({ keepAliveTimeout: 60_000 });
  const receive = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '/', headers } = request;
      if (!petstore.hasValidHost(request) || !URL.canParse(url, 'http://localhost')) {
        response.socket?.end(rawError(petstore.error(400, 'bad_request')));
        return;
      }
      const { pathname, searchParams } = new URL(url, 'http://localhost');
      const received = {
        method,
        target: url,
        path: decoded(pathname),
        query: searchParams,
        headers,
        body: Buffer.concat(chunks).toString('utf8'),
      };
      petstore.handle(received).then(
        (reply) => petstore.write(response, reply, method),
        () => response.destroy(),
      );
    });
    request.on('error', () => undefined);
  };
  server.on('request', receive).on('checkContinue', (request, response) => {
    if (petstore.sendsContinue()) response.writeContinue();
    receive(request, response);
  });
  server.on('clientError', (error, socket) => {
    if (!socket.writable) return;
    const { code, rawPacket }: { code?: unknown; rawPacket?: unknown } = Object(error);
    const isOfMethod = code === 'HPE_INVALID_METHOD' && /^[A-Z]+ \S+ HTTP\//.test(`${rawPacket}`);
    socket.end(
      rawError(isOfMethod ? petstore.unknownMethod() : petstore.error(400, 'bad_request')),
    );
  });

  await once(server.listen(0, '127.0.0.1'), 'listening');
  atEnd(t, () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${Object(server.address()).port}`;
}

/** Returns the bytes of an error to a request that Node does not read. */
const rawError = ({ status, body }: Reply): string =>
  `HTTP/1.1 ${status} X\r\nConnection: close\r\nContent-Type: application/json\r\n` +
  `Date: ${new Date().toUTCString()}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

export { sleep };
