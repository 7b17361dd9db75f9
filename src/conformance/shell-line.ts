/** Writes a request as a line for a shell, so that its sender can repeat it. */
import { isUtf8 } from 'node:buffer';
import type { KeyMask, MaskedPart } from './key-mask.js';

/** A request that `curl` can send. */
interface PlainRequest {
  readonly method: string;
  readonly target: string;
  /** The header lines without Host and Content-Length. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** A run of one character that is written as a command, because it would fill the screen. */
const longRun = /([A-Za-z0-9 ])\1{99,}/g;

/**
 * Returns a shell line that sends a request: with `curl`, or with `printf` and `nc` if `curl`
 * cannot send these bytes. The line has `$PETSTORE_KEY` in place of the key.
 *
 * @param bytes The request as a byte string.
 */
export function shellLineOf(bytes: string, url: URL, mask: KeyMask): string {
  const request = plainRequestOf(bytes, url.host);
  return request === undefined ? printfLine(bytes, url, mask) : curlLine(request, url, mask);
}

/** Returns the parts of a request; undefined if `curl` would send other bytes. */
function plainRequestOf(bytes: string, host: string): PlainRequest | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  const [requestLine = '', ...lines] = bytes.slice(0, Math.max(0, headEnd)).split('\r\n');
  const [, method = '', target = ''] = /^([A-Z-]+) ([!-~]+) HTTP\/1\.1$/.exec(requestLine) ?? [];
  const body = bytes.slice(headEnd + 4);
  if (method === '' || method === 'CONNECT') return undefined;
  if (!isUtf8(Buffer.from(body, 'latin1')) || /[\0-\x1f\x7f]/.test(body)) return undefined;

  const framing = `Content-Length: ${body.length}`;
  const own = [`Host: ${host}`, framing];
  const isPlain = (line: string) =>
    own.includes(line) ||
    (/^[\w-]+: ?[ -~]*$/.test(line) &&
      !/^(host|content-length|transfer-encoding|expect|connection|upgrade):/i.test(line));
  const hasFraming = body === '' || lines.includes(framing);
  if (!hasFraming || !lines.includes(`Host: ${host}`) || !lines.every(isPlain)) return undefined;
  return { method, target, headers: lines.filter((line) => !own.includes(line)), body };
}

function curlLine({ method, target, headers, body }: PlainRequest, url: URL, mask: KeyMask) {
  const words = ['curl -sS -i --max-time 10 --path-as-is -g'];
  if (method === 'HEAD') words.push('-I');
  else if (method !== (body === '' ? 'GET' : 'POST')) words.push(`-X ${method}`);

  for (const line of headers) {
    // curl removes a header without a value; a semicolon keeps it.
    const header = line.replace(/: ?$/, ';');
    words.push(`-H ${shellWord(header, mask)}`);
  }
  if (body !== '') {
    if (!headers.some((line) => /^content-type:/i.test(line))) words.push("-H 'Content-Type:'");
    words.push(`--data-binary ${shellWord(Buffer.from(body, 'latin1').toString('utf8'), mask)}`);
  }

  if (target.startsWith('/')) words.push(shellWord(`${url.origin}${target}`, mask));
  else words.push(`--request-target ${shellWord(target, mask)}`, shellWord(url.origin, mask));
  return words.join(' ');
}

/** Returns a word of a shell that stands for a text. */
function shellWord(text: string, mask: KeyMask): string {
  const quoted = (part: string) =>
    /^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`;
  const words = partsOf(text, mask).map((part) =>
    typeof part === 'string' ? quoted(part) : `"${part.expression}"`,
  );
  return words.join('') || "''";
}

function printfLine(bytes: string, url: URL, mask: KeyMask): string {
  const words: string[] = [];
  const escaped = (part: string) =>
    part
      .replaceAll('\\', '\\\\')
      .replaceAll('%', '%%')
      .replaceAll('\r', '\\r')
      .replaceAll('\n', '\\n')
      .replace(/[^ -~]|'/g, (byte) => `\\${byte.charCodeAt(0).toString(8).padStart(3, '0')}`);

  const format = partsOf(bytes, mask)
    .map((part) => {
      if (typeof part === 'string') return escaped(part);
      words.push(`"${part.expression}"`);
      return '%s';
    })
    .join('');

  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const receiver =
    url.protocol === 'https:'
      ? `openssl s_client -quiet -connect ${url.hostname}:${port}`
      : `nc -w 10 ${host} ${port}`;
  return [`printf '${format}'`, ...words, `| ${receiver}`].join(' ');
}

/** Splits a text at the forms of the key, and at long runs of one character. */
function partsOf(text: string, mask: KeyMask): readonly MaskedPart[] {
  return mask.split(text).flatMap((part) => (typeof part === 'string' ? splitRuns(part) : [part]));
}

/** Splits a text at its long runs of one character, each of which becomes a shell command. */
function splitRuns(text: string): readonly MaskedPart[] {
  const parts: MaskedPart[] = [];
  let from = 0;
  for (const { 0: run, 1: char = '', index } of text.matchAll(longRun)) {
    parts.push(text.slice(from, index));
    parts.push({ expression: `$(head -c ${run.length} /dev/zero | tr '\\0' '${char}')` });
    from = index + run.length;
  }
  parts.push(text.slice(from));
  return parts.filter((part) => part !== '');
}
