/** Runs a server from its options to its end; HTTP and storages are the library's. */
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
  type PetStorage,
} from '../index.js';
import { baseUrlRule, isBaseUrl, largestBodyBytes } from '../options.js';
import { denialOf, detailOf } from '../errors.js';
import { largestKeepAliveSeconds } from '../http/index.js';
import { openApiKeys, type ApiKeys } from './api-keys.js';
import { logTo, refuse } from './output.js';
import { loadPlugins } from './plugins.js';
import { requestLog } from './request-log.js';
import {
  read,
  readTlsFiles,
  readWholeNumber,
  readWord,
  type Run,
  type Setting,
  type Settings,
  timeOf,
} from './settings.js';
import { readStorage, type NamedStorage } from './storages.js';

/** How long closing may take, after the drain: Docker, for one, kills a process after 10 s. */
const stopTimeoutMs = 9_500;

/** A server on its way from start to end, as a signal finds it. */
interface Server extends Options {
  readonly apiKeys: ApiKeys;
  /** Undefined while the storage still opens. */
  petstore?: Petstore;
  /** Undefined until the port is open. */
  listening?: Listening;
  /** True if the process was started on a terminal. */
  readonly hadTerminal: boolean;
  /** Whether a signal, or a fault of ours, has begun the end. */
  isEnding: boolean;
}

/**
 * Starts a server, which goes on until a signal ends it. Options, files, keys and the modules of
 * plugins are checked before the storage is opened.
 *
 * @throws Refusal
 * @throws PetstoreError `storage_…`
 */
export const run: Run = async (settings) => {
  // `listen` refuses these runtimes too, but only after files were made.
  if ('Bun' in globalThis || 'Deno' in globalThis)
    refuse('a server needs Node; on this runtime give petstore.fetch to Bun.serve or Deno.serve');

  if (isListeningDenied())
    refuse("Node's permission model denies every port: start Node with --allow-net");

  const options = await readOptions(settings);
  const { isDev, named, log, plugins } = options;

  const apiKeys = await openApiKeys(settings, log);
  // A port in use must leave no new file. Later starts do not try the port: a client that connects
  // then would be cut off. Mistakes of the caller are reported first, so that each of them has the
  // same message on every machine.
  if (isDev || named?.place === '') await tryPort(options);

  const server: Server = { ...options, apiKeys, hadTerminal: hasTerminal(), isEnding: false };
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
 * True if Node's permission model denies listening, as it can since Node 25. The error is thrown
 * outside of `listen`, where it can only be caught as an uncaught one.
 */
function isListeningDenied(): boolean {
  const { permission, allowedNodeEnvironmentFlags } = process;
  return permission?.has('net') === false && allowedNodeEnvironmentFlags.has('--allow-net');
}

/** What the settings of a start say. */
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
    (text) => (/^[0-9A-Za-z_.:%-]{1,253}$/.test(text) ? text : undefined),
    'an address or a host name such as 127.0.0.1 or ::1',
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
  const log: Log =
    logLevel === 'silent' ? () => undefined : logTo(process.stdout, logFormat, setClock?.now);
  const plugins = await loadPlugins(settings);

  return {
    settings,
    isDev,
    host,
    port,
    /** The flags or the variables that set host and port, for messages. */
    from: { host: hostSetting.from, port: portSetting.from },
    /** Undefined for `memory:`. */
    named,
    setClock,
    seed,
    drainSeconds,
    keepAliveSeconds,
    /** The pair that was read last; SIGHUP reads another. */
    tls,
    logLevel,
    logFormat,
    log,
    plugins,
    /** Those of the options of `createPetstore` that the settings have. */
    contract: {
      maxBodyBytes,
      ...(setClock && { clock: setClock.now }),
      ...(baseUrl && { baseUrl }),
      ...(stagingBaseUrl && { stagingBaseUrl }),
    },
  };
}

function readUrl(setting: Setting | undefined): string | undefined {
  return setting && read(setting, (text) => (isBaseUrl(text) ? text : undefined), baseUrlRule);
}

/** The last time that can be written as a date of RFC 3339. */
const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * Returns a clock that begins at the time of `--clock` and runs on. At the end of the year 9999 it
 * stands still (C64).
 *
 * @throws Refusal for a storage that lasts, in which wrong times would stay
 */
