"""Mutation testing of one folder of the package with cosmic-ray: ``python tests/mutation.py jit --count 40``.

The command changes the files of the checkout, one place at a time, so run it in a worktree. It prints the changes that
the tests do not notice. See ``CONTRIBUTING.md``.
"""

import argparse
import random
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPERATORS = re.compile(
    "core/(ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|Pow_Mul|Mod_FloorDiv|FloorDiv_Mod)"
    "|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is)"
    "|ReplaceUnaryOperator_Delete_|AddNot|Replace(True|False|And|Or|Break|Continue)With|NumberReplacer|RemoveDecorator"
    "|ZeroIterationForLoop)"
)
"""The operators of cosmic-ray in use. The others change annotations (``int | None``), or repeat these."""

TABLES = ["tests/transforms/test_vmap.py", "tests/jit/test_jit.py"]
"""Tests of the operations outside ``tests/ops``."""


def main() -> None:
    from cosmic_ray import commands
    from cosmic_ray.config import ConfigDict
    from cosmic_ray.work_db import WorkDB, use_db

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="a folder of the package, for example jit")
    parser.add_argument("tests", nargs="*", help="files and options for pytest (default: tests/FOLDER)")
    parser.add_argument("--count", type=int, default=40, help="number of changes (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="seed that selects them (default: 1)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds of one run of the tests (default: 300)")
    given = parser.parse_args()
    modules = sorted((ROOT / "agrad" / given.folder).rglob("*.py"))
    tests = given.tests or [f"tests/{given.folder}", *(TABLES if given.folder == "ops" else [])]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    config = ConfigDict({"test-command": " ".join(command), "timeout": given.timeout, "distributor": {"name": "local"}})
    with tempfile.TemporaryDirectory() as folder, use_db(f"{folder}/session.sqlite", WorkDB.Mode.create) as session:
        commands.init(modules, session, {})
        found = [item for item in session.work_items if OPERATORS.match(item.mutations[0].operator_name)]
        found.sort(key=lambda item: [(str(m.module_path), m.operator_name, m.occurrence) for m in item.mutations])
        session.clear()
        session.add_work_items(random.Random(given.seed).sample(found, min(given.count, len(found))))
        commands.execute(session, config)
        results = [result for _, result in session.completed_work_items]
    survived = [result.diff for result in results if not result.is_killed]
    print("\n\n".join(survived), f"\n{len(results) - len(survived)} of {len(results)} changes were noticed.")


if __name__ == "__main__":
    main()
