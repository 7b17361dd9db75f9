/** Thousands of bad inputs as bytes: good requests with each byte damaged, and odd combinations. */
// biome-ignore-all format: long lists, whose items would take a line each.
import { halfRequests, malformedRequests, oddRequests } from '../../dist/conformance/malformed-requests.js';
import { requestBytes, key, type RequestParts } from '../support/fixture.js';
import type { Random } from './random.js';

const pet = '{"name":"Rex","categoryId":5,"status":"sold"}';
const json = 'Content-Type: application/json';
const chunked = `${requestBytes('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] })}7\r\n{"name"\r\n26;x="y"\r\n:"Rex","categoryId":5,"status":"sold"}\r\n0\r\nX: y\r\n\r\n`;
const goodRequests = [requestBytes('POST', '/v1/pets?limit=5', { headers: [json], body: pet }), requestBytes('GET', '/v1/pets?limit=3&status=sold&after=1'), chunked];
const replacements = ['\0', '\n', '\r', ' ', ':', 'x', '\x80', '0'];

/** Returns all bad inputs in random order, so that a short run tries some of each kind. */
export function badInputs(random: Random): readonly string[] {
  const known = { basePath: '/v1', key };
  const { http, full } = malformedRequests(known);
  const { lists, adds } = oddRequests(known);
  const tables = [http, full, lists, adds].flatMap((table) => Object.values(table));
  const all = [...tables, ...halfRequests(known), ...damaged(), ...framings(), ...texts(random).map((body) => requestBytes('POST', '/v1/pets', { body })), ...variants()];
  return random.shuffled(all);
}

function* damaged(): Generator<string> {
  for (const good of goodRequests) {
    for (const [at, own] of [...good].entries()) {
      const [before, after] = [good.slice(0, at), good.slice(at + 1)];
      for (const byte of replacements) if (byte !== own) yield before + byte + after;
      yield before + after;
      yield before + own + own + after;
      if (at > 0) yield before;
    }
  }
  const [good = ''] = goodRequests;
  for (const place of 'POST /v1 HTTP 1.1\r Host petstore Bearer Content-Length {"name Rex'.split(' ')) {
    const at = good.indexOf(place);
    for (let code = 0; code < 256; code++) yield good.slice(0, at) + String.fromCharCode(code) + good.slice(at);
  }
}

