/** Runs a server: reads the options, opens the storage, listens, and shuts down on a signal. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout } from 'node:timers';
import { setTimeout as wait } from 'node:timers/promises';
import { isatty } from 'node:tty';
import {
  codeOf,
  createPetstore,
  memoryStorage,
  reasonOf,
  type Listening,
  type Log,
  type Petstore,
  type Plugin,
  type PetStorage,
} from '../index.js';
import { lastTime, parseTime, timeRule } from '../clock.js';
import { baseUrlRule, isBaseUrl, largestBodyBytes } from '../options.js';
import { denialOf, detailOf } from '../errors.js';
import { largestKeepAliveSeconds } from '../http/index.js';
import { openApiKeys, type ApiKeys } from './api-keys.js';
import { logTo, plainReason, quoteWord, refuse } from './output.js';
import { loadPlugins } from './plugins.js';
import { requestLog } from './request-log.js';
import type { Setting } from './setting-text.js';
import {
  read,
  readNodeInterface,
  readTlsFiles,
  readWholeNumber,
  readWord,
} from './setting-values.js';
import type { Run, Settings } from './settings.js';
import { readStorage, type NamedStorage } from './storages.js';

/** The longest shutdown after the drain. Docker, for example, kills a process after 10 s. */
const shutdownTimeoutMs = 9_500;

/** The state of the process, which signal handlers use at any time. */
interface Server extends Options {
  readonly apiKeys: ApiKeys;
  /** Undefined until the storage is open. */
  petstore?: Petstore;
  /** Undefined until the port is open. */
  listening?: Listening;
  /** True if the process was started on a terminal. */
  readonly hadTerminal: boolean;
  /** True once a signal or an uncaught error has begun the shutdown. */
  isShuttingDown: boolean;
}

/**
 * Starts a server, which runs until a signal. Options, files, keys and plugins are checked before
 * the storage is opened.
 *
 * @throws Refusal
 * @throws PetstoreError `storage_…`
 */
export const run: Run = async (settings, [operand]) => {
  if (operand !== undefined)
    refuse(
      `\`serve\` takes no operand; leave ${quoteWord(operand)} out, or write a flag before it`,
    );

  // `listen` refuses these runtimes too, but only after files were created.
  if ('Bun' in globalThis || 'Deno' in globalThis)
    refuse('a server needs Node; on this runtime give petstore.fetch to Bun.serve or Deno.serve');

  if (isListeningDenied())
    refuse("Node's permission model denies every port: start Node with --allow-net");

  const options = await readOptions(settings);
  const { isDev, named, log, plugins } = options;

  const apiKeys = await openApiKeys(settings, log);
  // A start that fails because the port is in use must not create the storage file. If the file
  // exists, the port is not tried, because a client that connects then would be cut off. The try
  // comes after all checks, so that a mistake has the same message on every machine.
  if (isDev || named?.place === '') await tryPort(options);

  const server: Server = { ...options, apiKeys, hadTerminal: hasTerminal(), isShuttingDown: false };
  handleSignals(server);

  const storage = await openStorage(options);
  const devKey = isDev ? await apiKeys.addDevKey() : undefined;
  const listening = await serve(server, storage);
  if (listening === undefined) return;

  log('info', 'listening', {
    url: listening.url,
    storage: named?.text ?? 'memory:',
    pets: storage.size,
    readyMs: Math.round(performance.now()),
    pid: process.pid,
  });

  if (devKey !== undefined) process.stdout.write(devBanner(listening.url, devKey, plugins));
};

/**
 * True if Node's permission model denies listening, as it can since Node 25. Checked in advance,
 * because `listen` throws that error where no caller can catch it.
 */
function isListeningDenied(): boolean {
  const { permission, allowedNodeEnvironmentFlags } = process;
  return permission?.has('net') === false && allowedNodeEnvironmentFlags.has('--allow-net');
}

/** The checked options of a start. */
type Options = Awaited<ReturnType<typeof readOptions>>;

/**
 * Reads and checks the settings, and the files and modules that they name.
 *
 * @throws Refusal
 */
