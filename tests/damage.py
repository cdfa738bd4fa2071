"""Damaged copies of good files, for the tests that every reader passes: an honest error or a whole result."""

from hypothesis import strategies as st

from agrad.errors import DataError


def read_or_refused(read, path):
    """What ``read`` makes of a file, or None where it refuses it with an error that names the file."""
    try:
        return read(path)
    except DataError as error:
        message = str(error)
    assert str(path) in message
    return None


@st.composite
def damaged(draw, content):
    """`content` with its end cut off, or some bytes of it overwritten, removed or added."""
    at = draw(st.integers(0, len(content)))
    if draw(st.booleans()):
        return content[:at]
    removed = draw(st.integers(0, 4))
    return content[:at] + draw(st.binary(max_size=4)) + content[at + removed :]
