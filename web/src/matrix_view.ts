// A square of worker against worker: cosines of their gradients, or the share of samples that they have in common.
import { css, ink_on, type Colormap } from "./colormap";
import type { Matrix } from "./document";
import { el } from "./dom";
import { kNone, number } from "./format";
import { make_heat_canvas } from "./heat_canvas";
import { scale_legend, type Scale } from "./scale_legend";
import { make_table, table_fold } from "./section";
import { on_theme, palette } from "./theme";

export interface MatrixView {
  element: HTMLElement;
  draw(matrix: Matrix, scale: Scale): void;
}

export interface MatrixWords {
  title: string; // of the legend and the table
  label: string; // for screen readers
  pair(a: number, b: number, value: string): string; // the reading line
  format(value: number): string; // inside a cell
  colours(dark: boolean): Colormap;
}

export function make_matrix_view(words: MatrixWords): MatrixView {
  const heat = make_heat_canvas({ hint: "Point at a cell to read it.", max_square: 440 });
  const legend = el("div");
  const columns = el("div", { class: "column-names", "aria-hidden": "true" });
  const rows = el("div", { class: "row-names plain", "aria-hidden": "true" });
  let matrix: Matrix | null = null;
  let scale: Scale = { low: 0, high: 1 };
  const fold = table_fold("Show as table", () => (matrix ? matrix_table(matrix, words) : el("p", {}, "No data.")));
  const draw = (): void => {
    const m = matrix;
    if (!m) return;
    const map = words.colours(palette().dark);
    const at = (r: number, c: number): number | null => m.values[r * m.n + c] ?? null;
    const shade = (v: number): number => (v - scale.low) / (scale.high - scale.low);
    heat.draw({
      rows: m.n,
      columns: m.n,
      row_height: 0,
      label: words.label,
      // The diagonal is each worker with itself and says nothing.
      colour: (r, c) => {
        const v = at(r, c);
        return r === c || v === null ? null : css(map(shade(v)));
      },
      text: (r, c) => {
        const v = at(r, c);
        return r === c || v === null ? null : { text: words.format(v), ink: ink_on(map(shade(v))) };
      },
      words: (r, c) => {
        const a = m.ranks[r] ?? r,
          b = m.ranks[c] ?? c;
        return a === b ? `Rank ${a} with itself.` : words.pair(a, b, number(at(r, c), 4));
      },
    });
    legend.replaceChildren(scale_legend(words.title, scale, map));
    const every = Math.ceil(m.n / 16);
    const name = (r: number, i: number): HTMLElement => el("span", {}, i % every === 0 ? String(r) : "");
    columns.replaceChildren(...m.ranks.map(name));
    rows.replaceChildren(...m.ranks.map(name));
    fold.refresh();
  };
  on_theme(draw);
  const body = el("div", { class: "matrix-body" }, columns, heat.element);
  return {
    element: el("div", { class: "matrix" }, el("div", { class: "map square" }, rows, body), legend, fold.element),
    draw: (next, next_scale) => {
      matrix = next;
      scale = next_scale;
      draw();
    },
  };
}

function matrix_table(matrix: Matrix, words: MatrixWords): HTMLElement {
  return make_table(
    words.title,
    ["", ...matrix.ranks.map((r) => `rank ${r}`)],
    matrix.ranks.map((r, i) => [
      `rank ${r}`,
      ...matrix.ranks.map((_, j) => (i === j ? kNone : number(matrix.values[i * matrix.n + j] ?? null, 4))),
    ]),
  );
}
