/** The client of the self-check. */
import { connect, type Socket } from 'node:net';
import { setImmediate, setTimeout } from 'node:timers';

/** Resolves after some ticks of the event loop. */
export async function ticks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves after a millisecond. Waiting for a timer by `ticks` would keep the CPU busy. */
export async function pause(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1));
}

/** A client connection of the check. */
export class Probe {
  readonly #socket: Socket;
  #received = '';
  #hasEnded = false;
  #wake = (): void => undefined;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.#socket.on('error', () => this.#end());
    this.#socket.on('end', () => this.#end());
    this.#socket.on('close', () => this.#end());
    this.#socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
      this.#wake();
    });
  }

  #end(): void {
    this.#hasEnded = true;
    this.#wake();
  }

  send(text: string): void {
    this.#socket.write(text, 'latin1');
  }

  /** Closes the sending side. */
  end(): void {
    this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Receives responses of these statuses, the last one with `body`. @throws Error for others */
  async expect(statuses: readonly number[], body: string): Promise<void> {
    for (const [index, status] of statuses.entries()) {
      const response = await this.#response();
      const isLast = index === statuses.length - 1;
      if (!response.startsWith(`HTTP/1.1 ${status} `) || (isLast && !response.endsWith(body)))
        throw new Error(`${response.split('\r\n', 1)[0]} in place of ${status}`);
    }
  }

  async #response(): Promise<string> {
    for (;;) {
      const headEnd = this.#received.indexOf('\r\n\r\n') + 4;
      const length = Number(/^content-length: (\d+)/im.exec(this.#received)?.[1] ?? 0);
      const end = headEnd + (this.#received.startsWith('HTTP/1.1 100') ? 0 : length);
      if (headEnd >= 4 && this.#received.length >= end) {
        const response = this.#received.slice(0, end);
        this.#received = this.#received.slice(end);
        return response;
      }
      if (this.#hasEnded) throw new Error('no response');
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Waits for the end of the connection. @throws Error if more bytes arrive first */
  async ends(): Promise<void> {
    while (!this.#hasEnded) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#received !== '') throw new Error('bytes after the last response');
  }
}
