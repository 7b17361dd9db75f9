// JSON whose integers stay exact beyond 2^53: to bigints and back, by lossless-json. Node's own JSON
// can do that from version 21 on.
import { parse, parseNumberAndBigInt, stringify } from 'lossless-json';

/** @throws SyntaxError */
export function readJson(text) {
  return parse(text, undefined, parseNumberAndBigInt);
}

export function writeJson(value) {
  return stringify(value);
}
