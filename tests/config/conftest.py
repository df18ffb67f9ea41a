"""What the tests of the configuration share."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from broker.config import LoadedConfig, load
from broker.errors import ConfigError

FILE = Path("courier.yaml")

Load = Callable[..., LoadedConfig]
Problems = Callable[..., list[str]]


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a text as `courier.yaml` in the working directory, so that messages are known to the letter."""
    monkeypatch.chdir(tmp_path)

    def loaded(
        text: str | bytes, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
    ) -> LoadedConfig:
        FILE.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(FILE, environ or {}, flags or {})

    return loaded


@pytest.fixture
def problems_of(load_text: Load) -> Problems:
    """The problems that loading a text raises."""

    def problems(*arguments: object, **named: object) -> list[str]:
        with pytest.raises(ConfigError) as refused:
            load_text(*arguments, **named)
        assert str(refused.value) == "\n".join(refused.value.problems)
        return refused.value.problems

    return problems
