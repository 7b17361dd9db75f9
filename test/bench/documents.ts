/** Writes figures into the documents, and detects outdated figures. */
import { execFileSync } from 'node:child_process';
import { markdownTable, type Results, type Table } from './report.js';

/**
 * Returns a document with new text in each `<!-- figures: KEY -->` … `<!-- /figures -->`.
 * @throws RangeError if a key has no figures
 */
export function withFigures(document: string, figures: ReadonlyMap<string, string>): string {
  return document.replace(
    /(<!-- figures: (.*?) -->\n).*?(<!-- \/figures -->)/gs,
    (_, opening: string, key: string, closing: string) => {
      const text = figures.get(key);
      if (text === undefined)
        throw new RangeError(`no figures "${key}"; there are ${[...figures.keys()].join(', ')}`);
      return `${opening}\n${text}\n\n${closing}`;
    },
  );
}

/** Returns the text of each key: a table for each version of Node. */
export function figuresOf(results: readonly Results[]): Map<string, string> {
  const figures = new Map<string, string>();
  for (const { node, tables } of results) {
    for (const { key, head, rows } of tables) {
      if (key === undefined) continue;
      const others = figures.has(key) ? `${figures.get(key)}\n\n` : '';
      figures.set(key, `${others}Node ${node}:\n\n${markdownTable(head, rows)}`);
    }
  }
  return figures;
}

/** Returns the table of a key, of the last version of Node that has it. */
export function tableOf(results: readonly Results[], key: string): Table {
  const table = results.flatMap(({ tables }) => tables).findLast((one) => one.key === key);
  if (table === undefined) throw new RangeError(`no table "${key}"`);
  return table;
}

/** Returns the line that names the commit of the figures, which `staleness` reads. */
export function commitLine(commit: string, date: string): string {
  return `Commit ${commit}, ${date}, by \`make evidence\`.`;
}

/** Returns the reason why figures are outdated; undefined if src has not changed since. */
export function staleness(document: string, checkout: string): string | undefined {
  const git = (...args: readonly string[]): string => gitIn(checkout, ...args);
  const [, commit] = /^Commit ([0-9a-f]{40}), /m.exec(document) ?? [];
  if (commit === undefined) return 'nothing has been measured';
  if (git('status', '--porcelain', '--', 'src') !== '') return 'src has changes without a commit';
  const last = git('log', '-1', '--format=%H', '--', 'src');
  try {
    git('merge-base', '--is-ancestor', last, commit);
    return undefined;
  } catch {
    return `they are from ${commit}, and src was changed in ${last}`;
  }
}

/** Runs git in a checkout, and returns its output. */
export function gitIn(checkout: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: checkout, encoding: 'utf8', stdio: 'pipe' }).trim();
}
