/** Owns writing what a command answers, and the words where that cannot be written. Knows no command. */
import { reasonOf, Refusal } from './refusal.js';

/**
 * Writes to standard output; resolves once it is written, or where a reader had enough of it, such as `head`.
 * @param loss What has happened that nobody hears of otherwise: then a reader that is gone is a failure, too.
 * @throws Refusal where it cannot be written; its message ends with the loss.
 */
export async function print(text: string, loss?: string): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => process.stdout.write(text, (error) => (error ? reject(error) : resolve())));
  } catch (error) {
    const isReaderGone = error instanceof Error && 'code' in error && error.code === 'EPIPE';
    if (isReaderGone && loss === undefined) return;
    throw new Refusal(`standard output cannot be written (${reasonOf(error)}): ${loss ?? 'the result was shown to nobody'}`);
  }
}
