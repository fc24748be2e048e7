"""Models as folders: what is written comes back, and what is broken is refused."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pushpop import Transducer
from pushpop import files as files_module
from pushpop.errors import InputError
from pushpop.models import saving
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import TextForm
from tests.models.examples import BODIES, READERS, batch_of, small_model

BATCH = batch_of([([0, 1, 2, 0], [1, 0]), ([2], [0, 0, 1, 1])])


def answer(model: Transducer) -> torch.Tensor:
    with torch.no_grad():
        return model(BATCH.inputs, BATCH.lengths)[0]


@pytest.mark.parametrize("body", [*BODIES, *READERS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_a_saved_model_comes_back_to_the_bit(body: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = small_model(body).to(dtype)
    model.save_pretrained(tmp_path / "runs" / "mine")
    again = Transducer.from_pretrained(str(tmp_path / "runs" / "mine"))
    assert (again.config, again.vocabulary) == (model.config, model.vocabulary)
    assert torch.equal(answer(again), answer(model))
    assert answer(again).dtype == dtype
    assert sorted(path.name for path in (tmp_path / "runs" / "mine").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    ]


def test_predicting_does_not_wait_for_torchs_compiler(tmp_path: Path) -> None:
    small_model("stack").save_pretrained(tmp_path)
    code = """
import sys
from pushpop import Transducer
model = Transducer.from_pretrained(sys.argv[1])
model.decode([[0, 1]])
print("torch._dynamo" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True).stdout.strip() == b"False"


def test_a_loaded_model_can_be_trained_and_saved_again(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    model = Transducer.from_pretrained(tmp_path)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    before = model.loss(BATCH)
    before.backward()
    optimiser.step()
    assert model.loss(BATCH) < before
    model.save_pretrained(tmp_path)
    assert torch.equal(answer(Transducer.from_pretrained(tmp_path)), answer(model))


def test_metadata_and_unusual_symbols_come_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("þ", "\u2028", "<s>", '"'), ("ɛː", "😀", "\\n"))
    model = small_model(vocabulary=vocabulary)
    model.metadata = {"task": "spelling", "steps": 1200, "seen": [1, None, "ö"]}
    model.save_pretrained(tmp_path)
    again = Transducer.from_pretrained(tmp_path)
    assert again.metadata == model.metadata
    assert again.vocabulary == vocabulary
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["metadata"]["steps"] == 1200


def test_how_text_is_read_and_the_unknown_symbol_come_back(tmp_path: Path) -> None:
    form = TextForm("chars", "spaces", features=True, normalise="nfkc")
    vocabulary = Vocabulary(("<unk>", "a"), ("x", "<unk>"), "<unk>")
    Transducer(small_model().config, vocabulary, text=form).save_pretrained(tmp_path)
    again = Transducer.from_pretrained(tmp_path)
    assert (again.text, again.vocabulary) == (form, vocabulary)


def test_a_model_of_version_1_loads(tmp_path: Path) -> None:
    model = small_model()
    model.save_pretrained(tmp_path)
    new = ("encoder", "attention", "heads", "dropout", "memories")
    edit_json(CONFIG, version=1, text=None, **{f"model__{name}": None for name in new})(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    assert "text" not in config
    assert len(config["model"]) == 8
    again = Transducer.from_pretrained(tmp_path)
    assert again.config == model.config
    assert torch.equal(answer(again), answer(model))


def test_a_model_of_version_2_has_one_memory(tmp_path: Path) -> None:
    model = small_model()
    model.save_pretrained(tmp_path)
    edit_json(CONFIG, version=2, model__memories=None)(tmp_path)
    assert Transducer.from_pretrained(tmp_path).config == model.config


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("{}\n")
    for seed in (0, 1):
        small_model(seed=seed).save_pretrained(tmp_path)
    assert (tmp_path / "log.jsonl").read_text() == "{}\n"
    assert torch.equal(answer(Transducer.from_pretrained(tmp_path)), answer(small_model(seed=1)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: m.half(), "the model is torch.float16, expected all float32 or all float64"),
        (lambda m: m.body.double(), "torch.float32, torch.float64, expected all"),
        (lambda m: m.metadata.update(loss=float("nan")), "metadata cannot be saved as JSON"),
        (lambda m: m.metadata.update(when=object()), "metadata cannot be saved as JSON"),
    ],
    ids=["half", "mixed", "nan", "object"],
)
def test_a_model_that_would_not_come_back_is_not_saved(
    spoil: Callable[[Transducer], Any], message: str, tmp_path: Path
) -> None:
    model = small_model()
    spoil(model)
    with pytest.raises(InputError, match=message):
        model.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def edit_json(name: str, **changes: Any) -> Callable[[Path], None]:
    """Set keys of a JSON file; `__` leads inside, and `None` removes."""

    def edit(folder: Path) -> None:
        data = json.loads((folder / name).read_text())
        for key, value in changes.items():
            *way, last = key.split("__")
            place = data
            for part in way:
                place = place[part]
            if value is None:
                del place[last]
            else:
                place[last] = value
        (folder / name).write_text(json.dumps(data))

    return edit


