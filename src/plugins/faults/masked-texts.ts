/** Removes API keys from the texts of a request, because clients may send them by mistake (C40). */
import { petStatuses, type PluginRequest } from '../../index.js';

/** The form of the keys that `petstore keys add` makes. */
const madeKey = /psk_[A-Za-z0-9_-]{43}/g;

/** A value of a query that is too short for a key, or that is not one. */
const plainValue = new RegExp(`^(?:[0-9]{0,9}|${petStatuses.join('|')})$`);

/** The texts of a request that may hold a key. */
interface MaskedTexts {
  readonly path: string;
  readonly query: string;
  readonly idempotencyKey: string | undefined;
}

/** Returns the texts of a request with `…` in place of keys. */
export function withoutKeys({ path, query, header }: PluginRequest): MaskedTexts {
  const authorization = header('authorization');
  const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  const mask = (text: string) => masked(text, token);
  const idempotencyKey = header('idempotency-key');
  return {
    path: mask(path),
    // Without a header, the key of a client may be anywhere.
    query: mask(authorization === undefined ? withoutValues(query) : query),
    idempotencyKey: idempotencyKey === undefined ? undefined : mask(idempotencyKey),
  };
}

function masked(text: string, token: string | undefined): string {
  const others = text.replace(madeKey, '…');
  if (token === undefined) return others;
  const forms = new Set([token, encodeURIComponent(token)]);
  let rest = others;
  for (const form of forms) rest = rest.replace(wholeWord(form), '…');
  return rest;
}

/** Returns a pattern of a text that is not part of a longer word. */
function wholeWord(text: string): RegExp {
  const escaped = text.replace(/[^\w]/g, '\\$&');
  return new RegExp(`(?<![\\w-])${escaped}(?![\\w-])`, 'g');
}

/** Returns a query with `…` in place of each value that may be a key. */
function withoutValues(query: string): string {
  return query.replace(/[^&]+/g, (pair) => {
    const [name = '', ...rest] = pair.split('=');
    const value = rest.join('=');
    if (rest.length === 0) return plainValue.test(name) || name.length < 9 ? name : '…';
    return `${name}=${plainValue.test(value) ? value : '…'}`;
  });
}
