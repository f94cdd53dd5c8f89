// One lane per worker over the whole run, with a bar where a finding names it: which rank, since when, at one glance.
// At large worlds only the named ranks get a lane, and a sentence counts the others.
import type { Finding, PageDocument } from "./document";
import { el, svg } from "./dom";
import { count, integer, ranks, step_range } from "./format";

const kLane = 18;
const kBar = 8;
const kAllLanes = 16;

export interface Timeline {
  element: HTMLElement;
  update(page: PageDocument): void;
}

export function make_timeline(): Timeline {
  const element = el("div", { class: "timeline", hidden: true });
  return {
    element,
    update: (page) => {
      const named = page.findings.filter((f) => f.ranks.length > 0 && f.first_step !== null);
      const run = page.run;
      element.hidden = !run || run.steps === 0 || named.length === 0;
      if (!run || element.hidden) return;
      element.replaceChildren(...draw(page.findings, run.world, run.first_step ?? 0, run.last_step ?? run.steps));
    },
  };
}

function draw(findings: Finding[], world: number, first: number, last: number): Node[] {
  const named = [...new Set(findings.flatMap((f) => f.ranks))].filter((r) => r >= 0 && r < world).sort((a, b) => a - b);
  const lanes = world <= kAllLanes ? Array.from({ length: world }, (_, i) => i) : named.slice(0, kAllLanes);
  const at = (step: number): number =>
    (100 * (Math.min(Math.max(step, first), last) - first)) / Math.max(1, last - first);
  const rows = lanes.map((rank) => lane(rank, findings, at, last));
  const rest = world - lanes.length;
  const foot = el(
    "div",
    { class: "lane-foot" },
    el("span", {}, `step ${integer(first)}`),
    el("span", {}, integer(last)),
  );
  const note =
    rest > 0
      ? el("p", { class: "note" }, `${count(rest, "rank")} without a finding of their own are not drawn.`)
      : null;
  return [...rows, foot, ...(note ? [note] : [])];
}

function lane(rank: number, findings: Finding[], at: (step: number) => number, last: number): HTMLElement {
  const bars: SVGElement[] = [];
  const words: string[] = [];
  findings.forEach((f, i) => {
    if (!f.ranks.includes(rank) || f.first_step === null) return;
    const from = at(f.first_step);
    const to = at(f.last_step ?? last);
    bars.push(
      svg("rect", {
        x: `${from}%`,
        width: `${Math.max(0.4, to - from)}%`,
        y: (kLane - kBar) / 2,
        height: kBar,
        rx: 2,
        class: f.certainty === "certain" ? "bar" : "bar statistical",
      }),
    );
    words.push(`finding ${i + 1}, ${step_range(f.first_step, f.last_step)}`);
  });
  const picture = svg(
    "svg",
    {
      height: kLane,
      width: "100%",
      role: "img",
      "aria-label": `${ranks([rank])}: ${words.join("; ") || "no finding"}`,
    },
    svg("line", { x1: 0, x2: "100%", y1: kLane / 2, y2: kLane / 2, class: "rail" }),
    ...bars,
  );
  return el(
    "div",
    { class: words.length > 0 ? "lane named" : "lane" },
    el("span", { class: "lane-name", "aria-hidden": "true" }, `rank ${rank}`),
    picture,
  );
}