def edit_tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    """Change the tensors, with the digest made to fit."""

    def edit(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)
        digest = sha256(path.read_bytes()).hexdigest()
        config = json.loads((folder / "config.json").read_text())
        config["sha256"][path.name] = digest
        (folder / "config.json").write_text(json.dumps(config))

    return edit


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))  # type: ignore[return-value]


def flip_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


CONFIG, VOCABULARY, TENSORS = "config.json", "vocabulary.json", "model.safetensors"
H0 = "body.h0"
BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (shutil.rmtree, "no such folder"),
    "no config": (lambda f: (f / CONFIG).unlink(), "config.json: missing"),
    "no vocabulary": (lambda f: (f / VOCABULARY).unlink(), "vocabulary.json: missing"),
    "no tensors": (lambda f: (f / TENSORS).unlink(), "model.safetensors: missing"),
    "a folder for a file": (
        lambda f: ((f / CONFIG).unlink(), (f / CONFIG).mkdir()),
        "config.json: cannot be read",
    ),
    "config not JSON": (rewrite(CONFIG, lambda d: d[:40]), "config.json: not JSON"),
    "config not UTF-8": (rewrite(CONFIG, lambda d: b"\xff" + d), "config.json: not JSON"),
    "config a list": (rewrite(CONFIG, lambda d: b"[1]"), "config.json: list, expected an object"),
    "config very deep": (rewrite(CONFIG, lambda d: b"[" * 99999), "config.json: not JSON"),
    "config empty": (rewrite(CONFIG, lambda d: b""), "config.json: not JSON"),
    "another format": (edit_json(CONFIG, format="onnx"), "format is 'onnx', expected 'pushpop"),
    "a later version": (
        edit_json(CONFIG, version=4),
        "version is 4, this pushpop reads versions 1",
    ),
    "version true": (edit_json(CONFIG, version=True), "version is True"),
    "no version": (edit_json(CONFIG, version=None), "version is None"),
    "no dtype": (edit_json(CONFIG, dtype=None), "config.json: no 'dtype'"),
    "odd dtype": (edit_json(CONFIG, dtype="int8"), "dtype is 'int8', expected float32 or float64"),
    "other dtype": (
        edit_json(CONFIG, dtype="float64"),
        "is torch.float32, expected torch.float64 by config.json",
    ),
    "unknown key": (edit_json(CONFIG, extra=1), "json: unknown 'extra'; did you mean 'text'?"),
    "unknown setting": (edit_json(CONFIG, model__hiden=7), "unknown setting 'hiden'; did you mean"),
    "missing setting": (edit_json(CONFIG, model__hidden=None), "config.json: no setting 'hidden'"),
    "bad setting": (edit_json(CONFIG, model__hidden="7"), "hidden is '7', expected a whole number"),
    "settings a list": (edit_json(CONFIG, model=[]), "model is [], expected an object"),
    "text a list": (edit_json(CONFIG, text=[1]), "text is [1], expected an object or null"),
    "text unknown": (edit_json(CONFIG, text={"a": 1}), "text: unknown 'a'"),
    "no such unknown symbol": (
        edit_json(VOCABULARY, unknown="?"),
        "vocabulary.json: source vocabulary: lacks the unknown symbol '?'",
    ),
    "an unknown symbol that is a list": (
        edit_json(VOCABULARY, unknown=["a"]),
        "vocabulary.json: source vocabulary: lacks the unknown symbol ['a']",
    ),
    "a symbol that is an escape": (
        edit_json(VOCABULARY, source=["\x1b[31m"]),
        "vocabulary.json: source vocabulary: '\\x1b[31m' is no symbol",
    ),
    "half a character": (
        rewrite(VOCABULARY, lambda d: b'{"source": ["\\ud800"], "target": ["x"]}'),
        "vocabulary.json: source vocabulary: '\\ud800' is no symbol",
    ),
    "no digests": (edit_json(CONFIG, sha256={}), "sha256 has nothing, expected model.safetensors"),
    "another size": (
        edit_json(CONFIG, model__hidden=60000),
        "body.c0 is [7], expected [60000] by config.json and vocabulary.json",
    ),
    "another memory": (
        edit_json(CONFIG, model__memory="deque"),
        "model.safetensors: body.cell.weight_ih is [28, 9], expected [28, 13]",
    ),
    "vocabulary not JSON": (rewrite(VOCABULARY, lambda d: d[:-4]), "vocabulary.json: not JSON"),
    "vocabulary without target": (
        edit_json(VOCABULARY, target=None),
        "vocabulary.json: vocabulary: expected the keys source and target",
    ),
    "a symbol twice": (
        edit_json(VOCABULARY, target=["x", "x"]),
        "vocabulary.json: target vocabulary: 'x' occurs twice",
    ),
    "a symbol more": (
        edit_json(VOCABULARY, target=["x", "y", "z"]),
        "input_table.weight is [7, 5], expected [8, 5]",
    ),
    "symbols in another order": (
        edit_json(VOCABULARY, target=["y", "x"]),
        "vocabulary.json: SHA-256 is",
    ),
    "tensors cut off": (
        rewrite(TENSORS, lambda d: d[:-100]),
        "that are not a whole safetensors file",
    ),
    "tensors empty": (rewrite(TENSORS, lambda d: b""), "model.safetensors: 0 bytes that are not"),
    "tensors with a tail": (rewrite(TENSORS, lambda d: d + b"tail"), "not a whole safetensors"),
    "a pickle": (rewrite(TENSORS, lambda d: b"\x80\x04N." * 9), "not a whole safetensors"),
    "a bit flipped": (rewrite(TENSORS, flip_last), "model.safetensors: SHA-256 is"),
    "a tensor missing": (edit_tensors(lambda t: t.pop(H0)), "tensors missing: body.h0"),
    "a tensor more": (
        edit_tensors(lambda t: t.update(other=torch.zeros(1))),
        "tensors not of this model: other",
    ),
    "a tensor renamed": (
        edit_tensors(lambda t: t.update(h=t.pop(H0))),
        "tensors missing: body.h0; not of this model: h",
    ),
    "another shape": (
        edit_tensors(lambda t: t.update({H0: torch.zeros(8)})),
        "body.h0 is [8], expected [7]",
    ),
    "one dtype different": (
        edit_tensors(lambda t: t.update({H0: t[H0].half()})),
        "body.h0 is torch.float16, expected torch.float32",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_folder_is_refused_by_name(how: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    small_model().save_pretrained(folder)
    spoil, message = BROKEN[how]
    spoil(folder)
    with pytest.raises(InputError) as raised:
        Transducer.from_pretrained(folder)
    assert str(raised.value).startswith(str(folder))
    assert message in str(raised.value)


def test_every_truncation_and_every_flipped_header_byte_is_refused(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    path = tmp_path / TENSORS
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="safetensors"):
            Transducer.from_pretrained(tmp_path)
    for place in range(0, header, 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 2]) + whole[place + 1 :])
        with pytest.raises(InputError, match="safetensors"):
            Transducer.from_pretrained(tmp_path)


