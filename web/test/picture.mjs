// The picture of README: the first screen of a report.
//   node web/test/picture.mjs runs/study-s1/report.html docs/report.png
import { pathToFileURL } from "node:url";
import { start_browser } from "./browser.mjs";

const [report, picture] = process.argv.slice(2);
if (!report || !picture) {
  console.error("usage: node web/test/picture.mjs REPORT.html PICTURE.png");
  process.exit(2);
}
const browser = await start_browser();
const page = await browser.newPage({ viewport: { width: 1100, height: 760 } });
await page.goto(pathToFileURL(report).href);
await page.waitForTimeout(1500);
await page.screenshot({ path: picture });
await browser.close();
