"""Checks that every *_test.cc is named by the CMakeLists.txt of its folder (or one above it)."""

import pathlib
import re
import sys


def registered(path, root):
    folder = path.parent
    while True:
        lists = folder / "CMakeLists.txt"
        if lists.exists():
            name = str(path.relative_to(folder))
            if re.search(rf"(^|[\s(]){re.escape(name)}($|[\s)])", lists.read_text(encoding="utf-8"), re.M):
                return True
        if folder == root:
            return False
        folder = folder.parent


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    tests = [path for top in ("src", "apps", "tests") for path in sorted((root / top).rglob("*_test.cc"))]
    missing = [str(path.relative_to(root)) for path in tests if not registered(path, root)]
    for name in missing:
        print(f"{name}: no CMakeLists.txt builds it")
    if not missing:
        print(f"tests: all {len(tests)} test files are built")
    return 1 if missing or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
