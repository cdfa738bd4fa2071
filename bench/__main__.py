"""``python -m bench``: see ``bench/README.md``."""

import sys

from bench import common

if __name__ == "__main__":
    common.start_clean()

from pathlib import Path

from bench import diff, plot, summary
from bench.common import Missing, load
from bench.suites import UsageError, load_suite, options_for, parser, write


def _checkout() -> None:
    """Raise ``UsageError`` if ``agrad`` is not imported from this checkout."""
    place = Path(load("agrad").__file__).resolve()
    if not place.is_relative_to(common.ROOT):
        raise UsageError(f"agrad comes from {place.parent}, not from this checkout; run this in {common.ROOT}")


def main(arguments: list[str]) -> int:
    """Run the suites in the arguments, and return the exit code.

    It is 1 if a check failed, 2 if one could not be run.
    """
    for name, command in (("diff", diff.main), ("plot", plot.main), ("summary", summary.main)):
        if arguments[:1] == [name]:
            return command(arguments[1:])
    given = parser().parse_args(arguments)
    code = 0
    try:
        _checkout()
        suites = {name: load_suite(name) for name in dict.fromkeys(given.suites)}
        options = options_for(given, suites)
        for name, suite in suites.items():
            report = suite.run(options[name])
            print(report.text, flush=True)
            code = max(code, report.code)
            written = []
            if given.json is not None:
                file = given.json if len(suites) == 1 else given.json / f"{name}.json"
                written += write(file, report)
            if given.plot is not None and report.draw is not None:
                file = given.plot if len(suites) == 1 else given.plot / f"{name}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                report.draw(file)
                written.append(file)
            if written:
                print(f"\nwritten: {', '.join(map(str, written))}", flush=True)
    except (UsageError, Missing) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
