"""Who may connect: names and passwords as the setting `users` gives them; not what they may do."""

from __future__ import annotations

import hashlib
import hmac
import re

# A password may be given as its digest, so that no plain one has to lie in a file.
DIGEST_PREFIX = "sha256:"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
DEFAULT_USER = "default"


class BadUsers(Exception):
    """The setting cannot be used; the text is one sentence, and quotes no password."""


class Users:
    """The users of `NAME=PASSWORD,NAME=PASSWORD,...`. Without any, everybody is `default`."""

    def __init__(self, text: str = "") -> None:
        self.digests: dict[bytes, bytes] = {}
        # The first whose password is known here in plain: our own tools log in with it.
        self.login: tuple[str, str] | None = None
        for number, entry in enumerate(filter(None, text.split(",")), 1):
            name, equals, password = entry.partition("=")
            name = name.strip()
            if not equals or not password or not _NAME.fullmatch(name):
                msg = f"users must be a list of NAME=PASSWORD, and entry {number} is not that."
                raise BadUsers(msg)
            if name.encode() in self.digests:
                msg = f"users names {name} twice."
                raise BadUsers(msg)
            self.digests[name.encode()] = self._digest_of(name, password)

    def _digest_of(self, name: str, password: str) -> bytes:
        if password.startswith(DIGEST_PREFIX):
            digest = password.removeprefix(DIGEST_PREFIX)
            if not _DIGEST.fullmatch(digest):
                msg = f"users, {name}: {DIGEST_PREFIX} needs 64 lower-case hexadecimal digits."
                raise BadUsers(msg)
            return bytes.fromhex(digest)
        self.login = self.login or (name, password)
        return hashlib.sha256(password.encode()).digest()

    @property
    def required(self) -> bool:
        """Whether a connection has to say who it is."""
        return bool(self.digests)

    def admits(self, name: bytes, password: bytes) -> bool:
        """Whether this is a user with this password; takes equally long for every wrong one."""
        if not self.required:
            return name == DEFAULT_USER.encode()
        known = self.digests.get(name)
        given = hashlib.sha256(password).digest()
        return hmac.compare_digest(given, known or bytes(32)) and known is not None

    def names(self) -> list[bytes]:
        """All names, in order."""
        return sorted(self.digests) or [DEFAULT_USER.encode()]
