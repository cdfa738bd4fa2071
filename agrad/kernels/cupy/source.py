"""The CUDA source of the fused kernels. It needs neither CuPy nor a GPU."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple


class Elementwise(NamedTuple):
    """An elementwise kernel, in the notation of ``cupy.ElementwiseKernel``.

    ``T`` is the dtype of the arrays (float or double), ``L`` the dtype of labels, and ``i`` the index of the element.
    """

    inputs: str
    outputs: str
    body: str


_DIVISION = """
    // The remainder is exact and has the sign of x2; the quotient is the integer nearest to (x1 - r) / x2.
    T r = fmod(x1, x2), q = (x1 - r) / x2;
    if (r != 0 && (r < 0) != (x2 < 0)) { r += x2; q -= 1; }
    if (r == 0) r = copysign(T(0), x2);
    q = q == 0 ? copysign(T(0), x1 / x2) : rint(q);
    if (x2 == 0) q = x1 / x2;
"""

ELEMENTWISE = {
    # the bits of a float32 x rounded to a narrow dtype, to nearest even; all NaNs get the same bits
    "to_bfloat16": Elementwise(
        "uint32 x",
        "uint16 y",
        "y = (x & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;",
    ),
    # below 2^-14 the sum with 0.5 rounds to multiples of 2^-24; from 65520 on the result is infinity
    "to_float16": Elementwise(
        "uint32 x",
        "uint16 y",
        """
        unsigned int size = x & 0x7fffffffu, bits;
        if (size > 0x7f800000u) bits = 0x7fffu;
        else if (size >= 0x477ff000u) bits = 0x7c00u;
        else if (size < 0x38800000u) bits = __float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u;
        else bits = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
        y = bits | ((x >> 16) & 0x8000u);
        """,
    ),
    # a bit for each positive element of a row, the lowest first; rows are padded to whole bytes
    "positive_bits": Elementwise(
        "raw T y, int64 columns, int64 width",
        "uint8 mask",
        """
        long long row = i / width, first = i % width * 8;
        unsigned int bits = 0;
        for (int k = 0; k < 8 && first + k < columns; k++)
            bits |= (unsigned int)(y[row * columns + first + k] > T(0)) << k;
        mask = bits;
        """,
    ),
    "floor_divide": Elementwise("T x1, T x2", "T out", f"{_DIVISION} out = q;"),
    "remainder": Elementwise("T x1, T x2", "T out", f"{_DIVISION} out = r;"),
    # random words as numbers
    "uniform": Elementwise(
        "uint64 word, int32 shift, T offset, T scale", "T out", "out = (T(word >> shift) + offset) * scale;"
    ),
    "relu": Elementwise("T x", "T out", "out = x <= T(0) ? T(0) : x;"),
    "relu_vjp": Elementwise("T g, T y", "T out", "out = y > T(0) ? g : T(0);"),
    # 0 where an element is neither used nor finite
    "mask_unused": Elementwise("bool used, T part", "T out", "out = used || part * T(0) == T(0) ? part : T(0);"),
    "product": Elementwise("T g, T x", "T out", "out = g * x;"),
    "quotient": Elementwise("T g, T x", "T out", "out = g / x;"),
    "divisor_vjp": Elementwise("T g, T y, T x", "T out", "out = -(g * y / x);"),
    "sqrt_vjp": Elementwise("T g, T y", "T out", "out = g / (T(2) * y);"),
    "square_vjp": Elementwise("T g, T x", "T out", "out = T(2) * g * x;"),
    "tanh_vjp": Elementwise("T g, T y", "T out", "out = g * (T(1) - y * y);"),
    "sigmoid": Elementwise(
        "T x",
        "T out",
        """
        T e = exp(-fabs(x));  // never overflows
        out = x >= T(0) ? T(1) / (T(1) + e) : e / (T(1) + e);
        """,
    ),
    "sigmoid_vjp": Elementwise("T g, T y", "T out", "out = g * y * (T(1) - y);"),
    # x times the normal distribution function; its derivative is the function plus x times the density
    # the argument is clipped to finite values if the other factor is 0
    "gelu_erf": Elementwise(
        "T x",
        "T out",
        """
        T z = x < T(-60000) ? T(-60000) : x;
        out = z * T(0.5) * erfc(-z * T(0.70710678118654752440));
        """,
    ),
    "gelu_erf_vjp": Elementwise(
        "T g, T x",
        "T out",
        """
        T z = x > T(60000) ? T(60000) : x < T(-60000) ? T(-60000) : x;
        T below = T(0.5) * erfc(-z * T(0.70710678118654752440));
        T density = T(0.39894228040143267794) * exp(T(-0.5) * z * z);
        out = g * (below + z * density);
        """,
    ),
    # the constants are sqrt(2 / pi) and the 0.044715 of Hendrycks and Gimpel (arXiv 1606.08415)
    "gelu_tanh": Elementwise(
        "T x",
        "T out",
        """
        T z = x < T(-60000) ? T(-60000) : x;
        T inner = T(0.79788456080286535588) * (z + T(0.044715) * z * z * z);
        out = T(0.5) * z * (T(1) + tanh(inner));
        """,
    ),
    "gelu_tanh_vjp": Elementwise(
        "T g, T x",
        "T out",
        """
        T z = x > T(30) ? T(30) : x < T(-30) ? T(-30) : x;  // beyond, 0 times an infinite slope
        T t = tanh(T(0.79788456080286535588) * (z + T(0.044715) * z * z * z));
        T slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * z * z);
        out = g * T(0.5) * ((T(1) + t) + z * (T(1) - t * t) * slope);
        """,
    ),
    "sgd_plain": Elementwise("T p, T g, T lr, T sign, T decay", "T new_p", "new_p = p - lr * (sign * g + decay * p);"),
    # keep is 1 - dampening
    "sgd_momentum": Elementwise(
        "T p, T g, T v, T lr, T sign, T decay, T momentum, T keep, bool nesterov",
        "T new_p, T new_v",
        """
        T d = sign * g + decay * p;
        T speed = momentum * v + keep * d;
        new_p = p - lr * (nesterov ? d + momentum * speed : speed);
        new_v = speed;
        """,
    ),
    "adam": Elementwise(
        "T p, T g, T m, T v, T rate, T floor, T shrink, T decay, T keep1, T beta2, T keep2",
        "T new_p, T new_m, T new_v",
        """
        T d = g + decay * p;
        T first = m + (d - m) * keep1;
        T second = beta2 * v + keep2 * d * d;
        new_p = shrink * p - rate * first / (sqrt(second) + floor);
        new_m = first;
        new_v = second;
        """,
    ),
}


def masked(name: str, by_value: bool) -> Elementwise:
    """Return a rule of ``ELEMENTWISE`` with 0 for unused elements that are not finite.

    by_value: elements whose cotangent ``g`` is 0 are unused. Otherwise, the first input is ``used``.
    """
    inputs, outputs, body = ELEMENTWISE[name]
    unused = "g == T(0)" if by_value else "!used"
    inputs = inputs if by_value else f"bool used, {inputs}"
    return Elementwise(inputs, outputs, f"{body} if ({unused} && !(out * T(0) == T(0))) out = T(0);")


THREADS = 256
"""The threads of a block, a power of two, as reductions halve it. Rows that fit share a block."""

CHUNK = 4 * THREADS
"""The elements of an update that a block computes."""

ARGUMENT_BYTES = 4096
"""The most bytes of the arguments of a kernel."""

REDUCE = """
// The values of threads that are apart in scratch, combined by halves. All of them get the result.
template <class T, class F>
__device__ inline T reduced(T value, T* scratch, int me, int lane, int width, int apart, F step) {
    scratch[me] = value;
    for (int half = width / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) scratch[me] = step(scratch[me], scratch[me + half * apart]);
    }
    __syncthreads();
    T result = scratch[me - lane * apart];
    __syncthreads();
    return result;
}
"""


def digits_function(axes: int) -> str:
    """Return the function from the number of an element to its position in a shape."""
    return f"""