class Killed(BaseException):
    """The process ended here: nothing after this runs, no clean-up either."""


def test_a_save_killed_anywhere_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = small_model("stack", seed=0), small_model("lstm-3", seed=1)
    seen = []
    for deadline in range(1, 100):
        folder = tmp_path / str(deadline)
        old.save_pretrained(folder)
        calls = 0
        with monkeypatch.context() as patched:

            def counted(original: Callable[..., Any], deadline: int = deadline) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls >= deadline:
                        raise Killed
                    return original(*args, **kwargs)

                return call

            for name in ("fsync", "rename", "replace", "open"):
                patched.setattr(os, name, counted(getattr(os, name)))
            patched.setattr(files_module, "open", counted(open), raising=False)
            patched.setattr(Path, "rmdir", counted(Path.rmdir))
            patched.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
            try:
                new.save_pretrained(folder)
                break
            except Killed:
                pass
        found = answer(Transducer.from_pretrained(folder))
        assert torch.equal(found, answer(old)) or torch.equal(found, answer(new))
        seen.append(torch.equal(found, answer(new)))
        small_model("deque").save_pretrained(folder)  # and the folder is still good for use
        again = Transducer.from_pretrained(folder)
        assert torch.equal(answer(again), answer(small_model("deque")))
        assert not (folder / saving.COMPLETE).exists()
    assert seen == sorted(seen)  # the old one until some point, the new one after it
    assert {False, True} == set(seen)
    assert len(seen) > 10


def test_a_save_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    model.save_pretrained(tmp_path / "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("old", "new"):
        with pytest.raises(InputError, match="cannot be written: No space left on device"):
            small_model(seed=1).save_pretrained(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert len(list((tmp_path / "old").iterdir())) == 4
    assert torch.equal(answer(Transducer.from_pretrained(tmp_path / "old")), answer(model))


def test_what_old_kills_left_behind_is_removed_by_the_next_save(tmp_path: Path) -> None:
    for name, age in ((".saving-old", 2 * saving.LEFT_BEHIND), (".saving-now", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / TENSORS).write_bytes(b"half")
        then = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (then, then))
    small_model().save_pretrained(tmp_path)
    hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert hidden == [".saving-now"]


def test_a_model_cannot_be_saved_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file: cannot be written: File exists"):
        small_model().save_pretrained(tmp_path / "file")
    with pytest.raises(InputError, match="file: no such folder"):
        Transducer.from_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
