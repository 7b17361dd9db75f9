/** Makes self-signed certificates for localhost and 127.0.0.1. */
import { execFileSync } from 'node:child_process';

const ecKey = 'ec -pkeyopt ec_paramgen_curve:prime256v1';

/**
 * Makes a key and its certificate, in PEM.
 * @param algorithm - The argument of `openssl req -newkey`, with the options of the algorithm.
 * @param host - The subject's alternative name, in the form of OpenSSL.
 */
export function newCertificate(
  algorithm = ecKey,
  host = 'IP:127.0.0.1',
): { readonly key: string; readonly cert: string } {
  const request =
    `req -x509 -newkey ${algorithm} -nodes -days 2 -subj /CN=localhost ` +
    `-addext subjectAltName=${host} -keyout - -out -`;
  const made = execFileSync('openssl', request.split(' '), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const at = made.indexOf('-----BEGIN CERTIFICATE');
  return { key: made.slice(0, at), cert: made.slice(at) };
}
