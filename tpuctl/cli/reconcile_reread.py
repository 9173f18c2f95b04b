"""The fleet file of a loop that runs: looked at again and again, read anew when it is another one.

A file is known by what the disk says of it, after all symbolic links: kubelet changes a mounted ConfigMap by
pointing its link `..data` at another folder. What cannot be used is told once, and the loop keeps the
declared state that it has.
"""

from __future__ import annotations

import dataclasses
import stat
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli import fleet_spec, wiring
from tpuctl.model import errors

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from tpuctl.cli import terminal as terminals
    from tpuctl.model import declared
    from tpuctl.ops.reconciling import settings as loop_settings

_DIGITS = 12
"""Of a digest that are shown: enough to tell states apart."""


class Identity(NamedTuple):
    """A file as the disk knows it; another one as soon as the file is written to or replaced."""

    device: int
    inode: int
    changed_ns: int
    size_bytes: int
    is_regular: bool
    """If false, it is a pipe or a folder: there is nothing to read from it, or it can be read once only."""


def identity(file: pathlib.Path) -> Identity | None:
    """What `file` is now, links resolved; None if that cannot be told."""
    try:
        found = file.stat()
    except OSError:
        return None
    is_regular = stat.S_ISREG(found.st_mode)
    return Identity(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, is_regular)


class Reread:
    """Settings of a loop with the newest declared state that can be used: see `Settings.reread`."""

    def __init__(
        self,
        file: pathlib.Path,
        seen: Identity | None,
        settings: loop_settings.Settings,
        screen: terminals.Terminal,
        *,
        on_new: Callable[[declared.FleetSpec], None] = lambda _: None,
    ) -> None:
        """`seen` is what the file was right before `settings` were made of it.

        What was a pipe then, such as standard input, is never read again.
        """
        self._file = file
        self._seen = seen
        self._is_followed = seen is None or seen.is_regular
        self._spec, self._digest = settings.spec, settings.spec_digest
        self._contexts = ("", settings.spec.context, wiring.context().name)
        self._trouble = ""
        self._screen = screen
        self._on_new = on_new

    def __call__(self, settings: loop_settings.Settings) -> loop_settings.Settings:
        """Never raises, and costs one look at the disk as long as nothing changes."""
        if self._is_followed:
            self._look()
        if (settings.spec_digest, settings.trouble) == (self._digest, self._trouble):
            return settings
        return dataclasses.replace(settings, spec=self._spec, spec_digest=self._digest, trouble=self._trouble)

    def _look(self) -> None:
        now = identity(self._file)
        if now is not None and now == self._seen:
            return
        found, why, is_lasting = self._read(now)
        if identity(self._file) != now:
            return  # it changed while it was read: what was read may be half of each
        # What the disk refuses may go well the next time without any change.
        self._seen = now if is_lasting else None
        if found is None:
            self._refuse(why)
        else:
            self._take(found)

    def _read(self, now: Identity | None) -> tuple[fleet_spec.Declared | None, str, bool]:
        """What the file declares, else why it cannot be used and whether that lasts until it changes."""
        if now is not None and not now.is_regular:
            return None, f"{self._file}: this is no file any more", True  # reading a pipe might never end
        try:
            found = fleet_spec.read(self._file)
        except errors.TpuctlError as error:
            why = f"{error.message}; {error.hint}" if error.hint else error.message
            return None, why, not isinstance(error.__cause__, OSError)
        why = self._refusal(found.spec)
        return (None if why else found), why, True

    def _refusal(self, spec: declared.FleetSpec) -> str:
        """Memory, lock and connections of this process are those of one fleet in one context."""
        if spec.name != self._spec.name:
            return f"{self._file}: it declares fleet {spec.name} now, not {self._spec.name}: restart the loop"
        if spec.context not in self._contexts:
            mine = self._contexts[-1]
            return f"{self._file}: it is for context {spec.context} now, not for {mine}: restart the loop"
        return ""

    def _refuse(self, why: str) -> None:
        if why != self._trouble:
            kept = f"the loop goes on with the declared state that it has (digest {self._digest[:_DIGITS]})"
            self._screen.warn(f"{why}; {kept}")
        self._trouble = why

    def _take(self, found: fleet_spec.Declared) -> None:
        """A file in which only comments changed declares nothing new."""
        if found.digest != self._digest:
            change = f"{self._digest[:_DIGITS]} -> {found.digest[:_DIGITS]}"
            self._screen.note(f"declared state read anew: {self._file} (digest {change})")
            self._spec, self._digest = found.spec, found.digest
            self._on_new(found.spec)
        elif self._trouble:
            kept = self._digest[:_DIGITS]
            self._screen.note(f"declared state can be read again, unchanged: {self._file} (digest {kept})")
        self._trouble = ""
