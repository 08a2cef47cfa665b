// Gaussian elimination with partial pivoting: A x = b is solved by factoring A, one column a step. Rows are
// dealt to the compute nodes one by one, so that all have work to the end. In each step every node brings the
// best pivot among its rows to a reduction of one packed number, and each eliminates the column of the best of all from its own
// rows. Rows are never exchanged: the order in which they became pivots is the permutation. A row
// that has been a pivot is never written again, so nothing need keep its readers from its writer.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/common/random.h"
#include "dsm/api.h"

namespace {

using braid::dsm::Node;

// Row i belongs to node i % nodes. A node's rows lie one behind the other, so that block placement homes them
// where they are written.
class DealtRows {
 public:
  DealtRows(double* elements, std::size_t n, std::size_t nodes)
      : elements_(elements), n_(n), nodes_(nodes), rows_per_node_((n + nodes - 1) / nodes) {}

  static std::size_t elements_needed(std::size_t n, std::size_t nodes) {
    return (n + nodes - 1) / nodes * nodes * n;
  }
  std::size_t size() const { return n_; }
  std::size_t nodes() const { return nodes_; }
  double* row(std::size_t i) const { return elements_ + (i % nodes_ * rows_per_node_ + i / nodes_) * n_; }

 private:
  double* elements_;
  std::size_t n_, nodes_, rows_per_node_;
};

struct Candidate {
  double magnitude;
  std::size_t row;
};

// The lower row where two are equal: every run must choose the same pivots.
bool better(const Candidate& a, const Candidate& b) {
  return a.magnitude > b.magnitude || (a.magnitude == b.magnitude && a.row < b.row);
}

// Worse than any row.
constexpr Candidate kNone{-1.0, ~std::size_t{0}};

// A candidate in 64 bits, so that one reduction chooses: the greater number is the better candidate. Doubles that are not
// negative are in the order of their bits. The row takes the last bits of the magnitude, which leaves 38 behind the point.
class PackedCandidate {
 public:
  static constexpr std::uint64_t kRowBits = (1 << 14) - 1;
  // Candidates must be compared as they are packed.
  static double rounded(double magnitude) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & ~kRowBits);
  }

  // The magnitude is rounded.
  explicit PackedCandidate(const Candidate& candidate)
      : bits_(candidate.magnitude < 0
                  ? 0
                  : (std::bit_cast<std::uint64_t>(candidate.magnitude) | (kRowBits - candidate.row))) {}
  explicit PackedCandidate(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits() const { return bits_; }
  Candidate unpacked() const {
    return {std::bit_cast<double>(bits_ & ~kRowBits), kRowBits - (bits_ & kRowBits)};
  }

 private:
  std::uint64_t bits_;
};
constexpr std::size_t kMaxSize = PackedCandidate::kRowBits + 1;

// Mixed bits of the place: no two rows alike, so pivots come from anywhere.
double element(std::size_t n, std::size_t i, std::size_t j) {
  return static_cast<double>(braid::apps::nth_bits(0, i * n + j) >> 11) * 0x1.0p-53 - 0.5;
}

void fill(const DealtRows& a, std::size_t node) {
  for (std::size_t i = node; i < a.size(); i += a.nodes()) {
    for (std::size_t j = 0; j < a.size(); ++j) a.row(i)[j] = element(a.size(), i, j);
  }
}

// Replaces `node`'s rows by their part of the factors: right of the pivot's column what is left of the row,
// before it the multiples of the pivot rows that were taken away. `choose(mine)` returns the best of all
// nodes' candidates; with `packed` their magnitudes are rounded. Returns the rows in the order in which they became
// pivots.
template <class Choose>
std::vector<std::size_t> factor(const DealtRows& a, std::size_t node, bool packed, Choose&& choose) {
  const std::size_t n = a.size();
  std::vector<std::size_t> order;
  std::vector<std::size_t> mine;  // rows that have not been a pivot
  for (std::size_t i = node; i < n; i += a.nodes()) mine.push_back(i);
  for (std::size_t k = 0; k < n; ++k) {
    Candidate best = kNone;
    for (const std::size_t i : mine) {
      const double magnitude = std::abs(a.row(i)[k]);
      const Candidate candidate{packed ? PackedCandidate::rounded(magnitude) : magnitude, i};
      if (better(candidate, best)) best = candidate;
    }
    const std::size_t pivot = choose(best).row;
    order.push_back(pivot);
    std::erase(mine, pivot);
    const double* const from = a.row(pivot);
    for (const std::size_t i : mine) {
      double* const row = a.row(i);
      const double multiple = row[k] / from[k];
      row[k] = multiple;
      for (std::size_t j = k + 1; j < n; ++j) row[j] -= multiple * from[j];
    }
  }
  return order;
}

