"""The engine in C (`twofold/native/engine.c`) behind the contract of engines."""

from __future__ import annotations

import math
import os
import time
import weakref
from ctypes import byref
from typing import cast

import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.core.experience import Transition
from twofold.learners.config import TD3Config
from twofold.learners.engine import Batch
from twofold.learners.fused import leaves
from twofold.learners.nets import Nets
from twofold.native.library import (
    ACTIVATIONS,
    ACTOR,
    ADAM,
    ADD,
    CRITIC,
    LAYERS,
    SQUARES,
    TARGET,
    TRACK,
    AdamStep,
    Columns,
    EngineFields,
    Halves,
    Library,
    Room,
    Shape,
    Stack,
    Tracking,
    absent,
    library,
)
from twofold.native.pace import Pace
from twofold.nets.flat import Adam, Flat
from twofold.nets.mlp import MLP
from twofold.nets.twin import Twin


def refusal(nets: Nets, dtype: torch.dtype = torch.float32) -> str | None:
    """Why `NativeTD3` cannot train these networks, or None."""
    actor, critic = nets.actor.module, nets.critic.module
    if type(actor) is not MLP or type(critic) is not Twin:
        return f"needs plain MLPs, not {type(actor).__name__} and {type(critic).__name__}"
    if actor.output != "tanh":
        return f"needs an actor with the output tanh, not {actor.output}"
    if (actor.inputs, actor.outputs) != (critic.inputs_obs, critic.inputs_action):
        return "needs a critic of what the actor sees and does"
    return unfit(actor, dtype) or unfit(critic, dtype)


def unfit(network: MLP | Twin, dtype: torch.dtype) -> str | None:
    """What the C side cannot do of a network, or None."""
    if network.activation not in ACTIVATIONS:
        return f"has the activations {', '.join(ACTIVATIONS)}, not {network.activation}"
    if len(network.layers) > LAYERS:
        return f"has at most {LAYERS - 1} hidden layers, not {len(network.layers) - 1}"
    for parameter in network.parameters():
        if parameter.device.type != "cpu" or parameter.dtype != dtype:
            return (
                f"needs parameters that are {dtype} on the CPU, not {parameter.dtype} on {parameter.device}"
            )
    return None


