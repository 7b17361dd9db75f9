/** Reads the files of the pages at `/` and `/docs`. */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Returns the texts of the files by name, without comments and needless spaces. In `dist`, the
 * build has replaced this function by its result, so that bundlers need no files.
 */
export function readPageFiles(
  folder: URL = new URL('.', import.meta.url),
): ReadonlyMap<string, string> {
  const names = readdirSync(folder).filter((name) => /\.(html|css|js)$/.test(name));
  return new Map(
    names.map((name) => {
      const text = withoutComments(readFileSync(new URL(name, folder), 'utf8'));
      return [name, name.endsWith('.css') ? text.replace(/ ?([{}:;,]) /g, '$1') : text];
    }),
  );
}

/** Removes the comments that begin a line, the types within a line, and the indentation. */
function withoutComments(text: string): string {
  return text
    .replace(/^ *(?:\/\*.*?\*\/|\/\/.*?$)\n/gms, '')
    .replace(/\/\*\* @.*?\*\/ ?/g, '')
    .replace(/^\s+/gm, '');
}
