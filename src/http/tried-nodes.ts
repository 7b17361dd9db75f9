// Written by `make test-node`, which .github/workflows/weekly.yml runs; do not edit.
/** The last version of each line of Node on which the whole suite passed, by major version. */
export const triedNodes: Readonly<Record<string, string>> = {
  20: '20.20.2',
  22: '22.23.3',
  24: '24.21.0',
  26: '26.10.0',
};
