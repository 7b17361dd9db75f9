/** The parts of the benchmark by name. */
import type { Part } from './figures.js';
import { keysPart } from './keys.js';
import { linesPart } from './lines.js';
import { sizePart } from './size.js';
import { beforePart, speedPart } from './speed.js';
import { startPart } from './start.js';
import { storagePart } from './storage.js';

/** The parts that `make bench` measures by default. */
export const defaultParts: Readonly<Record<string, Part>> = {
  speed: speedPart,
  storage: storagePart,
  start: startPart,
  size: sizePart,
  keys: keysPart,
};

/** All parts. */
export const parts: Readonly<Record<string, Part>> = {
  ...defaultParts,
  lines: linesPart,
  before: beforePart,
};
