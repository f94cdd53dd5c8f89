// Entry: a report when the page carries data, a dashboard when it was served without.
import { start_live } from "./live";
import { make_page } from "./page";
import { read_document } from "./read_document";

const root = document.getElementById("page");
const data = document.getElementById("lockstep-data")?.textContent?.trim() ?? "";
if (root) {
  const page = make_page(root);
  if (data !== "") {
    try {
      page.update(read_document(data));
    } catch (problem) {
      page.show_error(problem instanceof Error ? problem.message : String(problem));
    }
  } else if (location.protocol === "file:") {
    page.show_error(
      "This page carries no data. Write a report with `lockstep report RUN -o report.html`, or watch a run with `lockstep serve`.",
    );
  } else {
    start_live(page);
  }
}
