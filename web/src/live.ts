// The dashboard's side of the page: lists runs, fetches the chosen one, and refetches when the server says it has grown.
// It only reads; nothing here can change a run.
import type { RunListing } from "./document";
import { el } from "./dom";
import { count } from "./format";
import type { Page } from "./page";
import { read_document, read_error, read_runs } from "./read_document";

const kPoints = 1000;
const kRefetchMs = 2000;

async function get(url: string): Promise<string> {
  let response: Response;
  try {
    response = await fetch(url, { cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new Error("The server does not answer. Is `lockstep serve` still running?");
  }
  const text = await response.text();
  if (response.ok) return text;
  if (response.status === 401)
    throw new Error("The server wants a token: open the address that `lockstep serve` printed.");
  throw new Error(read_error(text) || `The server answered with status ${response.status}.`);
}

const run_label = (run: RunListing): string => {
  const found = run.findings_count ?? 0;
  const extent = run.kind === "study" ? "study" : `${run.world ?? "?"} \u00d7 ${run.steps ?? 0}`;
  return `${run.name} (${extent}${found > 0 ? `, ${count(found, "finding")}` : ""})`;
};

export function start_live(page: Page): void {
  const select = el("select", { "aria-label": "Run", id: "run" });
  const state = el("span", { class: "state", role: "status" }, "connecting");
  page.tools.append(el("label", { class: "field" }, el("span", {}, "Run"), select), state);

  let runs: RunListing[] = [];
  let shown = decodeURIComponent(location.hash.startsWith("#run=") ? location.hash.slice(5) : "");
  let last_fetch = 0;
  let waiting = false; // a refetch is due, now or when the page is visible again
  let busy = false;

  const set_state = (text: string, kind: string): void => {
    if (state.textContent !== text) state.textContent = text;
    state.dataset["kind"] = kind;
  };
  const list_runs = async (): Promise<void> => {
    runs = read_runs(await get("api/runs"));
    if (!runs.some((r) => r.name === shown)) shown = runs[0]?.name ?? "";
    select.replaceChildren(
      ...runs.map((r) => el("option", { value: r.name, selected: r.name === shown }, run_label(r))),
    );
    select.disabled = runs.length === 0;
  };
  const refetch = async (): Promise<void> => {
    if (busy || document.hidden || shown === "") return;
    busy = true;
    waiting = false;
    last_fetch = Date.now();
    const wanted = shown;
    try {
      const text = await get(`api/run?name=${encodeURIComponent(wanted)}&points=${kPoints}`);
      if (wanted === shown) page.update(read_document(text));
    } catch (problem) {
      page.show_error(message_of(problem));
    }
    busy = false;
    if (wanted !== shown) void refetch();
  };
  const refetch_soon = (): void => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => void refetch(), Math.max(0, last_fetch + kRefetchMs - Date.now()));
  };

  select.addEventListener("change", () => {
    shown = select.value;
    history.replaceState(null, "", `#run=${encodeURIComponent(shown)}`);
    void refetch();
  });
  document.addEventListener("visibilitychange", () => !document.hidden && waiting && void refetch());

  const on_update = (event: MessageEvent<string>): void => {
    let name = "";
    try {
      name = String((JSON.parse(event.data) as { run?: unknown }).run ?? "");
    } catch {
      return; // an event that is no JSON is none of ours
    }
    if (!runs.some((r) => r.name === name)) void begin();
    else if (name === shown) refetch_soon();
  };
  const begin = async (): Promise<void> => {
    try {
      const before = shown;
      await list_runs();
      if (runs.length === 0)
        page.show_error("There are no runs in this folder yet. The page fills as soon as one begins.");
      else if (before !== shown || last_fetch === 0) await refetch();
    } catch (problem) {
      page.show_error(message_of(problem));
    }
  };
  const listen = (): void => {
    const events = new EventSource("api/events");
    let broken = false;
    events.addEventListener("open", () => {
      set_state("live", "live");
      if (broken) void begin().then(refetch);
      broken = false;
    });
    events.addEventListener("error", () => {
      broken = true;
      const closed = events.readyState === EventSource.CLOSED; // the browser gave up; it does so on HTTP errors
      set_state(closed ? "not connected" : "reconnecting", "lost");
      if (closed) setTimeout(listen, 5000);
    });
    events.addEventListener("update", on_update);
  };
  void begin().then(listen);
}

const message_of = (problem: unknown): string => (problem instanceof Error ? problem.message : String(problem));
