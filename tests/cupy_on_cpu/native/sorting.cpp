// The three functions that CuPy has of Thrust: sort, argsort and lexsort, with CuPy's order (NaN last).
#include "state.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace on_cpu;

namespace {
template <class T> bool is_nan(T x) { return x != x; }

template <class T> bool before(T a, T b) {
    if (is_nan(b)) return !is_nan(a);
    return a < b;
}

template <class R> bool before(std::complex<R> a, std::complex<R> b) {
    const bool a_nan = is_nan(a.real()) || is_nan(a.imag()), b_nan = is_nan(b.real()) || is_nan(b.imag());
    if (a_nan != b_nan) return b_nan;
    if (before(a.real(), b.real())) return true;
    return !before(b.real(), a.real()) && before(a.imag(), b.imag());
}

// How the elements of a dtype compare: whether the one at place ``i`` comes before the one at ``j``.
struct Order {
    size_t width;
    bool (*before)(const char* data, size_t i, size_t j);
};

template <class T> Order order_of() {
    return {sizeof(T),
            [](const char* data, size_t i, size_t j) { return before(((const T*)data)[i], ((const T*)data)[j]); }};
}

// By CuPy's numbers of dtypes.
Order order_by(int id) {
    switch (id) {
    case 0: return order_of<int8_t>();
    case 1: return order_of<uint8_t>();
    case 2: return order_of<int16_t>();
    case 3: return order_of<uint16_t>();
    case 4: return order_of<int32_t>();
    case 5: return order_of<uint32_t>();
    case 6: return order_of<int64_t>();
    case 7: return order_of<uint64_t>();
    case 8: return order_of<_Float16>();
    case 9: return order_of<float>();
    case 10: return order_of<double>();
    case 11: return order_of<std::complex<float>>();
    case 12: return order_of<std::complex<double>>();
    case 13: return order_of<bool>();
    }
    abandon(NOT_SUPPORTED, "a sort of a dtype that it does not know");
}

// Sort the numbers of places in ``data``, equal ones in their order.
void sort_places(size_t* places, const char* data, size_t count, Order order) {
    std::stable_sort(places, places + count, [=](size_t i, size_t j) { return order.before(data, i, j); });
}

void sort_row(char* data, size_t* places, size_t count, Order order) {
    for (size_t i = 0; i < count; i++) places[i] = i;
    sort_places(places, data, count, order);
    std::vector<char> held(data, data + count * order.width);
    for (size_t i = 0; i < count; i++) memcpy(data + i * order.width, &held[places[i] * order.width], order.width);
}

size_t count_of(const std::vector<ptrdiff_t>& shape) {
    size_t n = 1;
    for (ptrdiff_t s : shape) n *= s;
    return n;
}

// Sort each row of ``data``; with ``places`` (or without), tell where each element was.
void submit_sort(const char* name, int id, size_t* places, void* data, const std::vector<ptrdiff_t>& shape,
                 intptr_t stream) {
    const size_t count = count_of(shape), row = shape.back();
    submit((void*)stream, name, [=] {
        Order order = order_by(id);
        std::vector<size_t> own(places ? 0 : row);
        for (size_t at = 0; row && at < count; at += row) {
            sort_row((char*)data + at * order.width, places ? places + at : own.data(), row, order);
        }
    });
}
}  // namespace

extern "C" void on_cpu_thrust_sort(int id, void* data, size_t*, const std::vector<ptrdiff_t>& shape, intptr_t stream,
                                   void*) {
    submit_sort("thrust sort", id, nullptr, data, shape, stream);
}

extern "C" void on_cpu_thrust_argsort(int id, size_t* places, void* data, void*, const std::vector<ptrdiff_t>& shape,
                                      intptr_t stream, void*) {
    submit_sort("thrust argsort", id, places, data, shape, stream);
}

extern "C" void on_cpu_thrust_lexsort(int id, size_t* places, void* keys, size_t key_count, size_t count,
                                      intptr_t stream, void*) {
    submit((void*)stream, "thrust lexsort", [=] {
        for (size_t i = 0; i < count; i++) places[i] = i;
        Order order = order_by(id);
        for (size_t k = 0; k < key_count; k++) sort_places(places, (char*)keys + k * count * order.width, count, order);
    });
}
