"""Runs the study (s1, then s2) and puts its output into docs/study.md: python3 tools/study_doc.py [build folder]."""

import pathlib
import re
import subprocess
import sys


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "build")
    page = root / "docs" / "study.md"
    text = page.read_text(encoding="utf-8")
    for study in ("s1", "s2"):
        command = [str(build / "bin" / "lockstep"), "study", study, "--out", f"runs/study-{study}"]
        output = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
        block = f"<!-- begin {study} -->\n```text\n{output.rstrip()}\n```\n<!-- end {study} -->"
        text, found = re.subn(f"<!-- begin {study} -->.*?<!-- end {study} -->", lambda _: block, text, flags=re.DOTALL)
        if found != 1:
            sys.exit(f"{page}: expected one part between '<!-- begin {study} -->' and '<!-- end {study} -->'")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
