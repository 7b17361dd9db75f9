/** Runs a server from its options to its end; HTTP and storages are the library's. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, createPetstore, detailOf, largestBodyBytes, reasonOf } from '../index.js';
import type { Listening, Log, Petstore, Plugin } from '../index.js';
import { readSeed } from './import.js';
import { openKeys } from './live-keys.js';
import { logTo, Refusal, type LogFormat } from './output.js';
import { loadPlugins } from './plugins.js';
import { readHost, readLogFormat, readTime, readTlsFiles, readUrl, readWholeNumber, readWord } from './settings.js';
import type { Settings } from './settings.js';
import { readStorage, type NamedStorage } from './storages.js';

/** How long an end may take after the drain; whoever stops us waits 10 s. */
const stopTimeoutMs = 9_500;
/** A path of more is cut in the log: each segment is compared with the keys. */
const maxSegments = 20;

/**
 * Serves until a signal; resolves once it listens. Nothing is made on the disk before all else has been found good.
 * @throws Refusal for what the operator gave; PetstoreError `storage_…` for a storage that cannot be used.
 */
export async function start(settings: Settings): Promise<void> {
  const isTrial = settings.has('dev');
  const host = readHost(settings.get('host'));
  const port = readWholeNumber(settings.get('port'), 0, 65_535);
  const named = await readStorage(settings.get('storage'));
  const maxBodyBytes = readWholeNumber(settings.get('maxBodyBytes'), 1, largestBodyBytes);
  const drainSeconds = readWholeNumber(settings.get('drain'), 0, 3_600);
  const baseUrl = readUrl(settings.find('baseUrl'));
  const stagingBaseUrl = readUrl(settings.find('stagingBaseUrl'));
  const clock = readClock(settings, named);
  const seed = settings.find('seed');
  const fill = seed && (await readSeed(seed.text));
  let tls = await readTlsFiles(settings);
  const level = settings.find('log') ?? { text: isTrial ? 'requests' : 'info', from: '' };
  const logged = readWord(level, ['silent', 'info', 'requests']);
  const format = readLogFormat(settings, process.stdout);
  const log: Log = logged === 'silent' ? () => undefined : logTo(process.stdout, format);
  const plugins = await loadPlugins(settings);
  // Only before a first start: a port that is tried for a moment answers nobody, which a balancer would hear of.
  if (isTrial || named.lasting?.isNew() === true) await tryPort(host, port, isTrial);
  const keys = await openKeys(settings, log);

  let petstore: Petstore | undefined;
  let listening: Listening | undefined;
  let isEnding = false;

  /** Stops and exits with a code, or at once with another where it is stopping already. */
  async function end(signal: string, code: number, hurriedCode: number): Promise<void> {
    if (isEnding) process.exit(hurriedCode);
    isEnding = true;
    if (code === 0 && listening !== undefined && drainSeconds > 0) {
      log('info', 'draining', { signal, seconds: drainSeconds });
      petstore?.drain();
      await wait(1_000 * drainSeconds);
    }
    log('info', 'stopping', { signal });
    // A request, plugin or disk that hangs must not keep us from an end that somebody waits for.
    setTimeout(() => {
      log('error', 'closing takes too long: ended without it', { milliseconds: stopTimeoutMs });
      process.exit(1);
    }, stopTimeoutMs);
    try {
      // A storage that still opens is left as a crash would leave it, which costs nothing: opening may take for ever.
      await petstore?.close();
      process.exit(code);
    } catch (error) {
      log('error', 'closing failed', { error: reasonOf(error) });
      process.exit(code || 1);
    }
  }

  async function reload(): Promise<void> {
    keys.reload();
    try {
      tls = await readTlsFiles(settings);
      if (tls === undefined) return;
      listening?.setTls(tls);
      log('info', 'TLS files read again');
    } catch (error) {
      log('warn', 'TLS files not read again: the last good pair stays', { error: reasonOf(error) });
    }
  }

  // A second one ends it as a shell names the end by a signal: 128 and its number.
  process.on('SIGINT', () => void end('SIGINT', 0, 130));
  process.on('SIGTERM', () => void end('SIGTERM', 0, 143));
  process.on('SIGHUP', () => void reload());
  process.on('uncaughtException', (error) => {
    log('error', 'a fault of ours', { error: detailOf(error) });
    // Nothing else would say why the process is gone.
    if (logged === 'silent') process.stderr.write(`${detailOf(error)}\n`);
    // Nobody knows what is broken now, but requests under way and animals that wait for the disk may still be fine.
    void end('uncaughtException', 70, 70);
  });

  // Servers come back after a power cut, in whatever order; a signal ends the waiting as it ends the opening.
  const storage = await named.openToServe(log, isTrial);
  await fill?.(storage, log);
  if (clock !== undefined)
    log('warn', 'the clock is set: this is not the time', { now: new Date(clock()).toISOString() });
  petstore = createPetstore({
    keys: keys.verify,
    storage,
    ...(clock && { clock }),
    plugins: [...(logged === 'requests' ? [requestLog(format, keys.verify)] : []), ...plugins.values()],
    log,
    maxBodyBytes,
    ...(baseUrl && { baseUrl }),
    ...(stagingBaseUrl && { stagingBaseUrl }),
  });
  try {
    listening = await petstore.listen({ host, port, ...(tls && { tls }) });
  } catch (error) {
    // The signal that closed it ends the process, too.
    if (isEnding) return;
    await petstore.close();
    throw listenRefusal(error, host, port, isTrial);
  }
  // What a SIGHUP has read meanwhile.
  if (tls !== undefined) listening.setTls(tls);
  const { url } = listening;
  const readyMs = Math.round(performance.now());
  log('info', 'listening', { url, storage: named.text, pets: storage.size, readyMs, pid: process.pid });
  if (keys.devKey !== undefined) process.stdout.write(devBanner(url, keys.devKey, plugins.has('docs')));
}

