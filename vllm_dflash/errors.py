# SPDX-License-Identifier: Apache-2.0
"""The one exception that users of this package see."""

from pathlib import Path


class UserError(ValueError):
    """Bad input from outside: a checkpoint, an option, a file.

    Args:
        message: what is wrong, in one sentence.
        field: the field or option at fault.
        found: the value found there.
        needed: the value needed instead.
        file: the file it came from.

    The command line prints it as one line and exits with status 2.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        found: object = None,
        needed: str | None = None,
        file: Path | str | None = None,
    ) -> None:
        self.message, self.field, self.found, self.needed, self.file = message, field, found, needed, file
        parts = [message]
        if field is not None:
            parts.append(f"{field}: found {found!r}")
        if needed is not None:
            parts.append(f"needed {needed}")
        if file is not None:
            parts.append(f"in {file}")
        super().__init__("; ".join(parts))
