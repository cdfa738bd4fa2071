"""Wrong calls of optimizers, schedulers and pure functions: their errors, by tables of calls."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from refusals import refuses
from tensors import leaf

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DtypeError, NotDifferentiableError, OperandError, ShapeError
from agrad.optim import lr_scheduler as S
from agrad.optim import swa_utils

Row = tuple[type[Exception], str, Callable[..., Any]]


def of(made: Callable[[], Any], rows: list[Row]) -> Any:
    """Return a test of functions of what another one makes."""
    return refuses([(error, text, lambda call=call: call(made())) for error, text, call in rows])


test_optimizers = of(lambda: leaf(np.ones(2)), [
    (ConfigurationError, "SGD: parameters must not be empty", lambda w: optim.SGD([], 0.1)),
    (ConfigurationError, "parameters 0 and 2 must differ", lambda w: optim.SGD([w, leaf(np.ones(1)), w], 0.1)),
    (OperandError, "SGD: params must be a list, got one Tensor", lambda w: optim.SGD(w, 0.1)),
    (OperandError, "model.parameters", lambda w: optim.Adam(nn.Linear(1, 1))),
    (OperandError, "SGD: parameter 1 must be a Tensor, got ndarray", lambda w: optim.SGD([w, np.ones(2)], 0.1)),
    (NotDifferentiableError, "leaf", lambda w: optim.SGD([w * 2], 0.1)),
    (DtypeError, "int64", lambda w: optim.SGD([agrad.asarray([1, 2])], 0.1)),
    (ConfigurationError, "lr", lambda w: optim.SGD([w], -0.1)),
    (ConfigurationError, "lr", lambda w: optim.SGD([w], math.nan)),
    (ConfigurationError, "momentum", lambda w: optim.SGD([w], 0.1, momentum=-1)),
    (ConfigurationError, "nesterov", lambda w: optim.SGD([w], 0.1, nesterov=True)),
    (ConfigurationError, "betas", lambda w: optim.Adam([w], betas=(0.9, 1.0))),
    (ConfigurationError, "betas", lambda w: optim.Adam([w], betas=0.9)),
    (ConfigurationError, "eps", lambda w: optim.AdamW([w], eps=-1e-8)),
    (ConfigurationError, "max_norm", lambda w: optim.clip_grad_norm([w], -1.0)),
    (ConfigurationError, "rho must be a number from 0 to 1, got 1.5", lambda w: optim.Adadelta([w], rho=1.5)),
    (ConfigurationError, "etas must be a number between 0 and 1", lambda w: optim.Rprop([w], etas=(1.2, 0.5))),
    (ConfigurationError, "step_sizes", lambda w: optim.Rprop([w], step_sizes=(2.0, 1.0))),
    (ConfigurationError, "Lion: betas", lambda w: optim.Lion([w], betas=(1.0, 0.5))),
    (ConfigurationError, "momentum", lambda w: optim.RMSprop([w], momentum=-1)),
    (ConfigurationError, "NAdam: momentum_decay", lambda w: optim.NAdam([w], momentum_decay=math.nan)),
    (ConfigurationError, "ASGD: t0", lambda w: optim.ASGD([w], t0=-1)),
    (ConfigurationError, "None, 'strong_wolfe', got 'armijo'", lambda w: optim.LBFGS([w], line_search_fn="armijo")),
    (ConfigurationError, "LBFGS: max_iter must be an integer of at least 1", lambda w: optim.LBFGS([w], max_iter=0)),
    # groups
    (ConfigurationError, "group 1: parameter 0 is already in", lambda w: optim.SGD([{"params": [w]}, {"params": [w]}])),
    (ConfigurationError, "SGD: a group must have the key 'params', got ['lr']", lambda w: optim.SGD([{"lr": 0.1}])),
    (ConfigurationError, "parameters must not be empty", lambda w: optim.SGD([{"params": [w]}, {"params": []}])),
    (ConfigurationError, "lr must be a finite number", lambda w: optim.SGD([{"params": [w], "lr": -1}])),
    (OperandError, "SGD: groups must be a list, got one dictionary", lambda w: optim.SGD({"params": [w]})),
    (OperandError, "SGD: parameters must be a list of Tensors, got 3", lambda w: optim.SGD(3)),
    (OperandError, "must be dictionaries, got Tensor for group 1", lambda w: optim.SGD([{"params": [w]}, w])),
    (OperandError, "parameter 1 has no name", lambda w: optim.SGD([("a", w), w])),
])  # fmt: skip

ADAM = optim.Adam.transform(lr=0.1)
PARAMS = {"w": np.ones(2)}
test_pure_functions = of(lambda: ADAM.init(PARAMS), [
    (OperandError, "grads must have the structure of", lambda state: ADAM.update({"v": np.ones(2)}, state, PARAMS)),
    (OperandError, "a state must have count, m, v, got count", lambda state: ADAM.update(PARAMS, {"count": 1}, PARAMS)),
    (ShapeError, "0 must have shape (2,), got (3,)", lambda state: ADAM.update({"w": np.ones(3)}, state, PARAMS)),
    (DtypeError, "float32", lambda state: ADAM.update({"w": np.ones(2, np.float32)}, state, PARAMS)),
    (DtypeError, "int64", lambda state: ADAM.init([np.arange(3)])),
    (ConfigurationError, "Adam.transform: params must not be empty", lambda state: ADAM.init([])),
    (ConfigurationError, "lr must be a finite number", lambda state: ADAM.update(PARAMS, state, PARAMS, lr=-1.0)),
    (ConfigurationError, "lr=schedule", lambda state: optim.SGD.transform(lr=optim.Constant(0.1))),
    (ConfigurationError, "unexpected keyword argument 'beta'", lambda state: optim.Adam.transform(beta=1)),
    (ConfigurationError, "step(closure)", lambda state: optim.LBFGS.transform()),
])  # fmt: skip


def two_groups() -> optim.Optimizer:
    return optim.SGD([{"params": [leaf(np.ones(2))]}, {"params": [leaf(np.ones(2))], "lr": 0.4}], lr=0.2)


test_schedulers = of(two_groups, [
    (OperandError, "StepLR: optimizer must be an agrad optimizer, got list", lambda o: S.StepLR([o], 3)),
    (OperandError, "LambdaLR: optimizer must be an agrad optimizer, got int", lambda o: S.LambdaLR(3, abs)),
    (ConfigurationError, "StepLR: step_size must be an integer of at least 1, got 0", lambda o: S.StepLR(o, 0)),
    (ConfigurationError, "milestones", lambda o: S.MultiStepLR(o, [1.5])),
    (ConfigurationError, "factor must be a number from 0 to 1, got 1.5", lambda o: S.ConstantLR(o, 1.5)),
    (ConfigurationError, "LinearLR: start_factor must be greater than 0, got 0", lambda o: S.LinearLR(o, 0.0)),
    (ConfigurationError, "T_max", lambda o: S.CosineAnnealingLR(o, 0)),
    (ConfigurationError, "must have one value for each of 2 groups, got 1", lambda o: S.LambdaLR(o, [abs])),
    (ConfigurationError, "lr_lambda must be a function of the step", lambda o: S.MultiplicativeLR(o, 0.9)),
    (ConfigurationError, "both epochs and steps_per_epoch", lambda o: S.OneCycleLR(o, 0.1, epochs=3)),
    (ConfigurationError, "one of 'cos', ..., got 'sin'", lambda o: S.OneCycleLR(o, 0.1, 9, anneal_strategy="sin")),
    (ConfigurationError, "mode must be one of 'triangular'", lambda o: S.CyclicLR(o, 0.1, 0.2, mode="square")),
    (ConfigurationError, "factor must be a finite number", lambda o: S.ReduceLROnPlateau(o, factor=1.0)),
    (ConfigurationError, "schedulers must be a non-empty list", lambda o: S.ChainedScheduler([])),
    (ConfigurationError, "must not require a metric", lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)])),
    (ConfigurationError, "must have the same", lambda o: S.SequentialLR(o, [S.StepLR(two_groups(), 2)], [])),
    (ConfigurationError, "must be 0 increasing integers", lambda o: S.SequentialLR(o, [S.StepLR(o, 2)], [4])),
    (OperandError, "schedulers[0] must be a scheduler, got int", lambda o: S.SequentialLR(o, [3], [])),
    (ConfigurationError, "anneal_epochs", lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1)),
    (ConfigurationError, "Cosine: steps must be an integer of at least 1, got 0", lambda o: optim.Cosine(0.1, 0)),
    (ConfigurationError, "Cosine: lr must be a finite number of at least 0", lambda o: optim.Cosine(-0.1, 3)),
    (ConfigurationError, "Step: every must be an integer of at least 1, got 1.5", lambda o: optim.Step(0.1, 1.5)),
    (ConfigurationError, "Exponential: lr must be ..., got nan", lambda o: optim.Exponential(math.nan, 0.5)),
    (ConfigurationError, "Warmup: schedule must be a function of the step, got 0.1", lambda o: optim.Warmup(0.1, 3)),
])  # fmt: skip
