/** Runs a server from its options to its end; HTTP and storages are the library's. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, createPetstore, detailOf, largestBodyBytes, reasonOf } from '../index.js';
import type { Listening, Log, Petstore, Plugin } from '../index.js';
import { readSeed } from './import.js';
import { openKeys } from './keys.js';
import { logTo, Refusal } from './output.js';
import { loadPlugins } from './plugins.js';
import { readHost, readLogFormat, readTime, readTlsFiles, readUrl, readWholeNumber, readWord } from './settings.js';
import type { Settings } from './settings.js';
import { readStorage, type NamedStorage } from './storages.js';

/** After the drain; who stops us waits 10 s. */
const stopTimeoutMs = 9_500;
/** Of a path in the log: each is compared with the keys. */
const maxSegments = 20;

/** Makes nothing on the disk before all else is found good. @throws Refusal; PetstoreError `storage_…` */
export async function start(settings: Settings): Promise<void> {
  const isTrial = settings.has('--dev');
  const host = readHost(settings.get('--host'));
  const port = readWholeNumber(settings.get('--port'), 0, 65_535);
  const named = await readStorage(settings.get('--storage'));
  const maxBodyBytes = readWholeNumber(settings.get('--max-body-bytes'), 1, largestBodyBytes);
  const drainSeconds = readWholeNumber(settings.get('--drain'), 0, 3_600);
  const baseUrl = readUrl(settings.find('--base-url'));
  const stagingBaseUrl = readUrl(settings.find('--staging-base-url'));
  const clock = readClock(settings, named);
  const seed = settings.find('--seed');
  const fill = seed && (await readSeed(seed.text));
  let tls = await readTlsFiles(settings);
  const logged = readWord(settings.get('--log', isTrial ? 'requests' : 'info'), ['silent', 'info', 'requests']);
  const format = readLogFormat(settings, process.stdout);
  const log: Log = logged === 'silent' ? () => undefined : logTo(process.stdout, format);
  const plugins = await loadPlugins(settings);
  // Only before a first start: a balancer would hear that a port which is tried answers nobody.
  if (isTrial || named.lasting?.isNew) await tryPort(host, port).catch(refuse);
  const keys = await openKeys(settings, log);

  let petstore: Petstore | undefined;
  let listening: Listening | undefined;
  let isEnding = false;

  function refuse(error: unknown): never {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    const place = `port ${port} of ${host}`;
    const code = codeOf(error);
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
      throw new Refusal(`${host} is no address of this machine; choose one with --host, such as 127.0.0.1`);
    if (code === 'EACCES')
      throw new Refusal(`${place} is not permitted to this user; choose one above 1023 with --port`);
    if (code !== 'EADDRINUSE')
      throw new Refusal(`cannot listen on ${place} (${reasonOf(error)}); choose others with --port and --host`);
    const free = port < 60_000 ? port + 100 : port - 100;
    const another = isTrial ? `\`PORT=${free} make run\` or --port ${free}` : '--port';
    throw new Refusal(`${place} is in use; stop the program that has it, or choose another with ${another}`);
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
    // A request, plugin or disk may hang.
    setTimeout(() => {
      log('error', 'closing takes too long: ended without it', { milliseconds: stopTimeoutMs });
      process.exit(1);
    }, stopTimeoutMs);
    try {
      // A storage that still opens is left as by a crash: opening may take for ever.
      await petstore?.close();
      process.exit(code);
    } catch (error) {
      log('error', 'closing failed', { error: reasonOf(error) });
      process.exit(code || 1);
    }
  }

  async function reload() {
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

  // A second signal ends it as a shell would say: 128 and its number.
  process.on('SIGINT', () => void end('SIGINT', 0, 130));
  process.on('SIGTERM', () => void end('SIGTERM', 0, 143));
  process.on('SIGHUP', () => void reload());
  process.on('uncaughtException', (error) => {
    log('error', 'a fault of ours', { error: detailOf(error) });
    if (logged === 'silent') process.stderr.write(`${detailOf(error)}\n`);
    // Requests under way and animals that wait for the disk may be fine.
    void end('uncaughtException', 70, 70);
  });

  const storage = await named.openToServe(log, isTrial);
  await fill?.(storage, log);
  const devKey = isTrial ? await keys.addDevKey() : undefined;
  if (clock !== undefined)
    log('warn', 'the clock is set: this is not the time', { now: new Date(clock()).toISOString() });
  petstore = createPetstore({
    keys: keys.verify,
    storage,
    ...(clock && { clock }),
    plugins: [...(logged === 'requests' ? [requestLog(format === 'json', keys.verify)] : []), ...plugins.values()],
    log,
    maxBodyBytes,
    ...(baseUrl && { baseUrl }),
    ...(stagingBaseUrl && { stagingBaseUrl }),
  });
  try {
    listening = await petstore.listen({ host, port, ...(tls && { tls }) });
  } catch (error) {
    // The signal that closed it ends the process.
    if (isEnding) return;
    await petstore.close();
    refuse(error);
  }
  // Of a SIGHUP meanwhile.
  if (tls !== undefined) listening.setTls(tls);
  const { url } = listening;
  const readyMs = Math.round(performance.now());
  log('info', 'listening', { url, storage: named.text, pets: storage.size, readyMs, pid: process.pid });
  if (devKey !== undefined) process.stdout.write(devBanner(url, devKey, plugins.has('docs')));
}

/** A clock that begins at `--clock` and runs on. @throws Refusal where wrong times would last. */
function readClock(settings: Settings, { text, lasting }: NamedStorage) {
  const setting = settings.find('--clock');
  if (setting === undefined) return undefined;
  const from = readTime(setting) - performance.now();
  if (lasting === undefined) return () => Math.floor(from + performance.now());
  throw new Refusal(`${setting.from} would leave wrong times in ${text}; use it with --storage memory: alone`);
}

async function tryPort(host: string, port: number): Promise<void> {
  // Closing waits for whoever has connected.
  const server = createServer((socket) => socket.destroy());
  await once(server.listen(port, host), 'listening');
  await once(server.close(), 'close');
}

/** Logs every reply: never a query nor, in a path, what is a key (C40). */
function requestLog(isJson: boolean, verify: (token: string) => string | undefined): Plugin {
  const shown = (segment: string) => (segment.includes('psk_') || verify(segment) !== undefined ? '…' : segment);
  return (host) =>
    host.onReply(({ method, route, status, milliseconds, keyName: key }, { path: asked, address }) => {
      const path = asked === route ? route : asked.split('/', maxSegments).map(shown).join('/');
      const ms = Math.round(milliseconds * 1_000) / 1_000;
      if (isJson) return host.log('info', 'request', { method, path, route, status, ms, key, address });
      const words = [method || '-', path || '-', status, `${ms.toFixed(1)} ms`, key ?? '-', address ?? '-'];
      return host.log('info', [...words, ...(route === undefined || route === path ? [] : [route])].join(' '));
    });
}

function devBanner(url: string, key: string, hasDocs: boolean): string {
  // Not every system knows the way to 0.0.0.0.
  const home = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  const curl = `curl -sS -w '\\n'${url.startsWith('https:') ? ' -k' : ''} -H 'Authorization: Bearer ${key}'`;
  const animal = '{"name":"Rex","categoryId":1,"status":"available"}';
  // Some shells read the brackets of an IPv6 address as a pattern.
  const add = `${curl} -H 'Content-Type: application/json' -d '${animal}' '${home}/v1/pets'`;
  return `${hasDocs ? `Page: ${home}/  Docs: ${home}/docs\n` : ''}${add} && ${curl} '${home}/v1/pets'\n`;
}
