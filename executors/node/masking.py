"""Hides the node's secrets in what it says: in its logs, its reports and its farewell.

A plain function on text; imports nothing.  It is done here, before a line is cut or kept, so that
no part of a secret gets through at a seam.
"""

MASK = "***"


class Mask:
    """The secrets of one node, longest first."""

    def __init__(self, secrets: "list[str]") -> None:
        self._secrets = sorted(set(secrets), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text
