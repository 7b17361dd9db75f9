/** Owns certificates for the tests, signed by themselves. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Writes `NAME.crt` and `NAME.key` into a folder, for the name localhost and the address 127.0.0.1. */
export function makeCertificate(folder: string, name: string): void {
  const request = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1';
  execFileSync('openssl', [...request.split(' '), '-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.crt`)], { stdio: 'ignore' });
}
