/** Owns the figures in the documents: where they stand, and whose commit they are of. */
import { execFileSync } from 'node:child_process';
import { markdownTable, type Results, type Table } from './report.js';

/**
 * A document with each `<!-- figures: KEY -->` … `<!-- /figures -->` filled anew.
 * @throws RangeError where a key has no figures.
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

/** What stands under each key: a table for each Node. */
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

/** The table of a key, of the last Node that has it. */
export function tableOf(results: readonly Results[], key: string): Table {
  const table = results.flatMap(({ tables }) => tables).findLast((one) => one.key === key);
  if (table === undefined) throw new RangeError(`no table "${key}"`);
  return table;
}

/** How the commit stands among the figures; `staleness` reads it. */
export function commitLine(commit: string, date: string): string {
  return `Commit ${commit}, ${date}, by \`make evidence\`.`;
}

/** Why a document's figures are not those of the source as it is; undefined where they are. */
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
    return `they are of ${commit}, and src was changed in ${last}`;
  }
}

/** What git prints in a checkout. */
export function gitIn(checkout: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: checkout, encoding: 'utf8', stdio: 'pipe' }).trim();
}
