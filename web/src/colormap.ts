// Colours for heat maps: one sequential map that runs evenly in lightness (readable without colour vision and in grey),
// one diverging map blue - neutral - orange whose middle is the page's own background tone.

export type Rgb = readonly [number, number, number];
export type Colormap = (t: number) => Rgb; // t in 0..1

const hex = (text: string): Rgb => [
  parseInt(text.slice(1, 3), 16),
  parseInt(text.slice(3, 5), 16),
  parseInt(text.slice(5, 7), 16),
];

function ramp(stops: string[]): Colormap {
  const colours = stops.map(hex);
  return (t) => {
    const at = Math.min(1, Math.max(0, t)) * (colours.length - 1);
    const i = Math.min(colours.length - 2, Math.floor(at));
    const a = colours[i] ?? [0, 0, 0];
    const b = colours[i + 1] ?? a;
    const f = at - i;
    return [a[0] + f * (b[0] - a[0]), a[1] + f * (b[1] - a[1]), a[2] + f * (b[2] - a[2])];
  };
}

// Samples of viridis.
const sequential = ramp([
  "#440154",
  "#472d7b",
  "#3b528b",
  "#2c728e",
  "#21918c",
  "#28ae80",
  "#5ec962",
  "#addc30",
  "#fde725",
]);
const diverging_light = ramp(["#0a4a7c", "#2f7fb8", "#86b8da", "#f1f0ec", "#f2b279", "#d9731f", "#8f3c00"]);
const diverging_dark = ramp(["#8fd0ff", "#4a9bd4", "#235a86", "#23252a", "#84501f", "#d98332", "#ffc78a"]);

// From "nothing" in the page's own tone to full: for shares, where zero is the calm case.
const amount_light = ramp(["#edebe5", "#b9cfe0", "#6fa3cb", "#1f6ea8", "#0a3c66"]);
const amount_dark = ramp(["#282a2f", "#264a66", "#3579aa", "#63b3e8", "#d3ecff"]);

export const amount_map = (dark: boolean): Colormap => (dark ? amount_dark : amount_light);
export const sequential_map = (): Colormap => sequential;
export const diverging_map = (dark: boolean): Colormap => (dark ? diverging_dark : diverging_light);

export const css = ([r, g, b]: Rgb): string => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;

// Black or white, whichever reads better on the colour (WCAG relative luminance).
export function ink_on([r, g, b]: Rgb): string {
  const linear = (v: number): number => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  return luminance > 0.18 ? "#000" : "#fff";
}

export const gradient_css = (map: Colormap): string =>
  `linear-gradient(to right, ${Array.from({ length: 13 }, (_, i) => css(map(i / 12))).join(", ")})`;
