#!/usr/bin/env python3
"""Reads `go test -json` from standard input and prints what a person needs.

One line a package while it runs, what tests log as measured, the whole output of
every test that failed, and as the last line "N passed, N failed". A test that has subtests is its subtests.
A skipped test counts as failed: a suite that skips has not passed.

With --into FILE the counts are also added to the file, for the total of several runs.
"""

import argparse
import json
import sys
from collections import defaultdict

parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
parser.add_argument("--into", help="file that collects the counts")
options = parser.parse_args()

output = defaultdict(list)
results = {}
packages = {}


def leaves(package=None):
    """The tests that have no subtests, of one package or of all."""
    parents = {(owner, test.rsplit("/", n)[0]) for owner, test in results for n in range(1, test.count("/") + 1)}
    return [key for key in results if key not in parents and package in (None, key[0])]


for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        sys.stdout.write(line)
        continue
    action, package = event["Action"], event.get("Package") or event.get("ImportPath", "")
    test = event.get("Test", "")
    if action in ("output", "build-output"):
        output[package, test].append(event["Output"])
        if (at := event["Output"].find("measured: ")) >= 0:
            print(f"     {event['Output'][at:].rstrip()}", flush=True)
    elif action in ("pass", "fail", "skip") and test:
        results[package, test] = action
    elif action in ("pass", "fail", "skip"):
        packages[package] = action
        if action != "skip":
            verdict = "ok  " if action == "pass" else "FAIL"
            print(f"{verdict} {package} ({len(leaves(package))} tests, {event.get('Elapsed', 0):.1f} s)", flush=True)

ends = leaves()
bad = [key for key, result in results.items() if result != "pass"]
# A parent that failed by itself, with every subtest green, is a failure of its own.
own = [key for key in bad if key not in ends and not any(
    package == key[0] and test.startswith(key[1] + "/") for package, test in bad)]
# A package that failed without a failed test: it did not build, or died.
dead = [package for package, result in packages.items() if result == "fail" and not any(owner == package for owner, _ in bad)]

passed = sum(1 for key in ends if results[key] == "pass")
failed = len(ends) - passed + len(own) + len(dead)

for package, test in bad:
    print(f"\n--- {results[package, test].upper()}: {package} {test}")
    sys.stdout.write("".join(output[package, test]))
for package, test in output:
    # What a package says outside its tests: a panic, a leak, a compiler's error.
    if not test and packages.get(package, "fail") == "fail":
        print(f"\n--- output of {package}")
        sys.stdout.write("".join(output[package, test]))
if not packages and not failed:
    print("no test ran")
    failed = 1

if options.into:
    with open(options.into, "a", encoding="utf-8") as total:
        total.write(f"{passed} {failed}\n")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
