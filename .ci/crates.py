"""Checks what the crates in Cargo.lock state: no higher Rust version than ours, a licence that we may use, and that they come from
crates.io, in a version that somebody chose. That our own code keeps to our Rust version is for clippy's `incompatible_msrv` to say."""

import json
import re
import subprocess
import sys

LICENCES = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "MIT-0",
    "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def version(text):
    """`1.89` and `1.89.0` are the same version."""
    numbers = [int(part) for part in re.findall(r"\d+", text)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def is_allowed(expression):
    """Whether an SPDX expression, as `(MIT OR Apache-2.0) AND ISC`, can be met by what we may use."""
    words = re.findall(r"[()]|\bAND\b|\bOR\b|[\w.+-]+(?: WITH [\w.+-]+)?", (expression or "none").replace("/", " OR "))
    known = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    return eval(" ".join(known.get(word, str(word in LICENCES)) for word in words))


def problems(package, ours):
    if package["rust_version"] and version(package["rust_version"]) > version(ours):
        yield f"needs Rust {package['rust_version']}, and rust-version is {ours}"
    if package["source"] is None:
        for need in package["dependencies"]:
            if need["req"] == "*" and need.get("path") is None:
                yield f"takes {need['name']} in any version"
    elif package["source"] != CRATES_IO:
        yield f"comes from {package['source']}"
    if not is_allowed(package["license"]):
        yield f"has the licence {package['license']}"


def main():
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    packages = json.loads(subprocess.check_output(command))["packages"]
    ours = next(p["rust_version"] for p in packages if p["name"] == "hworker")
    compiler = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    found = [f"{p['name']} {p['version']} {problem}" for p in packages for problem in problems(p, ours)]
    if version(compiler) < version(ours):
        found.append(f"this compiler is {compiler}, and rust-version is {ours}")
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{len(packages)} packages: none needs more than Rust {ours}, all from crates.io, under licences that we may use")
    return 1 if found else 0


sys.exit(main())
