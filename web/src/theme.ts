// Light and dark. The system decides until the reader presses the button; charts read their colours from the style
// sheet's variables, so that there is one list of colours.
import { el } from "./dom";

export interface Palette {
  text: string;
  muted: string;
  faint: string;
  line: string;
  paper: string;
  panel: string;
  accent: string;
  alarm: string;
  band: string;
  band_strong: string;
  expected: string;
  expected_band: string;
  font: string;
  series: string[];
  dark: boolean;
}

const listeners = new Set<() => void>();
const kKey = "lockstep-theme";
const system_dark = matchMedia("(prefers-color-scheme: dark)");

export const on_theme = (listener: () => void): void => void listeners.add(listener);

const is_dark = (): boolean => document.documentElement.dataset["theme"] === "dark";
const set_dark = (dark: boolean): void => void (document.documentElement.dataset["theme"] = dark ? "dark" : "light");

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    text: get("text"),
    muted: get("muted"),
    faint: get("faint"),
    line: get("line"),
    paper: get("paper"),
    panel: get("panel"),
    accent: get("accent"),
    alarm: get("alarm"),
    band: get("band"),
    band_strong: get("band-strong"),
    expected: get("expected"),
    expected_band: get("expected-band"),
    font: getComputedStyle(document.body).fontFamily,
    series: [1, 2, 3, 4, 5, 6, 7].map((i) => get(`series-${i}`)),
    dark: is_dark(),
  };
}

// Storage may be refused (file://, private windows); the choice then lasts as long as the page.
function remember(theme: string): void {
  try {
    localStorage.setItem(kKey, theme);
  } catch {
    return;
  }
}

function recall(): string | null {
  try {
    return localStorage.getItem(kKey);
  } catch {
    return null;
  }
}

export function theme_button(): HTMLButtonElement {
  let chosen = recall(); // by the reader; until then the system's setting holds
  set_dark(chosen === null ? system_dark.matches : chosen === "dark");
  const button = el("button", { type: "button", class: "quiet", id: "theme" });
  const label = (): void => {
    button.textContent = is_dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", is_dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  const changed = (): void => {
    label();
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    chosen = is_dark() ? "light" : "dark";
    set_dark(chosen === "dark");
    remember(chosen);
    changed();
  });
  system_dark.addEventListener("change", () => {
    if (chosen !== null) return;
    set_dark(system_dark.matches);
    changed();
  });
  label();
  return button;
}
