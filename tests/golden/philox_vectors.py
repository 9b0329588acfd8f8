#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes philox_vectors.txt, which every copy of the random generator is compared with.

    .venv/bin/python tests/golden/philox_vectors.py

Philox4x32-10 as in Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011. The lines `words` are the known answers of the authors' Random123 (kat_vectors, philox4x32
10), the others follow from them by the first paragraph of client/tensord/philox.py.
"""

from __future__ import annotations

import math
from pathlib import Path

OUT = Path(__file__).with_name("philox_vectors.txt")
MASK = 0xFFFFFFFF
HEADER = """\
# words:   four words of the counter, two of the key, the four words of the block; in hexadecimal.
# uniform: seed, stream, element, and the number times 2^24.
# normal:  seed, stream, element, and the number.
"""
KNOWN_ANSWERS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((MASK,) * 4, (MASK,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
SEEDS = [(0, 0), (42, 14), (-1, 1), (0x0123456789ABCDEF, 7), (-(2**63), MASK)]
ELEMENTS = [0, 1, 2, 3, 4, 1001, 2**34 - 1, 2**34, 2**35 + 5]


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    c, k = counter, key
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = (q >> 32 ^ c[1] ^ k[0], q & MASK, p >> 32 ^ c[3] ^ k[1], p & MASK)
        k = (k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK)
    return c


def block(seed: int, stream: int, number: int) -> list[int]:
    """The top 24 bits of each word."""
    key = (seed & MASK, seed >> 32 & MASK)
    return [w >> 8 for w in philox((number & MASK, number >> 32, stream & MASK, 0), key)]


def lines() -> list[str]:
    made = []
    for counter, key, words in KNOWN_ANSWERS:
        assert philox(counter, key) == words
        made.append("words " + " ".join(f"{w:08x}" for w in (*counter, *key, *words)))
    for seed, stream in SEEDS:
        for e in ELEMENTS:
            made.append(f"uniform {seed} {stream} {e} {block(seed, stream, e // 4)[e % 4]}")
    for seed, stream in SEEDS:
        for e in ELEMENTS:
            u, v = (w * 2**-24 for w in block(seed, stream, e // 2)[e % 2 * 2 :][:2])
            number = math.sqrt(-2 * math.log1p(-u)) * math.cos(2 * math.pi * v)
            made.append(f"normal {seed} {stream} {e} {number:.9g}")
    return made


def text() -> str:
    return HEADER + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    OUT.write_text(text())