async function readOptions(settings: Settings) {
  const isDev = settings.find('--dev') !== undefined;
  const hostSetting = settings.get('--host');
  const host = read(
    hostSetting,
    // One colon is that of a port; an IPv6 address has several.
    (text) => (/^(?![^:]*:[^:]*$)[0-9A-Za-z_.:%-]{1,253}$/.test(text) ? text : undefined),
    'an address or a host name such as 127.0.0.1 or ::1, without a port',
  );
  const portSetting = settings.get('--port');
  const port = readWholeNumber(portSetting, 0, 65_535);

  const named = await readStorage(settings.get('--storage'));
  const maxBodyBytes = readWholeNumber(settings.get('--max-body-bytes'), 1, largestBodyBytes);
  const drainSeconds = readWholeNumber(settings.get('--drain'), 0, 3_600);
  const keepAliveSeconds = readWholeNumber(
    settings.get('--keep-alive'),
    1,
    largestKeepAliveSeconds,
  );
  const nodeInterface = readNodeInterface(settings);
  const baseUrl = readUrl(settings.find('--base-url'));
  const stagingBaseUrl = readUrl(settings.find('--staging-base-url'));
  const setClock = readClock(settings.find('--clock'), named);

  const seedFile = settings.find('--seed');
  const seed = seedFile && (await (await import('./import.js')).readSeed(seedFile));
  const tls = await readTlsFiles(settings);

  const logLevel = readWord(settings.get('--log', isDev ? 'requests' : 'info'), [
    'silent',
    'info',
    'requests',
  ]);
  const logFormat = readWord(settings.get('--log-format', process.stdout.isTTY ? 'text' : 'json'), [
    'text',
    'json',
  ]);
  /** The clock of the log. Later that of the petstore, which a reset may set (C87). */
  const logClock = { now: setClock?.now ?? Date.now };
  const log: Log =
    logLevel === 'silent'
      ? () => undefined
      : logTo(process.stdout, logFormat, () => logClock.now());
  const plugins = await loadPlugins(settings);

  return {
    settings,
    isDev,
    host,
    port,
    /** The flags or variables that set host and port, for messages. */
    from: { host: hostSetting.from, port: portSetting.from },
    /** Undefined for `memory:`. */
    named,
    setClock,
    seed,
    drainSeconds,
    keepAliveSeconds,
    nodeInterface,
    /** The pair in use; SIGHUP replaces it. */
    tls,
    logLevel,
    logFormat,
    logClock,
    log,
    plugins,
    /** Options that are passed on to `createPetstore`. */
    petstoreOptions: {
      maxBodyBytes,
      isolate: readIsolate(settings.find('--isolate'), named),
      ...(setClock && { clock: setClock.now }),
      ...(baseUrl && { baseUrl }),
      ...(stagingBaseUrl && { stagingBaseUrl }),
    },
  };
}

function readUrl(setting: Setting | undefined): string | undefined {
  return setting && read(setting, (text) => (isBaseUrl(text) ? text : undefined), baseUrlRule);
}

/** @throws Refusal if the storage is not in memory */
function readIsolate(setting: Setting | undefined, named: NamedStorage | undefined): boolean {
  if (setting !== undefined && named !== undefined)
    refuse(`${setting.from} needs stores in memory; use it only with --storage memory:`);
  return setting !== undefined;
}

/**
 * Returns a clock that starts at the time of `--clock` and stops at the end of the year 9999 (C64).
 *
 * @throws Refusal if the storage is durable, because it would keep wrong times
 */
function readClock(
  setting: Setting | undefined,
  named: NamedStorage | undefined,
): SetClock | undefined {
  if (setting === undefined) return undefined;
  if (named !== undefined) {
    const problem = `${setting.from} would leave wrong times in ${named.text}`;
    refuse(`${problem}; use it only with --storage memory:`);
  }

  const startTime = read(setting, parseTime, timeRule);
  // `performance.now()` counts from the start of the process.
  let startedAt = 0;
  return {
    now: () => Math.min(Math.floor(startTime + performance.now() - startedAt), lastTime),
    restart: () => {
      startedAt = performance.now();
    },
  };
}

/** The clock of `--clock`. */
interface SetClock {
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  /** Sets the clock to its start time again. */
  readonly restart: () => void;
}

/** @throws Refusal if the server cannot listen on the port */
async function tryPort(options: Options) {
  // `close` waits until every connection is closed.
  const server = createServer((socket) => socket.destroy());
  const listening = once(server.listen(options.port, options.host), 'listening');
  await listening.catch((error: unknown) => refusePort(options, error));
  await once(server.close(), 'close');
}

