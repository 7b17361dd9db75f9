/** Owns how a route announces its end and what remains of it afterwards (C33 to C35). Knows no particular route. */
import { PetstoreError } from '../errors.js';

/** The announced end of a route. */
export interface Deprecation {
  /** Since when it should not be used, in milliseconds since the epoch. */
  readonly since: number;
  /** The last second that it is served, in milliseconds since the epoch; it is gone from the next on. */
  readonly sunset: number;
  /** The path to use instead. */
  readonly successor: string;
}

/** What every answer of a deprecated route carries: RFC 9745, RFC 8594 and RFC 5829, alternating names and values. */
export function deprecationHeaders({ since, sunset, successor }: Deprecation): readonly string[] {
  const link = `<${successor}>; rel="successor-version"`;
  return Object.freeze(['Deprecation', `@${since / 1000}`, 'Sunset', new Date(sunset).toUTCString(), 'Link', link]);
}

/** Whether the route's time is over, at a moment in milliseconds since the epoch. */
export function isGone(deprecation: Deprecation | undefined, now: number): boolean {
  return deprecation !== undefined && now >= deprecation.sunset + 1000;
}

/** What every method of a route answers once it is gone. */
export function goneError({ successor }: Deprecation): PetstoreError {
  return new PetstoreError('not_found', `This path is no longer available; use GET ${successor}.`);
}
