"""The settings that the page of the Raspberry Pi gives are settings, and its unit can hold them."""

from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.support.process import courier

PAGE = ROOT / "docs/how-to/run-on-a-raspberry-pi.md"


def test_the_settings_of_the_page_load_and_the_service_takes_them(tmp_path: Path) -> None:
    (settings,) = blocks(PAGE, "yaml")
    file = tmp_path / "courier.yaml"
    file.write_text(settings.text)
    checked = courier("config", "check", str(file))
    assert (checked.returncode, checked.stdout.decode()) == (0, f"{file}: ok (5 keys set)\n"), checked.stderr
    done = courier("service", "install", "--config", str(file), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f" serve --config {file}\n" in done.stdout.decode()
