"""`twofold doctor` says what is there and what is not."""

from __future__ import annotations

import pytest

from twofold.cli import doctor, main


def test_a_machine_in_order_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert {"twofold", "python", "torch", "engines", "cuda", "extras", "crystal", "export"} <= rows
    assert out.rstrip().endswith("everything that is needed works")


def test_a_missing_package_is_named_with_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "safetensors" else found(name))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "wrong      safetensors is missing: " in out and "install 'safetensors" in out


def test_a_missing_extra_is_no_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: name != "onnx")
    assert main(["doctor"]) == 0
    assert "missing onnx: " in capsys.readouterr().out
