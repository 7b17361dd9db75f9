/** Writes figures into the documents, and detects outdated figures. */
import { execFileSync } from 'node:child_process';
import { markdownTable, type Results, type Table } from './report.js';

/** The results of a part of the evidence. */
export interface Measured extends Results {
  /** The name of the part. */
  readonly part: string;
  /** The measured commit. */
  readonly commit: string;
  /** The day of the measurement, such as 2026-11-25. */
  readonly date: string;
}

/**
 * Returns a document with new text in each `<!-- figures: KEY -->` … `<!-- /figures -->`. Texts
 * without new figures stay.
 */
export function withFigures(document: string, figures: ReadonlyMap<string, string>): string {
  return document.replace(
    /(<!-- figures: (.*?) -->\n).*?(<!-- \/figures -->)/gs,
    (present, opening: string, key: string, closing: string) => {
      const text = figures.get(key);
      return text === undefined ? present : `${opening}\n${text}\n\n${closing}`;
    },
  );
}

/** Returns the text of each key: a table for each version of Node, with its commit. */
export function figuresOf(results: readonly Measured[]): Map<string, string> {
  const figures = new Map<string, string>();
  for (const { node, commit, tables } of results) {
    for (const { key, head, rows } of tables) {
      if (key === undefined) continue;
      const others = figures.has(key) ? `${figures.get(key)}\n\n` : '';
      const heading = `Node ${node}, commit ${commit.slice(0, 10)}:`;
      figures.set(key, `${others}${heading}\n\n${markdownTable(head, rows)}`);
    }
  }
  return figures;
}

/** Returns the table of a key, of the last version of Node that has it; undefined if none has. */
export function tableOf(results: readonly Results[], key: string): Table | undefined {
  return results.flatMap(({ tables }) => tables).findLast((one) => one.key === key);
}

/** Returns the reason why figures of a commit are outdated; undefined if src has not changed. */
export function staleness(commit: string | undefined, checkout: string): string | undefined {
  const git = (...args: readonly string[]): string => gitIn(checkout, ...args);
  if (commit === undefined) return 'it has not been measured';
  if (git('status', '--porcelain', '--', 'src') !== '') return 'src has changes without a commit';
  const last = git('log', '-1', '--format=%H', '--', 'src');
  try {
    git('merge-base', '--is-ancestor', last, commit);
    return undefined;
  } catch {
    return `it was measured on ${commit}, and src was changed in ${last}`;
  }
}

/** Runs git in a checkout, and returns its output. */
export function gitIn(checkout: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: checkout, encoding: 'utf8', stdio: 'pipe' }).trim();
}
