/** Owns the headers that plugins add to each reply. Knows no header, and lets no plugin take an answer away. */
import { messageOf } from './errors.js';
import type { Message } from './http/message.js';
import { checkReply, type Reply } from './http/reply.js';
import type { Log } from './log.js';
import type { RequestHead } from './plugin.js';

/** Makes headers for a reply, names and values alternating. */
type MakeHeaders = (request: RequestHead) => readonly string[];

/** What is added to replies. */
export class ReplyHeaders {
  readonly #log: Log;
  readonly #makers: MakeHeaders[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds what this makes to each reply from now on. */
  add(make: MakeHeaders): void {
    this.#makers.push(make);
  }

  /** The reply to a request with all that is added; the very same where nobody adds anything. */
  complete(reply: Reply, message: Pick<Message, 'method' | 'header'>): Reply {
    if (this.#makers.length === 0) return reply;
    const request: RequestHead = { method: message.method, header: (name) => message.header(name) };
    let completed = reply;
    for (const make of this.#makers) {
      try {
        completed = checkReply({ ...completed, isKept: false, headers: [...completed.headers, ...make(request)] });
      } catch (error) {
        this.#log('error', 'a plugin failed to add headers', { error: messageOf(error) });
      }
    }
    return completed;
  }
}
