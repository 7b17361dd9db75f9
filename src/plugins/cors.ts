/** The plugin `cors`: lets web pages of other origins use the petstore. */
import cors from 'cors';
import type { Plugin } from '../index.js';

/** The options of the plugin. */
export interface CorsOptions {
  /** Origins as browsers send them, such as `https://a.example` or `http://localhost:5173`. */
  readonly origins: readonly string[];
}

/** The response headers of the contract, which a page may then read. */
const exposedHeaders = 'Link,Location,Deprecation,Sunset,Retry-After,WWW-Authenticate,Allow,Accept';

/**
 * Lets pages of the given origins send any method and header, and read all responses.
 *
 * @throws TypeError if an origin is not in the form in which browsers send it
 */
export function corsPlugin({ origins }: CorsOptions): Plugin {
  if (!Array.isArray(origins))
    throw new TypeError('option origins must be an array of origins such as https://a.example');
  const decide = cors({
    origin: origins.map(checkOrigin),
    exposedHeaders,
    maxAge: 600,
    preflightContinue: true,
  });

  return ({ addHeaders }) =>
    addHeaders(({ method, header }) => {
      const added = new Map<string, string>();
      // Stand-ins for Node's request and response, with only the members that the package uses.
      const requested = 'access-control-request-headers';
      const request = {
        method,
        headers: { origin: header('origin'), [requested]: header(requested) },
      };
      const response = {
        getHeader: (name: string) => added.get(name),
        setHeader: (name: string, value: string) => added.set(name, value),
        end: () => undefined,
      };

      decide(request, response, () => undefined);
      return [...added].flat();
    });
}

/** Matches the host of an origin: a host name, or an IPv6 address in brackets. */
const hostForm = /^(?=.{1,253}$)(?:[\w-]+(?:\.[\w-]+)*\.?|\[[\da-f:]+\])$/;

/**
 * Returns `text` if it is an origin in the form in which browsers send it, because the package
 * compares texts.
 *
 * @throws TypeError that does not repeat `text`, which may contain a password
 */
function checkOrigin(text: string, index: number): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && /^https?:/.test(url.origin) && hostForm.test(url.hostname);
  if (isOrigin && url.origin === text) return text;

  let hint = 'write an origin such as https://a.example';
  if (isOrigin) hint = `write ${url.origin}`;
  if (/^(https?:\/\/)?\*/.test(text))
    hint = 'a * matches no origin: list each one, such as https://a.example';
  throw new TypeError(`origin ${index + 1} is not in the form that browsers send; ${hint}`);
}
