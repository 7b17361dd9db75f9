/**
 * Owns a bar chart as SVG: groups of bars along a scale with a line at 1. Knows not what they mean.
 */

/** What is drawn. */
export interface Chart {
  readonly title: string;
  readonly subtitle: string;
  /** What each bar of a group stands for; the first is drawn strongest. */
  readonly series: readonly string[];
  readonly groups: readonly ChartGroup[];
}

/** The bars that stand together; undefined leaves one out. */
export interface ChartGroup {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
}

const colours = ['#c2410c', '#1d4ed8', '#6b7f99', '#93a5ba', '#b9c6d4', '#0f766e'];
const width = 760;
const left = 110;
const right = 60;
const top = 92;
const barHeight = 11;
const gapHeight = 14;

/** The chart as the text of an SVG file. */
export function svgOf({ title, subtitle, series, groups }: Chart): string {
  const barsOf = ({ values }: ChartGroup): number =>
    values.filter((value) => value !== undefined).length;
  const heightOf = (some: readonly ChartGroup[]): number =>
    some.reduce((sum, group) => sum + barsOf(group) * barHeight + gapHeight, 0);
  const height = top + heightOf(groups) + 8;
  const most = Math.max(1, ...groups.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const lengthOf = (value: number): number => Math.round((value / most) * (width - left - right));

  const legend = series.map((name, index) => {
    const x = left + index * Math.floor((width - left) / series.length);
    return `<rect x="${x}" y="60" width="10" height="10" fill="${colourOf(index)}"/><text x="${x + 14}" y="69">${escaped(name)}</text>`;
  });
  const bars = groups.flatMap((group, index) => {
    const y = top + heightOf(groups.slice(0, index));
    const label = `<text x="${left - 8}" y="${y + (barsOf(group) * barHeight) / 2 + 4}" text-anchor="end" font-weight="600">${escaped(group.name)}</text>`;
    const drawn = group.values.flatMap((value, of) => (value === undefined ? [] : [{ value, of }]));
    return [
      label,
      ...drawn.map(({ value, of }, line) => bar(value, lengthOf(value), y + line * barHeight, of)),
    ];
  });
  const one = left + lengthOf(1);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11" fill="#1e293b">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" rx="8" fill="#ffffff"/>`,
    `<text x="16" y="26" font-size="16" font-weight="600">${escaped(title)}</text>`,
    `<text x="16" y="44" fill="#475569">${escaped(subtitle)}</text>`,
    ...legend,
    `<line x1="${one}" y1="${top - 10}" x2="${one}" y2="${height - 12}" stroke="#1e293b" stroke-dasharray="3 3"/>`,
    ...bars,
    '</svg>\n',
  ].join('\n');
}

function bar(value: number, length: number, y: number, index: number): string {
  const weight = index === 0 ? ' font-weight="600"' : '';
  return (
    `<rect x="${left}" y="${y}" width="${length}" height="${barHeight - 1}" fill="${colourOf(index)}"/>` +
    `<text x="${left + length + 4}" y="${y + barHeight - 2}" font-size="9"${weight} stroke="#ffffff" stroke-width="3" paint-order="stroke">${value.toFixed(2)}</text>`
  );
}

function colourOf(index: number): string {
  return colours[index % colours.length] ?? '';
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
