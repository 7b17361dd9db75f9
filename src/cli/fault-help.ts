/** The help of the words of faults, made of their table. */
import { faultWords } from '../plugins/faults.js';
import type { HelpPart } from './help-text.js';
import { helpParagraph, helpRow } from './help.js';
import { program } from './output.js';

/** Returns the help of `help faults`. */
export function faultsHelp(): readonly HelpPart[] {
  const header =
    'With the plugin, a fault meets the request that has it in the header Petstore-Fault, or the ' +
    'requests that fit a rule of /v1/faults. It is words, joined by commas:';
  const call = "curl -H 'Authorization: Bearer secret'";
  return [
    { lines: ['The plugin faults: failures on demand, to test a client'] },
    {
      heading: 'Usage:',
      lines: [`  PETSTORE_API_KEYS=secret ${program} --storage memory: --plugin faults`],
    },
    { lines: helpParagraph(header, 0) },
    {
      heading: 'Words:',
      lines: faultWords.flatMap(({ syntax, about, example }) => [
        ...helpRow(syntax, [about]),
        ...helpRow('', [`Example: ${example}`]),
      ]),
    },
    {
      heading: 'Paths:',
      lines: [
        ...helpRow('/v1/faults', ['PUT replaces all rules, GET shows them, DELETE ends them']),
        ...helpRow('/v1/requests', ['GET lists the requests that clients sent']),
        ...helpRow('/v1/reset', ['POST resets a store in memory, the rules and the clock']),
      ],
    },
    {
      heading: 'Examples:',
      lines: [
        `  ${call} -H 'Petstore-Fault: drop' \\`,
        '    http://127.0.0.1:3000/v1/pets',
        `  ${call} -X PUT \\`,
        `    --json '{"rules":[{"fault":"status=503,share=0.3"}],"seed":7}' \\`,
        '    http://127.0.0.1:3000/v1/faults',
      ],
    },
  ];
}
