// A one-dimensional Fourier transform of complex points in six steps (transform.h). Compute nodes own
// contiguous rows of two matrices; in each transpose every node reads a part of every row of the others. No
// node waits for another but at the barriers between the steps.
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/common/random.h"
#include "apps/fft/transform.h"
#include "dsm/api.h"

namespace {

using braid::apps::fft::Complex;
using braid::apps::fft::Rows;
using braid::apps::fft::Transform;
using braid::dsm::Node;
using braid::dsm::Range;

// In [-1, 1).
double random_number(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(braid::apps::nth_bits(seed * 0xd1b54a32d192ed03, index) >> 11) * 0x1.0p-52 - 1.0;
}

Complex initial(std::uint64_t seed, std::size_t i) {
  return {random_number(seed, 2 * i), random_number(seed, 2 * i + 1)};
}

// Stands for the compute node in the sequential run, which has no others to share the work with.
class Alone {
 public:
  Range share(std::size_t n) const { return {0, n}; }
  void barrier() {}
};

// Where a node begins to read the other matrix in a transpose.
enum class Begin {
  kAcross,  // half the matrix from its own rows: nodes of a cluster read pages of other clusters, each its own ones first
  kOwn,  // at its own rows: those of a cluster all come to the same page of the next cluster
};

// The transform of `points` is in `scratch` when all callers have returned; both have as many elements.
template <class SomeNode>
void transform(const Transform& steps, Complex* points, Complex* scratch, Begin begin, SomeNode&& node) {
  const Range high = node.share(steps.rows()), wide = node.share(steps.columns());
  const Rows rows{high.first(), high.last()}, columns{wide.first(), wide.last()};
  const bool across = begin == Begin::kAcross;
  const std::size_t first_row = rows.first + (across ? steps.rows() / 2 : 0);
  const std::size_t first_column = columns.first + (across ? steps.columns() / 2 : 0);
  steps.transpose_points(points, scratch, columns, first_row);
  steps.transform_columns(scratch, columns);
  node.barrier();
  steps.transpose_back(scratch, points, rows, first_column);
  steps.transform_rows(points, rows);
  node.barrier();
  steps.transpose_result(points, scratch, columns, first_row);
  node.barrier();
}

bool same_bits(const Complex& a, const Complex& b) {
  return braid::apps::same_bits(a.re, b.re) && braid::apps::same_bits(a.im, b.im);
}

// Whether the result is, bit by bit, that of the six steps in private memory.
bool matches_sequential(std::size_t n, std::uint64_t seed, std::span<const Complex> result) {
  std::vector<Complex> points(n), expected(n);
  for (std::size_t i = 0; i < n; ++i) points[i] = initial(seed, i);
  transform(Transform(n), points.data(), expected.data(), Begin::kOwn, Alone());
  for (std::size_t i = 0; i < n; ++i) {
    if (same_bits(result[i], expected[i])) continue;
    std::printf("WRONG: element %zu is (%.17g, %.17g), should be (%.17g, %.17g)\n", i, result[i].re,
                result[i].im, expected[i].re, expected[i].im);
    return false;
  }
  return true;
}

// Whether some elements of the result are the sums that define them.
bool matches_definition(std::size_t n, std::uint64_t seed, std::span<const Complex> result) {
  for (const std::size_t k : {std::size_t{1}, n / 3, n / 2 + 1, n - 1}) {
    Complex sum{0, 0};
    double magnitude = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Complex point = initial(seed, i);
      sum = sum + point * braid::apps::fft::root_of_unity(i * k % n, n);
      magnitude += std::hypot(point.re, point.im);
    }
    // The bound of a sum of n terms, which is far greater than that of the transform.
    const Complex difference = result[k] - sum;
    const double tolerance = static_cast<double>(n) * 0x1.0p-53 * magnitude;
    if (std::hypot(difference.re, difference.im) <= tolerance) continue;
    std::printf("WRONG: element %zu is (%.17g, %.17g), by its definition (%.17g, %.17g)\n", k, result[k].re,
                result[k].im, sum.re, sum.im);
    return false;
  }
  return true;
}

// Whether the inverse transform, in one piece and without the six steps, gives the points again.
bool inverse_gives_points(std::size_t n, std::uint64_t seed, std::span<const Complex> result) {
  std::vector<Complex> roots, inverse(n);
  for (std::size_t k = 0; k < n / 2; ++k) roots.push_back(braid::apps::fft::root_of_unity(k, n));
  // The inverse is the conjugate of the conjugate's transform, divided by n.
  for (std::size_t i = 0; i < n; ++i) inverse[i] = {result[i].re, -result[i].im};
  braid::apps::fft::transform_row(inverse, roots);
  double error = 0, norm = 0, largest = -1;
  std::size_t worst = 0;
  const double scale = 1.0 / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    inverse[i] = {inverse[i].re * scale, -inverse[i].im * scale};
    const Complex point = initial(seed, i), difference = inverse[i] - point;
    const double square = difference.re * difference.re + difference.im * difference.im;
    error += square;
    norm += point.re * point.re + point.im * point.im;
    if (square <= largest) continue;
    largest = square;
    worst = i;
  }
  // Each of the log2(n) levels of a transform, and the multiplication between the two halves, adds less than ten
  // units in the last place to the relative error of all points together (Higham, Accuracy and Stability of
  // Numerical Algorithms, 24.1); there are two transforms.
  const double tolerance = 2 * 10 * 0x1.0p-53 * (std::countr_zero(n) + 1);
  if (std::sqrt(error) <= tolerance * std::sqrt(norm)) return true;
  const Complex point = initial(seed, worst);
  std::printf("WRONG: the inverse of the result is (%.17g, %.17g) at %zu, should be (%.17g, %.17g)\n",
              inverse[worst].re, inverse[worst].im, worst, point.re, point.im);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t n = 32768;
  std::uint64_t seed = 1;
  std::string begin_word = "own";
  braid::apps::Arguments arguments(
      "A Fourier transform in shared memory, verified against a sequential run and by its inverse.", "fft");
  arguments.power_of_two("--points", n, "Complex points", 4, std::size_t{1} << 26);
  arguments.number("--seed", seed, "Of the points");
  arguments.choice(
      "--begin", begin_word,
      "Where a compute node begins each transpose: half the matrix from its own rows (across), or at its own "
      "rows (own)",
      {"across", "own"});
  arguments.parse_or_exit(argc, argv);
  const Begin begin = begin_word == "across" ? Begin::kAcross : Begin::kOwn;

  braid::dsm::init();
  braid::apps::Verdict verdict;
  Complex* const points = braid::dsm::allocate<Complex>(n);
  Complex* const scratch = braid::dsm::allocate<Complex>(n);
  double seconds = 0;
  unsigned nodes = 0;
  braid::dsm::parallel([&](Node& node) {
    const Transform steps(n);  // its tables are private
    const Range rows = node.share(steps.rows());
    for (std::size_t i = rows.first() * steps.columns(); i < rows.last() * steps.columns(); ++i)
      points[i] = initial(seed, i);
    node.barrier();
    const double start = braid::dsm::seconds();
    transform(steps, points, scratch, begin, node);
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - start;
      nodes = node.count();
    }
  });

  if (braid::dsm::cluster() == 0) {
    const std::span<const Complex> result(scratch, n);
    const bool right = matches_sequential(n, seed, result) && matches_definition(n, seed, result) &&
                       inverse_gives_points(n, seed, result);
    verdict.give(right);
    std::printf("fft: %zu points, %u compute nodes: %.6f s, %s\n", n, nodes, seconds,
                right ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
