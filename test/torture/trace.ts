/**
 * Reads what strace wrote: which call began and ended when, in the order of all threads. Knows no
 * petstore.
 */

/** A system call; `began` and `ended` are line numbers, which order all calls of all threads. */
export interface SystemCall {
  readonly name: string;
  /** As strace prints them, the path or socket behind each descriptor included. */
  readonly args: string;
  readonly began: number;
  ended: number;
  /** What stands behind the `=`; empty where it never ended. */
  result: string;
}

const whole = /^([0-9]+) +([a-z0-9_]+)\((.*)\) += (.*)$/;
const begun = /^([0-9]+) +([a-z0-9_]+)\((.*) <unfinished \.\.\.>$/;
const resumed = /^([0-9]+) +<\.\.\. [a-z0-9_]+ resumed>(.*)\) += (.*)$/;

/** The calls of a trace made with `-f -y`. */
export function readTrace(text: string): readonly SystemCall[] {
  const calls: SystemCall[] = [];
  const underWay = new Map<string, SystemCall>();
  for (const [index, line] of text.split('\n').entries()) {
    const [, pid = '', name = '', args = '', result = ''] =
      whole.exec(line) ?? begun.exec(line) ?? [];
    if (name !== '') {
      const call = { name, args, began: index, ended: result === '' ? Infinity : index, result };
      calls.push(call);
      if (result === '') underWay.set(pid, call);
      continue;
    }
    const end = resumed.exec(line);
    const call = underWay.get(end?.[1] ?? '');
    if (end === null || call === undefined) continue;
    underWay.delete(end[1] ?? '');
    call.ended = index;
    call.result = end[3] ?? '';
  }
  return calls;
}
