#include "apps/fft/transform.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace braid::apps::fft {

namespace {

// Rows of the source that are copied together: their lines stay in the cache until all columns of the target
// have been written.
constexpr std::size_t kTileRows = 8;

// to[c][r] = from[r][c] for `rows` of `to`. `from` has from_rows x from_columns.
void transpose(const Complex* from, Complex* to, std::size_t from_rows, std::size_t from_columns, Rows rows,
               std::size_t start) {
  const std::size_t tile = std::min(kTileRows, from_rows);  // both are powers of two
  const std::size_t tiles = from_rows / tile;
  for (std::size_t k = 0; k < tiles; ++k) {
    const std::size_t top = (start / tile + k) % tiles * tile;
    for (std::size_t c = rows.first; c < rows.last; ++c) {
      for (std::size_t r = top; r < top + tile; ++r) to[c * from_rows + r] = from[r * from_columns + c];
    }
  }
}

}  // namespace

Complex root_of_unity(std::size_t k, std::size_t n) {
  const double angle = -2 * 3.14159265358979323846 * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

// Cooley and Tukey's: the points in the order of their reversed bits, then transforms of twice the length from
// pairs of transforms.
void transform_row(std::span<Complex> points, std::span<const Complex> roots) {
  const std::size_t n = points.size();
  for (std::size_t i = 1, reversed = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
    reversed ^= bit;
    if (i < reversed) std::swap(points[i], points[reversed]);
  }
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t stride = roots.size() / half;
    for (std::size_t block = 0; block < n; block += 2 * half) {
      Complex* const low = &points[block];
      Complex* const high = low + half;
      for (std::size_t k = 0; k < half; ++k) {
        const Complex turned = roots[k * stride] * high[k];
        high[k] = low[k] - turned;
        low[k] = low[k] + turned;
      }
    }
  }
}

Transform::Transform(std::size_t points)
    : rows_(std::size_t{1} << (std::countr_zero(points) / 2)), columns_(points / rows_) {
  for (std::size_t k = 0; k < columns_ / 2; ++k) row_roots_.push_back(root_of_unity(k, columns_));
  for (std::size_t k = 0; k < rows_; ++k) coarse_roots_.push_back(root_of_unity(k, rows_));
  for (std::size_t k = 0; k < columns_; ++k) fine_roots_.push_back(root_of_unity(k, points));
}

void Transform::transpose_points(const Complex* points, Complex* scratch, Rows rows,
                                 std::size_t start) const {
  transpose(points, scratch, rows_, columns_, rows, start);
}

void Transform::transform_columns(Complex* scratch, Rows rows) const {
  for (std::size_t c = rows.first; c < rows.last; ++c) {
    const std::span<Complex> row(scratch + c * rows_, rows_);
    transform_row(row, row_roots_);
    for (std::size_t k = 1; k < rows_; ++k) row[k] = row[k] * root(c * k);
  }
}

void Transform::transpose_back(const Complex* scratch, Complex* points, Rows rows, std::size_t start) const {
  transpose(scratch, points, columns_, rows_, rows, start);
}

void Transform::transform_rows(Complex* points, Rows rows) const {
  for (std::size_t r = rows.first; r < rows.last; ++r)
    transform_row(std::span<Complex>(points + r * columns_, columns_), row_roots_);
}

void Transform::transpose_result(const Complex* points, Complex* scratch, Rows rows,
                                 std::size_t start) const {
  transpose(points, scratch, rows_, columns_, rows, start);
}

}  // namespace braid::apps::fft
