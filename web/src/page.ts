// The page: a header, the sections in reading order, a footer. It is built once and updated in place, so that a live run
// does not lose the reader's place, focus or choices.
import { about_section } from "./about";
import { audit_section } from "./audit";
import { cosine_section } from "./cosine_matrix";
import { costs_section } from "./costs";
import type { PageDocument } from "./document";
import { el } from "./dom";
import { findings_section } from "./findings";
import { time } from "./format";
import { has_labs, labs_section } from "./labs";
import { loss_section } from "./loss_chart";
import { metrics_section } from "./metric_charts";
import { noise_section } from "./noise";
import { rank_map_section } from "./rank_map";
import type { Section } from "./section";
import { has_study, study_section } from "./study";
import { theme_button } from "./theme";
import { verdict_of, verdict_section } from "./verdict";

export interface Page {
  tools: HTMLElement; // room in the header for the run chooser and the live state
  update(document: PageDocument): void;
  show_error(message: string): void;
}

// Sections about one run are left out of a document that has none; a study or lab only appears where there is one.
const about_run = (page: PageDocument): boolean => page.run !== null;

export function make_page(root: HTMLElement): Page {
  const parts: { section: Section; wanted: (page: PageDocument) => boolean }[] = [
    { section: verdict_section(), wanted: () => true },
    { section: findings_section(), wanted: about_run },
    { section: study_section(), wanted: has_study },
    { section: loss_section(), wanted: about_run },
    { section: metrics_section(), wanted: about_run },
    { section: rank_map_section(), wanted: about_run },
    { section: cosine_section(), wanted: about_run },
    { section: audit_section(), wanted: about_run },
    { section: noise_section(), wanted: about_run },
    { section: labs_section(), wanted: has_labs },
    { section: costs_section(), wanted: about_run },
    { section: about_section(), wanted: about_run },
  ];
  const tools = el("div", { class: "tools" });
  const links = parts.map(({ section }) => el("a", { href: `#${section.id}` }, section.title));
  const nav = el("nav", { "aria-label": "Sections", tabindex: -1 }, ...links);
  const error = el("div", { class: "error", role: "alert", hidden: true });
  const written = el("p");
  const main = el("main", { id: "main" }, error, ...parts.map(({ section }) => section.element));
  root.replaceChildren(
    el("a", { class: "skip", href: "#main" }, "Skip to the verdict"),
    el("header", {}, el("div", { class: "bar" }, brand(), tools, theme_button()), nav),
    main,
    el("footer", {}, written),
  );
  for (const { section } of parts) section.element.hidden = true;

  return {
    tools,
    update: (page) => {
      error.hidden = true;
      nav.hidden = false;
      document.title = `${page.run?.name || page.study.data?.title || "Lockstep"}: ${verdict_of(page).text}`.slice(
        0,
        160,
      );
      parts.forEach(({ section, wanted }, i) => {
        const shown = wanted(page);
        section.element.hidden = !shown;
        const link = links[i];
        if (link) link.hidden = !shown;
        if (shown) section.update(page);
      });
      written.textContent = page.generated_at
        ? `Written ${time(page.generated_at)}${page.generator ? ` by ${page.generator}` : ""}. Times are in your zone.`
        : "";
    },
    show_error: (message) => {
      error.textContent = message;
      error.hidden = false;
      nav.hidden = parts.every(({ section }) => section.element.hidden);
    },
  };
}

function brand(): HTMLElement {
  const bars = el("span", { class: "logo", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
  return el("span", { class: "brand" }, bars, "Lockstep");
}
