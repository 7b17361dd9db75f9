/** Lets pages of other origins use the petstore: the package `cors`, asked about each reply. */
import cors from 'cors';
import type { Plugin } from '../index.js';

/** Who is let in. */
export interface CorsOptions {
  /** Origins as browsers send them, such as `https://a.example` or `http://localhost:5173`. */
  readonly origins: readonly string[];
}

/** All that the contract says in headers. */
const exposedHeaders = ['Link', 'Location', 'Deprecation', 'Sunset', 'Retry-After', 'WWW-Authenticate', 'Allow'];
/** In seconds. */
const maxAge = 600;

/**
 * Lets pages of these origins alone send every method and header and read every answer, errors included.
 * @throws TypeError for what is no origin.
 */
export function corsPlugin({ origins }: CorsOptions): Plugin {
  if (!Array.isArray(origins))
    throw new TypeError('option origins must be an array of origins such as https://a.example');
  const decide = cors({ origin: origins.map(checkOrigin), exposedHeaders, maxAge, preflightContinue: true });
  return ({ addHeaders }) =>
    addHeaders(({ method, header }) => {
      const made = new Map<string, string>();
      // As much of Node's as the package looks at.
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

/** Browsers compare letter by letter. */
function checkOrigin(text: string): string {
  const origin = URL.canParse(text) ? new URL(text).origin : 'null';
  if (origin === text && /^https?:/.test(text)) return text;
  const mend = /^https?:/.test(origin) ? `write ${origin}` : 'write one such as https://a.example';
  throw new TypeError(`${JSON.stringify(text)} is no origin as browsers send it; ${mend}`);
}
