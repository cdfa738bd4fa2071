"""Fast training steps of the MLP in PyTorch: ``torch.compile``, and CUDA graphs."""

import itertools
from typing import Any

from bench.common import Candidate, Job, Missing, load

MODE = "reduce-overhead"


def _parts(size: int, device: str) -> tuple[Any, Any, Any, list[tuple[Any, Any]]]:
    """Return the model, the criterion, the optimizer and the batches on a device."""
    mlp, torch = load("bench.mlp"), load("torch")
    where = torch.device(device)
    if where.type == "cuda" and not torch.cuda.is_available():
        raise Missing("this PyTorch sees no CUDA GPU")
    layers: list[Any] = []
    for w, b in mlp.initial():
        layer = torch.nn.Linear(*w.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(w.T.copy()))
            layer.bias.copy_(torch.from_numpy(b))
        layers += [layer, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).to(where)
    optimizer = torch.optim.SGD(model.parameters(), lr=mlp.RATE, momentum=mlp.MOMENTUM, fused=True)
    batches = [(torch.from_numpy(x).to(where), torch.from_numpy(t).to(where)) for x, t in mlp.batches(size)]
    return model, torch.nn.CrossEntropyLoss(), optimizer, batches


def _wait(device: str) -> Any:
    torch = load("torch")
    return torch.cuda.synchronize if torch.device(device).type == "cuda" else (lambda: None)


def compiled(size: int, device: str) -> Job:
    """Return the step with ``torch.compile`` and the fused optimizer.

    On CUDA devices it is replayed as CUDA graphs.
    """
    torch = load("torch")
    model, criterion, optimizer, batches = _parts(size, device)
    source = itertools.cycle(batches)
    mode = MODE if torch.device(device).type == "cuda" else "default"
    loss_of = torch.compile(lambda x, labels: criterion(model(x), labels), mode=mode)

    def step() -> Any:
        x, labels = next(source)
        optimizer.zero_grad()
        loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()
        return loss

    return Job(step, read=lambda loss: loss.item(), wait=_wait(device), device=device)


def captured(size: int, device: str) -> Job:
    """Return the whole step in one CUDA graph, captured as the PyTorch documentation describes."""
    torch = load("torch")
    if torch.device(device).type != "cuda":
        raise Missing("CUDA graphs are of CUDA devices")
    model, criterion, optimizer, batches = _parts(size, device)
    source = itertools.cycle(batches)
    x, labels = (part.clone() for part in batches[0])
    start = [p.detach().clone() for p in model.parameters()]

    def work() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()
    with torch.no_grad():  # restore in place what the preparation changed, because the graph reads this memory
        for p, value in zip(model.parameters(), start, strict=True):
            p.copy_(value)
            optimizer.state[p]["momentum_buffer"].zero_()

    def step() -> Any:
        given, wanted = next(source)
        x.copy_(given)
        labels.copy_(wanted)
        graph.replay()
        return loss

    return Job(step, read=lambda loss: loss.item(), wait=_wait(device), device=device)


def candidates(device: str) -> list[Candidate]:
    """Return the fast candidates of PyTorch on a device."""
    return [
        Candidate(f"PyTorch, torch.compile {MODE}, {device}", compiled, (device,), ("torch",)),
        Candidate(f"PyTorch, CUDA graph by hand, {device}", captured, (device,), ("torch",)),
    ]