__device__ inline void digits(long long number, const long long* shape, long long* at) {{
    for (int a = {axes - 1}; a >= 0; a--) {{
        at[a] = number % shape[a];
        number /= shape[a];
    }}
}}
"""


def most_parts(parameters: int, shared: int = 0) -> int:
    """Return how many parts with these parameters fit into a kernel's arguments."""
    return (ARGUMENT_BYTES // 8 - shared - 1) // (parameters + 2)


def joint_kernel(
    name: str, function: str, parts: int, blocks: str, parameters: Sequence[str], shared: Sequence[str] = ()
) -> str:
    """Return the text of a kernel that calls a function for each of several parts.

    A block works on one of at most ``parts`` parts. The function accepts the index of the block in its part, the number
    of blocks of the part, and the size of the part. Then follow ``parameters`` (pointers and doubles), which each part
    has, and the doubles ``shared``. ``blocks`` is the expression of the number of blocks of a part with ``size``
    elements.
    """
    of_part = [f"part.{parameter.rpartition(' ')[2]}" for parameter in parameters]
    of_all = [parameter.rpartition(" ")[2] for parameter in shared]
    return f"""
struct {name}_part {{ {"; ".join([*parameters, "long long size, first"])}; }};
struct {name}_parts {{ {name}_part all[{parts}]; }};

extern "C" __global__ void {name}({", ".join([f"const {name}_parts parts", "int count", *shared])}) {{
    int k = 0;
    for (int last = count - 1; k < last;) {{
        int middle = (k + last + 1) / 2;
        if (parts.all[middle].first <= blockIdx.x) k = middle;
        else last = middle - 1;
    }}
    const {name}_part& part = parts.all[k];
    const long long size = part.size;
    {function}({", ".join(["blockIdx.x - part.first", blocks, "size", *of_part, *of_all])});
}}
"""


@cache
def joint_update(name: str, real: str, arrays: int) -> tuple[str, int]:
    """Return an entry of ``ELEMENTWISE`` as a kernel over parts, and the most parts.

    The entry accepts ``arrays`` arrays, then numbers, which all parts share. Each part has its own inputs and outputs,
    contiguous and of one size. The inputs may be overwritten.
    """
    source = ELEMENTWISE[name]
    inputs, outputs = source.inputs.split(", "), source.outputs.split(", ")
    pointers = [f"T* p{k}" for k in range(arrays + len(outputs))]
    numbers = [f"double n{k}" for k, _ in enumerate(inputs[arrays:])]
    convert = " ".join(f"const {x} = n{k};" for k, x in enumerate(inputs[arrays:]))
    read = " ".join(f"const {x} = p{k}[i];" for k, x in enumerate(inputs[:arrays]))
    write = " ".join(f"p{k}[i] = {y[2:]};" for k, y in enumerate(outputs, arrays))
    place = ["long long block", "long long blocks", "long long size"]
    most = most_parts(len(pointers), len(numbers))
    text = f"""
typedef {real} T;
__device__ inline void update({", ".join([*place, *pointers, *numbers])}) {{
    {convert}
    for (long long i = block * {THREADS} + threadIdx.x; i < size; i += blocks * {THREADS}) {{
        {read}
        {"; ".join(outputs)};
        {source.body}
        {write}
    }}
}}
"""
    return text + joint_kernel(
        f"agrad_{name}_parts", "update", most, f"(size + {CHUNK - 1}) / {CHUNK}", pointers, numbers
    ), most


_ROWS = """
#define THREADS 256

// A row is the reduced axis: n elements, inner apart, of a C-contiguous array. A block works on blockDim.y rows, with
// blockDim.x threads (a power of two) for each. If rows are adjacent in memory, x and y are exchanged, so that threads
// that are next to each other read adjacent elements.
struct Row {
    long long start, inner, n;
    int lane, width, apart, me;
    bool live;
};

__device__ Row my_row(long long block, long long rows, long long n, long long inner) {
    Row row;
    bool across = inner > 1;
    int which = across ? threadIdx.x : threadIdx.y, beside = across ? blockDim.x : blockDim.y;
    long long k = block * beside + which;
    row.live = k < rows;
    row.start = k / inner * n * inner + k % inner;
    row.inner = inner;
    row.n = n;
    row.lane = across ? threadIdx.y : threadIdx.x;
    row.width = across ? blockDim.y : blockDim.x;
    row.apart = across ? beside : 1;
    row.me = (across ? which : which * row.width) + row.lane * row.apart;
    return row;
}

// Calls f with the index of each element in a row, and with its offset.
template <class F>
__device__ void each(Row row, F f) {
    for (long long j = row.lane; row.live && j < row.n; j += row.width) f(j, row.start + j * row.inner);
}

// The sum, or the largest, of f over a row.
template <class F>
__device__ T over_row(Row row, T* scratch, bool largest, T value, F f) {
    auto step = [=](T a, T b) { return largest ? fmax(a, b) : a + b; };
    each(row, [&](long long j, long long at) { value = step(value, f(at)); });
    return reduced(value, scratch, row.me, row.lane, row.width, row.apart, step);
}

// The largest element. A row without a finite one has NaN results: infinity less infinity.
__device__ T row_shift(Row row, const T* x, T* scratch) {
    T first = row.live ? x[row.start + (row.lane < row.n ? row.lane : 0) * row.inner] : T(0);
    return over_row(row, scratch, true, first, [=](long long at) { return x[at]; });
}

__device__ T row_sum_of_exp(Row row, const T* x, T shift, T* scratch) {
    return over_row(row, scratch, false, T(0), [=](long long at) { return exp(x[at] - shift); });
}

// with logs the logarithms of the results
extern "C" __global__ void softmax(
        const T* x, T* y, long long rows, long long n, long long inner, long long logs) {
    __shared__ T scratch[THREADS];
    Row row = my_row(blockIdx.x, rows, n, inner);
    T shift = row_shift(row, x, scratch);
    T total = row_sum_of_exp(row, x, shift, scratch);
    T log_total = log(total);
    each(row, [=](long long j, long long at) {
        y[at] = logs ? (x[at] - shift) - log_total : exp(x[at] - shift) / total;
    });
}

extern "C" __global__ void softmax_vjp(
        const T* g, const T* y, T* out, long long rows, long long n, long long inner, long long logs) {
    __shared__ T scratch[THREADS];
    Row row = my_row(blockIdx.x, rows, n, inner);
    T total = over_row(row, scratch, false, T(0), [=](long long at) { return logs ? g[at] : g[at] * y[at]; });
    each(row, [=](long long j, long long at) {
        out[at] = logs ? g[at] - exp(y[at]) * total : y[at] * (g[at] - total);
    });
}

// The losses of rows, the logarithms and the total, each if its pointer is not null. A single block writes the total,
// several write their sums and numbers of rows that count into parts.
extern "C" __global__ void cross_entropy(
        const T* x, const L* labels, T* loss, T* lse, T* total, T* divisor, double* parts,
        long long rows, long long n, double smoothing, long long ignores, long long ignore, long long mean) {
    __shared__ T scratch[THREADS];
    __shared__ double sums[THREADS];
    double sum = 0, count = 0;
    for (long long block = blockIdx.x; block * blockDim.y < rows; block += gridDim.x) {
        Row row = my_row(block, rows, n, 1);
        T shift = row_shift(row, x, scratch);
        T log_total = log(row_sum_of_exp(row, x, shift, scratch)), every = T(0);
        if (smoothing > 0) every = over_row(row, scratch, false, T(0), [=](long long at) {
            return log_total + (shift - x[at]);
        });
        if (row.live && row.lane == 0) {
            long long k = row.start / n, label = labels[k];
            bool counts = !ignores || label != ignore;
            // a label out of range produces NaN, not a read outside the array
            T score = label >= 0 && label < n ? x[row.start + label] : log(T(-1));
            T value = log_total + (shift - score);
            if (smoothing > 0) value = T(1 - smoothing) * value + T(smoothing / n) * every;
            if (!counts) value = T(0);
            if (lse) lse[k] = shift + log_total;
            if (loss) loss[k] = value;
            sum += value;
            count += counts;
        }
    }
    int me = threadIdx.y * blockDim.x + threadIdx.x;
    auto add = [](double a, double b) { return a + b; };
    sum = reduced(sum, sums, me, me, THREADS, 1, add);
    count = reduced(count, sums, me, me, THREADS, 1, add);
    if (me > 0) return;
    if (parts) {
        parts[2 * blockIdx.x] = sum;
        parts[2 * blockIdx.x + 1] = count;
    } else if (total) {
        *divisor = mean ? count : 1;
        *total = sum / *divisor;
    } else if (divisor && blockIdx.x == 0) {
        *divisor = 1;
    }
}

extern "C" __global__ void cross_entropy_total(
        const double* parts, T* total, T* divisor, long long blocks, long long mean) {
    __shared__ double sums[THREADS];
    double sum = 0, count = 0;
    int me = threadIdx.x;
    for (long long b = me; b < blocks; b += THREADS) {
        sum += parts[2 * b];
        count += parts[2 * b + 1];
    }
    auto add = [](double a, double b) { return a + b; };
    sum = reduced(sum, sums, me, me, THREADS, 1, add);
    count = reduced(count, sums, me, me, THREADS, 1, add);
    if (me > 0) return;
    *divisor = mean ? count : 1;
    *total = sum / *divisor;
}

// by the sum of the weights again: with a large shift the logarithm in lse is lost
extern "C" __global__ void cross_entropy_vjp(
        const T* g_loss, const T* g_lse, const T* divisor, const T* x, const L* labels, T* out,
        long long rows, long long n, double smoothing, long long ignores, long long ignore, long long by_row) {
    __shared__ T scratch[THREADS];
    Row row = my_row(blockIdx.x, rows, n, 1);
    T shift = row_shift(row, x, scratch);
    T total = row_sum_of_exp(row, x, shift, scratch);
    if (!row.live) return;
    long long k = row.start / n, label = labels[k];
    bool counts = !ignores || label != ignore;
    T of_loss = g_loss ? g_loss[by_row ? k : 0] : T(0), of_lse = g_lse ? g_lse[k] : T(0);
    if (divisor) of_loss = of_loss / *divisor;
    each(row, [=](long long j, long long at) {
        T share = j == label ? T(1 - smoothing) * of_loss : T(0);
        if (smoothing > 0) share += T(smoothing / n) * of_loss;
        out[at] = counts ? (of_loss + of_lse) * (exp(x[at] - shift) / total) - share : T(0);
    });
}
"""


@cache
def row_source(real: str, labels: str = "long") -> str:
    """Return the row kernels for ``float`` or ``double``, and a type of labels."""
    # a typedef, because a macro would change the T of every template in the CUDA headers
    return f"{REDUCE}\ntypedef {real} T;\ntypedef {labels} L;\n{_ROWS}"
