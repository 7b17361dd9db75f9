/** Writes the tables of wrong and right servers into docs/verify.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { rightPetstores } from './right-petstores.js';
import { emptyStores, proxies, slowServers } from './wrong-servers.js';

const fences = /(<!-- servers -->\n)[\s\S]*(<!-- \/servers -->)/;

/** Returns the document with the tables of the servers. */
export function withTables(document: string): string {
  const wrong = [...emptyStores, ...proxies, ...slowServers].map(
    ({ number, level, does }) => `| ${number} | \`${level}\` | ${does} |`,
  );
  const right = rightPetstores.map(({ level, is }) => `| \`${level}\` | ${is} |`);
  const tables = [
    `| rule | level | the wrong server … (${wrong.length}) |`,
    '|---|---|---|',
    ...wrong,
    '',
    'Each of these is right in an unusual way, and must pass.',
    '',
    `| level | the right server … (${right.length}) |`,
    '|---|---|',
    ...right,
  ].join('\n');
  return document.replace(
    fences,
    (_, begin: string, end: string) => `${begin}\n${tables}\n\n${end}`,
  );
}

const [, script] = process.argv;
if (script === fileURLToPath(import.meta.url)) {
  const file = fileURLToPath(new URL('../../../docs/verify.md', import.meta.url));
  writeFileSync(file, withTables(readFileSync(file, 'utf8')));
}
