/** Checks the routes of plugins, and the replies of their handlers. */
import { shortly } from '../errors.js';
import { parsePlainJson } from '../json.js';
import { checkReply, replyOf, type Reply } from '../reply.js';
import type { CheckedRoute, Operation, OperationRequest, Route } from '../router.js';

/**
 * The checked copies of replies with a body of over `longBodyBytes`. A plugin may return the same
 * reply for each request, and the check of a file of 1.5 MB takes 2 ms.
 */
const checkedReplies = new WeakMap<Reply, Reply>();
const longBodyBytes = 65_536;

/**
 * Returns a copy of a plugin's route whose handlers return checked replies.
 * @throws TypeError if a member has the wrong type, or if the successor cannot be part of a header
 */
export function checkedRoute(route: Route): CheckedRoute {
  const { path, methods, deprecation }: Partial<Route> = Object(route);
  if (typeof path !== 'string')
    throw new TypeError(`route takes a path such as /v1/pets/{petId}, not ${shortly(path)}`);
  if (typeof methods !== 'object' || methods === null)
    throw new TypeError(`route ${path} needs methods, such as { GET: { handler } }`);
  checkDeprecation(path, deprecation);

  const checked = Object.entries(methods).map(([method, operation]) => {
    checkOperation(`route ${path} ${method}`, operation);
    const handler = async (request: OperationRequest) => {
      const json = () => parsePlainJson(request.body);
      const reply = await replyOf(await operation.handler({ ...request, json }));
      const checked = checkReply(reply, 'a handler', checkedReplies.get(reply));
      if ((checked.body?.length ?? 0) > longBodyBytes) checkedReplies.set(reply, checked);
      return checked;
    };
    return [method, { ...operation, handler }] as const;
  });
  return { ...route, methods: Object.fromEntries(checked) };
}

/** @throws TypeError */
function checkDeprecation(path: string, deprecation: Route['deprecation']): void {
  if (deprecation === undefined) return;

  const { since, sunset, successor }: Partial<typeof deprecation> = Object(deprecation);
  if (typeof successor !== 'string' || !/^[!-=?-~]+$/.test(successor))
    throw new TypeError(`the successor of route ${path} must be a path or an address`);
  for (const time of [since, sunset])
    if (typeof time !== 'number' || Number.isNaN(new Date(time).getTime()))
      throw new TypeError(`since and sunset of route ${path} must be milliseconds since the epoch`);
}

/** @throws TypeError that begins with `what` */
function checkOperation(what: string, operation: Operation): void {
  const { handler, document, ...flags }: Partial<Operation> = Object(operation);
  if (typeof handler !== 'function') throw new TypeError(`${what} needs a handler, a function`);
  if (document !== undefined && (typeof document !== 'object' || document === null))
    throw new TypeError(`${what} has a document that is not an Operation Object`);

  for (const name of ['awaitsHold', 'survivesReset'] as const)
    if (![undefined, true, false].includes(flags[name]))
      throw new TypeError(`${what} has a ${name} that is not true or false`);
  if (![undefined, true, false, 'optional'].includes(flags.readsBody))
    throw new TypeError(`${what} has a readsBody that is not true, false or 'optional'`);
}
