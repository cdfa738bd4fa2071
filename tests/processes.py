"""Programs in Python processes of their own."""

import os
import subprocess
import sys


def run_program(code: str, *arguments: object, strict: bool = False, **variables: str) -> str:
    """Run a program that must succeed, and return what it printed; ``strict``: warnings are errors.

    variables: added to the environment.
    """
    options = ["-W", "error"] if strict else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
