/** Draws the bar chart of the speed, as SVG. */
import type { Table } from './report.js';

const colours = ['#c2410c', '#1d4ed8', '#6b7f99', '#93a5ba', '#b9c6d4', '#0f766e', '#a16207'];
const width = 760;
const left = 110;
const right = 60;
const top = 76;
const barHeight = 11;
const gapHeight = 14;

/**
 * Returns a chart of a table of ratios: a group of bars for each row, with a line at 1. It omits
 * the last column, which is the error, and cells that are not numbers.
 */
export function chartOf({ title, head, rows }: Table): string {
  const series = head.slice(1, -1);
  const groups = rows.map(([name = '', ...cells]) => ({
    name,
    bars: series
      .map((_, index) => ({ index, value: Number(cells[index]) }))
      .filter(({ value }) => !Number.isNaN(value)),
  }));
  const most = Math.max(1, ...groups.flatMap(({ bars }) => bars.map(({ value }) => value)));
  const lengthOf = (value: number): number => Math.round((value / most) * (width - left - right));
  const one = left + lengthOf(1);

  let y = top;
  const drawn = groups.flatMap(({ name, bars }) => {
    const middle = y + (bars.length * barHeight) / 2 + 4;
    const lines = bars.map(({ index, value }) => {
      const line = bar(value, lengthOf(value), y, index);
      y += barHeight;
      return line;
    });
    y += gapHeight;
    return [
      `<text x="${left - 8}" y="${middle}" text-anchor="end" font-weight="600">${escaped(name)}</text>`,
      ...lines,
    ];
  });
  const legend = series.map((name, index) => {
    const x = left + index * Math.floor((width - left) / series.length);
    return `<rect x="${x}" y="44" width="10" height="10" fill="${colours[index]}"/><text x="${x + 14}" y="53">${escaped(name)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" font-family="system-ui, sans-serif" font-size="11" fill="#1e293b">`,
    `<rect width="${width}" height="${y}" rx="8" fill="#ffffff"/>`,
    `<text x="16" y="26" font-size="16" font-weight="600">${escaped(title)}</text>`,
    ...legend,
    `<line x1="${one}" y1="${top - 10}" x2="${one}" y2="${y - 6}" stroke="#1e293b" stroke-dasharray="3 3"/>`,
    ...drawn,
    '</svg>\n',
  ].join('\n');
}

function bar(value: number, length: number, y: number, index: number): string {
  const weight = index === 0 ? ' font-weight="600"' : '';
  return (
    `<rect x="${left}" y="${y}" width="${length}" height="${barHeight - 1}" fill="${colours[index]}"/>` +
    `<text x="${left + length + 4}" y="${y + barHeight - 2}" font-size="9"${weight} stroke="#ffffff" stroke-width="3" paint-order="stroke">${value.toFixed(2)}</text>`
  );
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
