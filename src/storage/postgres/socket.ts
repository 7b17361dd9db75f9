/** Owns the socket below a connection to a database, and keeps what is no PostgreSQL from ending the process. Knows no statement. */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A socket for the driver, not connected yet, that its reader cannot end the process by. */
export function driverSocket(): Socket {
  return endWhereReaderThrows(new Socket());
}

/**
 * Ends a stream whose reader throws: the driver's parser does for bytes that no PostgreSQL sends, in the middle of an event
 * that nobody can catch. Then the connection has failed, like any other that breaks.
 */
export function endWhereReaderThrows<Stream extends Duplex>(stream: Stream): Stream {
  const emit = stream.emit;
  stream.emit = (event: string | symbol, ...values: unknown[]): boolean => {
    if (event !== 'data') return Reflect.apply(emit, stream, [event, ...values]);
    try {
      return Reflect.apply(emit, stream, [event, ...values]);
    } catch (error) {
      stream.destroy(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  };
  return stream;
}
