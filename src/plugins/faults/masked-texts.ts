/** Removes API keys from the texts of requests, because clients may send them by mistake (C40). */
import { petStatuses, type PluginRequest } from '../../index.js';

/** The form of the keys that `petstore keys add` makes. */
const madeKey = /psk_[A-Za-z0-9_-]{43}/g;

/** Matches the values of a query that are not a key: short numbers, and statuses of pets. */
const plainValue = new RegExp(`^(?:[0-9]{0,9}|${petStatuses.join('|')})$`);

/** The number of keys that are remembered. */
const maxTokens = 256;

/** The texts of a request that may hold a key. */
interface MaskedTexts {
  readonly path: string;
  readonly query: string;
  readonly idempotencyKey: string | undefined;
}

/** Puts `…` in place of the keys that requests had in their header. */
export class KeyMask {
  /** The keys of the last requests, each with the pattern that finds it. */
  readonly #tokens = new Map<string, RegExp>();

  /** Returns the texts of a request without keys. */
  textsOf({ path, route, query, header }: PluginRequest): MaskedTexts {
    const authorization = header('authorization');
    const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
    if (token !== undefined) this.#remember(token);

    const idempotencyKey = header('idempotency-key');
    return {
      // A path that is also that of its route has no text of the client.
      path: path === route ? path : this.#masked(path),
      // Without a header, the key of a client may be anywhere.
      query: this.#masked(authorization === undefined ? withoutValues(query) : query),
      idempotencyKey: idempotencyKey === undefined ? undefined : this.#masked(idempotencyKey),
    };
  }

  #remember(token: string): void {
    const known = this.#tokens.get(token);
    this.#tokens.delete(token);
    this.#tokens.set(token, known ?? wholeWord(token));
    const [oldest] = this.#tokens.keys();
    if (oldest !== undefined && this.#tokens.size > maxTokens) this.#tokens.delete(oldest);
  }

  #masked(text: string): string {
    const masked = this.#replaced(text);
    if (!masked.includes('%')) return masked;
    // A key whose characters are escaped is found only in the decoded text.
    const decoded = decodedOf(masked);
    const maskedDecoded = this.#replaced(decoded);
    return maskedDecoded === decoded ? masked : maskedDecoded;
  }

  #replaced(text: string): string {
    let replaced = text.replace(madeKey, '…');
    for (const [token, pattern] of this.#tokens)
      if (replaced.includes(token)) replaced = replaced.replace(pattern, '…');
    return replaced;
  }
}

function decodedOf(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

/** Returns a pattern of a text that is not part of a longer word. */
function wholeWord(text: string): RegExp {
  const escaped = text.replace(/[^\w]/g, '\\$&');
  return new RegExp(`(?<![\\w-])${escaped}(?![\\w-])`, 'g');
}

/** Returns a query with `…` in place of each value that may be a key. */
function withoutValues(query: string): string {
  return query.replace(/[^&]+/g, (pair) => {
    const [name = '', ...values] = pair.split('=');
    const value = values.join('=');
    if (values.length === 0) return name.length < 9 ? name : '…';
    return `${name}=${plainValue.test(value) ? value : '…'}`;
  });
}