/** @throws Refusal if listening failed; rethrows any other error */
function refusePort({ isDev, host, port, from }: Options, error: unknown): never {
  const code = codeOf(error) ?? '';
  const denial = denialOf(error);
  if (!(error instanceof Error && 'syscall' in error) && denial === undefined) throw error;
  if (code === 'EMFILE') throw error;

  const other = port < 60_000 ? port + 100 : port - 100;
  const otherPort = isDev ? `\`PORT=${other} make run\` or --port ${other}` : from.port;
  const reasons: Readonly<Record<string, string>> = {
    EACCES: 'permission denied; use a port above 1023',
    EADDRINUSE: `the port is in use; choose another with ${otherPort}`,
    EADDRNOTAVAIL: `this machine has no such address; choose another with ${from.host}`,
    ENOTFOUND: `there is no such host; choose another with ${from.host}`,
  };
  const otherReason = `${plainReason(error)}; choose another with ${from.host} or ${from.port}`;
  refuse(`cannot listen on ${host} port ${port}: ${denial ?? reasons[code] ?? otherReason}`);
}

/** Opens the storage. An empty storage gets the pets of `--seed` first. */
async function openStorage(options: Options): Promise<PetStorage> {
  const { isDev, named, seed, log } = options;
  const open = async () => (await named?.open(isDev ? 'dev' : 'serve', log)) ?? memoryFor(options);

  let storage = await open();
  if (seed === undefined) return storage;

  let isSeeded = named === undefined;
  const isEmpty = async () => (await storage.list({ limit: 1 })).length === 0;
  if (named !== undefined && (await named.retry(isEmpty, log))) {
    // The seed is added in one commit, for which the storage must not be open.
    await storage.close();
    isSeeded = await named.seed(seed.drafts, seed.source, log);
    storage = await open();
  }

  if (isSeeded) log('info', 'seeded', { file: seed.path, pets: seed.drafts.length });
  else log('info', 'not seeded, because the storage already has pets', { file: seed.path });
  return storage;
}

/** Returns an in-memory storage. Its reset also restarts the clock of `--clock`. */
function memoryFor({ seed, setClock }: Options): PetStorage {
  const storage = memoryStorage({ pets: seed?.drafts ?? [] });
  if (setClock !== undefined) storage.onReset?.(setClock.restart);
  return storage;
}

/**
 * Creates the petstore and listens. Returns undefined if a signal closed the petstore meanwhile.
 *
 * @throws Refusal
 */
async function serve(server: Server, storage: PetStorage): Promise<Listening | undefined> {
  const { host, port, keepAliveSeconds, nodeInterface, tls, petstoreOptions, apiKeys, plugins } =
    server;
  const { settings, log, logClock, logLevel, logFormat } = server;
  const { clock } = petstoreOptions;
  if (clock !== undefined)
    log('warn', 'the clock is set by --clock and differs from the machine', {
      now: new Date(clock()).toISOString(),
      machine: new Date().toISOString(),
    });

  const hasNumber = settings.list('PETSTORE_API_KEYS').some(({ text }) => /^[0-9]+$/.test(text));
  const requestLogs = logLevel === 'requests' ? [requestLog(logFormat, !hasNumber)] : [];
  const followClock: Plugin = ({ clock: ofPetstore, isolatedKey }) => {
    if (isolatedKey === undefined) logClock.now = ofPetstore;
  };
  const petstore = createPetstore({
    ...petstoreOptions,
    keys: apiKeys.verify,
    storage,
    plugins: [followClock, ...requestLogs, ...plugins.values()],
    log,
  });
  server.petstore = petstore;

  try {
    server.listening = await petstore.listen({
      host,
      port,
      keepAliveSeconds,
      nodeInterface,
      ...(tls && { tls }),
    });
  } catch (error) {
    // A signal closed the petstore; `shutDown` exits.
    if (server.isShuttingDown) return undefined;
    await petstore.close();
    refusePort(server, error);
  }

  // A SIGHUP may have read a new pair while plugins opened.
  if (server.tls !== undefined) server.listening.setTls(server.tls);
  return server.listening;
}

/** True if standard input or output is a terminal that is still open. */
const hasTerminal = () => isatty(0) || isatty(1);

/**
 * The time after a signal during which further signals are ignored. A terminal and a program such
 * as npm may both pass on the same Ctrl-C.
 */
