/** Owns what a key that we make looks like: `psk_` and 32 random bytes in base64url. Knows no file. */
import { randomBytes } from 'node:crypto';

/** A new API key, 47 characters. */
export function newApiKey(): string {
  return `psk_${randomBytes(32).toString('base64url')}`;
}

/** Whether a text is one. */
export function isApiKey(text: string): boolean {
  return /^psk_[A-Za-z0-9_-]{43}$/.test(text);
}
