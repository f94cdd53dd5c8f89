// A study: settings side by side with their intervals, in each reading, the comparison that the paper makes, and what
// was found in words.
import { make_figure, type Figure } from "./chart";
import type { PageDocument, Study, StudyComparison, StudyReading } from "./document";
import { el } from "./dom";
import { capital, kNone, number } from "./format";
import { interval_plot } from "./interval_plot";
import { make_frame, make_table, type Cell, type Section } from "./section";
import { band, line, step_option, step_tooltip, thin_rows } from "./step_chart";

export function study_section(): Section {
  const frame = make_frame("study", "Settings side by side");
  let shown = "";
  return {
    id: "study",
    title: "Study",
    element: frame.element,
    update: (page) => {
      const study = page.study.data;
      if (!study) return frame.show_empty(page.study.reason || "This document holds no study.");
      frame.show();
      frame.set_lead(
        "Dots are means over seeds, bars their 95\u2009% intervals, small dots single seeds. Both readings share each axis.",
      );
      const state = page.generated_at + study.created;
      if (state === shown) return;
      shown = state;
      frame.body.replaceChildren(conclusion(study), ...study_body(study));
    },
  };
}

export const has_study = (page: PageDocument): boolean => page.study.data !== null || page.study.reason !== "";

function conclusion(study: Study): HTMLElement {
  if (study.conclusion.length === 0) return el("p", { class: "empty" }, "The study states no conclusion.");
  return el(
    "div",
    { class: "conclusion" },
    el("h3", {}, "What was found"),
    ...study.conclusion.map((text) => el("p", {}, text)),
  );
}

function study_body(study: Study): HTMLElement[] {
  const both = study.readings.length > 1;
  const all = study.readings.flatMap((reading) => reading.settings);
  const readings = study.readings.map((reading) =>
    el(
      "div",
      { class: "reading-block" },
      el("h3", {}, `${capital(reading.name)} reading`),
      reading.text ? el("p", { class: "note" }, capital(reading.text) + ".") : null,
      settings_list(reading),
      ...metrics_of(study, reading).map((m) => interval_plot(m.title, m.id, reading.settings, all)),
    ),
  );
  const out: HTMLElement[] = [el("div", { class: both ? "columns two" : "" }, ...readings)];
  for (const reading of study.readings) {
    const curves = curves_figure(reading);
    if (curves) out.push(curves);
    out.push(comparison_table(study, reading));
    if (reading.oracle.length > 0) out.push(oracle_table(study, reading));
  }
  return out;
}

// The study's own order, and then whatever a setting has beside it.
function metrics_of(study: Study, reading: StudyReading): { id: string; title: string }[] {
  const listed = study.metrics.filter((m) => reading.settings.some((s) => s.values.has(m.id)));
  const ids = new Set(listed.map((m) => m.id));
  const others = new Set(reading.settings.flatMap((s) => [...s.values.keys()]).filter((id) => !ids.has(id)));
  return [...listed, ...[...others].map((id) => ({ id, title: title_of(study, id) }))];
}

const title_of = (study: Study, id: string): string =>
  study.metrics.find((m) => m.id === id)?.title ?? id.replace(/_/g, " ");

function settings_list(reading: StudyReading): HTMLElement {
  return el(
    "dl",
    { class: "pairs settings" },
    ...reading.settings.map((s, i) =>
      el("div", {}, el("dt", {}, el("i", { class: `key dot s${i + 1}` }), s.name), el("dd", {}, s.text)),
    ),
  );
}

function p_text(p: number | null): string {
  if (p === null) return kNone;
  return p < 0.0001 ? "< 0.0001" : number(p, 2);
}

// The authors' expectation beside what was found; where they differ the cell says so in words, not by colour alone.
function outcome(comparison: StudyComparison): Cell {
  const found = comparison.found === "none" ? "no difference" : comparison.found || kNone;
  const expected = comparison.expected === "same" ? "none" : comparison.expected;
  if (!expected || !comparison.found) return { text: found };
  return expected === comparison.found
    ? { text: `${found}, as expected` }
    : { text: `${found}, unlike expected`, class: "differs" };
}

function comparison_table(study: Study, reading: StudyReading): HTMLElement {
  const title = `${capital(reading.name)} reading: comparison`;
  if (reading.comparisons.length === 0) return el("p", { class: "empty" }, `${title}: none was made.`);
  const columns = [
    "metric",
    "settings",
    "authors expect",
    "found",
    "difference",
    "95\u2009% interval",
    "effect size",
    "p",
  ];
  return make_table(
    title,
    columns,
    reading.comparisons.map((c) => [
      title_of(study, c.metric),
      { text: `${c.from}\u00a0\u2192\u00a0${c.to}`, class: "nowrap" },
      c.expected || kNone,
      outcome(c),
      number(c.difference, 3),
      c.low === null || c.high === null ? kNone : `${number(c.low, 3)} to ${number(c.high, 3)}`,
      number(c.effect_size, 3),
      p_text(c.p_value),
    ]),
    4,
  );
}

function oracle_table(study: Study, reading: StudyReading): HTMLElement {
  const title = `${capital(reading.name)} reading: against the exact expectation`;
  return make_table(
    title,
    ["setting", "metric", "formula", "agrees", "expected", "measured", "tolerance"],
    reading.oracle.map((o) => [
      o.setting,
      title_of(study, o.metric),
      o.text,
      { text: o.ok ? "yes" : "no", class: o.ok ? "" : "differs" },
      number(o.expected),
      number(o.measured),
      number(o.tolerance, 2),
    ]),
    4,
  );
}

function curves_figure(reading: StudyReading): HTMLElement | null {
  const settings = reading.settings.filter((s) => s.curve && s.curve.step.length > 0);
  const first = settings[0]?.curve;
  if (!first) return null;
  const steps = { step: first.step, step_last: first.step };
  const title = `${capital(reading.name)} reading: the averaged loss, which is what one usually sees`;
  const table = (): HTMLElement =>
    make_table(
      title,
      ["step", ...settings.map((s) => s.name)],
      thin_rows(first.step.length).map((i) => [
        String(first.step[i]),
        ...settings.map((s) => number(s.curve?.loss_mean[i] ?? null)),
      ]),
    );
  const figure: Figure = make_figure("medium", table);
  figure.set(
    (p) => ({
      ...step_option(
        p,
        steps,
        settings.flatMap((s, i) => {
          const colour = p.series[i % p.series.length] ?? p.accent;
          return [
            band(steps, s.curve?.loss_low ?? [], s.curve?.loss_high ?? [], `${colour}22`), // the colours are #rrggbb
            line(steps, s.curve?.loss_mean ?? [], colour, {
              lineStyle: { color: colour, width: 1.6, type: i === 0 ? "solid" : i === 1 ? [6, 3] : [2, 2] },
            }),
          ];
        }),
      ),
      tooltip: step_tooltip(p, steps, (i) => settings.map((s) => [s.name, number(s.curve?.loss_mean[i] ?? null)])),
    }),
    title,
    `${title}, for ${settings.map((s) => s.name).join(", ")}.`,
    settings.map((s, i) => ({
      name: s.name,
      kind: i === 0 ? "line" : "dash",
      colour: (p) => p.series[i % p.series.length] ?? p.accent,
    })),
  );
  return figure.element;
}