const sameSignalMs = 1_000;

/**
 * Shuts the server down on signals and on uncaught errors. SIGHUP reloads a service, but ends a
 * server that was started on a terminal (C75).
 */
function handleSignals(server: Server): void {
  let lastSignalAt: number | undefined;

  const handleSignal = (signal: string, number: number) => {
    const now = performance.now();
    if (lastSignalAt !== undefined && now - lastSignalAt < sameSignalMs) return;
    lastSignalAt = now;
    // Shells report the end by a signal as 128 plus its number.
    void shutDown(server, signal, 0, 128 + number);
  };

  process.on('SIGINT', handleSignal);
  process.on('SIGTERM', handleSignal);

  // The same condition as in server.ts.
  const isService = !server.isDev && !server.hadTerminal;
  process.on('SIGHUP', isService ? () => void reload(server) : handleSignal);

  process.on('uncaughtException', (error) => {
    server.log('error', 'internal error', { error: detailOf(error) });
    if (server.logLevel === 'silent') process.stderr.write(`${detailOf(error)}\n`);
    // A regular shutdown still finishes other requests and commits in flight.
    void shutDown(server, 'uncaughtException', 70, 70);
  });
}

/**
 * Drains, closes the petstore and exits with `code`, or with 1 if a request was cut, or if closing
 * failed or took too long. The second call exits at once with `codeAtOnce`.
 */
async function shutDown(server: Server, signal: string, code: number, codeAtOnce: number) {
  if (server.isShuttingDown) exit(server, codeAtOnce);
  server.isShuttingDown = true;
  const { log, drainSeconds } = server;

  if (code === 0 && server.listening !== undefined && drainSeconds > 0) {
    log('info', 'draining', { signal, seconds: drainSeconds });
    server.petstore?.drain();
    await wait(1_000 * drainSeconds);
  }

  log('info', 'stopping', { signal });

  // A request, a plugin or a disk may hang.
  setTimeout(() => {
    log('error', 'closing took too long; the process exits now', {
      milliseconds: shutdownTimeoutMs,
    });
    exit(server, 1);
  }, shutdownTimeoutMs);

  // A storage that is still opening is not waited for, because it may never open.
  await server.petstore?.close().catch((error: unknown) => {
    log('error', 'closing failed', { error: reasonOf(error) });
    code ||= 1;
  });

  const requests = server.listening?.cutRequests ?? 0;
  if (requests > 0) {
    log('error', 'requests were cut because they took too long', { requests });
    code ||= 1;
  }
  exit(server, code);
}

/** Exits with `code`, or by SIGHUP if the terminal of the process is closed. */
function exit({ hadTerminal }: Server, code: number): never {
  if (hadTerminal && !hasTerminal()) {
    // Node 20 would abort, because it cannot reset the terminal.
    process.removeAllListeners('SIGHUP');
    process.kill(process.pid, 'SIGHUP');
  }
  process.exit(code);
}

/** Reads the keys file and the TLS files again. An invalid file is ignored and logged. */
async function reload(server: Server) {
  server.apiKeys.reload();

  try {
    const tls = await readTlsFiles(server.settings);
    if (tls === undefined) return;

    server.tls = tls;
    server.listening?.setTls(tls);
    server.log('info', 'TLS files read again');
  } catch (error) {
    server.log('warn', 'the TLS files cannot be used; the old pair stays in use', {
      error: reasonOf(error),
    });
  }
}

/**
 * Returns a curl command that adds a pet and lists all. With the docs plugin, a line
 * with the addresses of the page and of the documentation comes first.
 */
function devBanner(url: string, key: string, plugins: Options['plugins']): string {
  // Some systems cannot connect to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');

  const insecure = url.startsWith('https:') ? ' -k' : '';
  const curl = `curl -sS -w '\\n'${insecure} -H 'Authorization: Bearer ${key}'`;
  const json = '{"name":"Rex","categoryId":1,"status":"available"}';
  const pet = `-H 'Content-Type: application/json' -d '${json}'`;

  // Quoted, because some shells read the brackets of an IPv6 address as a pattern.
  const line = `${curl} ${pet} '${home}/v1/pets' && ${curl} '${home}/v1/pets'\n`;
  return plugins.has('docs') ? `Page: ${home}/  Docs: ${home}/docs\n${line}` : line;
}
