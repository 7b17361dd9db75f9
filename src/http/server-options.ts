/**
 * Every option of Node's HTTP servers (C67). Their defaults differ between versions, and
 * `NODE_OPTIONS` sets some.
 */
import { headMs, requestMs } from './connection.js';
import { Exchange } from './exchange.js';
import { SilentResponse } from './node.js';

/** How often the server checks its timeouts (C44). */
export const sweepMs = 500;

/** The options of a server, those of TLS left out. */
export const httpOptions = {
  IncomingMessage: Exchange,
  ServerResponse: SilentResponse,

  // Against `--insecure-http-parser`: the strict parser keeps requests from being smuggled. A Node
  // that knows `httpValidation` accepts one of the two alone.
  insecureHTTPParser: false,
  httpValidation: undefined,
  // Against `--max-http-header-size`. The request target and the header lines have 16 KiB each
  // (C43), and the parser needs room to see that they are longer.
  maxHeaderSize: 40_000,
  // The petstore checks the Host itself (C42): Node's own refusal has no body.
  requireHostHeader: false,
  // The petstore reads `rawHeaders`, in which every line stands on its own.
  joinDuplicateHeaders: false,
  uniqueHeaders: undefined,
  // With it, Node would drop a body that it takes for absent.
  optimizeEmptyRequests: false,
  rejectNonStandardBodyWrites: false,
  // An Upgrade header is ignored (C42).
  shouldUpgradeCallback: () => false,

  headersTimeout: headMs,
  requestTimeout: requestMs,
  connectionsCheckingInterval: sweepMs,
  // A `Connection` has its own idle timeout: Node's costs a timer for each request.
  keepAliveTimeout: 0,
  keepAliveTimeoutBuffer: 0,

  noDelay: true,
  keepAlive: false,
  keepAliveInitialDelay: 0,
  highWaterMark: 16_384,
};
