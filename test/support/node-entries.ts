/** The undocumented behaviours of Node that src/http/node.ts lists, each with the tests that hold it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.js';

/** An entry of the list. */
export interface NodeEntry {
  /** The whole comment, without line breaks. */
  readonly text: string;
  /** The tests that fail if the behaviour changes: the file, and the beginning of the name. */
  readonly heldBy: readonly { readonly file: string; readonly name: string }[];
}

/** Returns the entries, in the order of the module. */
export function nodeEntries(): readonly NodeEntry[] {
  const source = readFileSync(join(root, 'src/http/node.ts'), 'utf8');
  const comments = source.match(/\/\*\*[\s\S]*?\*\/|(?:^ *\/\/.*\n)+/gm) ?? [];
  return comments
    .map((comment) => comment.replace(/\n *(?:\*|\/\/) /g, ' '))
    .filter((text) => text.includes('Node: ') || text.includes('Held by '))
    .map((text) => ({
      text: text.replace(/^ *(?:\/\*\*|\/\/) */, ''),
      heldBy: [...text.matchAll(/([a-z-]+): "([^"]+)"/g)].map(([, file = '', name = '']) => ({
        file,
        name,
      })),
    }));
}
