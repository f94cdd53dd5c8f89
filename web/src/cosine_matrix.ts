// Which workers agree: the cosine of every pair's gradients, at the step that the slider chooses.
import { sequential_map } from "./colormap";
import type { Cosine, Matrix, PageDocument } from "./document";
import { el } from "./dom";
import { count, integer, number } from "./format";
import { make_matrix_view } from "./matrix_view";
import type { Scale } from "./scale_legend";
import { facts, make_frame, why_empty, type Section } from "./section";

// Cosines keep their zeros: 1.000 says more than 1.
const cosine_text = (value: number, decimals: number): string => value.toFixed(decimals).replace("-", "\u2212");

interface Pair {
  a: number;
  b: number;
  value: number;
}

function pairs_of(matrix: Matrix): Pair[] {
  const out: Pair[] = [];
  for (let i = 0; i < matrix.n; ++i) {
    for (let j = i + 1; j < matrix.n; ++j) {
      const value = matrix.values[i * matrix.n + j];
      if (typeof value === "number") out.push({ a: matrix.ranks[i] ?? i, b: matrix.ranks[j] ?? j, value });
    }
  }
  return out.sort((x, y) => x.value - y.value);
}

// One scale for all steps, or the slider would change the meaning of the colours.
function scale_of(cosine: Cosine): Scale {
  let low = Infinity,
    high = -Infinity;
  for (const matrix of cosine.matrices) {
    for (const { value } of pairs_of(matrix)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return { low: 0, high: 1 };
  const room = Math.max(0, 0.1 - (high - low)) / 2;
  return { low: Math.max(-1, low - room), high: Math.min(1, high + room) };
}

export function cosine_section(): Section {
  const frame = make_frame("cosine", "Which workers agree");
  const view = make_matrix_view({
    title: "Cosine of two workers' gradients",
    label: "Cosine of the gradients of every pair of workers.",
    pair: (a, b, value) => `Ranks ${a} and ${b}: cosine ${value}.`,
    colours: sequential_map,
    format: (value) => cosine_text(value, 2),
  });
  const slider = el("input", { type: "range", min: 0, max: 0, value: 0, step: 1, "aria-label": "Step of the matrix" });
  const where = el("output", { class: "where" });
  const side = el("div", { class: "side" });
  let page: PageDocument | null = null;
  let follow = true; // stays on the newest matrix of a live run until the reader moves the slider
  frame.body.append(
    el(
      "div",
      { class: "split" },
      view.element,
      el("div", {}, el("label", { class: "field slider" }, where, slider), side),
    ),
  );

  const draw = (): void => {
    const cosine = page?.cosine.data;
    const matrix = cosine?.matrices[Number(slider.value)];
    if (!cosine || !matrix) return;
    view.draw(matrix, scale_of(cosine));
    where.textContent = `Step ${integer(matrix.step)}`;
    slider.setAttribute("aria-valuetext", `step ${matrix.step}`);
    side.replaceChildren(pair_facts(matrix, cosine));
  };
  slider.addEventListener("input", () => {
    follow = Number(slider.value) === Number(slider.max);
    draw();
  });
  return {
    id: "cosine",
    title: "Agreement",
    element: frame.element,
    update: (next) => {
      page = next;
      const cosine = next.cosine.data;
      if (!cosine)
        return frame.show_empty(
          why_empty(
            next,
            next.cosine.reason,
            "No cosine matrices are stored: switch them on with cosine_matrix (up to 64 workers), with sketches.",
          ),
        );
      frame.show();
      frame.set_lead(
        "Gradients of workers on different samples share a part, the signal. A pair near 1 computed the same thing; a row apart from the rest is a worker on its own.",
      );
      const last = cosine.matrices.length - 1;
      slider.max = String(last);
      if (follow) slider.value = String(first_of_interest(next, last));
      slider.disabled = last === 0;
      draw();
    },
  };
}

// A run with findings opens where the first one can be seen; others on the newest matrix.
function first_of_interest(page: PageDocument, last: number): number {
  const step = page.findings[0]?.first_step;
  if (step === null || step === undefined) return last;
  const at = page.cosine.data?.matrices.findIndex((m) => m.step >= step) ?? -1;
  return at < 0 ? last : at;
}

function pair_facts(matrix: Matrix, cosine: Cosine): HTMLElement {
  const pairs = pairs_of(matrix);
  const low = pairs[0],
    high = pairs[pairs.length - 1];
  if (!low || !high) return el("p", { class: "empty" }, "No pair of workers could be compared at this step.");
  const mean = pairs.reduce((s, p) => s + p.value, 0) / pairs.length;
  return facts([
    { name: "Mean of the pairs", value: cosine_text(mean, 3), hint: count(pairs.length, "pair") },
    { name: "Closest pair", value: cosine_text(high.value, 3), hint: `ranks ${high.a} and ${high.b}` },
    { name: "Furthest pair", value: cosine_text(low.value, 3), hint: `ranks ${low.a} and ${low.b}` },
    ...(cosine.error === null
      ? []
      : [{ name: "Error of an entry", value: number(cosine.error, 2), hint: "1 sd of the sketch" }]),
  ]);
}
