"""The text, its characters as numbers, and the micro-batches that every loop and every rank draws from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

DATA = Path(__file__).parent / "data"

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Text:
    """``train`` (the first nine tenths) and ``val`` (the last): numbers of characters, int64; ``characters``: by
    number."""

    train: Tensor
    val: Tensor
    characters: str

    @classmethod
    def read(cls, *paths: Path) -> Text:
        """Of these files, or of all in data/.  Raises: OSError, ValueError where there is none."""
        found = paths or tuple(sorted(DATA.glob("*.txt")))
        if not found:
            raise ValueError(f"there is no text in {DATA}: name a file, --text FILE")
        return cls.of("\n".join(path.read_text(encoding="utf-8") for path in found))

    @classmethod
    def of(cls, text: str) -> Text:
        characters = "".join(sorted(set(text)))
        number = {character: index for index, character in enumerate(characters)}
        tokens = torch.tensor([number[character] for character in text])
        cut = int(0.9 * len(tokens))
        return cls(tokens[:cut], tokens[cut:], characters)

    def spell(self, tokens: Tensor) -> str:
        return "".join(self.characters[token] for token in tokens.tolist())

    def numbers(self, text: str) -> Tensor:
        """Raises: ValueError, naming the first character that the text has none of."""
        for character in text:
            if character not in self.characters:
                raise ValueError(f"the text has no {character!r}")
        return torch.tensor([self.characters.index(character) for character in text])


class MicroBatches:
    """Micro-batches at random places, without end: tokens [size, block] and the token after each [size, block].

    They come in one order, whatever the number of ranks: of ``ranks`` in a row, this rank takes its own. So two
    processes with one micro-batch an update train as one process with two. ``generator``: where they stand;
    GradientAccumulator keeps it in its checkpoint.
    """

    def __init__(self, tokens: Tensor, size: int, block: int, *, seed: int, rank: int = 0, ranks: int = 1) -> None:
        if len(tokens) <= block:
            raise ValueError(f"a text of {len(tokens)} characters is too short for blocks of {block}")
        self.pieces = tokens.unfold(0, block + 1, 1)  # a view: [places, block + 1]
        self.size, self.rank, self.ranks = size, rank, ranks
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            places = torch.randint(len(self.pieces), (self.ranks, self.size), generator=self.generator)
            chosen = self.pieces[places[self.rank]]
            yield chosen[:, :-1], chosen[:, 1:]
