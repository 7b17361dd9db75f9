/** Lets pages of other origins use the petstore from a browser: the package `cors`, asked about each reply. */
import cors from 'cors';
import type { Plugin } from '../index.js';

/** Who is let in. */
export interface CorsOptions {
  /** Origins as browsers send them, such as `https://a.example` or `http://localhost:5173`. */
  readonly origins: readonly string[];
}

/** What a page may read beside the body: all that the contract says in headers. */
const exposedHeaders = ['Link', 'Location', 'Deprecation', 'Sunset', 'Retry-After', 'WWW-Authenticate', 'Allow'];
/** How long a browser need not ask again, in seconds: what is allowed changes with a restart only. */
const maxAge = 600;

/**
 * Lets pages of these origins send every method and header and read every answer, errors included; nobody else's.
 * A preflight is an OPTIONS, which needs no key (C17).
 * @throws TypeError for what is no origin.
 */
export function corsPlugin({ origins }: CorsOptions): Plugin {
  if (!Array.isArray(origins))
    throw new TypeError('option origins must be an array of origins such as https://a.example');
  const decide = cors({ origin: origins.map(checkOrigin), exposedHeaders, maxAge, preflightContinue: true });
  return ({ addHeaders }) =>
    addHeaders(({ method, header }) => {
      const made = new Map<string, string>();
      // As much of a request and a response of Node as the package looks at.
      const asked = 'access-control-request-headers';
      const request = { method, headers: { origin: header('origin'), [asked]: header(asked) } };
      const response = {
        getHeader: (name: string) => made.get(name),
        setHeader: (name: string, value: string) => made.set(name, value),
        end: () => undefined,
      };
      decide(request, response, () => undefined);
      return [...made].flat();
    });
}

/** Browsers compare letter by letter: an origin that is written otherwise would let nobody in. */
function checkOrigin(text: string): string {
  const origin = URL.canParse(text) ? new URL(text).origin : 'null';
  if (origin === text && /^https?:/.test(text)) return text;
  const mend = /^https?:/.test(origin) ? `write ${origin}` : 'write one such as https://a.example';
  throw new TypeError(`${JSON.stringify(text)} is no origin as browsers send it; ${mend}`);
}
