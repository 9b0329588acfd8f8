# SPDX-License-Identifier: Apache-2.0
"""Calls to a daemon by TCP, with TLS 1.2 or newer: what shows each side who the other is.

The daemon's certificate must be for the host of the address and of an authority in TENSORD_TLS_CA,
or of the system's. A daemon may ask for a certificate (TENSORD_TLS_CERT, TENSORD_TLS_KEY), for a
token (the first line of TENSORD_TOKEN_FILE), or for both. The files are read again when they
change.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .address import Address, look_up, note_answer
from .endpoint import Adopt


class SettingsError(Exception):
    """A setting that cannot be used; the message names it."""


@dataclass(frozen=True)
class Settings:
    """Files; empty where none is set."""

    ca: str
    cert: str
    key: str
    token: str


_VARIABLES = {
    "ca": "TENSORD_TLS_CA",
    "cert": "TENSORD_TLS_CERT",
    "key": "TENSORD_TLS_KEY",
    "token": "TENSORD_TOKEN_FILE",
}

# What OpenSSL says of a daemon's certificate (its X509_V_ERR_...), and what of it.
_VERDICTS = {
    9: "is not valid yet: look at both hosts' clocks",
    10: "has expired: the daemon's listen_cert is to be renewed",
    62: "is not for {host}: TENSORD_ADDRESS must say a name that it is for",
    64: "is not for {host}: TENSORD_ADDRESS must say a name that it is for",
}
_STRANGER = "is of no authority that counts here ({words}): TENSORD_TLS_CA must have its authority"

# What a server's end of TLS answers to a client without a certificate, and with one that it does
# not take.
_WANTS_ONE = {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}
_REFUSES_IT = {
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "TLSV1_ALERT_UNKNOWN_CA",
    "TLSV1_ALERT_ACCESS_DENIED",
    "TLSV1_ALERT_DECRYPT_ERROR",
}
_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}


def settings() -> Settings:
    """What the environment says now."""
    return Settings(**{field: os.environ.get(name, "") for field, name in _VARIABLES.items()})


class TlsEndpoint:
    """A daemon's port. Raises SettingsError when made, where a file cannot be used."""

    scheme = "https"
    nothing_yet: type[OSError] = ssl.SSLWantReadError

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connected = False
        self._settings = settings()
        self._context = _context(self._settings)
        self.authority = str(address).removeprefix("tls://")
        token = _token(self._settings)
        self.headers = [("authorization", f"Bearer {token}")] if token else []

    def open(self, adopt: Adopt, arm: Callable[[], None]) -> None:
        made, where = self._connect(adopt, arm)
        self._connected = True
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        arm()
        try:
            made.do_handshake()
        except OSError:
            note_answer(self._address, None)
            raise
        note_answer(self._address, where)

    def _connect(self, adopt: Adopt, arm: Callable[[], None]) -> tuple[ssl.SSLSocket, Any]:
        """To the first of the host's addresses that takes the connection, and which that is."""
        problem = OSError("the host has no address")
        for family, where in look_up(self._address):
            # Of TLS before it is connected: what is adopted stays what it is.
            made = self._context.wrap_socket(
                socket.socket(family, socket.SOCK_STREAM),
                server_hostname=self._address.host,
                do_handshake_on_connect=False,
            )
            adopt(made)
            arm()
            try:
                made.connect(where)
                return made, where
            except OSError as error:  # silence too: the next one may answer
                problem = error
        raise problem

    def failure(self, error: OSError | None, greeted: bool) -> tuple[str, str]:
        if isinstance(error, ssl.SSLCertVerificationError):
            verdict = _VERDICTS.get(error.verify_code, _STRANGER)
            words = verdict.format(host=self._address.host, words=error.verify_message)
            return "UNAUTHENTICATED", f"the certificate of {self.authority} {words}"
        reason = error.reason if isinstance(error, ssl.SSLError) else None
        if reason in _WANTS_ONE and not self._settings.cert:
            return "UNAUTHENTICATED", (
                f"{self.authority} asks for a certificate: set TENSORD_TLS_CERT and TENSORD_TLS_KEY"
            )
        if reason in _WANTS_ONE | _REFUSES_IT:
            return "UNAUTHENTICATED", (
                f"{self.authority} does not take the certificate of TENSORD_TLS_CERT ({reason})"
            )
        if reason in _NO_TLS:
            return "UNAVAILABLE", f"what listens on {self.authority} does not speak TLS ({reason})"
        words = (error.strerror or str(error)) if error else "the daemon closed the connection"
        if self._connected and not greeted:
            # gRPC's servers close where others would say why.
            hint = (
                "it may not take the certificate of TENSORD_TLS_CERT"
                if self._settings.cert
                else "it may ask for a certificate (TENSORD_TLS_CERT, TENSORD_TLS_KEY)"
            )
            return "UNAVAILABLE", f"{self.authority}: {words} before it said anything; {hint}"
        return "UNAVAILABLE", f"{self.authority}: {words}"


# The last context with what it was made of. Two threads that make one at once do it twice.
_made: tuple[object, ssl.SSLContext] | None = None
# In a forked child: its parent's.
_inherited: list[tuple[object, ssl.SSLContext]] = []


def _leave_to_the_parent() -> None:
    """A context has locks, which a thread of the parent may hold that the child does not have: the
    child makes one of its own, and does not even free its parent's."""
    global _made
    if _made is not None:
        _inherited.append(_made)
        _made = None


os.register_at_fork(after_in_child=_leave_to_the_parent)


def _context(files: Settings) -> ssl.SSLContext:
    global _made
    state = (files, [_stamp(path) for path in (files.ca, files.cert, files.key)])
    made = _made
    if made is None or made[0] != state:
        made = _made = (state, _make_context(files))
    return made[1]


def _stamp(path: str) -> tuple[int, ...]:
    """Tells a file from the one that takes its place."""
    try:
        info = os.stat(path)
    except OSError:
        return ()
    return info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size


def _make_context(files: Settings) -> ssl.SSLContext:
    # It asks for a certificate, and whether that is for the host.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    if files.ca:
        with _naming(f"TENSORD_TLS_CA={files.ca}"):
            context.load_verify_locations(files.ca)
    else:
        context.load_default_certs()
    if files.key and not files.cert:
        raise SettingsError("TENSORD_TLS_KEY is set without TENSORD_TLS_CERT, its certificate")
    if files.cert:
        key = f", TENSORD_TLS_KEY={files.key}" if files.key else ""
        with _naming(f"TENSORD_TLS_CERT={files.cert}{key}"):
            # A key with a password would be asked for at the terminal.
            context.load_cert_chain(files.cert, files.key or None, password=lambda: "")
    return context


def _token(files: Settings) -> str:
    if not files.token:
        return ""
    name = f"TENSORD_TOKEN_FILE={files.token}"
    with _naming(name), open(files.token, encoding="ascii") as file:
        # The daemon's own file may be at hand: the newest of its tokens stands first.
        token = next((line.strip() for line in file if line.strip()), "")
    if not token or not token.isprintable() or " " in token:
        raise SettingsError(f"{name}: its first line is no token")
    return token


@contextlib.contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Says of which setting an error is."""
    try:
        yield
    except ssl.SSLError as error:
        raise SettingsError(f"{setting}: {error.reason or error}") from error
    except OSError as error:
        raise SettingsError(f"{setting}: {error.strerror or error}") from error
    except ValueError as error:  # not ASCII
        raise SettingsError(f"{setting}: {error}") from error
