"""The page of PyTorch's names is what its script writes, and the script sees what differs."""

from typing import Any

import pytest
import torch_page

from agrad import nn

pytestmark = pytest.mark.needs("torch")


def test_the_page_is_up_to_date() -> None:
    committed = torch_page.PAGE.read_text(encoding="utf-8")
    assert torch_page.page() == committed, "write it anew: python tests/torch_page.py"


def test_every_section_counts_its_names() -> None:
    lines = list(torch_page.section_of("torch.nn"))
    total, has, differ, missing = (int(word) for word in lines[1].split() if word.isdecimal())
    assert total == has + differ + missing == len(torch_page.public("torch.nn")) > 150
    assert {"Linear", "Module", "ReLU", "Transformer"} <= set(torch_page.public("torch.nn"))
    assert {"conv1d", "relu", "one_hot"} <= set(torch_page.public("torch.nn.functional"))


def test_missing_arguments_are_seen() -> None:
    def theirs(x: Any, alpha: float = 1.0, inplace: bool = False, beta: float = 2.0) -> None: ...

    def mine(x: Any, alpha: float = 1.0) -> None: ...

    assert torch_page.lacks(theirs, mine) == ["beta"]
    assert torch_page.lacks(mine, theirs) == []
    assert torch_page.lacks(nn.ReLU, nn.ReLU) == []
