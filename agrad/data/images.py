"""Folders of images."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from agrad.data.files import StrPath, optional
from agrad.errors import DataError


class ImageFolder:
    """A data set of image files, in a folder for each class.

    An example is a pair of an image and its class label. The package Pillow reads images on access. Hidden files and
    files without an image extension are skipped. Links are followed, except for links to a folder that contains them.

    Parameters
    ----------
    root : str or path
        The folder of the classes' folders, whose sorted names are the classes 0, 1, ... Images may be in folders of
        these.
    transform : function, optional
        Function from a `PIL.Image.Image` of the mode RGB to the content of the example. By default, `numpy.asarray`, an
        array of bytes of shape (height, width, 3).

    Attributes
    ----------
    classes : list of str
        The names of the classes.
    class_to_idx : dict of str to int
        Their numbers.
    samples : list of tuple
        Path and class label of each image, sorted by class and path.
    targets : list of int
        The class labels.

    Raises
    ------
    MissingExtraError
        If Pillow is not installed.
    DataError
        If the folder cannot be read, does not contain a folder, or one of these does not contain an image. Also raised
        for an example whose file is not a complete image.

    Examples
    --------
    >>> import os, tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         os.mkdir(os.path.join(folder, name))
    ...         Image.new("RGB", (4, 3)).save(os.path.join(folder, name, "0.png"))
    ...     data = agrad.data.ImageFolder(folder)
    ...     image, number = data[1]
    >>> data.classes, image.shape, number
    (['cat', 'dog'], (3, 4, 3), 1)
    """

    def __init__(self, root: StrPath, transform: Callable[[Any], Any] | None = None) -> None:
        self.root: str = os.fspath(root)
        self.transform = transform
        ends = tuple(_pillow(self.root).registered_extensions())
        try:
            with os.scandir(self.root) as entries:
                self.classes: list[str] = sorted(
                    entry.name for entry in entries if _shown(entry.name) and entry.is_dir()
                )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(f"{self.root!r}: expected a folder of images, but it cannot be read: {reason}") from error
        if not self.classes:
            raise DataError(f"{self.root!r}: expected a folder of images for each class, found no folder")
        self.class_to_idx: dict[str, int] = {name: number for number, name in enumerate(self.classes)}
        self.samples: list[tuple[str, int]] = [
            (path, number) for name, number in self.class_to_idx.items() for path in self._images(name, ends)
        ]
        self.targets: list[int] = [number for _, number in self.samples]

    def _images(self, name: str, ends: tuple[str, ...]) -> list[str]:
        """Return the paths of the images of a class."""
        top = os.path.join(self.root, name)
        paths = [
            os.path.join(folder, file)
            for folder, files in _walk(top)
            for file in files
            if _shown(file) and file.lower().endswith(ends)
        ]
        if not paths:
            raise DataError(f"{top!r}: expected one image or more of the class {name!r}, found none")
        return sorted(paths)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, number = self.samples[index]
        try:
            with _pillow(self.root).open(path) as file:
                image = file.convert("RGB")
        except Exception as error:
            # for damage Pillow raises half a dozen types, SyntaxError among them
            raise DataError(f"{path!r} is not a complete image: {error}. Download it again, or remove it.") from error
        return (np.array(image) if self.transform is None else self.transform(image)), number


def _walk(top: str) -> Iterator[tuple[str, list[str]]]:
    """Return an iterator over folders and files, which follows no link in circles."""
    for folder, folders, files in os.walk(top, followlinks=True):
        steps = folder[len(top) :].split(os.sep)
        around = [os.path.realpath(top + os.sep.join(steps[: n + 1])) for n in range(len(steps))]
        folders[:] = [name for name in folders if not _circles(os.path.join(folder, name), around)]
        yield folder, files


def _circles(path: str, around: list[str]) -> bool:
    """Return True for a link to a folder around it, or to one that holds that."""
    target = os.path.join(os.path.realpath(path), "")
    return os.path.islink(path) and any(os.path.join(place, "").startswith(target) for place in around)


def _shown(name: str) -> bool:
    return not name.startswith(".")


def _pillow(root: str) -> Any:
    """Return the module `PIL.Image`."""
    return optional("PIL.Image", "Pillow", "data", f"{root!r}: reading images")
