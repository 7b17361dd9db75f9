/** The door of the HTTP room: listening ports, and requests of servers and platforms that are not ours. */
export type { Answer, Service } from './connection.js';
export { Endpoint } from './endpoint.js';
export { stopping, type ListenOptions, type TlsPair } from './server.js';
