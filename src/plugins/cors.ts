/**
 * Lets pages of other origins use the petstore, by headers that the package `cors` adds to each
 * reply.
 */
import cors from 'cors';
import type { Plugin } from '../index.js';

/** Who is let in. */
export interface CorsOptions {
  /** Origins as browsers send them, such as `https://a.example` or `http://localhost:5173`. */
  readonly origins: readonly string[];
}

/** Every header of an answer that the contract gives a meaning. */
const exposedHeaders = 'Link,Location,Deprecation,Sunset,Retry-After,WWW-Authenticate,Allow,Accept';

/**
 * Lets pages of these origins alone send all methods and headers, and read all answers.
 *
 * @throws TypeError for what is no origin as browsers send it
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
      const made = new Map<string, string>();
      // Of Node's request and response these have only what the package uses.
      const requested = 'access-control-request-headers';
      const request = {
        method,
        headers: { origin: header('origin'), [requested]: header(requested) },
      };
      const response = {
        getHeader: (name: string) => made.get(name),
        setHeader: (name: string, value: string) => made.set(name, value),
        end: () => undefined,
      };

      decide(request, response, () => undefined);
      return [...made].flat();
    });
}

/** The host of an origin: labels that a name may have, or an IPv6 address. */
const hostForm = /^(?=.{1,253}$)(?:[\w-]+(?:\.[\w-]+)*\.?|\[[\da-f:]+\])$/;

/**
 * Returns the text if it is an origin. Other spellings of an origin are refused too, because
 * browsers and the package compare the text.
 *
 * @throws TypeError that does not repeat the text, which may hold a password
 */
function checkOrigin(text: string, index: number): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && /^https?:/.test(url.origin) && hostForm.test(url.hostname);
  if (isOrigin && url.origin === text) return text;

  let hint = 'write one such as https://a.example';
  if (isOrigin) hint = `write ${url.origin}`;
  if (/^(https?:\/\/)?\*/.test(text))
    hint = 'a * matches nobody: name each origin, such as https://a.example';
  throw new TypeError(`origin ${index + 1} is no origin as browsers send it; ${hint}`);
}
