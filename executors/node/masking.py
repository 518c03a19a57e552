"""Hides the node's secrets in what it says: in its logs, its reports and its farewell.

Plain functions on text and bytes.  It is done here, before a line is cut or kept, so that
no part of a secret gets through at a seam.
"""

import os

MASK = "***"


class Mask:
    """The secrets of one node, longest first."""

    def __init__(self, secrets: "list[str]") -> None:
        self._secrets = sorted(set(secrets), key=len, reverse=True)
        # What a command prints need be no text, and neither need a secret be.
        self._bytes = [os.fsencode(secret) for secret in self._secrets]
        self.length_max = max((len(secret) for secret in self._bytes), default=0)
        """Of a secret, in bytes: where so many are missing yet, one may be cut in two."""

    def __call__(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def line(self, data: bytes) -> bytes:
        """The same of what a command has written."""
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        return data
