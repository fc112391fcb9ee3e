#!/usr/bin/env python3
"""Lists the crates that the program is built of and that have `unsafe` code, as a table in Markdown.

usage: python3 scripts/unsafe-below.py

Counts blocks, functions, traits and implementations in the sources of each crate, without comments, strings and
the crate's own tests, whatever its features leave out: it may say too much, never too little.
"""

import json
import pathlib
import re
import subprocess
import textwrap

TREE = ["cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
METADATA = ["cargo", "metadata", "--locked", "--format-version", "1"]
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"', re.DOTALL)
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|trait\b|extern\b)")
TESTS = {"tests", "benches", "examples"}
# Crates with less than so many uses are only named.
FEW = 20


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def count(folder):
    files = (path for path in folder.rglob("*.rs") if not TESTS & set(path.relative_to(folder).parts))
    return sum(len(UNSAFE.findall(IGNORED.sub(" ", path.read_text(errors="replace")))) for path in files)


built = {tuple(line.split()[:2]) for line in run(TREE).splitlines() if line}
rows = []
for package in json.loads(run(METADATA))["packages"]:
    if package["source"] and (package["name"], "v" + package["version"]) in built:
        uses = count(pathlib.Path(package["manifest_path"]).parent)
        about = " ".join((package["description"] or "").split()).replace("|", "\\|").split(". ")[0]
        rows.append((uses, package["name"], package["version"], about))
with_unsafe = sorted((row for row in rows if row[0]), key=lambda row: (-row[0], row[1]))
print(f"It is built of {len(rows)} crates, {len(rows) - len(with_unsafe)} of which have no `unsafe` code.\n")
print("| uses | crate | its purpose, in its own words |\n|---|---|---|")
for uses, name, version, about in with_unsafe:
    if uses >= FEW:
        print(f"| {uses} | {name} {version} | {textwrap.shorten(about, 100, placeholder=' …')} |")
few = ", ".join(f"{name} {version} ({uses})" for uses, name, version, _ in with_unsafe if uses < FEW)
print(textwrap.fill(f"\nWith less than {FEW}: {few}.", 120, replace_whitespace=False, break_on_hyphens=False))
