/**
 * The scene of most rows: dist/server.js on a file, clients that add pets, and a ledger of the
 * responses.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { atEnd } from '../support/at-end.js';
import { key } from '../support/fixture.js';
import { folder, StartedServer, serverFile } from '../support/process.js';
import { Clients, type TimedResponse } from './clients.js';
import { Ledger } from './ledger.js';
import { randomDraft, type SentDraft } from './random.js';
import { atOnce, inTime, type Share } from './row.js';

export interface StartOptions {
  /** A program with arguments that runs the server, such as `strace` or `prlimit`. */
  readonly under?: readonly string[];
  readonly args?: readonly string[];
  /** Options of Node itself. */
  readonly node?: readonly string[];
  /** Replaces the environment, which has the key of the tests. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A server process, which is killed at the end of its row. */
export class TorturedServer extends StartedServer {
  constructor(
    share: Share,
    path: string,
    { under = [], args = [], node = [], env = { PETSTORE_API_KEYS: key } }: StartOptions = {},
  ) {
    const storage = ['--storage', `file:${path}`, '--port', '0'];
    const [command = '', ...all] = [
      ...under,
      process.execPath,
      ...node,
      serverFile,
      ...storage,
      ...args,
    ];
    super(command, all, { cwd: share.workFolder, env });
    atEnd(share, () => this.end('SIGKILL'));
  }

  /** True once the server listens. */
  get hasListened(): boolean {
    return this.stdout.includes('"msg":"listening"');
  }

  /** Waits until the server listens, and returns its clients; undefined if it ends first. */
  async clients(): Promise<Clients | undefined> {
    const listening = this.findLine(() => this.hasListened || undefined);
    const isListening = await inTime(listening, 'a start', 30_000);
    return isListening && new Clients(this.port);
  }

  /** Fails if the log has an error. */
  assertNoError(): void {
    const errors = this.lines.filter((line) => line.includes('"level":"error"'));
    assert.deepEqual(errors, [], 'the log has errors');
  }
}

/** A file of pets, and the ledger with which it is compared. */
export interface Begun {
  readonly path: string;
  readonly ledger: Ledger;
}

/** Returns the path of a new file in a new folder. */
export function ownPath(share: Share): string {
  return join(folder(share), 'pets.jsonl');
}

/** A server that listens, with its file, ledger and clients. */
export class Scene {
  readonly share: Share;
  readonly path: string;
  readonly ledger: Ledger;
  readonly server: TorturedServer;
  readonly clients: Clients;

  constructor(
    share: Share,
    path: string,
    ledger: Ledger,
    server: TorturedServer,
    clients: Clients,
  ) {
    this.share = share;
    this.path = path;
    this.ledger = ledger;
    this.server = server;
    this.clients = clients;
  }

  /** Starts a server and compares its file with the ledger. */
  static async start(
    share: Share,
    { path = ownPath(share), ledger = new Ledger() }: Partial<Begun> = {},
    options?: StartOptions,
  ): Promise<Scene> {
    const server = new TorturedServer(share, path, options);
    const clients = await server.clients();
    if (clients === undefined) {
      const { code, signal, stderr } = await server.ended;
      assert.fail(`the start ended with ${code ?? signal}: ${stderr.trim()}`);
    }
    const scene = new Scene(share, path, ledger, server, clients);
    await scene.check();
    return scene;
  }

  check(): Promise<void> {
    return this.ledger.check(this.clients, this.share.random);
  }

  /** Adds a pet, which must be acknowledged. */
  async add(sent: SentDraft = randomDraft(this.share.random)): Promise<TimedResponse> {
    const response = await this.clients.add(sent);
    assert.equal(
      response.status,
      201,
      `the response to an add is ${response.status}: ${response.body}`,
    );
    this.ledger.acknowledge(sent, response);
    return response;
  }

  /**
   * Adds pets over several connections, one at a time on each. A writer stops when its connection
   * breaks, or when `goOn` returns false for the number of its responses other than 201. Returns
   * these other responses of all writers.
   */
  async write(
    writers: number,
    goOn: (others: number) => boolean = () => true,
  ): Promise<readonly TimedResponse[]> {
    const others = await atOnce(writers, async () => {
      const own: TimedResponse[] = [];
      while (goOn(own.length)) {
        const sent = randomDraft(this.share.random);
        const response = await this.clients.add(sent).catch(() => undefined);
        if (response === undefined) break;
        if (response.status === 201) this.ledger.acknowledge(sent, response);
        else own.push(response);
      }
      return own;
    });
    return others.flat();
  }

  /** Stops the server, whose log must have no error. */
  async stop(): Promise<void> {
    this.server.assertNoError();
    await this.end();
  }

  /** Stops the server by SIGTERM. */
  async end(): Promise<void> {
    this.clients.close();
    const { code, stderr } = await this.server.end();
    assert.equal(code, 0, `the server exited with ${code}: ${stderr}`);
  }
}
