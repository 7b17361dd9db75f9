/** Makes mutants by Stryker's instrumenter. */

/** A place in a text. Both numbers are counted from 0. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

interface StrykerMutant {
  readonly fileName: string;
  readonly mutatorName: string;
  readonly location: { readonly start: Place; readonly end: Place };
  /** The text in place of the original. */
  readonly replacement: string;
  readonly status?: string;
}

interface SourceFile {
  readonly name: string;
  readonly content: string;
  readonly mutate: true;
}

/** A node of the syntax tree, with the members of those that are read here. */
interface SyntaxNode {
  readonly type: string;
  readonly value?: string;
  readonly operator?: string;
  readonly quasis?: readonly { readonly value: { readonly cooked: string } }[];
}

/** Returns the reason to ignore a node, if any. */
interface Ignorer {
  readonly shouldIgnore: (path: {
    readonly node: SyntaxNode;
    readonly parent: SyntaxNode;
  }) => string | undefined;
}

/** The part of the package that is used. Its own types do not pass the checks of our compiler. */
interface StrykerModule {
  readonly Instrumenter: new (
    log: object,
  ) => {
    instrument(
      files: readonly SourceFile[],
      options: {
        readonly ignorers: readonly Ignorer[];
        readonly excludedMutations: readonly string[];
        readonly plugins: null;
      },
    ): Promise<{ readonly mutants: readonly StrykerMutant[] }>;
  };
}

const packageName: string = '@stryker-mutator/instrumenter';

const nothing = () => undefined;
const silent = { isDebugEnabled: () => false, debug: nothing, info: nothing, warn: nothing };

const noProse = /\b(?:AND|AS|BY|FROM|IN|INTO|KEY|NOT|ON|OR|SELECT|SET|TABLE|VALUES|WHERE)\b|[=\r]/;

/**
 * True for several words that are neither SQL nor a header, such as an error message, a log line or
 * a text of the OpenAPI document. The contract promises codes, but not these words.
 */
const isProse = (text: string | undefined): boolean =>
  text !== undefined && /[a-z][,;:.]? [a-z(`]/.test(text) && !noProse.test(text);

/** True if the program compares the text, so that it is not prose. */
const isCompared = ({ type, operator }: SyntaxNode): boolean =>
  type === 'BinaryExpression' && operator !== '+';

const prose: Ignorer = {
  shouldIgnore: ({ node, parent }) => {
    const parts =
      node.type === 'StringLiteral' ? [node.value] : node.quasis?.map(({ value }) => value.cooked);
    return parts?.some(isProse) === true && !isCompared(parent) ? 'prose' : undefined;
  },
};

/** Returns the mutants of these files. */
export async function mutantsOf(files: readonly SourceFile[]): Promise<readonly StrykerMutant[]> {
  const { Instrumenter }: StrykerModule = await import(packageName);
  const options = { ignorers: [prose], excludedMutations: [], plugins: null };
  const { mutants } = await new Instrumenter(silent).instrument(files, options);
  return mutants.filter(({ status }) => status !== 'Ignored');
}
