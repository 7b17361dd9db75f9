/**
 * Certificates for the tests, signed by themselves, for the name localhost and the address
 * 127.0.0.1.
 */
import { execFileSync } from 'node:child_process';

const ecKey = 'ec -pkeyopt ec_paramgen_curve:prime256v1';

/**
 * Makes a key and its certificate, as PEM.
 *
 * @param algorithm What `openssl req -newkey` takes, with the options of that algorithm.
 */
export function newCertificate(algorithm = ecKey): { readonly key: string; readonly cert: string } {
  const request =
    `req -x509 -newkey ${algorithm} -nodes -days 2 -subj /CN=localhost ` +
    '-addext subjectAltName=IP:127.0.0.1 -keyout - -out -';
  const made = execFileSync('openssl', request.split(' '), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const at = made.indexOf('-----BEGIN CERTIFICATE');
  return { key: made.slice(0, at), cert: made.slice(at) };
}
