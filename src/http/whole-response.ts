/** Owns the short way out: a reply whose bytes are all there goes to the socket in one write. Knows no reply's content. */
import { ServerResponse, type IncomingMessage } from 'node:http';

/**
 * Node's response, handed to `createServer` by its option of that name, that can also be sent as one text, around the
 * header table and the buffers of `ServerResponse`: that is half of what `node:http` itself costs a small answer.
 */
export class WholeResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** Whether it may be sent so now: the replies before it have left. */
  get isReady(): boolean {
    return this.socket !== null && !this.finished;
  }

  /**
   * Sends head and body, a byte string, while `isReady`, of a reply behind which the connection stays open. Whoever observes
   * Node's responses sees the status, but no header fields.
   */
  sendWhole(status: number, text: string, onSent: () => void): void {
    this.statusCode = status;
    this.socket?.write(text, 'latin1');
    this.finished = true;
    // Before Node hears of it, and ends a connection that the client has half-closed behind its last request: the error
    // of what came behind that may still have to leave (C52).
    onSent();
    // What Node's server waits for before it lets the next request of the connection answer.
    this.emit('finish');
  }
}
