"""Checks that #include arrows between the folders of src/ point one way: down the list of docs/architecture.md."""

import pathlib
import re
import sys

# Lowest first. A folder may include folders before it, itself, and include/lockstep.
LAYERS = ["base", "digest", "audit", "record", "reduce", "comm", "stats", "monitor", "detect", "store", "export",
          "report", "sdc", "train", "capi"]
FORBIDDEN = {"capi": {"train", "sdc"}}  # liblockstep carries nothing of torch
THIRD_PARTY_FREE = pathlib.Path("include/lockstep")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match.group(1), match.group(2)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    problems = []
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        if folder.name not in LAYERS:
            problems.append(f"src/{folder.name}: not in the list of layers (tools/check_layers.py)")
            continue
        rank = LAYERS.index(folder.name)
        for path in sorted(folder.rglob("*")):
            if path.suffix not in {".h", ".cc", ".c", ".cu", ".cuh"}:
                continue
            for number, _, target in includes(path):
                other = target.split("/")[0]
                if other not in LAYERS or "/" not in target or not (root / "src" / other).is_dir():
                    continue
                if LAYERS.index(other) > rank or other in FORBIDDEN.get(folder.name, ()):
                    problems.append(f"{path.relative_to(root)}:{number}: {folder.name} may not include {target}")
    for path in sorted((root / THIRD_PARTY_FREE).glob("*.h")):
        for number, bracket, target in includes(path):
            if bracket == '"' and not target.startswith("lockstep/"):
                problems.append(f"{path.relative_to(root)}:{number}: public headers include only lockstep/ and the standard library")
            if bracket == "<" and "/" in target:
                problems.append(f"{path.relative_to(root)}:{number}: no third-party type in public headers ({target})")
    print("\n".join(problems) or "layers: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
