/** Owns the split of a request target into path and query. Decodes and normalises nothing (C11). */

/** A target's path and what follows its `?`, both as they came. */
export interface Target {
  readonly path: string;
  /** Empty where there is none. */
  readonly query: string;
}

/** Splits origin-form, absolute-form (RFC 9112 section 3.2.2; the authority is ignored, C13) and `*`. */
export function splitTarget(target: string): Target {
  const from = target.charCodeAt(0) === 0x2f ? 0 : authorityEnd(target);
  const queryAt = target.indexOf('?', from);
  if (queryAt < 0) return { path: target.slice(from), query: '' };
  return { path: target.slice(from, queryAt), query: target.slice(queryAt + 1) };
}

function authorityEnd(target: string): number {
  return /^https?:\/\/[^/?]*/i.exec(target)?.[0].length ?? 0;
}
