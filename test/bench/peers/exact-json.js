// JSON whose integers stay exact beyond 2^53: to bigints by lossless-json, and from them by
// safe-stable-stringify. Node's own JSON can do both from version 21 on.
import { parse, parseNumberAndBigInt } from 'lossless-json';
import { configure } from 'safe-stable-stringify';

/** @throws SyntaxError */
export function readJson(text) {
  return parse(text, undefined, parseNumberAndBigInt);
}

export const writeJson = configure({ deterministic: false });
