/** HTTPS: its server, and the check of a certificate and its key. Loaded only if needed. */
import { constants, createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createServer, type ServerOptions } from 'node:https';
import { createSecureContext, DEFAULT_MIN_VERSION } from 'node:tls';
import { reasonOf } from '../errors.js';
import { checkNames } from '../options.js';

/** A certificate chain and its private key, in PEM. */
export interface TlsPair {
  /** The certificate chain, with the server's own certificate first. */
  readonly cert: string | Buffer;
  /** The private key of the server's own certificate, without a passphrase. */
  readonly key: string | Buffer;
}

/**
 * The key types with which a TLS server can sign. DSA is absent, because no current cipher uses it.
 */
const keyTypes = ['rsa', 'rsa-pss', 'ec', 'ed25519', 'ed448'];

/** The curves of EC keys that TLS defines. Clients offer no others by default. */
const curves = /^(prime256v1|secp384r1|secp521r1|brainpoolP(256|384|512)r1)$/;

/**
 * Returns every option of Node's TLS servers except the certificate and key (C67). Node's option
 * `--tls-min-v1.3` is obeyed; `--tls-min-v1.0` and `--tls-cipher-list` have no effect.
 */
const tlsOptions = () =>
  ({
    minVersion: DEFAULT_MIN_VERSION === 'TLSv1.3' ? 'TLSv1.3' : 'TLSv1.2',
    maxVersion: 'TLSv1.3',
    ciphers: constants.defaultCoreCipherList,
    honorCipherOrder: true,
    ecdhCurve: 'auto',
    requestCert: false,
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: 10_000,
    certificateCompression: [],
    enableTrace: false,
    allowHalfOpen: false,
    pauseOnConnect: false,
  }) as const;

/**
 * Checks a certificate and its key.
 * @throws TypeError with the reason and a hint if HTTPS cannot be served with them
 */
export function checkTlsPair(pair: TlsPair): void {
  if (typeof pair !== 'object' || pair === null)
    throw new TypeError('tls must be an object with cert and key');
  checkNames('option of tls', pair, { cert: true, key: true });
  for (const name of ['cert', 'key'] as const)
    if (!isPem(pair[name]))
      throw new TypeError(`${name} of tls must be PEM, as a string or a Buffer`);

  const key = readKey(pair.key);
  const own = tryPem('the certificate is not valid PEM', () => new X509Certificate(pair.cert));
  if (!own.checkPrivateKey(key)) throw new TypeError(mismatchMessage(pair.cert, key));

  // OpenSSL compares a pair only if both have the same algorithm, so this check is not enough.
  tryPem('the certificate or its key cannot be used', () =>
    createSecureContext({ ...tlsOptions(), ...pair }),
  );
}

/** True if the value is a string or bytes, and not empty. */
function isPem(value: unknown): boolean {
  return (typeof value === 'string' || value instanceof Uint8Array) && value.length > 0;
}

function textOf(pem: string | Buffer): string {
  return typeof pem === 'string' ? pem : Buffer.from(pem).toString('latin1');
}

/**
 * Runs `work` and returns its result.
 * @throws TypeError with `problem` and OpenSSL's reason if `work` throws
 */
function tryPem<Value>(problem: string, work: () => Value): Value {
  try {
    return work();
  } catch (cause) {
    throw new TypeError(`${problem}: ${reasonOf(cause)}`, { cause });
  }
}

/**
 * Parses a private key.
 * @throws TypeError if a TLS server cannot use it
 */
function readKey(pem: string | Buffer): KeyObject {
  const isEncrypted = /^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(textOf(pem));
  if (isEncrypted)
    throw new TypeError('the private key has a passphrase: remove it by openssl pkey');

  const key = tryPem('the private key is not valid PEM', () => createPrivateKey(pem));
  const type = key.asymmetricKeyType ?? 'unknown';
  if (!keyTypes.includes(type))
    throw new TypeError(
      `a key of type ${type} cannot serve TLS: use one of ${keyTypes.join(', ')}`,
    );

  const { namedCurve = 'prime256v1' } = key.asymmetricKeyDetails ?? {};
  if (!curves.test(namedCurve))
    throw new TypeError(`a key of curve ${namedCurve} cannot serve TLS: use prime256v1`);
  return key;
}

/** Returns the message for a key that does not belong to the first certificate of a chain. */
function mismatchMessage(cert: string | Buffer, key: KeyObject): string {
  // OpenSSL reads certificates with any of these labels.
  const form = /-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----.*?-----END \1-----/gs;
  const certificates = textOf(cert).match(form) ?? [];
  const position = certificates.findIndex((each) => isKeyOf(each, key));
  if (position < 0) return 'key mismatch: the private key does not belong to the certificate';

  return (
    `key mismatch: the private key belongs to certificate ${position + 1}, not to the first; ` +
    "put the server's own certificate first, and its chain after it"
  );
}

/** True if the key belongs to the certificate. */
function isKeyOf(cert: string, key: KeyObject): boolean {
  try {
    return new X509Certificate(cert).checkPrivateKey(key);
  } catch {
    return false;
  }
}

/**
 * Creates an HTTPS server, and a function that replaces the pair for new connections.
 * @throws TypeError if the pair cannot be used, as `setPair` does
 */
export function createTlsServer(options: ServerOptions, pair: TlsPair) {
  checkTlsPair(pair);
  const server = createServer({ ...options, ...tlsOptions(), ...pair });

  const setPair = (other: TlsPair) => {
    checkTlsPair(other);
    server.setSecureContext({ ...tlsOptions(), ...other });
  };
  return { server, setPair };
}
