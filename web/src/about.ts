// Where the run came from: command, environment, configuration.
import type { Run, Scalar } from "./document";
import { el } from "./dom";
import { scalar, time, words } from "./format";
import { make_frame, type Section } from "./section";

export function about_section(): Section {
  const frame = make_frame("about", "This run");
  return {
    id: "about",
    title: "Run",
    element: frame.element,
    update: (page) => {
      const run = page.run;
      if (!run) return frame.show_empty("This document holds no single run.");
      frame.show();
      const written = page.generated_at
        ? ` Written ${time(page.generated_at)}${page.generator ? ` by ${page.generator}` : ""}.`
        : "";
      frame.set_lead(`Run ${run.name || "without a name"}.${written}`);
      frame.body.replaceChildren(...run_view(run));
    },
  };
}

function run_view(run: Run): HTMLElement[] {
  return [
    run.command
      ? el("div", {}, el("h3", {}, "Command"), el("pre", { tabindex: 0 }, run.command))
      : el("p", { class: "empty" }, "The command is not stored."),
    el("div", { class: "columns two" }, pairs("Environment", run.environment), pairs("Configuration", run.config)),
  ];
}

function pairs(title: string, list: [string, Scalar][]): HTMLElement {
  const body =
    list.length === 0
      ? el("p", { class: "empty" }, "Not stored.")
      : el(
          "dl",
          { class: "pairs" },
          ...list.map(([name, value]) => el("div", {}, el("dt", {}, words(name)), el("dd", {}, scalar(value)))),
        );
  return el("div", {}, el("h3", {}, title), body);
}
