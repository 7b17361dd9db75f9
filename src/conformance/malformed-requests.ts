/**
 * Malformed requests (C42), which are 400 and end the connection, and valid requests of an unusual
 * form. The tests of this repository use the same tables, and also send each request byte by byte.
 */
import type { Level } from './levels.js';
import type { TestedServer } from './tested-server.js';

/** The bytes of requests, by the names of their faults or forms. */
export type NamedRequests = Readonly<Record<string, string>>;

/** Returns malformed requests: those that are 400 by RFC 9112, and those that the contract adds. */
export function malformedRequests({
  basePath,
  key,
}: Pick<TestedServer, 'basePath' | 'key'>): Readonly<
  Record<Exclude<Level, 'specification'>, NamedRequests>
> {
  const path = `${basePath}/pets`;
  const head = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
  const body = '{"name":"a","categoryId":1}';
  const chunks = `1b\r\n${body}\r\n0\r\n\r\n`;

  const get = (lines: string): string => `GET ${path} HTTP/1.1\r\n${head}${lines}\r\n`;
  const post = (lines: string, rest: string): string =>
    `POST ${path} HTTP/1.1\r\n${head}${lines}\r\n\r\n${rest}`;
  const target = (text: string): string => `GET ${text} HTTP/1.1\r\n${head}\r\n`;
  const hosts = (lines: string): string =>
    `GET ${path} HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n${lines}\r\n`;

  return {
    http: {
      'no Host': hosts(''),
      'two Hosts': hosts('Host: a\r\nHost: a\r\n'),
      'a Host with a path': hosts('Host: a/b\r\n'),
      'a Host with a space': hosts('Host: a b\r\n'),
      'TE chunked, gzip': post('Transfer-Encoding: chunked, gzip', chunks),
      'TE identity': post('Transfer-Encoding: identity', ''),
      'TE with a space before the colon': post('Transfer-Encoding : chunked', chunks),
      'two CL, different': post('Content-Length: 27\r\nContent-Length: 5', body),
      'CL -27': post('Content-Length: -27', body),
      'CL hexadecimal': post('Content-Length: 0x1b', body),
      'CL with a space before the colon': post('Content-Length : 27', body),
      'a line of garbage': 'hello\r\n\r\n',
    },

    full: {
      'two Hosts, one empty': hosts('Host: a\r\nHost:\r\n'),
      'a Host with a scheme': hosts('Host: http://a\r\n'),
      'a Host with a user': hosts('Host: u@a\r\n'),
      'a Host with a bad port': hosts('Host: a:b\r\n'),
      'a Host with two ports': hosts('Host: a:1:2\r\n'),
      'a Host with half a bracket': hosts('Host: [::1\r\n'),
      'a Host with an invalid IPv6 address': hosts('Host: [zz]\r\n'),
      'a Host of IPv6 and more': hosts('Host: [::1]a\r\n'),
      'a Host with a bad escape': hosts('Host: a%zz\r\n'),
      'a Host with half an escape': hosts('Host: a%4\r\n'),
      'a Host list': hosts('Host: a, b\r\n'),
      'a Host beyond ASCII': hosts('Host: \xe9\r\n'),
      'no Host in absolute form': hosts('').replace(path, `http://a${path}`),
      'no Host on an unknown path': 'GET /nowhere HTTP/1.1\r\n\r\n',
      'no Host with a method that is not allowed': `DELETE ${path} HTTP/1.1\r\n\r\n`,
      'CONNECT without a Host': 'CONNECT a:443 HTTP/1.1\r\n\r\n',
      'CL.TE': post('Content-Length: 6\r\nTransfer-Encoding: chunked', '0\r\n\r\nG'),
      'TE.CL': post(
        'Transfer-Encoding: chunked\r\nContent-Length: 4',
        '5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n',
      ),
      'TE.TE': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: x', chunks),
      'TE twice': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', chunks),
      'TE empty and chunked': post('Transfer-Encoding:\r\nTransfer-Encoding: chunked', chunks),
      'TE empty': post('Transfer-Encoding:', chunks),
      'TE gzip, chunked': post('Transfer-Encoding: gzip, chunked', chunks),
      'TE chunked, identity': post('Transfer-Encoding: chunked, identity', chunks),
      'TE identity with CL': post('Transfer-Encoding: identity\r\nContent-Length: 27', body),
      'TE xchunked': post('Transfer-Encoding: xchunked', chunks),
      'TE chunked;q=1': post('Transfer-Encoding: chunked;q=1', chunks),
      'TE "chunked"': post('Transfer-Encoding: "chunked"', chunks),
      'TE with a vertical tab': post('Transfer-Encoding: \x0bchunked', chunks),
      'TE by obs-fold': post('Transfer-Encoding:\r\n chunked', chunks),
      'TE of a GET': get('Transfer-Encoding: gzip\r\n'),
      'TE in HTTP/1.0': post('Transfer-Encoding: chunked', chunks).replace('1.1', '1.0'),
      'two CL, equal': post('Content-Length: 27\r\nContent-Length: 27', body),
      'CL list': post('Content-Length: 27, 27', body),
      'CL +27': post('Content-Length: +27', body),
      'CL -0': post('Content-Length: -0', ''),
      'CL 2 7': post('Content-Length: 2 7', body),
      'CL 27.0': post('Content-Length: 27.0', body),
      'CL empty': post('Content-Length:', body),
      'CL over 2^64': post('Content-Length: 18446744073709551616', body),
      'CL over 2^70': post('Content-Length: 1180591620717411303424', body),
      'CL of a GET, bad': get('Content-Length: x\r\n'),
      'chunk size empty': post('Transfer-Encoding: chunked', `\r\n${body}\r\n0\r\n\r\n`),
      'chunk size 0x1b': post('Transfer-Encoding: chunked', `0x1b\r\n${body}\r\n0\r\n\r\n`),
      'chunk size -1': post('Transfer-Encoding: chunked', `-1\r\n${body}\r\n0\r\n\r\n`),
      'chunk size +1b': post('Transfer-Encoding: chunked', `+1b\r\n${body}\r\n0\r\n\r\n`),
      'chunk size with a space': post('Transfer-Encoding: chunked', `1b \r\n${body}\r\n0\r\n\r\n`),
      'chunk size over 2^64': post(
        'Transfer-Encoding: chunked',
        `10000000000000000\r\n${body}\r\n0\r\n\r\n`,
      ),
      'chunk size that ends with LF': post(
        'Transfer-Encoding: chunked',
        `1b\n${body}\r\n0\r\n\r\n`,
      ),
      'chunk data that ends with LF': post(
        'Transfer-Encoding: chunked',
        `1b\r\n${body}\n0\r\n\r\n`,
      ),
      'chunk too long': post('Transfer-Encoding: chunked', `1a\r\n${body}\r\n0\r\n\r\n`),
      'chunk too short': post('Transfer-Encoding: chunked', `1c\r\n${body}\r\n0\r\n\r\n`),
      'chunk extension with LF': post(
        'Transfer-Encoding: chunked',
        `1b;a\nb\r\n${body}\r\n0\r\n\r\n`,
      ),
      'chunk extension without end': post('Transfer-Encoding: chunked', `1b;${'a'.repeat(20_000)}`),
      'trailer without a colon': post(
        'Transfer-Encoding: chunked',
        `1b\r\n${body}\r\n0\r\nfoo bar\r\n\r\n`,
      ),
      'trailer Content-Length': post(
        'Transfer-Encoding: chunked',
        `1b\r\n${body}\r\n0\r\nContent-Length: 5\r\n\r\n`,
      ),
      'obs-fold': get('X: a\r\n b\r\n'),
      'obs-fold by tab': get('X: a\r\n\tb\r\n'),
      'a space before the first header': `GET ${path} HTTP/1.1\r\n ${head}\r\n`,
      'a space before the colon': get('X : a\r\n'),
      'a space in a name': get('X Y: a\r\n'),
      'no colon': get('XY\r\n'),
      'no name': get(': a\r\n'),
      'a name beyond ASCII': get('X\xe9: a\r\n'),
      'a name with brackets': get('X[]: a\r\n'),
      'NUL in a name': get('X\0: a\r\n'),
      'NUL in a value': get('X: a\0b\r\n'),
      'a control character in a value': get('X: a\x01b\r\n'),
      'DEL in a value': get('X: a\x7fb\r\n'),
      'bare CR in a value': get('X: a\rb\r\n'),
      'bare CR for a line end': get('X: a\rY: b\r\n'),
      'bare LF for a line end': get('X: a\nY: b\r\n'),
      'bare LF after the request line': `GET ${path} HTTP/1.1\n${head}\r\n`,
      'bare LF at the end': `GET ${path} HTTP/1.1\r\n${head}\n`,
      'bare LF everywhere': `GET ${path} HTTP/1.1\nHost: a\nAuthorization: Bearer ${key}\n\n`,
      'a tab in the target': target(`${path}\tx`),
      'a form feed in the target': target(`${path}\x0cx`),
      'a space in the target': target(`${path} x`),
      'NUL in the target': target(`${path}\0x`),
      'DEL in the target': target(`${path}\x7fx`),
      'Latin-1 in the target': target(`${path}\xe9x`),
      'UTF-8 in the query': target(`${path}?a=\xc3\xa9`),
      'a target with no slash': target(path.slice(1)),
      'no target': target(''),
      'an absolute target without a host': target('http:///pets'),
      'an absolute target of nothing': target('HTTP://'),
      'an absolute target with a port alone': target('http://:80/pets'),
      'an absolute target with a query alone': target('http://?a'),
      'an unknown method, and no target': 'BREW\r\n',
      'an unknown method, and no version': 'BREW /\r\n\r\n',
      'an unknown method of HTTP/9.9': 'BREW / HTTP/9.9\r\n\r\n',
      'a method with a bracket': 'B(EW / HTTP/1.1\r\n\r\n',
      'an unknown method, and two spaces': 'BREW  HTTP/1.1\r\n\r\n',
      'an unknown method, and a space at the end': 'BREW / HTTP/1.1 \r\n\r\n',
      'an unknown method of UTF-8': 'BREW /\xc3\xa9 HTTP/1.1\r\n\r\n',
      'a tab for a space': `GET\t${path} HTTP/1.1\r\n${head}\r\n`,
      'a space after the version': `GET ${path} HTTP/1.1 \r\n${head}\r\n`,
      'a space before the method': ` GET ${path} HTTP/1.1\r\n${head}\r\n`,
      'HTTP/0.9': `GET ${path}\r\n${head}\r\n`,
      'HTTP/0.9 of the root': 'GET /\r\n\r\n',
      'HTTP/0.9 in parts': `GET ${path} HTTP/0.9\r\n${head}\r\n`,
      'HTTP/1.2': `GET ${path} HTTP/1.2\r\n${head}\r\n`,
      'HTTP/1.10': `GET ${path} HTTP/1.10\r\n${head}\r\n`,
      'HTTP/1': `GET ${path} HTTP/1\r\n${head}\r\n`,
      'HTTP/2.0': `GET ${path} HTTP/2.0\r\n${head}\r\n`,
      'HTTP/9.9': `GET ${path} HTTP/9.9\r\n${head}\r\n`,
      'http/1.1': `GET ${path} http/1.1\r\n${head}\r\n`,
      'HTTPS/1.1': `GET ${path} HTTPS/1.1\r\n${head}\r\n`,
      'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'PRI in HTTP/1.1': `PRI * HTTP/1.1\r\n${head}\r\n`,
      'a TLS hello': '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
      garbage: '\0\xff\xfe\r\n\r\n',
      JSON: body,
    },
  };
}