function readClock(
  setting: Setting | undefined,
  named: NamedStorage | undefined,
): SetClock | undefined {
  if (setting === undefined) return undefined;
  if (named !== undefined) {
    const problem = `${setting.from} would leave wrong times in ${named.text}`;
    refuse(`${problem}; use it with --storage memory: alone`);
  }

  const parse = (text: string) => {
    const time = /T..:..:../i.test(text) ? timeOf(text.toUpperCase()) : NaN;
    return time >= 0 && time <= lastTime ? time : undefined;
  };

  const rule =
    'a time of RFC 3339 from 1970 on, such as 2030-12-05T23:59:50Z, until the end of 9999 in UTC';
  const begin = read(setting, parse, rule);
  // It begins with the process.
  let startedAt = 0;
  return {
    now: () => Math.min(Math.floor(begin + performance.now() - startedAt), lastTime),
    restart: () => {
      startedAt = performance.now();
    },
  };
}

/** A clock that was set. */
interface SetClock {
  /** Answers milliseconds since the epoch. */
  readonly now: () => number;
  /** Has it show again what it was set to. */
  readonly restart: () => void;
}

/** @throws Refusal where the port cannot be listened on */
async function tryPort(options: Options) {
  // `close` waits for those who have connected.
  const server = createServer((socket) => socket.destroy());
  const listening = once(server.listen(options.port, options.host), 'listening');
  await listening.catch((error: unknown) => refusePort(options, error));
  await once(server.close(), 'close');
}

/** @throws Refusal if listening failed; rethrows any other error */
function refusePort({ isDev, host, port, from }: Options, error: unknown): never {
  const code = codeOf(error);
  const denial = denialOf(error);
  if (!(error instanceof Error && 'syscall' in error) && denial === undefined) throw error;
  if (code === 'EMFILE') throw error;

  const problem = `port ${port} of ${host}`;
  const another = `choose another with ${from.host} or ${from.port}`;
  if (code !== 'EADDRINUSE')
    refuse(
      denial === undefined
        ? `${problem} cannot be listened on (${reasonOf(error)}); ${another}`
        : `${problem} cannot be listened on: ${denial}`,
    );

  const free = port < 60_000 ? port + 100 : port - 100;
  const freePort = isDev ? `\`PORT=${free} make run\` or --port ${free}` : from.port;
  refuse(`${problem} is in use; choose another with ${freePort}`);
}

/** Opens the storage. Where it holds no animals, those of `--seed` are added first. */
async function openStorage(options: Options): Promise<PetStorage> {
  const { isDev, named, seed, log } = options;
  const open = async () => (await named?.open(isDev ? 'dev' : 'serve', log)) ?? memoryFor(options);

  let storage = await open();
  if (seed === undefined) return storage;

  let isSeeded = named === undefined;
  if (named !== undefined && (await storage.list({ limit: 1 })).length === 0) {
    // All of the seed is one commit, which an open storage does not make.
    await storage.close();
    isSeeded = await named.seed(seed.drafts, seed.source, log);
    storage = await open();
  }

  if (isSeeded) log('info', 'seeded', { file: seed.path, pets: seed.drafts.length });
  else log('info', 'not seeded: the storage holds animals', { file: seed.path });
  return storage;
}

/** A storage that forgets. Where it begins anew, so does the clock that was set. */
function memoryFor({ seed, setClock }: Options): PetStorage {
  const storage = memoryStorage({ pets: seed?.drafts ?? [] });
  if (setClock !== undefined) storage.onReset?.(setClock.restart);
  return storage;
}

/**
 * Makes the petstore and opens its port; answers undefined where a signal has closed it meanwhile.
 *
 * @throws Refusal
 */
async function serve(server: Server, storage: PetStorage): Promise<Listening | undefined> {
  const { host, port, keepAliveSeconds, tls, contract, apiKeys, plugins } = server;
  const { settings, log, logLevel, logFormat } = server;
  const { clock } = contract;
  if (clock !== undefined)
    log('warn', 'the clock is set: this is not the time', {
      now: new Date(clock()).toISOString(),
      machine: new Date().toISOString(),
    });

  const hasNumber = settings.list('PETSTORE_API_KEYS').some(({ text }) => /^[0-9]+$/.test(text));
  const requestLogs = logLevel === 'requests' ? [requestLog(logFormat, !hasNumber)] : [];
  const petstore = createPetstore({
    ...contract,
    keys: apiKeys.verify,
    storage,
    plugins: [...requestLogs, ...plugins.values()],
    log,
  });
  server.petstore = petstore;

  try {
    server.listening = await petstore.listen({
      host,
      port,
      keepAliveSeconds,
      ...(tls && { tls }),
    });
  } catch (error) {
    // A signal closed the petstore; `end` exits.
    if (server.isEnding) return undefined;
    await petstore.close();
    refusePort(server, error);
  }

  // A SIGHUP may have read another pair while plugins opened.
  if (server.tls !== undefined) server.listening.setTls(server.tls);
  return server.listening;
}

