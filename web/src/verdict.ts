// The first thing on the page: the verdict in words, and what it rests on.
import type { Finding, Health, PageDocument, Run } from "./document";
import { el } from "./dom";
import { count, integer, time } from "./format";
import type { Section } from "./section";
import { make_timeline } from "./timeline";

type Tone = "clean" | "alarm" | "unknown";

interface Verdict {
  tone: Tone;
  text: string;
  detail: string;
}

export function verdict_of(page: PageDocument): Verdict {
  const { run, findings, health } = page;
  if (!run) return study_verdict(page);
  const stopped = health && !health.enabled ? `The monitor stopped: ${health.reason || "no reason was stored"}.` : "";
  const first = findings[0];
  if (first)
    return {
      tone: "alarm",
      text: first.message || first.cause,
      detail: [more_findings(findings), stopped].join(" ").trim(),
    };
  if (page.no_verdict) return { tone: "unknown", text: `No verdict yet: ${page.no_verdict}`, detail: stopped };
  if (run.steps === 0) {
    return {
      tone: "unknown",
      text: "No verdict yet: no step has been analysed.",
      detail: stopped || "The first verdict comes with the first step that all workers finish.",
    };
  }
  const extent = `${count(run.world, "worker")} \u00d7 ${count(run.steps, "step")}`;
  if (run.world < 2) {
    return {
      tone: "unknown",
      text: "No verdict: one worker has no other to be compared with.",
      detail: `Its own losses and norms over ${count(run.steps, "step")} are below. ${stopped}`.trim(),
    };
  }
  if (stopped)
    return {
      tone: "unknown",
      text: stopped,
      detail: `No findings in the ${extent} before that. Training went on without the monitor.`,
    };
  return {
    tone: "clean",
    text: `No findings in ${extent}.`,
    detail: [watched(page), missed(health)].filter(Boolean).join(" "),
  };
}

function study_verdict(page: PageDocument): Verdict {
  const study = page.study.data;
  if (study) return { tone: "clean", text: study.title || study.name, detail: study.question };
  const lab = page.labs[0];
  if (lab) return { tone: lab.ok === false ? "alarm" : "clean", text: lab.title, detail: "" };
  return {
    tone: "unknown",
    text: "There is nothing in this document.",
    detail: "It holds no run, no study and no lab.",
  };
}

function more_findings(findings: Finding[]): string {
  const rest = findings.length - 1;
  return rest > 0 ? `And ${rest === 1 ? "one more finding" : `${integer(rest)} more findings`}, below.` : "";
}

function missed(health: Health | null): string {
  const lost = health?.counts.find(([name]) => name === "missing_records")?.[1] ?? 0;
  return lost > 0 ? `${count(lost, "record")} did not come in time and could not be judged.` : "";
}

const kChannels: [string, string][] = [
  ["loss", "losses"],
  ["gradient", "gradients"],
  ["reduced", "the reduction"],
  ["batches", "the data read"],
  ["weights", "weights"],
  ["buffers", "buffers"],
  ["optimizer", "optimizer state"],
  ["rng", "random state"],
  ["config", "configuration"],
];

// What was watched and what was not: a clean verdict says nothing of a channel that nobody showed to the monitor.
function watched(page: PageDocument): string {
  const columns = page.series.data?.columns;
  const has = (name: string): boolean => columns?.get(name)?.value.some((v) => v !== null) ?? false;
  const inferred: Record<string, boolean> = {
    loss: has("loss_mean"),
    gradient: has("norm_mean"),
    reduced: has("reduced_norm"),
    batches: page.audit.data !== null,
  };
  const askable = page.channels ? kChannels : kChannels.filter(([id]) => id in inferred);
  const seen = askable.filter(([id]) => (page.channels ? page.channels.includes(id) : inferred[id]));
  const unseen = askable.filter((channel) => !seen.includes(channel));
  const list = (channels: [string, string][]): string => channels.map(([, name]) => name).join(", ");
  if (seen.length === 0) return "";
  return `Watched: ${list(seen)}.${unseen.length > 0 ? ` Not watched: ${list(unseen)}.` : ""}`;
}

const kTones: Record<Tone, string> = { clean: "Clean", alarm: "Findings", unknown: "No verdict" };

export function verdict_section(): Section {
  const mark = el("span", { class: "mark" });
  const text = el("h1", { id: "verdict-title" });
  const detail = el("p", { class: "detail" });
  const meta = el("p", { class: "meta" });
  const timeline = make_timeline();
  const element = el(
    "section",
    { id: "verdict", "aria-labelledby": text.id },
    el("div", { "aria-live": "polite" }, mark, text, detail),
    meta,
    timeline.element,
  );
  return {
    id: "verdict",
    title: "Verdict",
    element,
    update: (page) => {
      const verdict = verdict_of(page);
      element.dataset["tone"] = verdict.tone;
      const study_only = !page.run && (page.study.data !== null || page.labs.length > 0);
      mark.textContent = study_only ? (page.study.data ? "Study" : "Lab") : kTones[verdict.tone];
      // Unchanged words are left alone, or a screen reader would read the verdict aloud at every refresh.
      if (text.textContent !== verdict.text) text.textContent = verdict.text;
      if (detail.textContent !== verdict.detail) detail.textContent = verdict.detail;
      detail.hidden = verdict.detail === "";
      meta.replaceChildren(...(page.run ? run_meta(page.run) : study_meta(page)));
      timeline.update(page);
    },
  };
}

function run_meta(run: Run): Node[] {
  const parts: Node[] = [
    el("span", { class: "run-name" }, run.name || "(run without a name)"),
    el("span", {}, count(run.world, "worker")),
    el("span", {}, run.steps > 0 ? count(run.steps, "step") : "no steps"),
  ];
  if (run.created) parts.push(el("span", {}, "began ", el("time", { datetime: run.created }, time(run.created))));
  if (run.updated) parts.push(el("span", {}, "last step ", el("time", { datetime: run.updated }, time(run.updated))));
  if (!run.finished) parts.push(el("span", {}, "still running"));
  return parts;
}

function study_meta(page: PageDocument): Node[] {
  const study = page.study.data;
  if (!study) return [];
  const parts: Node[] = [];
  if (study.workers !== null) parts.push(el("span", {}, count(study.workers, "worker")));
  if (study.steps !== null) parts.push(el("span", {}, `${count(study.steps, "step")} per run`));
  if (study.seeds.length > 0) parts.push(el("span", {}, count(study.seeds.length, "seed")));
  if (study.created) parts.push(el("span", {}, el("time", { datetime: study.created }, time(study.created))));
  return parts;
}
