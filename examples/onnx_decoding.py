"""Run an exported model without torch: numpy and onnxruntime, one step at a time.

pushpop export MODEL --onnx step.onnx
python examples/onnx_decoding.py step.onnx "a1 a2 a3"
"""

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Decoder:
    """Decode with the graph of one step, and the graph that reads a source if there is one."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.step = _session(path)
        self.inputs = [tensor.name for tensor in self.step.get_inputs()]
        self.outputs = [tensor.name for tensor in self.step.get_outputs()]
        self.about = json.loads(self.step.get_modelmeta().custom_metadata_map["pushpop"])
        beside = path.with_name(f"{path.stem}-source{path.suffix}")
        self.source = _session(beside) if "vector" in self.inputs else None
        self.dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}[
            self.step.get_outputs()[0].type
        ]

    def read(self, line: str) -> list[str]:
        """Split a line into source symbols, as the model that was exported does: without a text
        form at spaces; with one as it says, features after a tab, as in V;PST, before the text."""
        form = self.about["text"]
        if form is None:
            return line.split()
        if form["normalise"] != "none":
            line = unicodedata.normalize(form["normalise"].upper(), line)
        text, _, features = line.partition("\t")
        marks = [f"<{feature}>" for feature in features.split(";") if feature]
        text = text.strip(" ")
        return marks + (list(text) if form["source"] == "chars" else text.split())

    def write(self, symbols: list[str]) -> str:
        """Join target symbols to text."""
        form = self.about["text"]
        return ("" if form and form["target"] == "chars" else " ").join(symbols)

    def decode(self, source: list[str], most: int = 1000) -> list[str]:
        """Decode greedily until EOS; for a tagger, return one label a symbol."""
        about, target = self.about, self.about["vocabulary"]["target"]
        numbers = {symbol: k for k, symbol in enumerate(about["vocabulary"]["source"])}
        unknown = numbers.get(about["vocabulary"].get("unknown"))
        read = [numbers.get(symbol, unknown) for symbol in source]
        ids = [k + about["source_input_start"] for k in read]
        feed: dict[str, Any] = {
            name: np.array(start["values"], self.dtype).reshape(start["shape"])
            for name, start in about["state"].items()
        }
        if about["form"] == "tagger":  # a label at every symbol, or at blanks
            blank = about["vocabulary"].get("blank")
            labels = [target[self._step(k, feed)["logits"][0].argmax()] for k in ids]
            pairs = zip(source, labels, strict=True)
            return [label for symbol, label in pairs if blank is None or symbol == blank]
        ids = [about["SOS"], *ids, about["SEP"]]
        vectors = self._read(ids, feed)
        keys = []
        for k, symbol in enumerate(ids):
            if vectors is not None:
                symbol, feed["vector"] = -1, vectors[k]
            output = self._step(symbol, feed)
            keys.append(output.get("key"))
        if "key" in self.outputs:  # attention over the steps' own outputs, now that all are there
            feed["keys"] = np.stack(keys)
            output["logits"] = self._last_again(ids[-1], feed)
        written: list[str] = []
        while len(written) < most:
            best = int(output["logits"][0].argmax())
            if best == about["EOS"]:
                break
            written.append(target[best - about["target_output_start"]])
            fed = best - about["target_output_start"] + about["target_input_start"]
            output = self._step(fed, feed)
        return written

    def _read(self, ids: list[int], feed: dict[str, Any]) -> Any:
        """Return vectors to feed in place of source symbols; set `keys` for attention."""
        vectors = None
        if self.source is not None:
            vectors, keys = self.source.run(None, {"source": np.array(ids)[:, None]})
            if "keys" in self.inputs:
                feed["keys"] = keys
        elif "keys" in self.inputs:
            width = next(i.shape[2] for i in self.step.get_inputs() if i.name == "keys")
            feed["keys"] = np.zeros((1, 1, width), self.dtype)
        if "vector" in self.inputs:
            assert vectors is not None
            feed["vector"] = vectors[0]
        return vectors

    def _step(self, symbol: int, feed: dict[str, Any]) -> dict[str, Any]:
        """Run one step and update the state in `feed`."""
        self.before = {name: feed[name] for name in self.about["state"]}
        values = self.step.run(None, {**feed, "symbol": np.array([symbol])})
        named = dict(zip(self.outputs, values, strict=True))
        for name in self.about["state"]:
            feed[name] = named[f"{name}_after"]
        return named

    def _last_again(self, symbol: int, feed: dict[str, Any]) -> Any:
        """Recompute the last step's logits with all keys."""
        again = {**feed, **self.before, "symbol": np.array([symbol])}
        return self.step.run(["logits"], again)[0]


def _session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_file():
        print(f"{__doc__}\nexpected the file of a step, and a source", file=sys.stderr)
        sys.exit(2)
    decoder = Decoder(sys.argv[1])
    known, symbols = decoder.about["vocabulary"], decoder.read(sys.argv[2])
    for symbol in symbols:
        if symbol not in known["source"] and known.get("unknown") is None:
            sys.exit(f"{symbol!r} is no symbol of the model: {' '.join(known['source'])}")
    print(decoder.write(decoder.decode(symbols)))
