"""Checks that the Rust version we state is true: no crate in Cargo.lock states a higher one, nor has this compiler a
lower one. That our own code keeps to it is for clippy's `incompatible_msrv` to say."""

import json
import re
import subprocess
import sys


def version(text):
    """`1.89` and `1.89.0` are the same version."""
    numbers = [int(part) for part in re.findall(r"\d+", text)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def main():
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    packages = json.loads(subprocess.check_output(command))["packages"]
    ours = next(p["rust_version"] for p in packages if p["name"] == "hworker")
    compiler = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    needs = [(f"{p['name']} {p['version']}", p["rust_version"]) for p in packages if p["rust_version"]]
    problems = [f"{name} needs Rust {rust}" for name, rust in needs if version(rust) > version(ours)]
    if version(compiler) < version(ours):
        problems.append(f"this compiler is {compiler}")
    for problem in problems:
        print(f"rust-version is {ours}, but {problem}", file=sys.stderr)
    if not problems:
        print(f"rust-version {ours}: {len(needs)} packages state it or a lower one, the others none")
    return 1 if problems else 0


sys.exit(main())
