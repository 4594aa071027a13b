"""`kubenode run autoscaler-provider` refuses what would open it to everybody, or cannot work."""

import sys
from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.autoscaler_settings import AutoscalerFlags
from kubenode.cli.run_autoscaler import check_autoscaler, require_extra
from kubenode.runtime.process import CannotStart


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    names = ("cert", "key", "ca")
    for name in names:
        (tmp_path / name).write_text("PEM")
    return {f"autoscaler_{name}_file": str(tmp_path / name) for name in names}


def test_loopback_needs_no_certificate_and_other_addresses_do(files: dict[str, Any]) -> None:
    check_autoscaler(AutoscalerFlags())
    check_autoscaler(AutoscalerFlags(autoscaler_address="0.0.0.0", **files))
    with pytest.raises(CannotStart, match="could create and delete machines"):
        check_autoscaler(AutoscalerFlags(autoscaler_address="0.0.0.0"))


@pytest.mark.parametrize("missing", ["cert", "key", "ca"])
def test_files_belong_together_and_must_be_readable(files: dict[str, Any], missing: str) -> None:
    field = f"autoscaler_{missing}_file"
    given = {name: file for name, file in files.items() if name != field}
    with pytest.raises(CannotStart, match="give all three, or none"):
        check_autoscaler(AutoscalerFlags(**given))
    Path(files[field]).unlink()
    with pytest.raises(CannotStart, match=f"--autoscaler-{missing}-file .*: cannot be read"):
        check_autoscaler(AutoscalerFlags(**files))


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra()
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(CannotStart, match=r"kubenode\[autoscaler\]"):
        require_extra()
