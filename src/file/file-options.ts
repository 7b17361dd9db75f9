/** The options of file storages. */
import type { JournalOptions } from '../journal/index.js';

/** The options of a file storage. */
export interface FileStorageOptions extends JournalOptions {
  /** @deprecated Use `hint`. Removed in 2.0. */
  readonly mend?: string;
}

/** The names of all options, by which an unknown option is refused. */
export const fileOptionNames = {
  log: true,
  clock: true,
  disk: true,
  hint: true,
  mend: true,
} as const;

/** Returns the options of the file's journal. */
export function toJournalOptions({ mend, ...options }: FileStorageOptions): JournalOptions {
  return mend === undefined ? options : { hint: mend, ...options };
}