class NativeTD3:
    """Targets, gradients and steps of TD3 in C; the bytes are the same with one torch thread and with several."""

    name = "native"

    def __init__(
        self, nets: Nets, cfg: TD3Config, batch_size: int = 256, built: Library | None = None
    ) -> None:
        reason = absent() if built is None else None
        if reason := reason or self._refusal(nets, torch.float32 if built is None else built.dtype):
            raise ConfigError(f"learner.engine=native {reason}; use engine=auto")
        self.library = built or library()
        self.nets, self.cfg = nets, cfg
        self._losses = torch.zeros(3, dtype=torch.float64).unbind()
        self._sums: dict[Adam, float] = {}
        self._steps: dict[Adam, AdamStep] = {}
        self._team: int | None = None
        self._pace = Pace()
        self._allocate(batch_size)

    def _refusal(self, nets: Nets, dtype: torch.dtype) -> str | None:
        return refusal(nets, dtype)

    def _allocate(self, batch_size: int) -> None:
        """Fields and memory for batches of this size."""
        self.batch_size, nets, cfg = batch_size, self.nets, self.cfg
        self._kept: list[Tensor] = []  # the memory that the C side works in
        self.values = self._memory(2, batch_size)
        self._target = self._memory(batch_size)
        self._fields = EngineFields(
            multiply=self.library.multiply,
            limit_threads=self.library.limit_threads,
            actor_values=nets.actor.values.data_ptr(),
            actor_grads=nets.actor.grads.data_ptr(),
            critic_values=nets.critic.values.data_ptr(),
            critic_grads=nets.critic.grads.data_ptr(),
            target_actor=nets.target_actor.values.data_ptr(),
            target_critic=nets.target_critic.values.data_ptr(),
            values=self.values.data_ptr(),
            next_values=self._memory(2, batch_size).data_ptr(),
            huber=cfg.huber or 0.0,
            rows=batch_size,
            twin=cfg.twin,
        )
        self._describe(self._fields)
        self._actor_halves = self._halves(nets.actor)
        self._at = byref(self._fields)
        self._items: Transition | None = None
        self._batch: Batch[Tensor] | None = None

    def _describe(self, fields: EngineFields) -> None:
        """The networks, and memory for their passes."""
        actor, critic = cast(MLP, self.nets.actor.module), cast(Twin, self.nets.critic.module)
        fields.obs, fields.actions = actor.inputs, actor.outputs
        fields.actor = shape_of(actor, actor.inputs)
        fields.critic = shape_of(critic, critic.inputs_action + critic.inputs_obs)
        fields.room = (self._room(actor, critic), self._room(actor, critic))

    def _halves(self, flat: Flat) -> Halves:
        """Room for the second half of a gradient."""
        size = flat.grads.numel()
        return Halves(flat.grads.data_ptr(), self._memory(size).data_ptr(), size)

    def _memory(self, *shape: int) -> Tensor:
        self._kept.append(self.nets.critic.values.new_zeros(*shape))
        return self._kept[-1]

    def _room(self, actor: MLP, critic: Twin) -> Room:
        rows, actions = self.batch_size, actor.outputs
        widest = max(actor.inputs + actions, *widths(actor), *widths(critic))
        return Room(
            input=self._memory(rows, padded(actor.inputs + actions)).data_ptr(),
            action=self._memory(rows, actions).data_ptr(),
            action_slope=self._memory(rows, actions).data_ptr(),
            value_slope=self._memory(rows).data_ptr(),
            scratch=self._memory(rows, padded(widest)).data_ptr(),
            unused=self._memory(self.nets.critic.values.numel()).data_ptr(),
            actor=self._stack(actor),
            critic=self._stack(critic),
        )

    def _stack(self, network: MLP | Twin) -> Stack:
        stack, rows = Stack(), self.batch_size
        for layer, width in enumerate(widths(network)[:-1]):
            stack.hidden[layer] = self._memory(rows, padded(width)).data_ptr()
            if network.norms is not None:
                stack.normal[layer] = self._memory(rows, padded(width)).data_ptr()
                stack.spread[layer] = self._memory(rows).data_ptr()
        return stack

    # ---- batches ----

    def tensors(self, items: Transition) -> Batch[Tensor]:
        """The batch; replay fills the same arrays again and again, so that looking once is enough."""
        if items is not self._items or self._batch is None:
            given = [torch.from_numpy(leaf) for leaf in leaves(items)]
            self._look(Batch(*(leaf.to(self.library.dtype) for leaf in given)))
            same = all(leaf.dtype == self.library.dtype for leaf in given)
            self._items = items if same else None
        return cast(Batch[Tensor], self._batch)

    def _look(self, batch: Batch[Tensor]) -> None:
        """Tell where the batch lies."""
        if batch is self._batch:
            return
        if len(batch.obs) != self.batch_size:
            self._allocate(len(batch.obs))
        self._batch, self._items, fields = batch, None, self._fields
        fields.obs_at, fields.action_at = columns(batch.obs), columns(batch.action)
        fields.next_obs_at, fields.reward_at = columns(batch.next_obs), columns(batch.reward)
        fields.terminated_at, fields.discount_at = columns(batch.terminated), columns(batch.discount)

    def _run(self, what: int) -> float:
        """One call of the C side, by two threads where torch has several and they pay."""
        several = torch.get_num_threads() > 1
        self._fields.team = (self._team or self._hire()) if several and self._pace.two else None
        began = time.perf_counter()
        result: float = self.library.run(self._at, what)
        if several:
            self._pace.took(time.perf_counter() - began)
        return result

    def _hire(self) -> int | None:
        self._team = self.library.team(self.library.limit_threads)
        if self._team:
            weakref.finalize(self, _dismiss, self.library, self._team, os.getpid())
        return self._team

    # ---- the equations ----

    def target(self, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        return self._targets(TARGET, batch, reward, noise)

    def _targets(self, what: int, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        self._look(batch)
        if noise is not None:
            noise = noise.to(self.library.dtype).contiguous()
        self._fields.reward_at = columns(reward)
        self._fields.noise = None if noise is None else noise.data_ptr()
        self._fields.target = self._target.data_ptr()
        if torch.get_num_threads() > 1:
            self._pace.next()  # an update begins with its target
        self._run(what)
        return self._target

    def critic_gradients(self, batch: Batch[Tensor], target: Tensor) -> Tensor:
        self._look(batch)
        target = target.contiguous()
        self._fields.target = target.data_ptr()
        return self._losses[0].fill_(self._run(CRITIC))

    def actor_gradients(self, batch: Batch[Tensor]) -> Tensor:
        self._look(batch)
        return self._losses[1].fill_(self._in_halves(ACTOR, self._actor_halves))

    def _in_halves(self, what: int, halves: Halves) -> float:
        """A call whose tasks make half of a gradient each, and their sum."""
        self._fields.halves = halves
        loss = self._run(what)
        self._run(ADD)
        return loss

    # ---- what follows the gradients ----

    def descend(self, optimiser: Adam, grad_clip: float | None) -> None:
        step = self._steps.get(optimiser) or self._first_step(optimiser)
        count, (beta1, beta2) = optimiser.advance(), optimiser.betas
        step.lr = optimiser.lr / (1 - beta1**count)
        step.root = (1 - beta2**count) ** 0.5
        step.decay = optimiser.lr * optimiser.weight_decay
        self._fields.adam = step
        if grad_clip is not None:
            self._fields.adam.scale = min(1.0, grad_clip / (math.sqrt(self._run(SQUARES)) + 1e-6))
        self._sums[optimiser] = self._run(ADAM)

    def _first_step(self, optimiser: Adam) -> AdamStep:
        beta1, beta2 = optimiser.betas
        tensors = (optimiser.values, optimiser.grads, optimiser.first, optimiser.second)
        at = [tensor.data_ptr() for tensor in tensors]
        step = AdamStep(*at, optimiser.values.numel(), 1.0, beta1=beta1, beta2=beta2, eps=optimiser.eps)
        self._steps[optimiser] = step
        return step

    def track(self, tau: float, average: float) -> None:
        nets = self.nets
        pairs = [(nets.target_critic, nets.critic, tau), (nets.target_actor, nets.actor, tau)]
        if nets.average is not None:
            pairs.append((nets.average, nets.actor, 1 - average))
        for slow, fast, share in pairs:
            size = fast.values.numel()
            self._fields.track = Tracking(slow.values.data_ptr(), fast.values.data_ptr(), size, share)
            self._run(TRACK)

    def gradient_sum(self) -> float:
        """Of what the last steps were made with."""
        return sum(self._sums.values())


def widths(network: MLP | Twin) -> list[int]:
    """Of every layer's output."""
    return [cast(Tensor, layer.matrix).shape[-1] for layer in network.layers]


def padded(width: int) -> int:
    """The stride of rows, as in layers.h."""
    return (-(-width // 16) | 1) * 16


def shape_of(network: MLP | Twin, inputs: int) -> Shape:
    """A network as the C side knows it."""
    sizes = [inputs, *widths(network)]
    sizes += [0] * (LAYERS + 1 - len(sizes))
    norms = network.norms is not None
    return Shape(len(network.layers), ACTIVATIONS[network.activation], norms, tuple(sizes))


def columns(tensor: Tensor) -> Columns:
    """Where rows of a batch lie."""
    if tensor.dim() == 2 and tensor.stride(1) != 1:
        raise ValueError("the native engine takes rows whose numbers touch")
    return Columns(tensor.data_ptr(), tensor.stride(0))


def _dismiss(built: Library, team: int, process: int) -> None:
    """A forked child has no helper thread to wait for: what is its parent's stays."""
    if os.getpid() == process:
        built.dismiss(team)
