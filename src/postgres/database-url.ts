/** Validates the URL of a database and its parameters. */
import { statSync } from 'node:fs';
import { reasonOf } from '../errors.js';

/** The parameters of a URL that name TLS files. `pg` reads the files whenever it connects. */
const tlsFiles = ['sslrootcert', 'sslcert', 'sslkey'] as const;

/** The parameters that a URL may have, and the form of each. */
const parameters: Readonly<Record<string, RegExp>> = {
  sslmode: /^(disable|no-verify|verify-full|verify-ca|require|prefer)$/,
  sslrootcert: /./,
  sslcert: /./,
  sslkey: /./,
  pool_max: /^([1-9][0-9]{0,2}|1000)$/,
  host: /^[^,]+$/,
  options: /./,
  application_name: /./,
};

/** The parameters that libpq or `pg` knows and petstore refuses, with what to do instead. */
const unsupported: Readonly<Record<string, string>> = {
  user: 'write it in front of the host',
  password: 'write it in front of the host',
  port: 'write it after the host',
  dbname: 'write it after the host, as /name',
  hostaddr: 'write the address as the host',
  service: 'write its settings into the URL',
  servicefile: 'write its settings into the URL',
  passfile: 'set PGPASSFILE in the environment',
  target_session_attrs: 'name the primary alone, or a proxy that finds it',
  load_balance_hosts: 'name one host, or a proxy',
  connect_timeout: 'a connection has 2 s',
  client_encoding: 'it is always UTF8',
  ssl: 'write sslmode=verify-full or sslmode=disable',
  uselibpqcompat: 'write sslmode=verify-full or sslmode=no-verify',
  max: 'write pool_max',
  ...Object.fromEntries(
    (
      'channel_binding fallback_application_name gssdelegation gssencmode gsslib keepalives ' +
      'keepalives_count keepalives_idle keepalives_interval krbsrvname replication require_auth ' +
      'requirepeer requiressl ssl_max_protocol_version ssl_min_protocol_version sslcertmode ' +
      'sslcompression sslcrl sslcrldir sslnegotiation sslpassword sslsni statement_timeout ' +
      'lock_timeout tcp_user_timeout'
    )
      .split(' ')
      .map((name) => [name, 'leave it out']),
  ),
};

const escapes =
  'in user and password write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %';

/** True if a text begins as the URL of a PostgreSQL database. */
export function isDatabaseUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text);
}

/**
 * Returns what is wrong with the URL of a database, as a clause; undefined if it is valid. The
 * clause never repeats a value, which may be a part of a password.
 */
export function databaseUrlProblem(text: string): string | undefined {
  if (!isDatabaseUrl(text)) return 'it must begin with postgres://';

  const authority = /^\w+:\/\/([^/?#]*)/.exec(text)?.[1] ?? '';
  if (authority.slice(authority.lastIndexOf('@') + 1).includes(','))
    return 'it names several hosts; name one, or a proxy';

  const url = URL.canParse(text) ? new URL(text) : undefined;
  // An unescaped / ? or # in a password ends the host, so that part of the password is taken for
  // the host, which is logged. The @ before the true host then stands in the path, query or
  // fragment.
  const isEscaped = url && !`${url.pathname}${url.search}${url.hash}`.includes('@');
  if (!isEscaped || !canDecode(text))
    return `it must have the form postgres://user:password@host:5432/name; ${escapes}`;
  if (text.includes('#')) return `nothing may follow a #; ${escapes}`;

  for (const name of url.searchParams.keys()) {
    const problem = parameterProblem(name, url.searchParams.getAll(name));
    if (problem !== undefined) return problem;
  }
  const isPaired = url.searchParams.has('sslcert') === url.searchParams.has('sslkey');
  return isPaired ? undefined : 'sslcert and sslkey must be given together';
}

function canDecode(text: string) {
  try {
    return decodeURIComponent(text) !== '';
  } catch {
    return false;
  }
}

function parameterProblem(name: string, values: readonly string[]) {
  const form = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
  const instead = Object.hasOwn(unsupported, name) ? unsupported[name] : undefined;

  if (form === undefined && instead !== undefined)
    return `its parameter ${name} is not supported; ${instead}`;
  if (form === undefined) {
    const shown = /^\w{1,40}$/.test(name) ? ` ${name}` : '';
    return `its parameter${shown} is unknown; ${suggestionFor(name)}`;
  }

  if (values.length > 1) return `its parameter ${name} is given more than once`;
  if (values.every((value) => form.test(value))) return undefined;
  if (name === 'sslmode') return 'its sslmode must be disable, verify-full or no-verify';
  if (name === 'pool_max') return 'its pool_max must be an integer from 1 to 1000';
  if (name === 'host') return 'its parameter host must be one host';
  return `its parameter ${name} has no value`;
}

/** Returns the parameters that share the longest prefix with a name; all if none shares one. */
function suggestionFor(name: string) {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');
  const known = Object.keys(parameters);
  const lengths = known.map((other) => sharedLength(plain(name), plain(other)));
  const longest = Math.max(...lengths);

  const nearest = known.filter((_, index) => lengths[index] === longest);
  return longest === 0 ? `use ${known.join(', ')}` : `did you mean ${nearest.join(' or ')}?`;
}

function sharedLength(one: string, other: string) {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}

/** Returns the `pool_max` of a URL; undefined if the URL has none or is not valid. */
export function poolMaxOf(text: string): number | undefined {
  if (databaseUrlProblem(text) !== undefined) return undefined;

  const value = new URL(text).searchParams.get('pool_max');
  return value === null ? undefined : Number(value);
}

/**
 * Returns why a TLS file of a URL cannot be read; undefined if all can. Only regular files are
 * accepted, because reading a pipe or a device could block the process.
 */
export function tlsFileProblem({ searchParams }: URL): string | undefined {
  for (const name of tlsFiles)
    for (const path of searchParams.getAll(name))
      try {
        if (!statSync(path).isFile()) return `${name}=${path} is not a regular file`;
      } catch (error) {
        return `${name}=${path} cannot be read (${reasonOf(error)})`;
      }
  return undefined;
}

/** Converts a valid URL to the form that the driver needs. */
export function driverUrl(text: string): URL {
  const url = new URL(text);
  url.searchParams.delete('pool_max');
  // `pg` treats these modes as verify-full, but with ten lines of warning.
  if (/^(prefer|require|verify-ca)$/.test(url.searchParams.get('sslmode') ?? ''))
    url.searchParams.set('sslmode', 'verify-full');
  return url;
}

/**
 * Returns the URL, without its TLS files if one of them cannot be read now. A connection without
 * them fails, and the next connection tries the files again. With a file that cannot be read, a
 * client of `pg` would throw outside of every promise.
 */
export function readableUrl(text: string): string {
  const url = new URL(text);
  if (tlsFileProblem(url) === undefined) return text;

  for (const name of tlsFiles) url.searchParams.delete(name);
  // These files turn TLS on, even without a mode.
  if (!url.searchParams.has('sslmode')) url.searchParams.set('sslmode', 'verify-full');
  return url.href;
}

/**
 * Describes what a text must be, for a message; undefined if it is a valid URL of a database.
 * @deprecated use databaseUrlProblem; removed in 2.0
 */
export function wantedUrl(text: string): string | undefined {
  const problem = databaseUrlProblem(text);
  return problem && `a valid URL of a database: ${problem}`;
}
