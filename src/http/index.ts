/** HTTP: ports, `handler` for other servers, and `fetch` without a port. */
export type { RoutedReply, PetstoreService } from './connection.js';
export { defaultInterface, nodeInterfaces, nodeUseFor } from './mode.js';
export { Endpoint } from './endpoint.js';
export {
  largestKeepAliveSeconds,
  loadTls,
  stoppingError,
  type Listening,
  type HttpMode,
  type ListenOptions,
  type NodeInterface,
} from './port.js';
export type { TlsPair } from './tls.js';
