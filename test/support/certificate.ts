/**
 * Certificates for the tests, signed by themselves, for the name localhost and the address
 * 127.0.0.1.
 */
import { execFileSync } from 'node:child_process';

/** A new key and its certificate, as PEM. */
export function newCertificate(): { readonly key: string; readonly cert: string } {
  const request =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost ' +
    '-addext subjectAltName=IP:127.0.0.1 -keyout - -out -';
  const made = execFileSync('openssl', request.split(' '), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const at = made.indexOf('-----BEGIN CERTIFICATE');
  return { key: made.slice(0, at), cert: made.slice(at) };
}
