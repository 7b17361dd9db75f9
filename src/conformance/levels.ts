/**
 * The levels of rules, from the fewest to all: the petstore's specification alone; HTTP's standards
 * too; all of docs/contract.md, which decides what both leave open.
 */
export const levels = ['specification', 'http', 'full'] as const;

/** A level of rules, which includes the levels before it. */
export type Level = (typeof levels)[number];
