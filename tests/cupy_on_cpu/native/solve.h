// Triangular systems and factorizations of matrices by columns, for cuBLAS and cuSOLVER.
#pragma once
#include "cublas.h"

#include <algorithm>
#include <cmath>
#include <utility>

typedef std::complex<float> Complex64;
typedef std::complex<double> Complex128;
typedef ptrdiff_t Long;

enum { LEFT = 0, RIGHT = 1, LOWER = 0, UPPER = 1, GENERAL = 0, UNIT = 1 };

struct Triangle {
    int side, uplo, operation, unit;
};

// op(A) X = alpha B, or X op(A) = alpha B; X takes the place of B, which is m by n.
template <class T> void solve_triangle(Triangle t, Long m, Long n, T alpha, const T* a, Long lda, T* b, Long ldb) {
    const bool left = t.side == LEFT, lower = (t.uplo == LOWER) == (t.operation == 0);
    const Long size = left ? m : n, systems = left ? n : m;
    // from the right the unknowns are found in the opposite order
    const bool ascending = lower == left;
    const Long step = left ? 1 : ldb, next = left ? ldb : 1;
    for (Long s = 0; s < systems; s++) {
        T* x = b + s * next;
        for (Long q = 0; q < size; q++) {
            Long i = ascending ? q : size - 1 - q;
            T sum = alpha * x[i * step];
            for (Long r = 0; r < q; r++) {
                Long j = ascending ? r : size - 1 - r;
                T factor = left ? element(a, lda, t.operation, i, j) : element(a, lda, t.operation, j, i);
                sum -= factor * x[j * step];
            }
            x[i * step] = t.unit == UNIT ? sum : sum / element(a, lda, t.operation, i, i);
        }
    }
}

// LU of one matrix in place; returns the first zero pivot, counted from 1, or 0.
template <class T> int factorize(Long m, Long n, T* a, Long lda, int* pivots) {
    int info = 0;
    for (Long k = 0; k < std::min(m, n); k++) {
        Long p = k;
        for (Long i = k + 1; pivots && i < m; i++) {
            if (std::abs(a[i + k * lda]) > std::abs(a[p + k * lda])) p = i;
        }
        if (pivots) pivots[k] = int(p + 1);
        for (Long j = 0; p != k && j < n; j++) std::swap(a[k + j * lda], a[p + j * lda]);
        if (a[k + k * lda] == T(0)) {
            if (!info) info = int(k + 1);
            continue;
        }
        for (Long i = k + 1; i < m; i++) {
            T factor = a[i + k * lda] /= a[k + k * lda];
            for (Long j = k + 1; j < n; j++) a[i + j * lda] -= factor * a[k + j * lda];
        }
    }
    return info;
}

template <class T> void swap_rows(Long n, Long columns, const int* pivots, T* b, Long ldb, bool back) {
    for (Long q = 0; pivots && q < n; q++) {
        Long k = back ? n - 1 - q : q, p = pivots[k] - 1;
        for (Long j = 0; p != k && j < columns; j++) std::swap(b[k + j * ldb], b[p + j * ldb]);
    }
}

template <class T>
void solve(int operation, Long n, Long columns, const T* lu, Long lda, const int* pivots, T* b, Long ldb) {
    const Triangle lower = {LEFT, LOWER, operation, UNIT}, upper = {LEFT, UPPER, operation, GENERAL};
    if (operation == 0) {
        swap_rows(n, columns, pivots, b, ldb, false);
        solve_triangle(lower, n, columns, T(1), lu, lda, b, ldb);
        solve_triangle(upper, n, columns, T(1), lu, lda, b, ldb);
    } else {
        solve_triangle(upper, n, columns, T(1), lu, lda, b, ldb);
        solve_triangle(lower, n, columns, T(1), lu, lda, b, ldb);
        swap_rows(n, columns, pivots, b, ldb, true);
    }
}

template <class T> int invert(Long n, const T* lu, Long lda, const int* pivots, T* c, Long ldc) {
    int info = 0;
    for (Long j = 0; j < n; j++) {
        if (lu[j + j * lda] == T(0) && !info) info = int(j + 1);
        for (Long i = 0; i < n; i++) c[i + j * ldc] = i == j ? T(1) : T(0);
    }
    solve(0, n, n, lu, lda, pivots, c, ldc);
    return info;
}

// The Cholesky factor takes the place of a triangle; returns the first bad pivot, counted from 1, or 0. After it: NaN.
template <class T> int factorize_positive(int uplo, Long n, T* a, Long lda) {
    // the upper triangle holds the conjugates of the lower one, and so do the factors
    auto at = [=](Long i, Long j) -> T& { return uplo == LOWER ? a[i + j * lda] : a[j + i * lda]; };
    int info = 0;
    for (Long j = 0; j < n; j++) {
        auto pivot = std::real(at(j, j));
        for (Long k = 0; k < j; k++) pivot -= std::norm(at(j, k));
        if (!(pivot > 0) && !info) info = int(j + 1);
        at(j, j) = pivot > 0 ? std::sqrt(pivot) : NAN;
        for (Long i = j + 1; i < n; i++) {
            T sum = at(i, j);
            for (Long k = 0; k < j; k++) sum -= at(i, k) * conjugate(at(j, k));
            at(i, j) = sum / at(j, j);
        }
    }
    return info;
}
