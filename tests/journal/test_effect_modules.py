"""Files with effects: what is marked in them, and what is wrong with one, by its line."""

from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.journal.effect_modules import load_effects
from broker.limits import EFFECT_FILE_BYTES_MAX

GOOD = """from broker import effect

@effect("pixel_control.lifecycle.*")
@effect("pixel_control.mode.*")
def first(cursor, event):
    pass

alias = first

def helper(cursor, event):
    pass

@effect("pixel_control.combat.*")
def second(cursor, event):
    pass
"""


def file(tmp_path: Path, text: str | bytes, name: str = "effects.py") -> str:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_what_is_marked_is_found_in_its_order_and_once(tmp_path: Path) -> None:
    found = load_effects([file(tmp_path, GOOD)])
    assert [(each.pattern, each.effect.__name__) for each in found] == [
        ("pixel_control.mode.*", "first"),
        ("pixel_control.lifecycle.*", "first"),
        ("pixel_control.combat.*", "second"),
    ]
    assert load_effects([]) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def broken(:\n", ":1: invalid syntax"),
        ("\n\nx = 1 / 0\n", ":3: ZeroDivisionError: division by zero"),
        ("import no_such_module\n", ":1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)\n", ":1: SystemExit: 3"),
        ("def f():\n    raise ValueError('x')\n\nf()\n", ":2: ValueError: x"),
        ("x = 1\n", ': has no effect; put @effect("…") before a function'),
        (
            'from broker import effect\n\n@effect("*")\ndef one(cursor):\n    pass\n',
            ":3: TypeError: one does not take two arguments, the cursor and the event",
        ),
        (
            'from broker import effect\n\n@effect("*")\nasync def late(cursor, event):\n    pass\n',
            ":3: TypeError: late is async; an effect does SQL, and awaits nothing",
        ),
        (
            "from broker import effect\n\n@effect\ndef bare(cursor, event):\n    pass\n",
            ':3: TypeError: effect needs the names of events: @effect("pixel_control.lifecycle.*")',
        ),
        ('x = "' + "x" * EFFECT_FILE_BYTES_MAX + '"', f": is larger than {EFFECT_FILE_BYTES_MAX} bytes"),
    ],
)
def test_a_file_that_is_broken_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    good, bad = file(tmp_path, GOOD, "good.py"), file(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load_effects([good, bad, str(tmp_path / "missing.py")])
    assert refused.value.problems == [
        f"effects[1]: {bad}{problem}",
        f"effects[2]: {tmp_path / 'missing.py'}: cannot be read: No such file or directory",
    ]


def test_a_file_may_be_so_large(tmp_path: Path) -> None:
    assert len(load_effects([file(tmp_path, GOOD.ljust(EFFECT_FILE_BYTES_MAX, "\n"))])) == 3


def test_bytes_that_are_no_source_are_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_effects([file(tmp_path, b"x = \xff\n")])
    assert "effects[0]: " in refused.value.problems[0]
