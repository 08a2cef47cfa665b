// The discrete Fourier transform of n = 2^k complex points in six steps: the points as a matrix that is
// transposed, transformed row by row, multiplied by roots of unity, transposed, transformed row by row and
// transposed. Knows nothing of shared memory: the parallel program and the sequential run that it is compared with
// both call it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace braid::apps::fft {

struct Complex {
  double re, im;
};

inline Complex operator+(Complex a, Complex b) {
  return {a.re + b.re, a.im + b.im};
}
inline Complex operator-(Complex a, Complex b) {
  return {a.re - b.re, a.im - b.im};
}
// Without the standard's cases for infinities, which cost more than the product.
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// exp(-2 pi i k / n), rounded once.
Complex root_of_unity(std::size_t k, std::size_t n);

// Replaces the points by their transform; `roots` are root_of_unity(k, n) of all k < n / 2, of any n that is a
// multiple of the number of points.
void transform_row(std::span<Complex> points, std::span<const Complex> roots);

// Rows of a matrix, [first, last).
struct Rows {
  std::size_t first, last;
};

class Transform {
 public:
  // `points`: a power of two, at least 4.
  explicit Transform(std::size_t points);

  // The matrix of the points has so many rows and columns, row by row. Of an odd power of two it is twice as wide as
  // high.
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }

  // Each step computes some rows of its result, so that several callers can divide the rows. A caller goes on to the next
  // step when all rows of the step before are there.
  //
  //   transpose_points   points (rows x columns)  ->  scratch (columns x rows)
  //   transform_columns  scratch                      transformed and multiplied by roots of unity
  //   transpose_back     scratch                  ->  points
  //   transform_rows     points                       transformed
  //   transpose_result   points                   ->  scratch: the transform of all points, in order
  //
  // Rows of the other matrix are read from row `start` on, modulo their number, and round to it: callers that start at
  // different rows do not all read the same page first.
  void transpose_points(const Complex* points, Complex* scratch, Rows rows, std::size_t start) const;
  void transform_columns(Complex* scratch, Rows rows) const;
  void transpose_back(const Complex* scratch, Complex* points, Rows rows, std::size_t start) const;
  void transform_rows(Complex* points, Rows rows) const;
  void transpose_result(const Complex* points, Complex* scratch, Rows rows, std::size_t start) const;

 private:
  // root_of_unity(k, points), from two tables of about the root of so many numbers.
  Complex root(std::size_t k) const { return coarse_roots_[k / columns_] * fine_roots_[k % columns_]; }

  std::size_t rows_, columns_;
  std::vector<Complex> row_roots_;     // of `columns_`, which is a multiple of `rows_`
  std::vector<Complex> coarse_roots_;  // of the points, each columns_-th
  std::vector<Complex> fine_roots_;    // of the points, the first columns_
};

}  // namespace braid::apps::fft
