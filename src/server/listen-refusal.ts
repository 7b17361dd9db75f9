/** Owns what is said where the port cannot be had: the system's error in one line, with its mend. */
import { reasonOf, Refusal } from './refusal.js';

/** A Refusal for what listening threw. */
export function listenRefusal(thrown: unknown, host: string, port: number): Refusal {
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new Refusal(`port ${port} of ${host} is in use; stop the program that has it, or choose another with --port`);
    case 'EACCES':
      return new Refusal(`port ${port} of ${host} is not permitted to this user; choose one above 1023 with --port`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Refusal(`${host} is no address of this machine; choose one with --host, such as 127.0.0.1`);
    default:
      return new Refusal(`cannot listen on port ${port} of ${host} (${reasonOf(thrown)}); choose others with --port and --host`);
  }
}
