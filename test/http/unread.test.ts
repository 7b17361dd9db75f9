/** Tests of the memory limit for responses that clients do not read (C55). */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { sliceResponse, UnsentBytes } from '../../dist/http/wire.js';
import { memoryStorage } from '../../dist/index.js';
import { asByteString } from '../../dist/json.js';
import { pageReply } from '../../dist/paging.js';
import { Pieces } from '../../dist/reply.js';
import { requestBytes, start } from '../support/fixture.js';

/** A client that requests a page of 6 MB, and reads only on demand. */
class Reader {
  readonly #socket: Socket;
  readonly #sentAt = performance.now();
  /** The number of bytes of the response that it has read. */
  bytes = 0;
  /** Resolves to the seconds until the connection closed. */
  readonly ended: Promise<number>;
  #head = '';

  constructor(t: Ending, port: number) {
    this.#socket = connect(port, '127.0.0.1').pause();
    atEnd(t, () => this.#socket.destroy());
    this.#socket.on('data', (chunk: Buffer) => {
      if (this.bytes === 0) this.#head = chunk.toString('latin1', 0, 1_000);
      this.bytes += chunk.length;
    });
    // A reset is not an error of the test.
    this.#socket.on('error', () => undefined);
    this.ended = new Promise((resolve) =>
      this.#socket.once('close', () => resolve((performance.now() - this.#sentAt) / 1_000)),
    );
    this.#socket.write(
      requestBytes('GET', '/v1/pets?limit=100', { headers: ['Connection: close'] }),
    );
  }

  /** Reads until the connection closes. */
  readAll(): Promise<number> {
    this.#socket.resume();
    return this.ended;
  }

  /** Reads some 300 KB each half second until the connection closes. */
  async readSlowly(): Promise<number> {
    let until = 0;
    this.#socket.on('data', () => {
      if (this.bytes >= until) this.#socket.pause();
    });
    while (!this.#socket.destroyed) {
      until = this.bytes + 300_000;
      this.#socket.resume();
      await Promise.race([sleep(500), this.ended]);
    }
    return this.ended;
  }

  /** True if the whole response was read. */
  get isWhole(): boolean {
    const [, status, rest] = /^HTTP\/1\.1 ([0-9]+) ([\s\S]*?)\r\n\r\n/.exec(this.#head) ?? [];
    const length = Number(/^Content-Length: ([0-9]+)$/m.exec(rest ?? '')?.[1]);
    return status === '200' && this.bytes === this.#head.indexOf('\r\n\r\n') + 4 + length;
  }
}

test('C55 queues responses over 64 MiB, and closes clients that read nothing for 5 s', async (t) => {
  const storage = memoryStorage();
  for (let count = 0; count < 100; count++)
    await storage.insert({ name: 'x'.repeat(60_000), categoryId: 1n });
  const { port } = await start(t, { storage });
  const readers = async (count: number): Promise<readonly Reader[]> => {
    const made = Array.from({ length: count }, () => new Reader(t, port));
    // So that the requests arrive in this order.
    await sleep(200);
    return made;
  };
  const slow = await readers(1);
  const slowly = slow.map((reader) => reader.readSlowly());
  const late = await readers(2);
  const never = await readers(16);
  const good = new Reader(t, port);
  const served = good.readAll();

  // Clients that read nothing for less than 5 s get their response whole.
  await sleep(3_500);
  for (const reader of late) assert.ok((await reader.readAll()) < 30);
  assert.deepEqual(
    late.map(({ isWhole }) => isWhole),
    [true, true],
  );
  const servedAfter = await served;
  assert.ok(
    good.isWhole && servedAfter < 30,
    `the good client had ${good.bytes} bytes after ${servedAfter} s`,
  );
  // The limit holds eleven pages, so the good client waited until an idle client was closed.
  assert.ok(servedAfter > 4, `it was served after ${servedAfter} s, so the limit had no effect`);
  assert.ok((await Promise.all(slowly)).every((seconds) => seconds > 5));
  assert.deepEqual(
    slow.map(({ isWhole }) => isWhole),
    [true],
    'a client that keeps reading is not closed',
  );

  await Promise.all(never.map((reader) => reader.readAll()));
  const cut = never.filter(({ isWhole }) => !isWhole);
  assert.ok(cut.length >= 4, `${cut.length} clients that read nothing were closed`);
});

test('C55 joins a page of over 64 KiB only when it is sent', () => {
  const pageOf = (bytes: number) =>
    pageReply(
      '/v1/pets',
      { limit: 1, after: 0n },
      { texts: [asByteString('x'.repeat(bytes - 2))] },
    );
  assert.equal(typeof pageOf(65_536).body, 'string');
  const { body } = pageOf(65_537);
  assert.ok(body instanceof Pieces);
  assert.equal(String(body), `[${'x'.repeat(65_535)}]`);
});

test('C55 writes a long response in slices of 16 KiB, however its parts are divided', () => {
  const lengthsOf = (parts: readonly string[]) => {
    const head = 'h'.repeat(100);
    const slices = [...sliceResponse(head, new Pieces(parts.map(asByteString)))];
    assert.equal(slices.join(''), head + parts.join(''));
    return slices.map((slice) => slice.length);
  };
  const part = 'abcdefg'.repeat(10_000);
  assert.deepEqual(lengthsOf([part]), [16_384, 16_384, 16_384, 16_384, 4_564]);
  assert.deepEqual(lengthsOf([part, '', part.slice(0, 11_820)]), Array(5).fill(16_384));
  const each = lengthsOf([...part.repeat(3)]);
  assert.deepEqual(each.slice(0, -1), Array(12).fill(16_384));
});

test('C55 sends a response of over 64 MiB once no other response is unsent', async () => {
  const unsent = new UnsentBytes();
  const started: number[] = [];
  for (const bytes of [2 ** 26 + 1, 1]) unsent.enqueue(bytes, () => started.push(bytes));
  await nextTick();
  assert.deepEqual(started, [2 ** 26 + 1]);
  unsent.remove(2 ** 26 + 1);
  await nextTick();
  assert.deepEqual(started, [2 ** 26 + 1, 1]);
  // Unsent bytes of short responses count as well.
  unsent.add(2 ** 26);
  unsent.enqueue(1, () => started.push(0));
  await nextTick();
  assert.equal(started.length, 2);
  unsent.remove(2 ** 26);
  await nextTick();
  assert.equal(started.length, 3);
});

test('C55 removes thousands of disconnected clients from the queue without recursion', async () => {
  // White box, because a test cannot open so many sockets.
  const unsent = new UnsentBytes();
  unsent.enqueue(2 ** 26, () => undefined);
  let gone = 0;
  for (let waiting = 0; waiting < 50_000; waiting++) {
    unsent.enqueue(2 ** 20, () => {
      gone++;
      unsent.remove(2 ** 20);
    });
  }
  await nextTick();
  assert.deepEqual([gone, unsent.isFull], [0, true]);
  unsent.remove(2 ** 26);
  await nextTick();
  assert.deepEqual([gone, unsent.isFull], [50_000, false]);
});
