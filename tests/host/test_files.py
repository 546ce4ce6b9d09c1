# SPDX-License-Identifier: GPL-2.0
"""A file is written completely or not at all."""
import pytest

from wqlab import files


def test_write(tmp_path):
    place = tmp_path / 'new/folder/file'
    files.write(place, 'text\n')
    files.write(place, b'bytes\n', mode=0o755)
    assert place.read_bytes() == b'bytes\n' and place.stat().st_mode & 0o777 == 0o755
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.parametrize('error', [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_leaves_what_was_there(tmp_path, error):
    place = tmp_path / 'file'
    files.write(place, 'old')
    with pytest.raises(error), files.replacing(place) as temp:
        temp.write_text('half')
        raise error
    assert place.read_text() == 'old' and list(tmp_path.iterdir()) == [place]
