"""Exact searches by other engines over the rows that `cargo bench --bench search` wrote.

Called by that bench with the directory of `rows.f32` and `queries.f32` (little-endian floats), their width, and k. Prints
one line that says what runs. Then answers each line of standard input that names an engine with one line: milliseconds a
query, searched one by one on one thread, and the row numbers of all answers.
"""

import os
import sys
import time

# One thread, and the kernel that the library itself picks for this processor.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import faiss  # noqa: E402
import numpy as np  # noqa: E402
import usearch  # noqa: E402
from threadpoolctl import threadpool_info  # noqa: E402
from usearch.index import MetricKind, search  # noqa: E402


def unit(rows):
    """The rows at length 1, as a user of an inner product prepares them."""
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows)


def engines(rows, k):
    """Each engine's search of one query, answering the numbers of the rows."""
    flat = faiss.IndexFlatIP(rows.shape[1])
    flat.add(rows)
    faiss.omp_set_num_threads(1)

    def matrix(query):
        scores = rows @ query
        near = np.argpartition(-scores, k)[:k]
        return near[np.argsort(-scores[near])]

    return {
        "faiss": lambda query: flat.search(query[None], k)[1][0],
        "usearch": lambda query: search(rows, query, k, MetricKind.IP, exact=True, threads=1).keys,
        "numpy": matrix,
    }


def main():
    directory, width, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    def read(name):
        return unit(np.fromfile(os.path.join(directory, name), dtype="<f4").reshape(-1, width))

    rows, queries = read("rows.f32"), read("queries.f32")
    found = engines(rows, k)
    kernels = sorted({f"{i['internal_api']} {i.get('architecture', '?')}" for i in threadpool_info() if i["user_api"] == "blas"})
    print(
        f"faiss {faiss.__version__} ({faiss.get_compile_options().strip()}), usearch {usearch.__version__} "
        f"({usearch.compiled.hardware_acceleration(dtype=usearch.compiled.ScalarKind.F32, ndim=width, metric_kind=MetricKind.IP) if hasattr(usearch.compiled, 'hardware_acceleration') else 'kernel not told'}), "
        f"numpy {np.__version__}; BLAS kernel: {', '.join(kernels) or 'none'}",
        flush=True,
    )
    for line in sys.stdin:
        engine = found[line.strip()]
        begin = time.perf_counter()
        answers = [engine(query) for query in queries]
        ms = (time.perf_counter() - begin) * 1000 / len(queries)
        print(ms, *(row for answer in answers for row in answer), flush=True)


if __name__ == "__main__":
    main()
