/** Owns the socket below a connection to a database, and keeps what is no PostgreSQL from ending the process. Knows no statement. */
import { Socket } from 'node:net';

/**
 * A socket whose reader may throw: the driver's parser does for bytes that no PostgreSQL sends, in the middle of an event that
 * nobody can catch. Then the connection has failed, like any other that breaks.
 */
export class DriverSocket extends Socket {
  override emit(event: string | symbol, ...values: unknown[]): boolean {
    if (event !== 'data') return super.emit(event, ...values);
    try {
      return super.emit(event, ...values);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  }
}
