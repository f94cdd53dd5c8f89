// The colour scale under a heat map: a strip with its two ends and, for a diverging one, its middle.
import { gradient_css, type Colormap } from "./colormap";
import { el } from "./dom";
import { number } from "./format";

export interface Scale {
  low: number;
  high: number;
}

export function scale_legend(title: string, scale: Scale, map: Colormap, extra: [string, string][] = []): HTMLElement {
  const strip = el("span", { class: "strip" });
  strip.style.background = gradient_css(map);
  const keys = extra.map(([name, kind]) =>
    el("span", { class: "entry" }, el("i", { class: `key cell ${kind}` }), name),
  );
  return el(
    "div",
    { class: "scale" },
    el("span", {}, title),
    el(
      "span",
      { class: "strip-box" },
      el("span", {}, number(scale.low, 3)),
      strip,
      el("span", {}, number(scale.high, 3)),
    ),
    ...keys,
  );
}

// The range that holds all but the outermost share of the values, so that one spike does not wash out the rest.
export function robust_scale(values: number[], share = 0.01): Scale {
  if (values.length === 0) return { low: 0, high: 1 };
  const sorted = [...values].sort((a, b) => a - b);
  const at = (q: number): number =>
    sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(q * (sorted.length - 1))))] ?? 0;
  const low = at(share),
    high = at(1 - share);
  return high > low ? { low, high } : { low: low - 0.5, high: high + 0.5 };
}

export const median = (values: number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? (sorted[half] ?? 0) : ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2;
};
