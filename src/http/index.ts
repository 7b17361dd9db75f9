/**
 * What other folders may import of http/: listening ports, and requests of servers and platforms
 * that are not ours.
 */
export type { Answer } from './connection.js';
export { Endpoint } from './endpoint.js';
export { stopping, type Listening, type ListenOptions, type TlsPair } from './server.js';
