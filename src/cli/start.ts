/** Runs a server from its options to its end; HTTP and storages are the library's. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import querystring from 'node:querystring';
import { setTimeout as wait } from 'node:timers/promises';
import {
  codeOf,
  createPetstore,
  detailOf,
  largestBodyBytes,
  memoryStorage,
  reasonOf,
  type Listening,
  type Log,
  type Petstore,
  type Plugin,
} from '../index.js';
import { openApiKeys } from './keys.js';
import { logTo, Refusal } from './output.js';
import {
  read,
  readTlsFiles,
  readWholeNumber,
  readWord,
  type Setting,
  type Settings,
  timeOf,
} from './settings.js';
import { readStorage, type NamedStorage } from './storages.js';

/** How long closing may take, after the drain: Docker, for one, kills a process after 10 s. */
const stopTimeoutMs = 9_500;

/**
 * Checks options, files, keys and plugin modules before it opens the storage. @throws Refusal;
 * PetstoreError
 */
export async function start(settings: Settings): Promise<void> {
  // As `listen` does, but before any file is made.
  if ('Bun' in globalThis || 'Deno' in globalThis)
    throw new Refusal(
      'a server needs Node; on this runtime give petstore.fetch to Bun.serve or Deno.serve',
    );
  const isDev = settings.find('--dev') !== undefined;
  const hostRule = 'an address or a host name such as 127.0.0.1 or ::1';
  const host = read(
    settings.get('--host'),
    (text) => /^[0-9A-Za-z_.:%-]+$/.test(text) && text,
    hostRule,
  );
  const port = readWholeNumber(settings.get('--port'), 0, 65_535);
  const named = await readStorage(settings.get('--storage'));
  const maxBodyBytes = readWholeNumber(settings.get('--max-body-bytes'), 1, largestBodyBytes);
  const drainSeconds = readWholeNumber(settings.get('--drain'), 0, 3_600);
  const baseUrl = readUrl(settings.find('--base-url'));
  const stagingBaseUrl = readUrl(settings.find('--staging-base-url'));
  const clock = readClock(settings.find('--clock'), named);
  const seed = settings.find('--seed');
  const seeds = seed && (await (await import('./import.js')).readSeed(seed.text));
  let tls = await readTlsFiles(settings);
  const logged = readWord(settings.get('--log', isDev ? 'requests' : 'info'), [
    'silent',
    'info',
    'requests',
  ]);
  const format = readWord(settings.get('--log-format', process.stdout.isTTY ? 'text' : 'json'), [
    'text',
    'json',
  ]);
  const log: Log = logged === 'silent' ? () => undefined : logTo(process.stdout, format);
  const isAsked =
    isDev ||
    settings.find('--plugin') !== undefined ||
    settings.find('--cors-origin') !== undefined;
  const plugins = isAsked
    ? await (await import('./plugins.js')).loadPlugins(settings)
    : new Map<string, Plugin>();
  // A port in use must leave no new file. Later starts do not try it: a client that connects then
  // would be cut off.
  if (isDev || named?.place === '') await tryPort(host, port).catch(refusePort);
  const apiKeys = await openApiKeys(settings, log);

  let petstore: Petstore | undefined;
  let listening: Listening | undefined;
  let isEnding = false;

  function refusePort(error: unknown): never {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    const problem =
      codeOf(error) === 'EADDRINUSE' ? 'is in use' : `cannot be listened on (${reasonOf(error)})`;
    const free = port < 60_000 ? port + 100 : port - 100;
    const another = isDev ? `\`PORT=${free} make run\` or --port ${free}` : '--host or --port';
    throw new Refusal(`port ${port} of ${host} ${problem}; choose another with ${another}`);
  }

  async function end(signal: string, code: number, hurriedCode: number) {
    if (isEnding) process.exit(hurriedCode);
    isEnding = true;
    if (code === 0 && listening !== undefined && drainSeconds > 0) {
      log('info', 'draining', { signal, seconds: drainSeconds });
      petstore?.drain();
      await wait(1_000 * drainSeconds);
    }
    log('info', 'stopping', { signal });
    // Waits for no request, plugin or disk that hangs.
    setTimeout(() => {
      log('error', 'closing takes too long: ended without it', { milliseconds: stopTimeoutMs });
      process.exit(1);
    }, stopTimeoutMs);
    // A storage that is still opening is left as by a crash: it may open for ever.
    await petstore?.close().catch((error: unknown) => {
      log('error', 'closing failed', { error: reasonOf(error) });
      code ||= 1;
    });
    process.exit(code);
  }

  async function reload() {
    apiKeys.reload();
    try {
      tls = await readTlsFiles(settings);
      if (tls === undefined) return;
      listening?.setTls(tls);
      log('info', 'TLS files read again');
    } catch (error) {
      log('warn', 'TLS files not read again: the last good pair stays', { error: reasonOf(error) });
    }
  }

  // A second signal ends it at once, with the exit code that a shell gives a signal: 128 and its
  // number.
  process.on('SIGINT', () => void end('SIGINT', 0, 130));
  process.on('SIGTERM', () => void end('SIGTERM', 0, 143));
  process.on('SIGHUP', () => void reload());
  process.on('uncaughtException', (error) => {
    log('error', 'a fault of ours', { error: detailOf(error) });
    if (logged === 'silent') process.stderr.write(`${detailOf(error)}\n`);
    // Closed as by a signal: other requests may still be answered, and animals that wait for the
    // disk be kept.
    void end('uncaughtException', 70, 70);
  });

  const open = async () =>
    (await named?.open(isDev ? 'dev' : 'serve', log)) ??
    memoryStorage({ pets: seeds?.drafts ?? [] });
  let storage = await open();
  if (seeds !== undefined) {
    let isSeeded = named === undefined;
    if (named !== undefined && (await storage.list({ limit: 1 })).length === 0) {
      // All of it is one commit, which is not the open storage's to make.
      await storage.close();
      isSeeded = await named.seed(seeds.drafts, seeds.source, log);
      storage = await open();
    }
    const [said, pets] = isSeeded
      ? ['seeded', seeds.drafts.length]
      : ['not seeded: the storage holds animals', undefined];
    log('info', said, { file: seed?.text, pets });
  }
  const devKey = isDev ? await apiKeys.addDevKey() : undefined;
  if (clock !== undefined)
    log('warn', 'the clock is set: this is not the time', { now: new Date(clock()).toISOString() });
  const requests = logged === 'requests' ? [requestLog(format === 'json', apiKeys.verify)] : [];
  petstore = createPetstore({
    keys: apiKeys.verify,
    storage,
    ...(clock && { clock }),
    plugins: [...requests, ...plugins.values()],
    log,
    maxBodyBytes,
    ...(baseUrl && { baseUrl }),
    ...(stagingBaseUrl && { stagingBaseUrl }),
  });
  try {
    listening = await petstore.listen({ host, port, ...(tls && { tls }) });
  } catch (error) {
    // A signal closed the petstore; `end` exits.
    if (isEnding) return;
    await petstore.close();
    refusePort(error);
  }
  // A SIGHUP may have read others meanwhile.
  if (tls !== undefined) listening.setTls(tls);
  const [text, readyMs] = [named?.text ?? 'memory:', Math.round(performance.now())];
  log('info', 'listening', {
    url: listening.url,
    storage: text,
    pets: storage.size,
    readyMs,
    pid: process.pid,
  });
  if (devKey !== undefined)
    process.stdout.write(devBanner(listening.url, devKey, plugins.has('docs')));
}

