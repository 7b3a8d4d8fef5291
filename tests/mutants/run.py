#!/usr/bin/env python3
"""Applies each deliberate bug of this directory to a copy of the tree and runs its proof, which must fail.

    tests/mutants/run.py [NAME …]      all of them, or those whose names hold one of the words

A patch begins with what it breaks and with the tests that must catch it (`proof:`). A bug that survives its
proof makes this program fail. One that no longer applies or compiles does so as well: it proves nothing. Neither
does a proof that fails or does not end on the tree as it is: all are run on that first. Where a bug may keep its
proof from ending, the patch says so (`may hang`), and that counts as caught.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUDGET_S = int(os.environ.get("MUTANT_SECONDS", "900"))


def run(arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, **options)


def copy_of_the_tree(to):
    files = run(["git", "ls-files", "-z"], cwd=ROOT, check=True).stdout.split("\0")
    for name in filter(None, files):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)


def proof_of(patch):
    lines = patch.read_text().splitlines()
    return next(line.removeprefix("proof:").split() for line in lines if line.startswith("proof:"))


def sound(patches, tree, environment):
    """Whether all proofs pass on the tree as it is."""
    words = sorted({word for patch in patches for word in proof_of(patch)})
    test = ["cargo", "test", "--quiet", "--test", "it", "--", *words]
    try:
        return run(test, cwd=tree, env=environment, timeout=2 * BUDGET_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def judge(patch, tree, environment):
    """What became of one bug: `caught by …`, or why it was not."""
    if run(["patch", "-p1", "--fuzz=3", "-i", str(patch)], cwd=tree).returncode:
        return "DOES NOT APPLY"
    try:
        test = ["cargo", "test", "--quiet", "--test", "it"]
        if run([*test, "--no-run"], cwd=tree, env=environment).returncode:
            return "DOES NOT COMPILE"
        try:
            done = run([*test, "--", *proof_of(patch)], cwd=tree, env=environment, timeout=BUDGET_S)
        except subprocess.TimeoutExpired:
            may_hang = "may hang" in patch.read_text().splitlines()
            return f"{'caught' if may_hang else 'UNJUDGED'}: the tests do not end within {BUDGET_S} s"
        if done.returncode == 0:
            return "SURVIVED"
        failed = [line.strip() for line in done.stdout.split("failures:")[-1].splitlines() if "::" in line]
        return "caught by " + (failed[0] if failed else "a test program that died")
    finally:
        run(["patch", "-p1", "--fuzz=3", "-R", "-i", str(patch)], cwd=tree, check=True)


def main(words):
    patches = sorted(HERE.glob("*.patch"))
    patches = [p for p in patches if not words or any(word in p.stem for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_of_the_tree(tree)
        environment = dict(os.environ)
        environment.setdefault("CARGO_TARGET_DIR", str(ROOT / "target" / "mutants"))
        if not sound(patches, tree, environment):
            print("the proofs do not pass on the tree as it is, so they prove nothing")
            return 1
        for patch in patches:
            begin = time.monotonic()
            verdict = judge(patch, tree, environment)
            survivors += not verdict.startswith("caught")
            print(f"{patch.stem}: {verdict} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(patches) - survivors} of {len(patches)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
