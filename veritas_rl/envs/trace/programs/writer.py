"""Builds indented source text line by line."""

from types import TracebackType


class Writer:
    """Lines of source text, with a current indentation.

    Attributes:
        lines: The finished lines, without line ends.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = ""

    def add(self, *lines: str) -> None:
        """Append lines at the current indentation.

        Args:
            lines: Lines without line ends; leading spaces are added to the current indentation. Empty lines are
                skipped, so "" can replace an optional line.
        """
        self.lines.extend(self._indent + line for line in lines if line)

    def block(self, header: str) -> "_Block":
        """Append `header`, and return a context manager that indents the lines added within it."""
        self.add(header)
        return _Block(self)

    def deeper(self) -> None:
        """Indent the following lines by one more step."""
        self._indent += "    "

    def shallower(self) -> None:
        """Indent the following lines by one step less."""
        self._indent = self._indent[:-4]


class _Block:
    """The indented lines below a header."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> Writer:
        self._writer.deeper()
        return self._writer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._writer.shallower()