/** Returns valid requests of an unusual form: requests for a list, and requests to add a pet. */
export function oddRequests({
  basePath,
  key,
}: Pick<TestedServer, 'basePath' | 'key'>): Readonly<Record<'lists' | 'adds', NamedRequests>> {
  const path = `${basePath}/pets`;
  const body = '{"name":"a","categoryId":1}';
  const authorization = `Authorization: Bearer ${key}\r\n`;
  const get = (lines: string): string => `GET ${path} HTTP/1.1\r\n${authorization}${lines}\r\n\r\n`;
  const post = (lines: string, rest: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\n${authorization}${lines}\r\n\r\n${rest}`;
  const chunked = (rest: string): string => post('Transfer-Encoding: chunked', rest);

  return {
    lists: {
      'a Host with a port': get('Host: a:80'),
      'a Host of IPv6': get('Host: [::1]:8080'),
      'a Host in Unicode by escapes': get('Host: %C3%A9.example'),
      'a Host with an underscore': get('Host: my_service'),
      'a header of obs-text': get('Host: a\r\nX: \xe9\xff'),
      'an empty header': get('Host: a\r\nX:'),
      'no space after the colon': get('Host:a\r\nX:a'),
      'tabs around a value': get('Host: a\r\nX: \t a \t '),
      'lines before the request': `\r\n\r\n${get('Host: a')}`,
      'HTTP/1.0 without a Host': `GET ${path} HTTP/1.0\r\n${authorization}\r\n`,
      'HTTP/1.0 that expects': `GET ${path} HTTP/1.0\r\n${authorization}Expect: x\r\n\r\n`,
    },
    adds: {
      chunked: chunked(`1b\r\n${body}\r\n0\r\n\r\n`),
      'chunked in any case': post('transfer-encoding: ChunKed', `1B\r\n${body}\r\n0\r\n\r\n`),
      'chunks of a byte': chunked(
        `${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`,
      ),
      'chunk extensions': chunked(`1b;a=b;c="d;e"\r\n${body}\r\n0;x\r\n\r\n`),
      'chunk size with zeros': chunked(`0000000000000000001b\r\n${body}\r\n000\r\n\r\n`),
      trailers: chunked(`1b\r\n${body}\r\n0\r\nHost: b\r\nAuthorization: x\r\n\r\n`),
      'CL with zeros': post('Content-Length: 0027', body),
      'CL without a space': post('Content-Length:27', body),
    },
  };
}

/** Returns incomplete requests. Each is 400 if the client then closes its sending side. */
export function halfRequests({
  basePath,
  key,
}: Pick<TestedServer, 'basePath' | 'key'>): readonly string[] {
  const path = `${basePath}/pets`;
  const head = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
  const body = '{"name":"a","categoryId":1}';
  const post = `POST ${path} HTTP/1.1\r\n${head}`;
  return [
    ...['G', 'GET', 'GET /', 'GET /\r\n', `GET ${path} HTTP/1.1`, 'hello'],
    ...['BREW', 'BREW /', 'BREW / HTTP/1.', `GET ${path} HTTP/1.1\r\n${head}`],
    `${post}Content-Length: 28\r\n\r\n${body}`,
    `${post}Transfer-Encoding: chunked\r\n\r\n1b\r\n${body}\r\n0\r\n`,
  ];
}
