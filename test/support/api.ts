/** Makes docs/api.d.ts, the report of the public types of the package. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { root } from './process.js';

/** The committed report. */
export const apiFile = join(root, 'docs/api.d.ts');

const opening = `// The public types of the package: the names of each entry, and all declarations that they use,
// without comments. \`make api\` writes this file from the output of tsc. A test compares the two,
// so that every change of the public types is visible in this file.
`;

/** The declarations of a module of dist. */
interface Module {
  /** The statements that declare each name; an overloaded function has several. */
  readonly declared: ReadonlyMap<string, string>;
  /** The name and the file in dist of each imported name. */
  readonly imported: ReadonlyMap<string, readonly [name: string, file: string]>;
  readonly exported: readonly string[];
}

const modules = new Map<string, Module>();

function moduleOf(file: string): Module {
  const known = modules.get(file);
  if (known !== undefined) return known;

  const declared = new Map<string, string>();
  const imported = new Map<string, readonly [string, string]>();
  const exported: string[] = [];

  const text = readFileSync(join(root, file), 'utf8')
    .replace(/^ *\/\*\*.*?\*\/\n|^\/\/.*$/gms, '')
    // tsc breaks a line before each comment within a list of names.
    .replace(/(?<=[{,]) \n/g, ' ');
  // A line that continues a statement is indented, or closes a brace.
  for (const statement of text.split(/\n(?=\w)/)) {
    const own = /^(export )?(?:declare )?(?:interface|class|type|function|const) (\w+)\b/.exec(
      statement,
    );
    if (own !== null) {
      const [, isExported, name = ''] = own;
      const before = declared.get(name);
      const plain = statement.trim().replace(/^(export )?(declare )?/, '');
      declared.set(name, before === undefined ? plain : `${before}\n${plain}`);
      if (isExported && before === undefined) exported.push(name);
      continue;
    }

    const [, kind, list, from] =
      /^(import|export) (?:type )?\{([^}]*)\}(?: from '(.+)')?;/.exec(statement) ?? [];
    if (list === undefined) {
      // A default or namespace import of Node or of a library.
      assert.match(
        statement,
        /^(import .* from '[^.].*';|export \{\};)?$/,
        `${file}: ${statement}`,
      );
      continue;
    }
    for (const item of list.split(',')) {
      const [name = '', local = name] = item
        .replace(/\btype\b/, '')
        .trim()
        .split(' as ');
      if (name === '') continue;
      if (from?.startsWith('.'))
        imported.set(local, [name, declarationFile(posix.join(posix.dirname(file), from))]);
      if (kind === 'export') exported.push(local);
    }
  }

  const module = { declared, imported, exported };
  modules.set(file, module);
  return module;
}

function declarationFile(script: string): string {
  return script.replace(/\.js$/, '.d.ts');
}

/** Adds the declaration of a name to `noted`, and the declarations of all names in it. */
function note(name: string, file: string, noted: Map<string, string>): void {
  const { declared, imported } = moduleOf(file);
  const source = imported.get(name);
  if (source !== undefined) {
    note(...source, noted);
    return;
  }

  const statement = declared.get(name);
  const place = `${name} ${file}`;
  if (statement === undefined || noted.has(place)) return;

  assert.ok(!statement.includes('import('), `${file} imports within ${name}`);
  noted.set(place, statement);
  for (const [word] of statement.matchAll(/[A-Za-z_$][\w$]*/g)) note(word, file, noted);
}

/** Returns the report for the present build. */
export function publicApi(): string {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const noted = new Map<string, string>();

  const entries = Object.entries<string>(exports).flatMap(([entry, script]) => {
    if (!script.endsWith('.js')) return [];
    const file = posix.normalize(declarationFile(script));
    const names = moduleOf(file).exported.toSorted();
    for (const name of names) note(name, file, noted);
    return [
      `// ${posix.join('petstore', entry)}\n${names.map((name) => `//   ${name}\n`).join('')}`,
    ];
  });

  const declarations = [...noted].sort(([one], [other]) => (one < other ? -1 : 1));
  return [opening, ...entries, ...declarations.map(([, statement]) => `${statement}\n`)].join('\n');
}
