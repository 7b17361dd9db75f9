/** Stands in for the petstore while a Node is checked (C80). */
import { machineClock } from '../clock.js';
import { isPetstoreError } from '../errors.js';
import { asByteString } from '../json.js';
import { internalErrorReply, jsonReply, replyTo, type Reply } from '../reply.js';
import { checkExpectation, type Message } from '../request.js';
import type { PetstoreService, RoutedReply } from './connection.js';
import { Exchange } from './exchange.js';
import { ticks } from './probe.js';

/** The most bytes of a body. */
export const maxBodyBytes = 65_536;

/** Echoes bodies, and remembers requests until they are checked. */
export class StubService implements PetstoreService {
  readonly isStopping = false;
  readonly watchesEnds = false;
  readonly resets = 0;
  /** The requests so far. */
  readonly seen: Exchange[] = [];
  /** The sockets of which Node has reported an error, such as a late head. */
  readonly late = new Set<unknown>();
  /** The number of requests in flight. */
  inFlight = 0;
  /** The promises for which the requests of some paths wait. */
  readonly #held = new Map<string, Promise<void>>();

  /** Lets requests of a path wait until the returned function is called. */
  hold(path: string): () => void {
    let release = (): void => undefined;
    this.#held.set(path, new Promise((resolve) => (release = resolve)));
    return release;
  }

  has(path: string): boolean {
    return this.seen.some(({ target }) => target === path);
  }

  /** Returns the request of a path. @throws Error if no such request has arrived */
  find(path: string): Exchange {
    const found = this.seen.find(({ target }) => target === path);
    if (found === undefined) throw new Error('no request arrived');
    return found;
  }

  /** The last request. @throws Error if no request has arrived */
  get last(): Exchange {
    const last = this.seen.at(-1);
    if (last === undefined) throw new Error('no request arrived');
    return last;
  }

  async handle(message: Message): Promise<RoutedReply> {
    if (message instanceof Exchange) this.seen.push(message);
    this.inFlight++;
    const reply = await this.#reply(message).catch((error: unknown) =>
      isPetstoreError(error) ? replyTo(error) : internalErrorReply,
    );
    this.inFlight--;
    return { reply, resource: undefined, keyName: undefined };
  }

  async #reply(message: Message): Promise<Reply> {
    checkExpectation(message.readHead());
    await this.#held.get(message.target);
    // Half of a body arrives before it is read.
    if (message.target === '/late') await ticks(4);
    const body = message.method === 'POST' ? await message.readBody(maxBodyBytes) : 'get';
    return jsonReply(200, asByteString(body));
  }

  replyToLateError(error: Parameters<PetstoreService['replyToLateError']>[0]): Reply {
    return replyTo(error);
  }

  replyToParserError(error: Parameters<PetstoreService['replyToParserError']>[0]): Reply {
    return replyTo(error);
  }

  logError(): void {}
  logWarning(): void {}
  reportResponse(): void {}
  reportEnd(): void {}
  onAbandoned(): void {}

  now(): number {
    return machineClock();
  }
}