function readUrl(setting: Setting | undefined) {
  const parse = (text: string) => /^https?:\/\//i.test(text) && URL.canParse(text) && text;
  return setting && read(setting, parse, 'an absolute URL such as https://api.example.com/v1');
}

/** A clock that begins at `--clock` and runs on. @throws Refusal where wrong times would last. */
function readClock(setting: Setting | undefined, named: NamedStorage | undefined) {
  if (setting === undefined) return undefined;
  if (named !== undefined)
    throw new Refusal(
      `${setting.from} would leave wrong times in ${named.text}; use it with --storage memory: alone`,
    );
  const parse = (text: string) => {
    const time = /T..:..:../i.test(text) ? timeOf(text.toUpperCase()) : NaN;
    return time >= 0 && time;
  };
  const at =
    read(setting, parse, 'a time of RFC 3339 from 1970 on, such as 2030-12-05T23:59:50Z') -
    performance.now();
  return () => Math.floor(at + performance.now());
}

async function tryPort(host: string, port: number): Promise<void> {
  // `close` waits for those who have connected.
  const server = createServer((socket) => socket.destroy());
  await once(server.listen(port, host), 'listening');
  await once(server.close(), 'close');
}

/**
 * Logs every reply: no query, at most 19 segments of a path, and none that is a key or holds a
 * `psk_` (C40).
 */
function requestLog(isJson: boolean, verify: (token: string) => string | undefined): Plugin {
  const isKey = (text: string) => text.includes('psk_') || verify(text) !== undefined;
  const shown = (segment: string) =>
    [segment, querystring.unescape(segment)].some(isKey) ? '…' : segment;
  return (host) =>
    host.onReply(
      ({ method, route, status, milliseconds, keyName: key }, { path: asked, address }) => {
        const path = asked === route ? route : asked.split('/', 20).map(shown).join('/');
        const ms = Math.round(milliseconds * 1_000) / 1_000;
        if (isJson)
          return host.log('info', 'request', { method, path, route, status, ms, key, address });
        const words = [
          method || '-',
          path || '-',
          status,
          `${ms.toFixed(1)} ms`,
          key ?? '-',
          address ?? '-',
        ];
        return host.log(
          'info',
          [...words, ...(route === undefined || route === path ? [] : [route])].join(' '),
        );
      },
    );
}

function devBanner(url: string, key: string, hasDocs: boolean): string {
  // Not every system connects to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  const curl = `curl -sS -w '\\n'${url.startsWith('https:') ? ' -k' : ''} -H 'Authorization: Bearer ${key}'`;
  const animal = `-H 'Content-Type: application/json' -d '{"name":"Rex","categoryId":1,"status":"available"}'`;
  // In quotes, as some shells read the brackets of an IPv6 address as a pattern.
  const line = `${curl} ${animal} '${home}/v1/pets' && ${curl} '${home}/v1/pets'\n`;
  return hasDocs ? `Page: ${home}/  Docs: ${home}/docs\n${line}` : line;
}
