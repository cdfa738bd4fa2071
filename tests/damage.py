"""Damaged copies of good files, which a reader refuses or reads as a whole."""

from hypothesis import strategies as st

from agrad.errors import DataError


def read_or_refused(read, path):
    """Return the result of ``read``, or None for an error that names the file."""
    try:
        return read(path)
    except DataError as error:
        message = str(error)
    assert str(path) in message
    return None


@st.composite
def damaged(draw, content):
    """Return `content` cut off, or with bytes overwritten, removed or added."""
    at = draw(st.integers(0, len(content)))
    if draw(st.booleans()):
        return content[:at]
    removed = draw(st.integers(0, 4))
    return content[:at] + draw(st.binary(max_size=4)) + content[at + removed :]
