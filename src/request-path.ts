/** Owns the one path of a request, from its message to its reply. Knows no socket, no plugin and no storage. */
import { isPending } from './awaitable.js';
import { keyNameOf, refusalOf, type VerifyKey } from './http/auth.js';
import { checkContent, checkExpectation } from './http/content.js';
import type { Message } from './http/message.js';
import { parseQuery } from './http/query.js';
import { checkReply, type Reply } from './http/reply.js';
import type { Resource, Resources } from './http/resources.js';
import { splitTarget } from './http/target.js';

/** What the path needs of the petstore. */
export interface RequestPathOptions {
  readonly resources: Resources;
  readonly verifyKey: VerifyKey;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly maxBodyBytes: number;
  /** Throws the answer to a request that is not served now, whoever sends it (C48). */
  readonly checkServing: (message: Message) => void;
  /** The reply to what was thrown. */
  readonly failureReply: (error: unknown) => Reply;
}

/** What the path of a request comes to. */
export interface Answer {
  readonly reply: Reply;
  readonly resource: Resource | undefined;
  readonly keyName: string | undefined;
}

/**
 * The way of every message, down and back; its steps are in the order that CONTRACT.md fixes. Whoever is called back hears
 * of the answer in the same turn where all of it is in memory: each promise costs as much as finding an animal.
 */
export async function answer(message: Message, options: RequestPathOptions, done: (answer: Answer) => void): Promise<void> {
  let reply: Reply;
  let resource: Resource | undefined;
  let keyName: string | undefined;
  try {
    const { method, target } = message;
    const head = message.readHead();
    const { path, query } = splitTarget(target);
    const { value, params } = options.resources.find(method, path, options.clock);
    resource = value;
    const operation = resource.operation(method);
    const needsKey = resource.needsKey && operation.isPublic !== true;
    if (needsKey) {
      const name = keyNameOf(head.authorization, options.verifyKey);
      keyName = knownName(isPending(name) ? await name : name);
    }
    if (needsKey && keyName === undefined) reply = options.failureReply(refusalOf(head.authorization));
    else {
      if (needsKey) options.checkServing(message);
      checkExpectation(head);
      if (operation.readsBody === true) {
        checkContent(head, options.maxBodyBytes);
        // Whatever comes of a body of known length, the connection goes on: requests behind it need not wait for that.
        if (head.transferEncoding === undefined) message.staysOpen();
      }
      const body = operation.readsBody === true ? await message.readBody(options.maxBodyBytes) : '';
      const answered = operation.handler({ method, params, query: parseQuery(query), body, keyName, idempotencyKey: head.idempotencyKey });
      if (isPending(answered)) message.staysOpen();
      reply = checkReply(isPending(answered) ? await answered : answered);
    }
  } catch (error) {
    reply = options.failureReply(error);
  }
  done({ reply: resource?.complete(reply) ?? reply, resource, keyName });
}

/** A verifier without types may say no by null or false; whatever is no name must not open the door. */
function knownName(name: string | undefined): string | undefined {
  return typeof name === 'string' ? name : undefined;
}
