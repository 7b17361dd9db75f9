/** System errors as node:fs rejects with them. */

/** What a call of a disk may fail with. */
export const errnos = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE'] as const;

/** A system error by its errno's name. */
export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}
