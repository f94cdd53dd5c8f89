// Pictures of the page for people to look at: `npm run shots [-- folder [fixture...]]`.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fixture_names } from "../fixtures/make_fixture.mjs";
import { kLaptop, kPhone, new_page, report_folder, start_browser, walk_through } from "./browser.mjs";

const folder = process.argv[2] ?? "dist/shots";
const names = process.argv.length > 3 ? process.argv.slice(3) : fixture_names;
mkdirSync(folder, { recursive: true });
const views = [
  ["light", { viewport: kLaptop, colorScheme: "light" }],
  ["dark", { viewport: kLaptop, colorScheme: "dark" }],
  ["phone", { viewport: kPhone, colorScheme: "light", deviceScaleFactor: 2, isMobile: true, hasTouch: true }],
];
const browser = await start_browser();
const reports = report_folder();
try {
  for (const name of names) {
    for (const [view, options] of views) {
      const { page, context, problems } = await new_page(browser, options);
      await page.goto(reports.report(name));
      await page.waitForSelector("#verdict:not([hidden])");
      await walk_through(page);
      await page.screenshot({ path: join(folder, `${name}-${view}.png`), fullPage: true });
      if (problems.length > 0) console.log(name, view, problems);
      await context.close();
    }
  }
} finally {
  reports.remove();
  await browser.close();
}
