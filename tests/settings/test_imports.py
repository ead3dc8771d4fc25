from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.settings.imports import import_user_code


def test_a_file_with_the_name_of_a_module_is_imported_and_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.seen').write_text('x')\n"
    )
    import_user_code((str(tmp_path / "random.py"),))
    assert (tmp_path / "random.seen").exists()
    assert sys.modules["random"] is random


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    path = tmp_path / "only_once_here.py"
    path.write_text(
        "import pathlib\nwith open(pathlib.Path(__file__).with_suffix('.log'), 'a') as f: f.write('x')\n"
    )
    import_user_code((str(path), str(path)))
    assert path.with_suffix(".log").read_text() == "x"


def test_a_file_that_fails_or_is_absent_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "broken_here.py").write_text("raise KeyError('a')")
    with pytest.raises(UserError, match=r"broken_here\.py failed: KeyError: 'a'"):
        import_user_code((str(tmp_path / "broken_here.py"),))
    with pytest.raises(UserError, match="no such file"):
        import_user_code((str(tmp_path / "absent.py"),))
