"""Functions of neural networks, with PyTorch's names and meanings."""

__all__: list[str] = []