/** True if standard input or output is a terminal; false again once that is closed. */
const hasTerminal = () => isatty(0) || isatty(1);

/** For how long after a signal further ones are the same: runners hand on what they get, too. */
const sameSignalMs = 1_000;

/**
 * Ends the server on signals and on internal errors. SIGHUP reloads a service; a server of a
 * terminal ends with the terminal (C75).
 */
function handleSignals(server: Server): void {
  let endedAt: number | undefined;

  const endBySignal = (signal: string, number: number) => {
    const now = performance.now();
    if (endedAt !== undefined && now - endedAt < sameSignalMs) return;
    endedAt = now;
    // A second signal ends it at once, with the exit code that a shell gives a signal.
    void end(server, signal, 0, 128 + number);
  };

  process.on('SIGINT', endBySignal);
  process.on('SIGTERM', endBySignal);

  // `server.ts` asks the same before anything is loaded.
  const isService = !server.isDev && !server.hadTerminal;
  process.on('SIGHUP', isService ? () => void reload(server) : endBySignal);

  process.on('uncaughtException', (error) => {
    server.log('error', 'a fault of ours', { error: detailOf(error) });
    if (server.logLevel === 'silent') process.stderr.write(`${detailOf(error)}\n`);
    // It ends as by a signal: other requests may still be answered, and animals that wait for the
    // disk may be kept.
    void end(server, 'uncaughtException', 70, 70);
  });
}

/**
 * Ends the process: drains, closes the petstore, and exits with `code`, or with 1 if a request was
 * cut, or closing failed or took too long. Called again, it exits at once with `codeAtOnce`.
 */
async function end(server: Server, signal: string, code: number, codeAtOnce: number) {
  if (server.isEnding) exit(server, codeAtOnce);
  server.isEnding = true;
  const { log, drainSeconds } = server;

  if (code === 0 && server.listening !== undefined && drainSeconds > 0) {
    log('info', 'draining', { signal, seconds: drainSeconds });
    server.petstore?.drain();
    await wait(1_000 * drainSeconds);
  }

  log('info', 'stopping', { signal });

  // The process waits for no request, plugin or disk that hangs.
  setTimeout(() => {
    log('error', 'closing takes too long: ended without it', { milliseconds: stopTimeoutMs });
    exit(server, 1);
  }, stopTimeoutMs);

  // A storage that is still opening is left as by a crash: it may open for ever.
  await server.petstore?.close().catch((error: unknown) => {
    log('error', 'closing failed', { error: reasonOf(error) });
    code ||= 1;
  });

  const requests = server.listening?.cutRequests ?? 0;
  if (requests > 0) {
    log('error', 'requests were cut: they took too long', { requests });
    code ||= 1;
  }
  exit(server, code);
}

/** Ends the process now, with an exit code or, if its terminal is closed, by SIGHUP. */
function exit({ hadTerminal }: Server, code: number): never {
  if (hadTerminal && !hasTerminal()) {
    // Node 20 would abort, because it cannot reset the terminal.
    process.removeAllListeners('SIGHUP');
    process.kill(process.pid, 'SIGHUP');
  }
  process.exit(code);
}

/** Reads the keys file and the TLS files again. Where one is bad, what was read before stays. */
async function reload(server: Server) {
  server.apiKeys.reload();

  try {
    const tls = await readTlsFiles(server.settings);
    if (tls === undefined) return;

    server.tls = tls;
    server.listening?.setTls(tls);
    server.log('info', 'TLS files read again');
  } catch (error) {
    server.log('warn', 'TLS files not read again: the last good pair stays', {
      error: reasonOf(error),
    });
  }
}

/**
 * A curl line that a shell runs to add an animal and to list all, and the address of the page in
 * front where one is served.
 */
function devBanner(url: string, key: string, plugins: Options['plugins']): string {
  // Not every system connects to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');

  const insecure = url.startsWith('https:') ? ' -k' : '';
  const curl = `curl -sS -w '\\n'${insecure} -H 'Authorization: Bearer ${key}'`;
  const json = '{"name":"Rex","categoryId":1,"status":"available"}';
  const animal = `-H 'Content-Type: application/json' -d '${json}'`;

  // The addresses are in quotes, as some shells read the brackets of an IPv6 address as a pattern.
  const line = `${curl} ${animal} '${home}/v1/pets' && ${curl} '${home}/v1/pets'\n`;
  return plugins.has('docs') ? `Page: ${home}/  Docs: ${home}/docs\n${line}` : line;
}
