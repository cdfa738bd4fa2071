"""The command line of a gallery's programs."""

import tempfile
from pathlib import Path
from typing import Any


def arguments(gallery: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """Return the words after the program's name: those in examples/ draw their picture if asked."""
    if Path(script["src_file"]).parent.name != "examples":
        return []
    return ["--plot", str(Path(tempfile.gettempdir()) / "agrad_gallery.png")]
