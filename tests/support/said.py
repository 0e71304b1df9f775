"""What commands said, for the reader of a failing test."""


def end_of(text: str, lines: int = 25) -> str:
    """The last lines: a first plan has hundreds, and what went wrong stands at the end."""
    every = text.splitlines(keepends=True)
    return "".join([f"[{len(every) - lines} lines before]\n", *every[-lines:]] if len(every) > lines else every)
