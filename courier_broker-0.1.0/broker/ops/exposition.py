"""Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Sample = tuple[str, tuple[tuple[str, str], ...], float]
"""What comes behind the name, the labels, and the value."""


def number_text(number: float) -> str:
    """A number: whole ones without a point, the others so that they are read back exactly."""
    return str(int(number)) if number == int(number) else repr(number)


def _line(name: str, sample: Sample) -> str:
    suffix, labels, number = sample
    shown = ",".join(f'{label}="{text.translate(_LABEL)}"' for label, text in labels)
    return f"{name}{suffix}{{{shown}}} {number_text(number)}" if shown else f"{name}{suffix} {number_text(number)}"


def text(families: Iterable[tuple[str, str, str, Sequence[Sample]]]) -> bytes:
    """Families (name, kind, meaning, samples) as text; one without samples is left out."""
    lines: list[str] = []
    for name, kind, meaning, samples in families:
        if samples:
            lines += (f"# HELP {name} {meaning.translate(_HELP)}", f"# TYPE {name} {kind}")
            lines += (_line(name, sample) for sample in samples)
    lines.append("")
    return "\n".join(lines).encode()
