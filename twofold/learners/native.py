"""The engine in C (`twofold/native/engine.c`) behind the contract of engines."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
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
    LAYERS,
    BatchColumns,
    Columns,
    Descent,
    Given,
    Library,
    Shape,
    absent,
    library,
)
from twofold.nets.flat import Adam
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
    for network in (actor, critic):
        if network.activation not in ACTIVATIONS:
            return f"has the activations {', '.join(ACTIVATIONS)}, not {network.activation}"
        if len(network.layers) > LAYERS:
            return f"has at most {LAYERS - 1} hidden layers, not {len(network.layers) - 1}"
    for parameter in (*actor.parameters(), *critic.parameters()):
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
        self.library = built or library()
        if reason := reason or refusal(nets, self.library.dtype):
            raise ConfigError(f"learner.engine=native {reason}; use engine=auto")
        self.nets, self.cfg = nets, cfg
        self._losses = torch.zeros(2, dtype=torch.float64).unbind()
        self._sums: dict[Adam, float] = {}
        self._descents: dict[Adam, Descent] = {}
        self._free: Callable[[], object] = lambda: None
        self._allocate(batch_size)

    def _allocate(self, batch_size: int) -> None:
        """An engine for batches of this size."""
        self._free()
        self.batch_size, nets = batch_size, self.nets
        actor, critic = cast(MLP, nets.actor.module), cast(Twin, nets.critic.module)
        self.values = nets.critic.values.new_zeros(2, batch_size)
        self._target = nets.critic.values.new_zeros(batch_size)
        given = Given(
            multiply=self.library.multiply,
            limit_threads=self.library.limit_threads,
            actor_values=nets.actor.values.data_ptr(),
            actor_grads=nets.actor.grads.data_ptr(),
            critic_values=nets.critic.values.data_ptr(),
            critic_grads=nets.critic.grads.data_ptr(),
            target_actor=nets.target_actor.values.data_ptr(),
            target_critic=nets.target_critic.values.data_ptr(),
            values=self.values.data_ptr(),
            huber=self.cfg.huber or 0.0,
            actor_size=nets.actor.values.numel(),
            rows=batch_size,
            obs=actor.inputs,
            actions=actor.outputs,
            twin=self.cfg.twin,
            actor=_shape(actor, [actor.inputs]),
            critic=_shape(critic, [critic.inputs_action + critic.inputs_obs]),
        )
        self._engine = self.library.new(byref(given))
        if not self._engine:
            raise MemoryError(f"no memory for batches of {batch_size}")
        self._free = weakref.finalize(self, _free, self.library, self._engine, os.getpid())
        self._items: Transition | None = None
        self._batch: Batch[Tensor] | None = None

    # ---- batches ----

    def tensors(self, items: Transition) -> Batch[Tensor]:
        """The batch; replay fills the same arrays again and again, so that looking once is enough."""
        if items is not self._items or self._batch is None:
            given = [torch.from_numpy(leaf) for leaf in leaves(items)]
            self._seen(Batch(*(leaf.to(self.library.dtype) for leaf in given)))
            same = all(leaf.dtype == self.library.dtype for leaf in given)
            self._items = items if same else None
        return cast(Batch[Tensor], self._batch)

    def _seen(self, batch: Batch[Tensor]) -> BatchColumns:
        """Where the batch lies."""
        if batch is not self._batch:
            if len(batch.obs) != self.batch_size:
                self._allocate(len(batch.obs))
            self._batch, self._items = batch, None
            self._columns = BatchColumns(
                *(
                    _columns(field)
                    for field in (
                        batch.obs,
                        batch.action,
                        batch.next_obs,
                        batch.reward,
                        batch.terminated,
                        batch.discount,
                    )
                )
            )
        return self._columns

    # ---- the equations ----

    def target(self, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        columns = self._seen(batch)
        columns.reward = _columns(reward)
        if noise is not None:
            noise = noise.to(self.library.dtype).contiguous()
        at = None if noise is None else noise.data_ptr()
        self.library.target(
            self._engine, byref(columns), at, self._target.data_ptr(), torch.get_num_threads()
        )
        return self._target

    def critic_gradients(self, batch: Batch[Tensor], target: Tensor) -> Tensor:
        columns, target = self._seen(batch), target.contiguous()
        loss = self.library.critic(self._engine, byref(columns), target.data_ptr(), torch.get_num_threads())
        return self._losses[0].fill_(loss)

    def actor_gradients(self, batch: Batch[Tensor]) -> Tensor:
        loss = self.library.actor(self._engine, byref(self._seen(batch)), torch.get_num_threads())
        return self._losses[1].fill_(loss)

    # ---- what follows the gradients ----

    def descend(self, optimiser: Adam, grad_clip: float | None) -> None:
        step = self._descents.get(optimiser) or self._descent(optimiser)
        count, (beta1, beta2) = optimiser.advance(), optimiser.betas
        step.lr = optimiser.lr / (1 - beta1**count)
        step.root = (1 - beta2**count) ** 0.5
        step.decay = optimiser.lr * optimiser.weight_decay
        self._sums[optimiser] = self.library.adam(
            self._engine, byref(step), grad_clip or 0.0, torch.get_num_threads()
        )

    def _descent(self, optimiser: Adam) -> Descent:
        beta1, beta2 = optimiser.betas
        tensors = (optimiser.values, optimiser.grads, optimiser.first, optimiser.second)
        at = [tensor.data_ptr() for tensor in tensors]
        step = Descent(*at, optimiser.values.numel(), beta1=beta1, beta2=beta2, eps=optimiser.eps)
        self._descents[optimiser] = step
        return step

    def track(self, tau: float, average: float) -> None:
        nets, threads = self.nets, torch.get_num_threads()
        pairs = [(nets.target_critic, nets.critic, tau), (nets.target_actor, nets.actor, tau)]
        if nets.average is not None:
            pairs.append((nets.average, nets.actor, 1 - average))
        for slow, fast, share in pairs:
            at = (slow.values.data_ptr(), fast.values.data_ptr(), fast.values.numel())
            self.library.track(self._engine, *at, share, threads)

    def gradient_sum(self) -> float:
        return sum(self._sums.values())


def _shape(network: MLP | Twin, inputs: list[int]) -> Shape:
    widths = inputs + [cast(Tensor, layer.matrix).shape[-1] for layer in network.layers]
    sizes = (*widths, *[0] * (LAYERS + 1 - len(widths)))
    return Shape(len(network.layers), ACTIVATIONS[network.activation], network.norms is not None, sizes)


def _columns(tensor: Tensor) -> Columns:
    if tensor.dim() == 2 and tensor.stride(1) != 1:
        raise ValueError("the native engine takes rows whose numbers touch")
    return Columns(tensor.data_ptr(), tensor.stride(0))


def _free(built: Library, engine: int, process: int) -> None:
    """A forked child has no helper thread to wait for: what is its parent's stays."""
    if os.getpid() == process:
        built.free(engine)
