// Opens the built page in Debian's Chromium, from file:// or from a server, and collects everything that went wrong.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { embed, fixture } from "../fixtures/make_fixture.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const built_page = () => readFileSync(join(root, "dist", "index.html"), "utf8");

export function start_browser() {
  return chromium.launch({
    executablePath: process.env.LOCKSTEP_CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export const kLaptop = { width: 1280, height: 900 };
export const kPhone = { width: 390, height: 844 };
export const kSmallPhone = { width: 360, height: 740 };

// A page whose `problems` lists console errors, page errors, failed requests and any request that leaves the file.
export async function new_page(browser, options = {}) {
  const context = await browser.newContext({
    viewport: kLaptop,
    timezoneId: "Europe/Berlin",
    locale: "de-DE",
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`page: ${error.message}`));
  page.on("requestfailed", (request) => problems.push(`request: ${request.url()}`));
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  return { page, context, problems, requests };
}

// Waits for what has no event of its own; the page's time limit is the only clock, so a slow machine only takes longer.
export async function until(page, condition) {
  for (let tries = 0; tries < 400; ++tries) {
    if (await condition()) return;
    await page.waitForTimeout(50);
  }
  throw new Error(`never came true: ${condition}`);
}

// Where an element is in the window, after bringing it there; for the mouse.
export async function box_of(page, selector) {
  const target = page.locator(selector).first();
  await target.evaluate((e) => e.scrollIntoView({ block: "center", behavior: "instant" }));
  return target.boundingBox();
}

// A folder of report files that is removed at the end of the test.
export function report_folder() {
  const folder = mkdtempSync(join(tmpdir(), "lockstep-page-"));
  return {
    report(name, json = fixture(name)) {
      const path = join(folder, `${name}.html`);
      writeFileSync(path, embed(built_page(), json));
      return pathToFileURL(path).href;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

// Scrolls through, so that everything has been laid out and drawn once.
export async function walk_through(page) {
  await page.evaluate(async () => {
    for (let y = 0; y < document.body.scrollHeight; y += 500) {
      window.scrollTo({ top: y, behavior: "instant" });
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 10)));
    }
    window.scrollTo({ top: 0, behavior: "instant" });
    await new Promise((done) => setTimeout(done, 50));
  });
}