/**
 * A clock that begins at `--clock` and runs on; undefined without it.
 * @throws Refusal for a storage that outlasts the process: its times would lie.
 */
function readClock(settings: Settings, { text, lasting }: NamedStorage): (() => number) | undefined {
  const setting = settings.find('clock');
  if (setting === undefined) return undefined;
  const from = readTime(setting) - performance.now();
  if (lasting === undefined) return () => Math.floor(from + performance.now());
  throw new Refusal(`${setting.from} would leave wrong times in ${text}; use it with --storage memory: alone`);
}

/** Refuses a port that cannot be had, by having it for a moment. @throws Refusal */
async function tryPort(host: string, port: number, isTrial: boolean): Promise<void> {
  // Closing waits for whoever has connected.
  const server = createServer((socket) => socket.destroy());
  try {
    await once(server.listen(port, host), 'listening');
  } catch (error) {
    throw listenRefusal(error, host, port, isTrial);
  }
  await once(server.close(), 'close');
}

/** The system's error in one line with its mend; any other stays what it is. */
function listenRefusal(thrown: unknown, host: string, port: number, isTrial: boolean): unknown {
  if (!(thrown instanceof Error && 'syscall' in thrown)) return thrown;
  const place = `port ${port} of ${host}`;
  const free = port < 60_000 ? port + 100 : port - 100;
  switch (codeOf(thrown)) {
    case 'EADDRINUSE': {
      const another = isTrial ? `\`PORT=${free} make run\` or --port ${free}` : '--port';
      return new Refusal(`${place} is in use; stop the program that has it, or choose another with ${another}`);
    }
    case 'EACCES':
      return new Refusal(`${place} is not permitted to this user; choose one above 1023 with --port`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Refusal(`${host} is no address of this machine; choose one with --host, such as 127.0.0.1`);
    default:
      return new Refusal(`cannot listen on ${place} (${reasonOf(thrown)}); choose others with --port and --host`);
  }
}

/** A plugin that logs every reply: never a query nor, in a path, what is a key (C40). */
function requestLog(format: LogFormat, verify: (token: string) => string | undefined): Plugin {
  const isKey = (segment: string): boolean => segment.includes('psk_') || verify(segment) !== undefined;
  const withoutKeys = (path: string): string =>
    path
      .split('/', maxSegments)
      .map((segment) => (isKey(segment) ? '…' : segment))
      .join('/');
  return (host) =>
    host.onReply(({ method, route, status, milliseconds, keyName: key }, source) => {
      const { address } = source;
      const path = source.path === route ? route : withoutKeys(source.path);
      const ms = Math.round(milliseconds * 1_000) / 1_000;
      if (format === 'json') return host.log('info', 'request', { method, path, route, status, ms, key, address });
      const words = [method || '-', path || '-', status, `${ms.toFixed(1)} ms`, key ?? '-', address ?? '-'];
      return host.log('info', [...words, ...(route === undefined || route === path ? [] : [route])].join(' '));
    });
}

/** What `--dev` prints: where the docs are, and a line for a POSIX shell that adds an animal and lists them. */
function devBanner(url: string, key: string, hasDocs: boolean): string {
  // A server on all addresses is reached at its own; not every system knows the way to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  // The certificate of a trial is one that nobody has signed.
  const curl = `curl -sS -w '\\n'${url.startsWith('https:') ? ' -k' : ''} -H 'Authorization: Bearer ${key}'`;
  const animal = '{"name":"Rex","categoryId":1,"status":"available"}';
  // Quoted, for some shells read the brackets of an IPv6 address as a pattern.
  const add = `${curl} -H 'Content-Type: application/json' -d '${animal}' '${home}/v1/pets'`;
  return `${hasDocs ? `Page: ${home}/  Docs: ${home}/docs\n` : ''}${add} && ${curl} '${home}/v1/pets'\n`;
}
