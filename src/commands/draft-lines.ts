/** Owns reading animals to be added from JSON Lines, piece by piece. Knows not what becomes of them. */
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

/** An animal, and how many bytes of the file have been read for it. */
export interface DraftLine {
  readonly draft: PetDraft;
  readonly bytesRead: number;
}

const pieceBytes = 2 ** 18;
/** A line that goes on for longer is not read, so that a file of something else cannot fill the memory. */
const maxLineBytes = 2 ** 26;

/**
 * The animals in the file's order; lines of white space alone are skipped, but counted.
 * @throws Refusal that names the first bad line by its number.
 */
export async function* draftLines({ path, handle, bytes }: DraftFile): AsyncGenerator<DraftLine, void, undefined> {
  const piece = Buffer.allocUnsafe(pieceBytes);
  let unfinished = '';
  let number = 0;
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await handle.read(piece, 0, Math.min(pieceBytes, bytes - at), at);
    if (bytesRead === 0) break;
    at += bytesRead;
    // As a byte string, so that the JSON reader sees bad UTF-8, and a character cut in two is whole again.
    const lines = (unfinished + piece.toString('latin1', 0, bytesRead)).split('\n');
    unfinished = lines.pop() ?? '';
    for (const line of lines) {
      number++;
      if (!isBlank(line)) yield { draft: readDraft(line, path, number), bytesRead: at };
    }
    if (unfinished.length > maxLineBytes) throw new Refusal(`${path} line ${number + 1} is longer than ${maxLineBytes} bytes; it must be JSON Lines`);
  }
  if (!isBlank(unfinished)) yield { draft: readDraft(unfinished, path, number + 1), bytesRead: bytes };
}

function readDraft(line: string, path: string, number: number): PetDraft {
  try {
    return parseDraft(parseJson(line));
  } catch (error) {
    if (error instanceof PetstoreError) throw new Refusal(`${path} line ${number}: ${error.message.replace('The body', 'the line')}`);
    throw error;
  }
}

function isBlank(line: string): boolean {
  return /^[ \t\r]*$/.test(line);
}
