/** The journal: the last requests that clients sent to one petstore (C82). */
import { hash } from 'node:crypto';
import type { AcceptedRequest, PluginRequest, ReplyEvent, ResponseEnd } from '../../index.js';
import { KeyMask } from './masked-texts.js';

/** A request in the journal. */
export interface JournalItem {
  /** 1, 2, 3 … since the last reset. */
  readonly id: number;
  /** The time at which its checks ended, by the petstore's clock, in the form of RFC 3339. */
  readonly time: string;
  /** Empty if the client sent no HTTP. */
  readonly method: string;
  /** As the client sent it; empty if the client sent no HTTP. */
  readonly path: string;
  /** As the client sent it, without the `?`. */
  readonly query?: string;
  /** The path of the route; omitted if no route matched. */
  readonly route?: string;
  /** The name of the API key; omitted if none was needed or accepted. */
  readonly key?: string;
  readonly idempotencyKey?: string;
  /** In bytes; omitted if the operation read no body. */
  readonly bodyLength?: number;
  /** The SHA-256 of the body, in 64 lowercase hex digits. */
  readonly bodySha256?: string;
  /** Omitted while the request is in flight, and if not one byte of a response was sent. */
  readonly status?: number;
  /** The fault that met the request. */
  readonly fault?: string;
  /** True if the response did not reach its end. */
  readonly cut: boolean;
  /** True if the response is the stored result of an idempotency key. */
  readonly replayed: boolean;
  /** The time from the head of the request to the end of the response; omitted until then. */
  readonly ms?: number;
}

/** An item that can change until its response has ended. */
type Entry = { -readonly [Name in keyof JournalItem]: JournalItem[Name] };

/** The largest number of items, and the default. */
export const maxJournalSize = 10_000;
export const defaultJournalSize = 1_000;

/** The memory that all items may take, in bytes. */
const maxJournalBytes = 4 * 2 ** 20;

/** The memory of an item without its texts, in bytes. */
const itemBytes = 512;

/** The last requests of one petstore, oldest first. */
export class RequestJournal {
  readonly #size: number;
  readonly #clock: () => number;
  readonly #mask = new KeyMask();
  #items: Entry[] = [];
  #bytes = 0;
  #lastId = 0;
  /** The items of requests whose response has not ended. */
  readonly #open = new WeakMap<PluginRequest, Entry>();

  /** @param clock Returns milliseconds since the epoch. */
  constructor(size: number, clock: () => number) {
    this.#size = size;
    this.#clock = clock;
  }

  /** Adds a request whose operation is about to run. */
  accept(request: AcceptedRequest): void {
    // A request from before a reset was part of another test.
    if (!request.isOutdated()) this.#add(request, request.body);
  }

  /** Notes the response to a request, and adds the request if it was refused. */
  reply(event: ReplyEvent, request: PluginRequest): void {
    const known = this.#open.get(request);
    if (known === undefined && request.isOutdated()) return;

    const entry = known ?? this.#add(request);

    const isSent = event.cut !== 'drop' && event.cut !== 'client';
    if (isSent) entry.status = event.status;
    if (event.fault !== undefined) entry.fault = event.fault;
    entry.cut = event.cut !== undefined;
    entry.replayed = event.isReplay === true;
    entry.ms = rounded(event.milliseconds);
  }

  /** Notes the end of a response. */
  end({ isWhole, milliseconds }: ResponseEnd, request: PluginRequest): void {
    const entry = this.#open.get(request);
    if (entry === undefined) return;
    entry.cut = !isWhole;
    entry.ms = rounded(milliseconds);
    this.#open.delete(request);
  }

  /** Removes all items. Requests in flight do not enter the journal any more. */
  clear(): void {
    this.#items = [];
    this.#bytes = 0;
    this.#lastId = 0;
  }

  /** Returns copies of the items that `matches` accepts. */
  list(matches: (item: JournalItem) => boolean): JournalItem[] {
    return this.#items.filter(matches).map(orderedCopy);
  }

  #add(request: PluginRequest, body?: string): Entry {
    const { method, route, keyName: key } = request;
    const { path, query, idempotencyKey } = this.#mask.textsOf(request);
    const entry: Entry = {
      id: ++this.#lastId,
      time: new Date(this.#clock()).toISOString(),
      method,
      path,
      ...(query === '' ? {} : { query }),
      ...(route === undefined ? {} : { route }),
      ...(key === undefined ? {} : { key }),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(body === undefined ? {} : digestOf(body)),
      cut: false,
      replayed: false,
    };
    // All responses to bytes that are not HTTP share one request.
    if (method !== '') this.#open.set(request, entry);
    this.#items.push(entry);
    this.#bytes += bytesOf(entry);
    while (this.#items.length > this.#size || this.#bytes > maxJournalBytes) {
      const oldest = this.#items.shift();
      if (oldest === undefined) break;
      this.#bytes -= bytesOf(oldest);
    }
    return entry;
  }
}

/** Returns a copy of an item whose members are in the order of the type. */
function orderedCopy({ status, fault, cut, replayed, ms, ...request }: JournalItem): JournalItem {
  return {
    ...request,
    ...(status === undefined ? {} : { status }),
    ...(fault === undefined ? {} : { fault }),
    cut,
    replayed,
    ...(ms === undefined ? {} : { ms }),
  };
}

function digestOf(body: string): Pick<JournalItem, 'bodyLength' | 'bodySha256'> {
  return { bodyLength: body.length, bodySha256: hash('sha256', Buffer.from(body, 'latin1')) };
}

/** Returns the memory of an item in bytes, regardless of its fault, whose length is bounded. */
function bytesOf({ method, path, query = '', idempotencyKey = '' }: JournalItem): number {
  return itemBytes + 2 * (method.length + path.length + query.length + idempotencyKey.length);
}

/** Rounds milliseconds to microseconds. */
function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
