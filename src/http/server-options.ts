/**
 * Every option of Node's HTTP servers (C67). All are set, because the defaults differ between
 * versions of Node, and `NODE_OPTIONS` changes some of them.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { headMs } from './deadlines.js';
import { Exchange } from './exchange.js';
import { SilentResponse } from './node.js';

/** The interval of the sweeps, which check the time limits (C44). */
export const sweepMs = 500;

/** The options of every server, without those of TLS. */
const commonOptions = {
  // Overrides `--insecure-http-parser`, because only the strict parser prevents request smuggling.
  // A version of Node with `httpValidation` rejects both options together.
  insecureHTTPParser: false,
  httpValidation: undefined,
  // Overrides `--max-http-header-size`. It is more than the 16 KiB each of target and headers, so
  // that the petstore rejects larger ones itself (C43).
  maxHeaderSize: 40_000,
  // The petstore checks Host itself (C42), because Node's own 400 has no body.
  requireHostHeader: false,
  // Irrelevant here, because the petstore reads `rawHeaders`, which has every header line.
  joinDuplicateHeaders: false,
  uniqueHeaders: undefined,
  // If true, Node looks for Content-Length in `headers`, which is empty here, and drops each body.
  optimizeEmptyRequests: false,
  rejectNonStandardBodyWrites: false,
  // An Upgrade header is ignored (C42).
  shouldUpgradeCallback: () => false,

  // `Connection` checks the time limits itself. It needs Node's only for a head that begins in the
  // last packet of the previous request.
  headersTimeout: headMs,
  requestTimeout: 0,
  connectionsCheckingInterval: sweepMs,
  // `Connection` has an idle timeout of its own, because Node's takes a timer for each request.
  keepAliveTimeout: 0,
  keepAliveTimeoutBuffer: 0,

  noDelay: true,
  keepAlive: false,
  keepAliveInitialDelay: 0,
  highWaterMark: 16_384,
};

/** The options of a server that uses undocumented behaviour of Node. */
export const fastOptions = {
  ...commonOptions,
  IncomingMessage: Exchange,
  ServerResponse: SilentResponse,
};

/** The options of a server that uses only the documented interface of Node (C79). */
export const documentedOptions = (keepAliveSeconds: number) => ({
  ...commonOptions,
  IncomingMessage,
  ServerResponse,
  // Node sends it in the header Keep-Alive.
  keepAliveTimeout: 1_000 * keepAliveSeconds,
});
