/**
 * Owns what the storage takes from modules of Node that a start can do without: each is loaded at the first use. Knows not
 * what it is used for.
 */

let zlib: typeof import('node:zlib') | undefined;

/** The CRC-32 of bytes, or of an ASCII text, behind bytes whose CRC-32 is `before`. */
export function crc32(data: string | Uint8Array, before = 0): number {
  // Kept, for a file may have a million commits.
  zlib ??= process.getBuiltinModule('node:zlib');
  return zlib.crc32(data, before);
}

/** The number of the errno EDQUOT on this platform. */
export function quotaErrno(): number {
  return process.getBuiltinModule('node:os').constants.errno.EDQUOT;
}
