// The reference of a start: reads the file of its argument in blocks, and calls JSON.parse for each line.
import { closeSync, openSync, readSync } from 'node:fs';

const descriptor = openSync(process.argv[2], 'r');
const piece = Buffer.allocUnsafe(2 ** 20);
let lines = 0;
let kept = 0;

for (let read = readSync(descriptor, piece, 0, piece.length, null); read > 0 || kept > 0; ) {
  const end = kept + read;
  const last = read === 0 ? end : piece.lastIndexOf(0x0a, end - 1) + 1;
  for (const line of piece.toString('utf8', 0, last).split('\n')) {
    if (line === '') continue;
    JSON.parse(line);
    lines += 1;
  }
  piece.copyWithin(0, last, end);
  kept = end - last;
  read = readSync(descriptor, piece, kept, piece.length - kept, null);
}
closeSync(descriptor);
console.log(JSON.stringify({ lines, readyMs: Math.round(performance.now()) }));
