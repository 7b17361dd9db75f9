/** A client that keeps what it was answered byte for byte, over connections that it keeps. */
import { Agent, request } from 'node:http';
import type { SentDraft } from './random.js';

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
  /** When its request began to be sent, as {@link monotonicS} has it. */
  readonly sentAtS: number;
}

/** The kernel's monotonic clock in seconds, which other processes read too. */
export function monotonicS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** Speaks to one port of 127.0.0.1. A connection that breaks rejects. */
export class Client {
  readonly port: number;
  readonly #authorization: string;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(port: number, key: string) {
    this.port = port;
    this.#authorization = `Bearer ${key}`;
  }

  get(path: string): Promise<Answer> {
    return this.#send('GET', path, '');
  }

  add(draft: SentDraft): Promise<Answer> {
    return this.#send('POST', '/v1/pets', JSON.stringify(draft));
  }

  /** Closes its connections. */
  close(): void {
    this.#agent.destroy();
  }

  #send(method: string, path: string, sent: string): Promise<Answer> {
    const sentAtS = monotonicS();
    const headers = { Authorization: this.#authorization, 'Content-Length': Buffer.byteLength(sent) };
    return new Promise((resolve, reject) => {
      const sending = request({ host: '127.0.0.1', port: this.port, method, path, headers, agent: this.#agent }, (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (text: string) => (body += text));
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body, ms: 1000 * (monotonicS() - sentAtS), sentAtS }));
      });
      sending.on('error', reject);
      sending.end(sent);
    });
  }
}