// b is the sum of each row, so that x should be all ones.
double right_side(std::size_t n, std::size_t i) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += element(n, i, j);
  return sum;
}

std::vector<double> solve(const DealtRows& factors, const std::vector<std::size_t>& order) {
  const std::size_t n = factors.size();
  std::vector<double> x(n);
  for (std::size_t k = 0; k < n; ++k) {
    x[k] = right_side(n, order[k]);
    for (std::size_t j = 0; j < k; ++j) x[k] -= factors.row(order[k])[j] * x[j];
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) x[k] -= factors.row(order[k])[j] * x[j];
    x[k] /= factors.row(order[k])[k];
  }
  return x;
}

// Whether x solves the system that element() and right_side() describe.
bool solves(std::span<const double> x) {
  const std::size_t n = x.size();
  // Elimination with pivoting leaves a residual of some n units in the last place; a hundred times that still
  // tells it from a wrong result.
  const double tolerance = 100.0 * static_cast<double>(n) * 0x1.0p-52;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0, magnitude = 0;
    for (std::size_t j = 0; j < n; ++j) {
      sum += element(n, i, j) * x[j];
      magnitude += std::abs(element(n, i, j) * x[j]);
    }
    if (std::abs(sum - right_side(n, i)) <= tolerance * magnitude) continue;
    std::printf("WRONG: equation %zu gives %.17g, should be %.17g\n", i, sum, right_side(n, i));
    return false;
  }
  return true;
}

// Whether the factors are, bit by bit, those of a sequential run in private memory, and solve the system.
bool right(const DealtRows& factors, const std::vector<std::size_t>& order, bool packed) {
  const std::size_t n = factors.size();
  std::vector<double> elements(n * n);
  const DealtRows expected(elements.data(), n, 1);
  fill(expected, 0);
  const std::vector<std::size_t> expected_order =
      factor(expected, 0, packed, [](const Candidate& mine) { return mine; });
  for (std::size_t k = 0; k < n; ++k) {
    if (order[k] == expected_order[k]) continue;
    std::printf("WRONG: pivot %zu is row %zu, should be %zu\n", k, order[k], expected_order[k]);
    return false;
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < n; ++i) result.insert(result.end(), factors.row(i), factors.row(i) + n);
  return braid::apps::matches(n, result, elements) && solves(solve(factors, order));
}

// The best of all nodes' candidates, through the barriers' own messages: candidates in shared memory would be a page that all
// write.
Candidate best_packed(Node& node, const Candidate& mine) {
  const std::uint64_t best = node.reduce(PackedCandidate(mine).bits(), braid::dsm::Reduce::kMax);
  return PackedCandidate(best).unpacked();
}
Candidate best_of_pair(Node& node, const Candidate& mine) {
  const double magnitude = node.reduce(mine.magnitude, braid::dsm::Reduce::kMax);
  const std::size_t row =
      node.reduce(mine.magnitude == magnitude ? mine.row : kNone.row, braid::dsm::Reduce::kMin);
  return {magnitude, row};
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t n = 512;
  std::string reductions = "one";
  braid::apps::Arguments arguments(
      "Gaussian elimination with partial pivoting in shared memory, verified against a sequential run.",
      "gauss");
  arguments.number("--size", n, "Equations and unknowns", 1, kMaxSize);
  arguments.choice(
      "--reductions", reductions,
      "Of a step: one, of magnitude and row in one number, or two, of the whole magnitude and then the row",
      {"one", "two"});
  arguments.parse_or_exit(argc, argv);
  const bool packed = reductions == "one";

  braid::dsm::init();
  braid::apps::Verdict verdict;
  const std::size_t nodes = std::size_t{braid::dsm::clusters()} * braid::dsm::nodes_per_cluster();
  const DealtRows a(braid::dsm::allocate<double>(DealtRows::elements_needed(n, nodes)), n, nodes);
  double seconds = 0;
  std::vector<std::size_t> order;  // of compute node 0
  braid::dsm::parallel([&](Node& node) {
    fill(a, node.id());
    node.barrier();
    const double start = braid::dsm::seconds();
    std::vector<std::size_t> found = factor(a, node.id(), packed, [&](const Candidate& mine) {
      return packed ? best_packed(node, mine) : best_of_pair(node, mine);
    });
    node.barrier();
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - start;
      order = std::move(found);
    }
  });

  if (braid::dsm::cluster() == 0) {
    const bool verified = right(a, order, packed);
    verdict.give(verified);
    std::printf("gauss: %zu x %zu, %zu compute nodes: %.3f s, %s\n", n, n, nodes, seconds,
                verified ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
