/** Owns the short way in: a body goes straight to who listens, and no body is no stream. Knows no body's bytes. */
import { IncomingMessage } from 'node:http';

/**
 * Node's request, handed to `createServer` by its option of that name. There every request is a stream, which flows, ends
 * and is destroyed in five ticks behind its answer, though it has no body and nobody listens: a tenth of the cost of a
 * small answer. Here it becomes one only where its body comes before anybody listens, and has to be kept.
 */
export class WholeRequest extends IncomingMessage {
  #isDirect = false;
  #hasEnded = false;

  /** Whether all of it has come, and nothing of it waits to be read. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Takes in what the parser has of the body; null for its end. */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    if (!this.#isDirect && (chunk !== null || this.#isStream)) return super.push(chunk, encoding);
    if (chunk === null) {
      this.#hasEnded = true;
      this.emit('end');
    } else this.emit('data', chunk);
    return true;
  }

  /** Node ends what a client that has gone did not wait for. A request that came whole is carried out (C53). */
  override destroy(error?: Error): this {
    return this.complete && !this.readableEnded ? this : super.destroy(error);
  }

  /** Is called once somebody listens, and by most Nodes behind the answer, so that an unread body is out of the way. */
  override resume(): this {
    if (this.#isStream && !this.#isDirect) return super.resume();
    this.#isDirect = true;
    return this;
  }

  get #isStream(): boolean {
    return this.readableFlowing !== null || this.readableLength > 0;
  }
}
