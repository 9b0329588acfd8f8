# SPDX-License-Identifier: Apache-2.0
"""Frames as they may come from elsewhere: bytes of the message changed, cut short, spliced from
another frame, lengthened; and its fields cleared, doubled, replaced by another's, numbers by any
numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message
from tensord.v1 import frame_pb2

NUMBERS = (0, 1, 2, 3, 5, 7, 77, 2**31 - 1, 2**32 - 1)

# Of a frame's bytes, and those of another frame.
Mutation = Callable[[bytes, bytes, random.Random], bytes]


def _changed(data: bytes, other: bytes, draw: random.Random) -> bytes:
    new = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        new[draw.randrange(len(new))] = draw.randrange(256)
    return bytes(new)


def _truncated(data: bytes, other: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _spliced(data: bytes, other: bytes, draw: random.Random) -> bytes:
    at, start = draw.randrange(len(data)), draw.randrange(len(other))
    return data[:at] + other[start : start + draw.randint(1, 60)] + data[at + draw.randint(0, 60) :]


def _lengthened(data: bytes, other: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + draw.randbytes(draw.randint(1, 40)) + data[at:]


def _messages(message: Message) -> Iterator[Message]:
    """The message and all that it holds."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else (value,):
                yield from _messages(one)


def _edited(data: bytes, draw: random.Random, edit: Callable[[Message, Any], None]) -> bytes:
    whole = frame_pb2.Frame.FromString(data)
    holders = [message for message in _messages(whole) if message.ListFields()]
    holder = draw.choice(holders)
    edit(holder, draw.choice(holder.ListFields())[0])
    return whole.SerializeToString()


def _cleared(data: bytes, other: bytes, draw: random.Random) -> bytes:
    return _edited(data, draw, lambda message, field: message.ClearField(field.name))


def _doubled(data: bytes, other: bytes, draw: random.Random) -> bytes:
    def double(message: Message, field: Any) -> None:
        value = getattr(message, field.name)
        if field.is_repeated:
            value.extend(list(value))
        elif field.message_type is not None:
            value.MergeFrom(type(value).FromString(value.SerializeToString()))

    return _edited(data, draw, double)


def _numbered(data: bytes, other: bytes, draw: random.Random) -> bytes:
    def replace(message: Message, field: Any) -> None:
        if field.cpp_type not in (field.CPPTYPE_UINT32, field.CPPTYPE_INT64):
            return
        number = draw.choice(NUMBERS)
        if field.is_repeated:
            value = getattr(message, field.name)
            value[draw.randrange(len(value))] = number
        else:
            setattr(message, field.name, number)

    return _edited(data, draw, replace)


def _replaced(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """A part by a part of the same kind from elsewhere."""
    whole = frame_pb2.Frame.FromString(data)
    one = draw.choice(list(_messages(whole)))
    alike = [part for part in _messages(whole) if type(part) is type(one) and part is not one]
    if alike:
        one.CopyFrom(type(one).FromString(draw.choice(alike).SerializeToString()))
    return whole.SerializeToString()


MUTATIONS: list[Mutation] = [
    _changed, _truncated, _spliced, _lengthened, _cleared, _doubled, _numbered, _replaced,
]  # fmt: skip
