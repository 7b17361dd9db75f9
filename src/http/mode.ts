/** Decides which interface of Node a port uses (C79, C80). */
import type { ServerOptions } from 'node:http';
import type { PetstoreService } from './connection.js';
import { reasonOf } from '../errors.js';
import type { HttpMode, NodeInterface } from './port.js';
import { triedNodes } from './tried-nodes.js';

/** The values of the option `nodeInterface`. */
export const nodeInterfaces: readonly NodeInterface[] = ['auto', 'check', 'documented'];

/** Returns the default of the option `nodeInterface`. */
export function defaultInterface(): NodeInterface {
  return process.env['PETSTORE_SELF_CHECK'] === '1' ? 'check' : 'auto';
}

/** True if CI has tried this version of Node, or a later minor version of its line. */
export function isTried(version: string): boolean {
  const [major = '', minor = ''] = version.split('.');
  const [, lastMinor = '-1'] = triedNodes[major]?.split('.') ?? [];
  return !version.includes('-') && Number(minor) <= Number(lastMinor);
}

/** The interface of Node to use, and options of Node that replace those of the port. */
interface NodeUse {
  readonly mode: HttpMode;
  readonly nodeOptions: ServerOptions;
}

const fast: NodeUse = { mode: 'fast', nodeOptions: {} };

/**
 * The use of a Node that failed the self-check. It may take idle connections for late heads, so it
 * does not look for late heads. `Deadlines` finds them, except for a head that begins in the last
 * packet of the previous request. The idle timeout ends such a head.
 */
const distrusted: NodeUse = { mode: 'documented', nodeOptions: { headersTimeout: 0 } };

/** Decides on the interface of Node, and logs a warning if the self-check fails. */
export async function nodeUseFor(
  nodeInterface: NodeInterface,
  service?: Pick<PetstoreService, 'logWarning'>,
): Promise<NodeUse> {
  if (nodeInterface === 'documented') return { mode: 'documented', nodeOptions: {} };
  const { node } = process.versions;
  if (nodeInterface === 'auto' && isTried(node)) return fast;

  // Loaded only if needed.
  const { selfCheck } = await import('./self-check.js');
  const failed = await selfCheck().catch((error: unknown) => [reasonOf(error)]);
  if (failed.length === 0) return fast;

  service?.logWarning(
    `the fast HTTP server does not work on Node ${node}, so the petstore serves over Node's ` +
      'documented interface, which is slower; pipelined requests of a client that has ' +
      'closed its sending side get no response. Report this line to the authors of the petstore',
    { node, failed },
  );
  return distrusted;
}