/** Combines hosts, lengths, codings, bodies and versions. */
function* framings(): Generator<string> {
  const size = pet.length;
  const hex = size.toString(16);
  const hosts = ['Host: a', 'Host: a:80', 'Host: [::1]:1', '', 'Host: a\r\nHost: a', 'Host: a/b', 'Host: u@a', 'Host: [zz]'];
  const lengths = ['', `Content-Length: ${size}`, `content-length:00${size}`, `Content-Length: ${size}\r\nContent-Length: ${size}`, `Content-Length: ${size}, ${size}`, 'Content-Length: -1', 'Content-Length: 0x2d', 'Content-Length: 18446744073709551616', `Content-Length : ${size}`];
  const codings = ['', 'Transfer-Encoding: chunked', 'transfer-encoding: ChunKed', 'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: identity', 'Transfer-Encoding: xchunked', 'Transfer-Encoding:\r\n chunked', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked'];
  const bodies = [pet, `${hex}\r\n${pet}\r\n0\r\n\r\n`, `${hex};a=b\r\n${pet}\r\n000\r\nX: y\r\n\r\n`, `0x${hex}\r\n${pet}\r\n0\r\n\r\n`, `${hex}\r\n${pet}0\r\n\r\n`, `${hex}\n${pet}\r\n0\r\n\r\n`];
  for (const version of ['1.1', '1.0']) {
    for (const host of hosts) {
      for (const length of lengths) {
        for (const coding of codings) {
          const lines = [`POST /v1/pets HTTP/${version}`, host, length, coding, `Authorization: Bearer ${key}`].filter((line) => line !== '');
          // Without a length the body would be parsed as the next request, so one body is enough.
          const isChunked = coding !== '' && length === '';
          for (const body of isChunked ? bodies : bodies.slice(0, 1)) yield `${lines.join('\r\n')}\r\n\r\n${body}`;
        }
      }
    }
  }
}

const badUtf8 = '\x80 \xbf \xc0\x80 \xc1\xbf \xc3 \xc3\x28 \xe0\x80\x80 \xe0\x9f\xbf \xe2\x82 \xe2\x28\xa1 \xed\xa0\x80 \xed\xbf\xbf \xf0\x80\x80\x80 \xf0\x8f\xbf\xbf \xf0\x9f\x92 \xf4\x90\x80\x80 \xf5\x80\x80\x80 \xf8\x88\x80\x80\x80 \xfe \xff'.split(' ');
const goodUtf8 = '\xc3\xa9 \xe7\x8c\xab \xf0\x9f\x90\x88 \xef\xbf\xbf \xf4\x8f\xbf\xbf \x7f'.split(' ');
const atoms = ['', ' ', `1${'0'.repeat(400)}e-400`, `${'['.repeat(63)}${']'.repeat(63)}`, `${'['.repeat(64)}${']'.repeat(64)}`, ...'null true false nul 0 -0 1 01 1. .5 +1 - 1.0 1.5 1e2 1E+2 10e-1 1e-1 1e400 -1e400 1e 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 9007199254740993 92233720368547758.07e2 100000000000000000000e-2 0e999999999 NaN Infinity 0x1 "" "a" "\\u0041" "\\x" "\\u12" "\n" "\t" "\\ud83d\\udc08" "\\ud83d" "\\udc08" \'a\' "a "sold" "pending" "SOLD" [] [1] [1,] [,1] [ ] {} {"a":1} {"a":1,} {"a":1,"a":2} {"a":1,"\\u0061":2} {a:1} {"a"} {"a":} { } // /**/1 {"__proto__":1,"__proto__":1}'.split(' ')];

/** Returns bodies: JSON values in every place, and random damage to a valid body. */
function texts(random: Random): readonly string[] {
  const all = [...atoms, '\xef\xbb\xbf{}', `\xef\xbb\xbf${pet}`, `\xef\xbb\xbf\xef\xbb\xbf${pet}`, `\xff\xfe${pet}`, ` \t\r\n${pet} \n`, `\x0b${pet}`, `\xa0${pet}`, `${pet}${pet}`, ' '.repeat(65_536 - pet.length) + pet, ' '.repeat(65_537 - pet.length) + pet];
  for (const atom of atoms) {
    all.push(`{"name":${atom},"categoryId":1}`, `{"name":"a","categoryId":${atom}}`, `{"name":"a","categoryId":1,"status":${atom}}`, `{"name":"a","x":${atom},"categoryId":1}`, `{"id":${atom},"name":"a","categoryId":1}`, `[${atom}]`, `{"name":"a","categoryId":1}${atom}`, `{"x":[{"y":${atom}}],"name":"a","categoryId":1}`, `{"name":"a","categoryId":1,"name":${atom}}`);
  }
  for (const bytes of [...badUtf8, ...goodUtf8]) {
    all.push(bytes, `"${bytes}"`, `{"name":"${bytes}","categoryId":1}`, `{"name":"a${bytes}b","categoryId":1}`, `{"${bytes}":1,"name":"a","categoryId":1}`, `{"name":"a","categoryId":1}${bytes}`, `{"name":"a","categoryId":${bytes}}`, `{"name":"a","categoryId":1,"status":"sold${bytes}"}`);
  }
  const rich = '{"n\\u0061me" : "\\u732b \xe7\x8c\xab\\n","categoryId":-9007199254740993.0e0,"tags":[{"a":[true,null,1e3]},[]],"status":"available"}';
  const pieces = [...'{}[]",:\\0e.-+ax \n\x80', '"a"', 'null', '\\ud800'];
  for (let index = 0; index < 1_500; index++) {
    let text = index % 2 === 0 ? rich : pet;
    for (let damage = random.below(3); damage >= 0; damage--) {
      const at = random.below(text.length + 1);
      text = text.slice(0, at) + (random.below(3) === 0 ? '' : random.pick(pieces)) + text.slice(at + random.below(4));
    }
    all.push(text);
  }
  return all;
}

/** Yields requests with odd bodies, methods, paths, queries, headers and keys. */
function* variants(): Generator<string> {
  // Chunked bodies at the limit and over it, in one chunk and in many.
  for (const size of [65_536, 65_537, 70_000]) {
    const body = ' '.repeat(size - pet.length) + pet;
    for (const piece of [size, 1_000]) {
      const chunks = Array.from({ length: Math.ceil(size / piece) }, (_, index) => body.slice(index * piece, (index + 1) * piece));
      yield `${requestBytes('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] })}${chunks.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join('')}0\r\n\r\n`;
    }
  }
  const paths = [`/${'a'.repeat(16_383)}`, `/${'a'.repeat(16_384)}`, ...'/v1/pets /v1/pets/1 /v1/pets/9223372036854775807 /v1/pets/9223372036854775808 /v1/pets/-1 /v1/pets/-0 /v1/pets/01 /v1/pets/1.0 /v1/pets/abc /v1/pets/%31 /v1/pets/1%0A /v1/pets/ /v1/pets// /v1//pets //v1/pets /v1/./pets /v1/pets/.. /v1/pets/%2e /v1/pets%2F1 /v1/%70ets /v1/%zz /v1/pets/% /v1/pets/%ff /V1/pets /v1/Pets /v1 / /v1/pets/1/x /v1/store/orders /v1/pets;x /v1/pets#x * http://any/v1/pets http://any HTTPS://any/v1/pets/1 ftp://any/v1/pets v1/pets /healthz /readyz /openapi.json /healthz/'.split(' ')];
  const methods = ['Q'.repeat(300), ...'GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND FOO get'.split(' ')];
  const keys: readonly RequestParts[] = [{}, { authorization: null }, { authorization: 'Bearer wrong' }];
  for (const path of paths) for (const method of methods) for (const parts of keys) if (method !== 'HEAD' || path.length < 100) yield requestBytes(method, path, parts);

  const values = ['', ...'0 1 5 05 +5 5.0 1e1 %205 100 101 -1 1000 9223372036854775807 9223372036854775808 abc % %zz %35 %ff sold Sold sold,pending available null 5&limit=5 5&limit=6 sold&status=sold 5&x=%C0%80 5&x&&= 5#'.split(' ')];
  for (const name of ['limit', 'status', 'after', 'l%69mit', 'Limit', 'x', '%zz', '']) {
    for (const value of values) {
      yield requestBytes('GET', `/v1/pets?${name}=${value}`);
      yield requestBytes('GET', `/v1/pets/1?${name}=${value}`);
      yield requestBytes('POST', `/v1/pets?${name}=${value}`, { body: pet });
    }
  }

  const lines = ['Content-Type: application/json; charset=utf-8', 'Content-Type: APPLICATION/JSON;charset="UTF-8"', 'Content-Type: application/json; charset=latin1', 'Content-Type: application/json; x=y', 'Content-Type: text/plain', 'Content-Type: application/jsonx', 'Content-Type: */*', 'Content-Type:', 'Content-Type: application/json\r\nContent-Type: text/plain', 'Content-Encoding: identity', 'Content-Encoding: gzip', 'Content-Encoding: gzip, identity', 'Expect: 100-continue', 'expect: 100-CONTINUE', 'Expect: miracles', 'Expect: 100-continue\r\nExpect: 100-continue', 'Accept: text/html', 'Accept:', 'Upgrade: websocket\r\nConnection: Upgrade', 'Connection: close', 'Connection: keep-alive', 'Connection: x, Close', 'X: \xe9\xff', 'X:', 'X:\t a \t', 'X: a\r\n b', 'X : a', 'X Y: a', ': a', 'X', 'X: \x01', 'X: \x7f', 'X: \0', 'X\xe9: a', 'Trailer: X', 'TE: trailers', 'Range: bytes=0-1', 'If-None-Match: *', 'Cookie: a=b', 'X-HTTP-Method-Override: DELETE', 'Content-Length: 1', 'Idempotency-Key:', 'Idempotency-Key: a b', 'idempotency-KEY: \xe9', 'Idempotency-Key: a\r\nIdempotency-Key: a', `Idempotency-Key: ${'k'.repeat(256)}`, `X: ${'a'.repeat(15_000)}`, `X: ${'a'.repeat(17_000)}`, `${'x: 1\r\n'.repeat(96)}x: 1`, `${'x: 1\r\n'.repeat(100)}x: 1`];
  for (const line of lines) {
    for (const version of ['1.1', '1.0']) {
      yield requestBytes('POST', '/v1/pets', { headers: [line], body: pet, version });
      yield requestBytes('POST', '/v1/pets', { headers: [line], body: 'not json', version });
      yield requestBytes('GET', '/v1/pets?limit=2', { headers: [line], version });
    }
  }

  const credentials = [key, `Bearer  ${key}`, `bEaReR ${key}`, `Bearer ${key}  `, `Bearer\t${key}`, `Bearer${key}`, `Bearer: ${key}`, `Bearer "${key}"`, `Bearer ${key},`, `Bearer ${key} x`, `Bearer ${key}, Bearer ${key}`, `Bearer ${key}x`, `Bearer ${key.slice(1)}`, `Bearer ${key.toUpperCase()}`, 'Bearer', 'Bearer ', '', 'Basic dXNlcjpwYXNz', `Basic ${key}`, `X Bearer ${key}`, 'Bearer \xe9', `Bearer ${'x'.repeat(9_000)}`];
  for (const authorization of credentials) {
    yield requestBytes('GET', '/v1/pets', { authorization });
    yield requestBytes('POST', '/v1/pets', { authorization, body: pet });
    yield requestBytes('GET', '/healthz', { authorization });
    yield requestBytes('GET', '/v1/pets', { headers: [`Authorization: Bearer ${key}`], authorization });
  }
}
