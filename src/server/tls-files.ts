/** Owns reading the certificate and the private key, and refusing what the server could not use. */
import { readFileSync } from 'node:fs';
import { reasonOf, Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/** A certificate chain and its private key, in PEM. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * Reads both files; undefined where neither is given. Rejects with a Refusal for one without the other, or that can't be
 * read, is not PEM, or doesn't fit the other.
 */
export async function readTlsFiles(certFile: Setting | undefined, keyFile: Setting | undefined): Promise<TlsFiles | undefined> {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined) throw new Refusal(`${keyFile?.from} needs a certificate too; give --tls-cert FILE`);
  if (keyFile === undefined) throw new Refusal(`${certFile.from} needs a private key too; give --tls-key FILE`);
  const cert = read(certFile);
  const key = read(keyFile);
  const { createSecureContext } = await import('node:tls');
  refuseUnless(() => createSecureContext({ cert }), `${certFile.from} ${certFile.text} holds no certificate in PEM; give one, its chain behind it`);
  refuseUnless(() => createSecureContext({ key }), `${keyFile.from} ${keyFile.text} holds no private key in PEM without a passphrase; give one`);
  refuseUnless(
    () => createSecureContext({ cert, key }),
    `${keyFile.from} ${keyFile.text} is not the key of the certificate in ${certFile.text}; give the one it was made with`,
  );
  return { cert, key };
}

function read({ text, from }: Setting): Buffer {
  try {
    return readFileSync(text);
  } catch (error) {
    throw new Refusal(`${from} cannot be read (${reasonOf(error)}); name a PEM file`);
  }
}

function refuseUnless(attempt: () => unknown, message: string): void {
  try {
    attempt();
  } catch (error) {
    throw new Refusal(`${message} (${reasonOf(error)})`);
  }
}
