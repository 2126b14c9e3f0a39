"""Times LiteRT's GPU accelerator: `time_gpu.py FOLDER` writes NAME-gpu.json beside each NAME.tflite.

`litert-benchmark --use_gpu` stops its clock when the work is submitted. Here 100 inferences follow each
other and one result is read at the end; a round's time is divided by 100. The files have the form of
`litert-benchmark --result_json`, with `results_awaited`.
"""

import json
import pathlib
import statistics
import sys
import time

import numpy
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator

INFERENCES = 100
ROUNDS = 20


def time_model(path):
    model = CompiledModel.from_file(str(path), hardware_accel=HardwareAccelerator.GPU | HardwareAccelerator.CPU)
    signature = next(iter(model.get_signature_list()))
    inputs, outputs = model.get_input_tensor_details(signature), model.get_output_tensor_details(signature)
    sources = {name: model.create_input_buffer_by_name(signature, name) for name in inputs}
    results = {name: model.create_output_buffer_by_name(signature, name) for name in outputs}
    for name, details in inputs.items():
        sources[name].write(numpy.random.uniform(-1, 1, details["shape"]).astype(details["dtype"]))
    name, details = next(iter(outputs.items()))

    def seconds(inferences):
        start = time.perf_counter()
        for _ in range(inferences):
            model.run_by_name(signature, sources, results)
        results[name].read(int(numpy.prod(details["shape"])), numpy.dtype(details["dtype"]))
        return time.perf_counter() - start

    seconds(INFERENCES)
    millis = [1e3 * seconds(INFERENCES) / INFERENCES for _ in range(ROUNDS)]
    return {
        "model": path.name,
        "accelerators": ["GPU", "CPU"],
        "fully_accelerated": model.is_fully_accelerated(),
        "results_awaited": True,
        "num_threads": 1,
        "latency": {
            "median_ms": round(statistics.median(millis), 4),
            "min_ms": round(min(millis), 4),
            "max_ms": round(max(millis), 4),
            "std_ms": round(statistics.stdev(millis), 4),
            "num_runs": INFERENCES * ROUNDS,
        },
    }


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.tflite")):
    result = time_model(path)
    path.with_name(f"{path.stem}-gpu.json").write_text(json.dumps(result, indent=2) + "\n")
