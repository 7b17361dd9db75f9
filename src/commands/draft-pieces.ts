/** Owns reading animals to be added from JSON Lines, a piece of the file at a time. Knows not what becomes of them. */
import type { FileHandle } from 'node:fs/promises';
import { parseDraft, parseJson, PetstoreError, type PetDraft } from '../index.js';
import { Refusal } from '../server/refusal.js';

/** An open file of the creation shape, one animal a line. */
export interface DraftFile {
  readonly path: string;
  readonly handle: FileHandle;
  /** How many bytes of it are read. */
  readonly bytes: number;
}

/** The animals whose lines end in a piece of the file, and where that piece ends. */
export interface DraftPiece {
  readonly drafts: readonly PetDraft[];
  readonly bytesRead: number;
}

/** About a thousand animals: enough to share a sync of the disk, fewer than a storage refuses to let wait. */
const pieceBytes = 2 ** 16;
/** A longer line is refused: with those of its piece, a storage must take it in while nothing else waits. */
const maxLineBytes = 2 ** 22;

/**
 * The animals in the file's order; lines of white space alone are skipped, but counted.
 * @throws Refusal that names the first bad line by its number.
 */
export async function* draftPieces({ path, handle, bytes }: DraftFile): AsyncGenerator<DraftPiece, void, undefined> {
  const piece = Buffer.allocUnsafe(pieceBytes);
  let unfinished = '';
  let number = 1;
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await handle.read(piece, 0, Math.min(pieceBytes, bytes - at), at);
    if (bytesRead === 0) break;
    at += bytesRead;
    // As a byte string, so that the JSON reader sees bad UTF-8, and a character cut in two is whole again.
    const lines = piece.toString('latin1', 0, bytesRead).split('\n');
    lines[0] = unfinished + (lines[0] ?? '');
    unfinished = at < bytes ? (lines.pop() ?? '') : '';
    if (unfinished.length > maxLineBytes) throw new Refusal(`${path} line ${number} is longer than ${maxLineBytes} bytes; give JSON Lines`);
    const drafts: PetDraft[] = [];
    for (const line of lines) {
      if (!/^[ \t\r]*$/.test(line)) drafts.push(readDraft(line, path, number));
      number++;
    }
    yield { drafts, bytesRead: at };
  }
}

function readDraft(line: string, path: string, number: number): PetDraft {
  try {
    return parseDraft(parseJson(line));
  } catch (error) {
    // What is a body to the server is a line here.
    if (error instanceof PetstoreError) throw new Refusal(`${path} line ${number}: ${error.message.replace('The body', 'the line')}`);
    throw error;
  }
}
