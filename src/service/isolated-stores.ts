/** A store for the name of each API key, for tests that run in parallel (C88). */
import { tokenOf, type VerifyKey } from '../auth.js';
import { PetstoreError } from '../errors.js';
import type { PetstoreService, RoutedReply } from '../http/index.js';
import type { SentReply } from '../plugin.js';
import type { Reply } from '../reply.js';
import type { RequestService } from './request-service.js';
import type { Message } from '../request.js';
import type { Store } from './store.js';

/** The largest number of stores, because clients make them. */
const maxStores = 256;

const tooMany = new PetstoreError(
  'unavailable',
  `There are ${maxStores} isolated stores already; use fewer names of keys.`,
);

/** Passes each request to the store of its key. */
export class IsolatedStores implements PetstoreService {
  readonly #base: RequestService;
  readonly #verifyKey: VerifyKey;
  readonly #makeStore: (keyName: string) => Store;
  readonly #stores = new Map<string, Store>();
  /** The services of the requests in flight. */
  readonly #services = new WeakMap<Message, RequestService>();

  /** @param base Serves requests without a valid key. */
  constructor(base: RequestService, verifyKey: VerifyKey, makeStore: (keyName: string) => Store) {
    this.#base = base;
    this.#verifyKey = verifyKey;
    this.#makeStore = makeStore;
  }

  get stores(): readonly Store[] {
    return [...this.#stores.values()];
  }

  async handle(message: Message): Promise<RoutedReply> {
    try {
      const service = await this.#serviceFor(message);
      this.#services.set(message, service);
    } catch (error) {
      return this.#base.refuse(message, error);
    }
    const routed = await this.#of(message).handle(message);
    return { ...routed, clock: this.#of(message) };
  }

  /** @throws PetstoreError `unavailable`, or an error of the verifier or of a plugin */
  async #serviceFor(message: Message): Promise<RequestService> {
    const token = tokenOf(message.header('authorization'));
    const name: unknown = token === undefined ? '' : await this.#verifyKey(token);
    if (typeof name !== 'string' || name === '') return this.#base;

    const known = this.#stores.get(name);
    if (known !== undefined) return known.service;
    if (this.#stores.size === maxStores) throw tooMany;
    const store = this.#makeStore(name);
    this.#stores.set(name, store);
    return store.service;
  }

  #of(message: Message): RequestService {
    return this.#services.get(message) ?? this.#base;
  }

  replyToLateError(error: PetstoreError, message: Message, routed: RoutedReply): Reply {
    return this.#of(message).replyToLateError(error, message, routed);
  }

  replyToParserError(error: PetstoreError, header: Message['header']): Reply {
    return this.#base.replyToParserError(error, header);
  }

  logError(error: unknown): void {
    this.#base.logError(error);
  }

  logWarning(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.#base.logWarning(message, fields);
  }

  reportResponse(reply: SentReply, message?: Message, routed?: RoutedReply): void {
    const service = message === undefined ? this.#base : this.#of(message);
    service.reportResponse(reply, message, routed);
  }

  reportEnd(reply: SentReply, isWhole: boolean, message: Message, routed: RoutedReply): void {
    this.#of(message).reportEnd(reply, isWhole, message, routed);
  }

  onAbandoned(message: Message, callback: () => void): void {
    this.#of(message).onAbandoned(message, callback);
  }

  get watchesEnds(): boolean {
    if (this.#base.watchesEnds) return true;
    for (const { service } of this.#stores.values()) if (service.watchesEnds) return true;
    return false;
  }

  get isStopping(): boolean {
    return this.#base.isStopping;
  }

  get resets(): number {
    return this.#base.resets;
  }

  now(): number {
    return this.#base.now();
  }
}
