# SPDX-License-Identifier: Apache-2.0
"""What calls raise: whose error it is, and what it says."""

from __future__ import annotations


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and all that it came from."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or one in found:
            continue
        found.append(one)
        waiting += [getattr(one, "inner_exception", None), one.__context__, one.__cause__]
    return found


def innermost(error: BaseException) -> BaseException:
    """The error that the others came from."""
    while (cause := getattr(error, "inner_exception", None) or error.__cause__) is not None:
        error = cause
    return error


def our_error(error: BaseException) -> BaseException | None:
    """The error of this package within another; None when there is none.

    What an operator of torch raised while a program ran (code 4, OPERATOR) is the operator's.
    """
    for one in chain(error):
        module = type(one).__module__
        if module.startswith("tensord") and getattr(one, "code", None) != 4:
            return one
    return None


def is_ours(error: BaseException) -> bool:
    return our_error(error) is not None


def message_of(error: BaseException) -> str:
    """The class and the text of the error that is at the root of it."""
    root = our_error(error) or getattr(error, "inner_exception", None) or error
    return f"{type(root).__name__}: {root}".strip()


# What CUDA says once a kernel's assertion failed, and at each call after that. Some of torch's
# print what was wrong and end the kernel: a launch failure, or an illegal instruction.
_ASSERTIONS = (
    "device-side assert triggered",
    "unspecified launch failure",
    "illegal instruction was encountered",
)
_FAULTS = ("misaligned address", "illegal memory access")


def is_device_assertion(error: BaseException) -> bool:
    """True for an assertion in a kernel."""
    return _says(error, _ASSERTIONS)


def loses_device(error: BaseException) -> bool:
    """True for that, and for what else leaves a process without its device."""
    return _says(error, (*_ASSERTIONS, *_FAULTS))


def _says(error: BaseException, any_of: tuple[str, ...]) -> bool:
    return any(words in str(one) for one in chain(error) for words in any_of)
