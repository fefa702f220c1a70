"""The trainable form of the network: the same sums as ``turnwise.observers.local.network``, in torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.weights import ARMS, PRINCIPLES

DROPOUT = 0.3

NARROW_DROPOUT = 0.1
"""Dropout of the narrow token vectors that phrases are made of."""


class TorchArm:
    """One ensemble over turn vectors, for one context mode; its parameters have the shapes of the weights file.

    Args:
        size: length of a turn vector.
        members: networks in the ensemble.
        width: width of a network's turn vector and state.
        recurrent: whether the state is carried from turn to turn; else it is zero at every turn.
    """

    def __init__(self, size: int, members: int, width: int, *, recurrent: bool) -> None:
        torch = load_library("torch")
        self.recurrent = recurrent
        self.width = width
        outputs = 2 * len(PRINCIPLES)

        def spread(inputs: int, *shape: int) -> Any:
            # As torch starts its own layers: evenly within the root of the number of inputs.
            bound = inputs**-0.5
            return torch.nn.Parameter(torch.empty(members, *shape).uniform_(-bound, bound))

        self.parameters = {
            "project": spread(size, size, width),
            "project_bias": spread(size, width),
            "input": spread(width, width, 3 * width),
            "input_bias": spread(width, 3 * width),
            "recurrent": spread(width, width, 3 * width),
            "recurrent_bias": spread(width, 3 * width),
            "heads": spread(2 * width, 2 * width, outputs),
            "heads_bias": spread(2 * width, outputs),
        }

    def forward(self, vectors: Any, *, training: bool) -> Any:
        """Return logits of shape (members, conversations, turns, 2 · principles).

        Args:
            vectors: turn vectors, shape (conversations, turns, size).
            training: whether dropout is on; each member draws its own.
        """
        torch = load_library("torch")
        functional = torch.nn.functional
        given = self.parameters
        members = len(given["heads"])
        conversations, turns, _ = vectors.shape

        def dropped(values: Any) -> Any:
            return functional.dropout(values, DROPOUT, training)

        def layer(name: str, values: Any) -> Any:
            return torch.baddbmm(given[f"{name}_bias"][:, None], values, given[name])

        flat = vectors.reshape(1, conversations * turns, -1).expand(members, -1, -1)
        turn = dropped(functional.gelu(layer("project", dropped(flat)), approximate="tanh"))
        gates = layer("input", turn)
        if self.recurrent:
            gates = gates.reshape(members, conversations, turns, -1)
            state = gates.new_zeros(members, conversations, self.width)
            states = []
            for step in range(turns):
                state = _gru(gates[:, :, step], layer("recurrent", state), state)
                states.append(state)
            seen = torch.stack(states, dim=2).reshape(members, conversations * turns, -1)
        else:
            seen = _gru(gates, given["recurrent_bias"][:, None], torch.zeros_like(turn))
        logits = layer("heads", torch.cat((turn, dropped(seen)), dim=-1))
        return logits.reshape(members, conversations, turns, -1)


def _gru(gates: Any, recurrent: Any, state: Any) -> Any:
    """Return the next state from what turn and state send to the gates: reset, update, new."""
    torch = load_library("torch")
    width = state.shape[-1]
    both = torch.sigmoid(gates[..., : 2 * width] + recurrent[..., : 2 * width])
    reset, update = both[..., :width], both[..., width:]
    candidate = torch.tanh(gates[..., 2 * width :] + reset * recurrent[..., 2 * width :])
    return candidate + update * (state - candidate)


class TorchModel:
    """Token table, what makes a turn's vector of it, and both arms.

    Args:
        table: first values of the table, shape (tokens, dimensions).
        weight: first values of the weight of each token in the mean, shape (tokens,).
        narrow: length of the narrow form of a token vector that phrases are made of.
        phrases: phrases looked for.
        members: networks in each ensemble.
        width: width of a network's turn vector and of its state.
    """

    def __init__(
        self,
        table: NDArray[np.float32],
        weight: NDArray[np.float32],
        *,
        narrow: int,
        phrases: int,
        members: int,
        width: int,
    ) -> None:
        torch = load_library("torch")
        nn = torch.nn

        def embedding(rows: NDArray[np.float32]) -> Any:
            padded = torch.from_numpy(_with_padding(rows))
            return nn.Embedding.from_pretrained(padded, freeze=False, padding_idx=len(rows))

        self.table = embedding(table)
        self.weight = embedding(weight[:, None])
        dimensions = table.shape[1]
        self.narrow = nn.Linear(dimensions, narrow, bias=False)
        self.taps = nn.Linear(3 * narrow, phrases)
        self.arms = {
            name: TorchArm(dimensions + phrases, members, width, recurrent=name == "history") for name in ARMS
        }

    def vectors(self, batch: Mapping[str, Any], *, training: bool) -> Any:
        """Return turn vectors of shape (conversations, turns, dimensions + phrases).

        Args:
            batch: ``ids``: token ids of all turns, each turn followed by one padding token; ``places``: where the
                tokens stand in it; ``turn``: the turn of each; ``lengths``: tokens of each turn; ``shape``:
                conversations and turns. A turn without tokens gives zeros.
            training: whether dropout is on.
        """
        torch = load_library("torch")
        functional = torch.nn.functional
        rows = self.table(batch["ids"])
        weighted = (rows * self.weight(batch["ids"]))[batch["places"]]
        lengths = batch["lengths"]
        total = torch.zeros(len(lengths), rows.shape[1]).index_add(0, batch["turn"], weighted)
        mean = total / total.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        narrow = functional.dropout(self.narrow(rows), NARROW_DROPOUT, training)
        before, after = functional.pad(narrow, (0, 0, 1, 0))[:-1], functional.pad(narrow, (0, 0, 0, 1))[1:]
        found = functional.relu(self.taps(torch.cat((before, narrow, after), -1)))[batch["places"]]
        phrases = torch.segment_reduce(found, "max", lengths=lengths, initial=0.0)
        return torch.cat((mean, phrases), -1).reshape(*batch["shape"], -1)

    def table_parameters(self) -> list[Any]:
        """Return the parameters of the table."""
        return list(self.table.parameters())

    def phrase_parameters(self) -> list[Any]:
        """Return the parameters between the table and the arms."""
        return [*self.weight.parameters(), *self.narrow.parameters(), *self.taps.parameters()]

    def arm_parameters(self) -> list[Any]:
        """Return the parameters of both arms."""
        return [parameter for arm in self.arms.values() for parameter in arm.parameters.values()]

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return all parameters but the table as the weights file names and shapes them."""
        narrow = self.narrow.weight.detach().numpy().T
        taps = self.taps.weight.detach().numpy().T
        found: dict[str, NDArray[np.float32]] = {
            "token_weight": self.weight.weight.detach().numpy()[:-1, 0],
            "phrase.project": narrow,
            "phrase.taps": taps.reshape(3, narrow.shape[1], taps.shape[1]),
            "phrase.bias": self.taps.bias.detach().numpy(),
        }
        for name, arm in self.arms.items():
            found |= {f"{name}.{part}": value.detach().numpy() for part, value in arm.parameters.items()}
        return found

    def load_rounded(self, table: NDArray[np.float32], arrays: dict[str, NDArray[np.float16]]) -> None:
        """Take over rounded parameters, so that torch and numpy can be compared on the same values.

        Args:
            table: the table after rounding, shape (tokens, dimensions).
            arrays: the other parameters after rounding, named as `arrays` names them.
        """
        torch = load_library("torch")

        def fill(parameter: Any, array: NDArray[Any]) -> None:
            parameter.data = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))

        fill(self.table.weight, _with_padding(table))
        fill(self.weight.weight, _with_padding(arrays["token_weight"][:, None]))
        fill(self.narrow.weight, arrays["phrase.project"].T)
        fill(self.taps.weight, arrays["phrase.taps"].reshape(-1, len(arrays["phrase.bias"])).T)
        fill(self.taps.bias, arrays["phrase.bias"])
        for name, arm in self.arms.items():
            for part, parameter in arm.parameters.items():
                fill(parameter, arrays[f"{name}.{part}"])


def _with_padding(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows with a row of zeros behind them, for the padding token."""
    return np.concatenate((rows, np.zeros((1, rows.shape[1])))).astype(np.float32)
