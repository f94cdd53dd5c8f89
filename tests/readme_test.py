"""Every block of README.md that follows <!-- file: PATH --> must stand in that file, line for line."""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
text = (root / "README.md").read_text(encoding="utf-8")
blocks = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", text, re.S)
if not blocks:
    sys.exit("README.md names no file of its examples")
for name, block in blocks:
    source = (root / name).read_text(encoding="utf-8")
    if block not in source:
        sys.exit(f"README.md: the example of {name} is not what that file says")
for name in re.findall(r"\]\(((?!http|#)[^)]+)\)", text):
    if not (root / name.split("#")[0]).exists():
        sys.exit(f"README.md links to {name}, which does not exist")
print(f"README.md: {len(blocks)} examples as in their files")
